// Functions on vectors of 8 floats with AVX2 and FMA. vec_avx512.h describes the functions.

#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

using V = __m256;
constexpr int kLanes = 8;

inline V zero() { return _mm256_setzero_ps(); }
inline V set(float x) { return _mm256_set1_ps(x); }
inline V load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, V x) { _mm256_storeu_ps(p, x); }
inline V add(V a, V b) { return _mm256_add_ps(a, b); }
inline V sub(V a, V b) { return _mm256_sub_ps(a, b); }
inline V mul(V a, V b) { return _mm256_mul_ps(a, b); }
inline V div(V a, V b) { return _mm256_div_ps(a, b); }
inline V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
inline V min(V a, V b) { return _mm256_min_ps(a, b); }
inline V max(V a, V b) { return _mm256_max_ps(a, b); }

template <class Reduce>
inline float reduce(V x, Reduce with) {
  __m128 y = with(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  y = with(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(with(y, _mm_shuffle_ps(y, y, 1)));
}
inline float sum(V x) {
  return reduce(x, [](__m128 a, __m128 b) { return _mm_add_ps(a, b); });
}
inline float lowest(V x) {
  return reduce(x, [](__m128 a, __m128 b) { return _mm_min_ps(a, b); });
}
inline float highest(V x) {
  return reduce(x, [](__m128 a, __m128 b) { return _mm_max_ps(a, b); });
}

inline V round(V x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline V scale_by_power(V x, V n) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent));
}
inline V from_int(const int32_t* p) { return _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i*)p)); }

inline __m256i first(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline V keep(V x, int n, float other) { return _mm256_blendv_ps(set(other), x, _mm256_castsi256_ps(first(n))); }
inline V load_first(const float* p, int n) { return _mm256_maskload_ps(p, first(n)); }

inline V load_half(const uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16));
}

inline void store_codes(uint8_t* p, V x) {
  const __m256i q = _mm256_cvtps_epi32(x);
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
  _mm_storel_epi64((__m128i*)p, _mm_packus_epi16(words, words));
}

}  // namespace
