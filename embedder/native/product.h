// Linear layers over packed weights.

#pragma once

#include "arithmetic.h"
#include "tile.h"

struct Linear {
  const void* weight;     // panels
  const float* bias;      // [n]
  const float* scale;     // [n], int8 only
  const float* column;    // [n] scale times the sum of the column's quantised weights, int8 only
  int k, n;
};

// Panels [p0, p1) of y = A · W + bias; store(row, column, lanes 0-15, lanes 16-31) takes each result.
template <class Store>
inline void linear(const Operand& a, int rows, const Linear& w, int p0, int p1, Store&& store) {
  const int height = tile_height(rows);
  alignas(64) float tile[kRows][kPanel];
  for (int p = p0; p < p1; ++p) {
    const int n = p * kPanel;
    const __m512 bias0 = _mm512_loadu_ps(w.bias + n), bias1 = _mm512_loadu_ps(w.bias + n + 16);
    if (w.scale) {
      const int8_t* panel = static_cast<const int8_t*>(w.weight) + size_t(p) * w.k * kPanel;
      const __m512 s0 = _mm512_loadu_ps(w.scale + n), s1 = _mm512_loadu_ps(w.scale + n + 16);
      const __m512 c0 = _mm512_loadu_ps(w.column + n), c1 = _mm512_loadu_ps(w.column + n + 16);
      for (int r = 0; r < rows; r += height) {
        const int m = std::min(height, rows - r);
        tile_int8(a.bytes + size_t(r) * w.k, w.k, m, panel, w.k / 4, reinterpret_cast<int32_t*>(tile));
        for (int i = 0; i < m; ++i) {
          const __m512 sa = _mm512_set1_ps(a.scale[r + i]), za = _mm512_set1_ps(-a.zero[r + i]);
          // s_a (s_w acc - z s_w sum_w) + bias
          const __m512 y0 = _mm512_cvtepi32_ps(_mm512_load_si512(tile[i])), y1 = _mm512_cvtepi32_ps(_mm512_load_si512(tile[i] + 16));
          store(r + i, n, _mm512_fmadd_ps(_mm512_fmadd_ps(y0, s0, _mm512_mul_ps(za, c0)), sa, bias0),
                _mm512_fmadd_ps(_mm512_fmadd_ps(y1, s1, _mm512_mul_ps(za, c1)), sa, bias1));
        }
      }
    } else {
      const bf16* panel = static_cast<const bf16*>(w.weight) + size_t(p) * w.k * kPanel;
      for (int r = 0; r < rows; r += height) {
        const int m = std::min(height, rows - r);
        tile_bf16(a.half + size_t(r) * w.k, 2 * w.k, m, panel, w.k / 2, tile[0]);
        for (int i = 0; i < m; ++i)
          store(r + i, n, _mm512_add_ps(_mm512_load_ps(tile[i]), bias0), _mm512_add_ps(_mm512_load_ps(tile[i] + 16), bias1));
      }
    }
  }
}
