// Functions on vectors of 16 floats with AVX-512. vec_avx2.h and vec_neon.h define the same functions.

#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

using V = __m512;
constexpr int kLanes = 16;

inline V zero() { return _mm512_setzero_ps(); }
inline V set(float x) { return _mm512_set1_ps(x); }
inline V load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, V x) { _mm512_storeu_ps(p, x); }
inline V add(V a, V b) { return _mm512_add_ps(a, b); }
inline V sub(V a, V b) { return _mm512_sub_ps(a, b); }
inline V mul(V a, V b) { return _mm512_mul_ps(a, b); }
inline V div(V a, V b) { return _mm512_div_ps(a, b); }
inline V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
inline V min(V a, V b) { return _mm512_min_ps(a, b); }
inline V max(V a, V b) { return _mm512_max_ps(a, b); }
inline float sum(V x) { return _mm512_reduce_add_ps(x); }
inline float lowest(V x) { return _mm512_reduce_min_ps(x); }
inline float highest(V x) { return _mm512_reduce_max_ps(x); }
inline V round(V x) { return _mm512_roundscale_ps(x, 0); }
inline V scale_by_power(V x, V n) { return _mm512_scalef_ps(x, n); }  // x 2^n for whole numbers n
inline V from_int(const int32_t* p) { return _mm512_cvtepi32_ps(_mm512_loadu_si512(p)); }

inline __mmask16 first(int n) { return n >= 16 ? 0xffff : n > 0 ? __mmask16((1u << n) - 1) : 0; }
// Replace all lanes of x but the first n by `other`. n may be less than 0 or more than kLanes.
inline V keep(V x, int n, float other) { return _mm512_mask_mov_ps(set(other), first(n), x); }
// Load the n floats at p and fill the vector with zeros. Memory after the n floats is not read.
inline V load_first(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }

inline V load_half(const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}
#ifdef __AVX512BF16__
inline void store_half(uint16_t* p, V x) { _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh(x)); }
#endif

// Round x, which must be from 0 to 255, to whole numbers, and store them as bytes.
inline void store_codes(uint8_t* p, V x) {
  _mm_storeu_si128((__m128i*)p, _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(x)));
}

}  // namespace
