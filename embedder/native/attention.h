// Softmax attention of one head over one text.

#pragma once

#include <vector>

#include "arithmetic.h"
#include "tile.h"

inline int round_up(int n, int to) { return (n + to - 1) / to * to; }

inline char* align(char* p) { return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(p) + 63) & ~uintptr_t(63)); }

// Memory of one thread, kept from call to call.
struct Scratch {
  std::vector<char> memory;
};

// One head of one row of tokens: softmax(q kᵀ scale + bias) v, by the same tiles as the products.
inline void attend(const bf16* qkv, int s, int d, int head, int width, float scale, const float* relative, int max_length,
            Scratch& scratch, float* out_float, bf16* out_half) {
  const int ld = 3 * d;
  const int padded = round_up(s, kPanel);
  const size_t need = 64 + size_t(padded) * width * 2 * 2 + 64 + size_t(kRows) * padded * 4 + 64 + size_t(kRows) * padded * 2;
  if (scratch.memory.size() < need) scratch.memory.resize(need);
  char* p = align(scratch.memory.data());
  bf16* keys = reinterpret_cast<bf16*>(p);                       // panels over tokens: [padded/32][width/2][32][2]
  bf16* values = keys + size_t(padded) * width;                   // panels over width: [width/32][padded/2][32][2]
  float* scores = reinterpret_cast<float*>(align(reinterpret_cast<char*>(values + size_t(padded) * width)));
  bf16* weights = reinterpret_cast<bf16*>(align(reinterpret_cast<char*>(scores + size_t(kRows) * padded)));
  const bf16* q = qkv + head * width;
  const bf16* k = q + d;
  const bf16* v = k + d;
  for (int t = 0; t < padded; ++t) {
    uint32_t* to = reinterpret_cast<uint32_t*>(keys + size_t(t / kPanel) * width * kPanel) + t % kPanel;
    if (t < s) {
      const uint32_t* from = reinterpret_cast<const uint32_t*>(k + size_t(t) * ld);
      for (int i = 0; i < width / 2; ++i) to[i * kPanel] = from[i];
    } else {
      for (int i = 0; i < width / 2; ++i) to[i * kPanel] = 0;
    }
  }
  for (int t = 0; t < padded; t += 2)
    for (int c = 0; c < width; c += kPanel) {
      const __m512i zero = _mm512_setzero_si512();
      const __m512i a = t < s ? _mm512_loadu_si512(v + size_t(t) * ld + c) : zero;
      const __m512i b = t + 1 < s ? _mm512_loadu_si512(v + size_t(t + 1) * ld + c) : zero;
      bf16* to = values + size_t(c) * padded + size_t(t) * kPanel;
      const __m512i lo = _mm512_or_si512(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(a)),
                                         _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(b)), 16));
      const __m512i hi = _mm512_or_si512(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(a, 1)),
                                         _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(b, 1)), 16));
      _mm512_storeu_si512(to, lo);
      _mm512_storeu_si512(to + 32, hi);
    }
  const __m512 factor = _mm512_set1_ps(scale);
  const int height = tile_height(s);
  alignas(64) float tile[kRows][kPanel];
  for (int r = 0; r < s; r += height) {
    const int m = std::min(height, s - r);
    for (int p0 = 0; p0 < padded; p0 += kPanel) {
      tile_bf16(q + size_t(r) * ld, 2 * ld, m, keys + size_t(p0) * width, width / 2, tile[0]);
      for (int i = 0; i < m; ++i) {
        _mm512_store_ps(scores + size_t(i) * padded + p0, _mm512_load_ps(tile[i]));
        _mm512_store_ps(scores + size_t(i) * padded + p0 + 16, _mm512_load_ps(tile[i] + 16));
      }
    }
    float inverse[kRows];
    for (int i = 0; i < m; ++i) {
      float* row = scores + size_t(i) * padded;
      bf16* weight = weights + size_t(i) * padded;
      const float* bias = relative ? relative + (size_t(head) * max_length + r + i) * max_length : nullptr;
      __m512 most = _mm512_set1_ps(-INFINITY);
      for (int c = 0; c < padded; c += 16) {
        const int left = s - c;
        const __mmask16 in = left >= 16 ? 0xffff : left > 0 ? __mmask16((1u << left) - 1) : 0;
        __m512 x = _mm512_mul_ps(_mm512_load_ps(row + c), factor);
        if (bias) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(in, bias + c));
        x = _mm512_mask_blend_ps(in, _mm512_set1_ps(-INFINITY), x);
        _mm512_store_ps(row + c, x);
        most = _mm512_max_ps(most, x);
      }
      const __m512 top = _mm512_set1_ps(_mm512_reduce_max_ps(most));
      __m512 sum = _mm512_setzero_ps();
      for (int c = 0; c < padded; c += 16) {
        const int left = s - c;
        const __mmask16 in = left >= 16 ? 0xffff : left > 0 ? __mmask16((1u << left) - 1) : 0;
        const __m512 e = _mm512_maskz_mov_ps(in, exp_ps(_mm512_sub_ps(_mm512_load_ps(row + c), top)));
        sum = _mm512_add_ps(sum, e);
        _mm256_store_si256(reinterpret_cast<__m256i*>(weight + c), to_bf16(e));
      }
      inverse[i] = 1.0f / _mm512_reduce_add_ps(sum);
    }
    for (int c = 0; c < width; c += kPanel) {
      tile_bf16(weights, 2 * padded, m, values + size_t(c) * padded, padded / 2, tile[0]);
      for (int i = 0; i < m; ++i) {
        const __m512 f = _mm512_set1_ps(inverse[i]);
        const size_t at = size_t(r + i) * d + head * width + c;
        const __m512 y0 = _mm512_mul_ps(_mm512_load_ps(tile[i]), f), y1 = _mm512_mul_ps(_mm512_load_ps(tile[i] + 16), f);
        if (out_half) {
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(out_half + at), to_bf16(y0));
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(out_half + at + 16), to_bf16(y1));
        } else {
          _mm512_storeu_ps(out_float + at, y0);
          _mm512_storeu_ps(out_float + at + 16, y1);
        }
      }
    }
  }
}
