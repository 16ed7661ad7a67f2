// Vector arithmetic between the matrix products: bf16 conversion, exponential, GELU, quantisation, layer norm.

#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

using bf16 = uint16_t;

inline __m512 from_bf16(__m256i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)); }
inline __m256i to_bf16(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }
inline __m512bh as_bf16(__m512i x) { return (__m512bh)x; }

// e^x by 2^n times a polynomial on [-ln2/2, ln2/2]; relative error 2e-7.
inline __m512 exp_ps(__m512 x) {
  x = _mm512_max_ps(x, _mm512_set1_ps(-87.0f));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.0f / 720);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

constexpr int kGeluTerms = 9;
constexpr float kGeluRange = 4.2f;
constexpr float kGelu[kGeluTerms] = {7.978038696e-01f, -1.326906866e-01f, 1.963634231e-02f, -2.219755146e-03f, 1.875321565e-04f, -1.134800390e-05f, 4.581282555e-07f, -1.092270911e-08f, 1.153699712e-10f};


// Gaussian error linear unit: x/2 (1 + erf(x/sqrt 2)), erf as an odd polynomial on the clamped argument.
inline __m512 gelu(__m512 x) {
  const __m512 c = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(-kGeluRange)), _mm512_set1_ps(kGeluRange));
  const __m512 u = _mm512_mul_ps(c, c);
  __m512 p = _mm512_set1_ps(kGelu[kGeluTerms - 1]);
  for (int i = kGeluTerms - 2; i >= 0; --i) p = _mm512_fmadd_ps(p, u, _mm512_set1_ps(kGelu[i]));
  const __m512 half = _mm512_mul_ps(x, _mm512_set1_ps(0.5f));
  return _mm512_fmadd_ps(half, _mm512_mul_ps(p, c), half);
}

// Activations as a matrix product reads them: bf16, or bytes with a scale and zero point a row.
struct Operand {
  bf16* half = nullptr;
  uint8_t* bytes = nullptr;
  float* scale = nullptr;
  float* zero = nullptr;
};

// Quantise row r of `width` floats to bytes: x ≈ scale (q - zero), q in [0, 255], over the row's own range.
inline void quantise(const float* x, int width, const Operand& to, int r) {
  __m512 lo = _mm512_setzero_ps(), hi = _mm512_setzero_ps();
  for (int i = 0; i < width; i += 16) {
    const __m512 v = _mm512_loadu_ps(x + i);
    lo = _mm512_min_ps(lo, v);
    hi = _mm512_max_ps(hi, v);
  }
  const float low = _mm512_reduce_min_ps(lo), high = _mm512_reduce_max_ps(hi);
  const float scale = std::max((high - low) / 255.0f, 1e-12f);
  const float zero = std::nearbyint(-low / scale);
  const __m512 inverse = _mm512_set1_ps(1.0f / scale), shift = _mm512_set1_ps(zero);
  uint8_t* out = to.bytes + size_t(r) * width;
  for (int i = 0; i < width; i += 16) {
    const __m512i q = _mm512_cvtps_epi32(_mm512_fmadd_ps(_mm512_loadu_ps(x + i), inverse, shift));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm512_cvtusepi32_epi8(_mm512_max_epi32(q, _mm512_setzero_si512())));
  }
  to.scale[r] = scale;
  to.zero[r] = zero;
}

// Layer norm of x to `out` floats and to the operand that the next product reads.
inline void layer_norm(const float* x, int d, float eps, const float* weight, const float* bias, float* out,
                       const Operand& next, int r) {
  __m512 sum = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
  for (int i = 0; i < d; i += 16) sum = _mm512_add_ps(sum, _mm512_loadu_ps(x + i));
  const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / d);
  for (int i = 0; i < d; i += 16) {
    const __m512 c = _mm512_sub_ps(_mm512_loadu_ps(x + i), mean);
    squares = _mm512_fmadd_ps(c, c, squares);
  }
  const __m512 inverse = _mm512_set1_ps(1.0f / std::sqrt(_mm512_reduce_add_ps(squares) / d + eps));
  for (int i = 0; i < d; i += 16) {
    const __m512 c = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(x + i), mean), inverse);
    const __m512 y = _mm512_fmadd_ps(c, _mm512_loadu_ps(weight + i), _mm512_loadu_ps(bias + i));
    _mm512_storeu_ps(out + i, y);
    if (next.half) _mm256_storeu_si256(reinterpret_cast<__m256i*>(next.half + size_t(r) * d + i), to_bf16(y));
  }
  if (next.bytes) quantise(out, d, next, r);
}
