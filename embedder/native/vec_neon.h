// Functions on vectors of 4 floats with NEON. vec_avx512.h describes the functions.

#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace {

using V = float32x4_t;
constexpr int kLanes = 4;

inline V zero() { return vdupq_n_f32(0); }
inline V set(float x) { return vdupq_n_f32(x); }
inline V load(const float* p) { return vld1q_f32(p); }
inline void store(float* p, V x) { vst1q_f32(p, x); }
inline V add(V a, V b) { return vaddq_f32(a, b); }
inline V sub(V a, V b) { return vsubq_f32(a, b); }
inline V mul(V a, V b) { return vmulq_f32(a, b); }
inline V div(V a, V b) { return vdivq_f32(a, b); }
inline V fma(V a, V b, V c) { return vfmaq_f32(c, a, b); }
inline V min(V a, V b) { return vminq_f32(a, b); }
inline V max(V a, V b) { return vmaxq_f32(a, b); }
inline float sum(V x) { return vaddvq_f32(x); }
inline float lowest(V x) { return vminvq_f32(x); }
inline float highest(V x) { return vmaxvq_f32(x); }
inline V round(V x) { return vrndnq_f32(x); }
inline V scale_by_power(V x, V n) {
  return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(x), vshlq_n_s32(vcvtnq_s32_f32(n), 23)));
}
inline V from_int(const int32_t* p) { return vcvtq_f32_s32(vld1q_s32(p)); }

inline V keep(V x, int n, float other) {
  const int32_t lanes[4] = {0, 1, 2, 3};
  return vbslq_f32(vcgtq_s32(vdupq_n_s32(n), vld1q_s32(lanes)), x, vdupq_n_f32(other));
}
inline V load_first(const float* p, int n) {
  if (n >= 4) return vld1q_f32(p);
  float lanes[4] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return vld1q_f32(lanes);
}

inline V load_half(const uint16_t* p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
inline void store_half(uint16_t* p, V x) { vst1_u16(p, vreinterpret_u16_bf16(vcvt_bf16_f32(x))); }
#endif

inline uint16x4_t to_codes(V x) { return vqmovun_s32(vcvtnq_s32_f32(x)); }
inline void store_codes(uint8_t* p, V x) {
  const uint8x8_t bytes = vqmovn_u16(vcombine_u16(to_codes(x), to_codes(x)));
  vst1_lane_u32((uint32_t*)p, vreinterpret_u32_u8(bytes), 0);
}
inline void store_codes(int8_t* p, V x) {  // x is from -128 to 127, for signed dot products
  const int16x4_t q = vqmovn_s32(vcvtnq_s32_f32(x));
  vst1_lane_s32((int32_t*)p, vreinterpret_s32_s8(vqmovn_s16(vcombine_s16(q, q))), 0);
}

}  // namespace
