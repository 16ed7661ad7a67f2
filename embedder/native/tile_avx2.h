// Tiles of AVX2 with FMA, and of AVX-VNNI: 6 rows by 16 columns, 12 registers of sums, so a panel is taken in parts.

#pragma once

#include <immintrin.h>

#include "tile.h"

namespace {

struct Avx2Tile : RowMajor {
  static constexpr int kRows = 6;
  static constexpr int kPanels = 1;
};

// Call run<M>() with the height as a constant, so that its sums are registers.
#define PL_HEIGHTS(...)                                                                    \
  switch (m) {                                                                             \
    case 1: part<1>(__VA_ARGS__); break; case 2: part<2>(__VA_ARGS__); break;              \
    case 3: part<3>(__VA_ARGS__); break; case 4: part<4>(__VA_ARGS__); break;              \
    case 5: part<5>(__VA_ARGS__); break; case 6: part<6>(__VA_ARGS__); break;              \
  }
#define PL_UNROLL _Pragma("GCC unroll 8")

struct Fp32Tile : Avx2Tile {
  using Row = float;
  using Weight = float;
  using Sum = float;
  static constexpr int kInterleave = 1;

  template <int M>
  static void part(const float* rows, ptrdiff_t stride, const float* panel, int k, float* out, ptrdiff_t out_stride) {
    __m256 sums[M][2];
    PL_UNROLL for (int i = 0; i < M; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_ps();
    for (int j = 0; j < k; ++j) {
      const __m256 w0 = _mm256_loadu_ps(panel + size_t(j) * kPanel), w1 = _mm256_loadu_ps(panel + size_t(j) * kPanel + 8);
      PL_UNROLL for (int i = 0; i < M; ++i) {
        const __m256 x = _mm256_broadcast_ss(rows + i * stride + j);
        sums[i][0] = _mm256_fmadd_ps(x, w0, sums[i][0]);
        sums[i][1] = _mm256_fmadd_ps(x, w1, sums[i][1]);
      }
    }
    PL_UNROLL for (int i = 0; i < M; ++i) {
      _mm256_storeu_ps(out + i * out_stride, sums[i][0]);
      _mm256_storeu_ps(out + i * out_stride + 8, sums[i][1]);
    }
  }
  static void run(const float* rows, ptrdiff_t stride, int m, int, const float* panel, int k, float* out, ptrdiff_t out_stride) {
    for (int c = 0; c < kPanel; c += 16) PL_HEIGHTS(rows, stride, panel + c, k, out + c, out_stride)
  }
  static void values(const float* from, ptrdiff_t, int left, float* to) { copy_values(from, left, to); }
};

// bf16 weights and fp32 rows: bf16 is the upper half of a float.
struct WideTile : Avx2Tile {
  using Row = float;
  using Weight = uint16_t;
  using Sum = float;
  static constexpr int kInterleave = 2;

  template <int M>
  static void part(const float* rows, ptrdiff_t stride, const uint16_t* panel, int k, float* out, ptrdiff_t out_stride) {
    __m256 sums[M][2];
    PL_UNROLL for (int i = 0; i < M; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_ps();
    const __m256i upper = _mm256_set1_epi32(int(0xffff0000));
    for (int j = 0; j < k; j += 2) {
      const __m256i* pairs = (const __m256i*)(panel + size_t(j) * kPanel);
      const __m256 even0 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(pairs), 16));
      const __m256 even1 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(pairs + 1), 16));
      PL_UNROLL for (int i = 0; i < M; ++i) {
        const __m256 x = _mm256_broadcast_ss(rows + i * stride + j);
        sums[i][0] = _mm256_fmadd_ps(x, even0, sums[i][0]);
        sums[i][1] = _mm256_fmadd_ps(x, even1, sums[i][1]);
      }
      const __m256 odd0 = _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(pairs), upper));
      const __m256 odd1 = _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(pairs + 1), upper));
      PL_UNROLL for (int i = 0; i < M; ++i) {
        const __m256 x = _mm256_broadcast_ss(rows + i * stride + j + 1);
        sums[i][0] = _mm256_fmadd_ps(x, odd0, sums[i][0]);
        sums[i][1] = _mm256_fmadd_ps(x, odd1, sums[i][1]);
      }
    }
    PL_UNROLL for (int i = 0; i < M; ++i) {
      _mm256_storeu_ps(out + i * out_stride, sums[i][0]);
      _mm256_storeu_ps(out + i * out_stride + 8, sums[i][1]);
    }
  }
  static void run(const float* rows, ptrdiff_t stride, int m, int, const uint16_t* panel, int k, float* out, ptrdiff_t out_stride) {
    for (int c = 0; c < kPanel; c += 16) PL_HEIGHTS(rows, stride, panel + 2 * c, k, out + c, out_stride)
  }
};

#ifdef PL_VNNI
struct CodeTile : Avx2Tile {
  using Row = uint8_t;
  using Weight = int8_t;
  using Sum = int32_t;
  static constexpr int kInterleave = 4;

  template <int M>
  static void part(const uint8_t* rows, ptrdiff_t stride, const int8_t* panel, int k, int32_t* out, ptrdiff_t out_stride) {
    __m256i sums[M][2];
    PL_UNROLL for (int i = 0; i < M; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_si256();
    for (int j = 0; j < k; j += 4) {
      const __m256i* quads = (const __m256i*)(panel + size_t(j) * kPanel);
      const __m256i w0 = _mm256_loadu_si256(quads), w1 = _mm256_loadu_si256(quads + 1);
      PL_UNROLL for (int i = 0; i < M; ++i) {
        const __m256i x = _mm256_set1_epi32(four<int32_t>(rows + i * stride + j));
        sums[i][0] = _mm256_dpbusd_epi32(sums[i][0], x, w0);
        sums[i][1] = _mm256_dpbusd_epi32(sums[i][1], x, w1);
      }
    }
    PL_UNROLL for (int i = 0; i < M; ++i) {
      _mm256_storeu_si256((__m256i*)(out + i * out_stride), sums[i][0]);
      _mm256_storeu_si256((__m256i*)(out + i * out_stride + 8), sums[i][1]);
    }
  }
  static void run(const uint8_t* rows, ptrdiff_t stride, int m, int, const int8_t* panel, int k, int32_t* out, ptrdiff_t out_stride) {
    for (int c = 0; c < kPanel; c += 16) PL_HEIGHTS(rows, stride, panel + 4 * c, k, out + c, out_stride)
  }
};
#else
// Without VNNI, vpmaddubsw would add products of bytes in 16 bits and overflow. Rows are held in 16 bits instead, and
// vpmaddwd adds in 32: exact, and half as fast again as fp32. A register has 4 columns by two halves of their sums.
struct CodeTile : Avx2Tile {
  using Row = uint16_t;
  using Weight = int8_t;
  using Sum = int32_t;
  static constexpr int kInterleave = 4;

  template <int M>
  static void part(const uint16_t* rows, ptrdiff_t stride, const int8_t* panel, int k, int32_t* out, ptrdiff_t out_stride) {
    __m256i sums[M][2];
    PL_UNROLL for (int i = 0; i < M; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_si256();
    for (int j = 0; j < k; j += 4) {
      const __m128i* quads = (const __m128i*)(panel + size_t(j) * kPanel);
      const __m256i w0 = _mm256_cvtepi8_epi16(_mm_loadu_si128(quads)), w1 = _mm256_cvtepi8_epi16(_mm_loadu_si128(quads + 1));
      PL_UNROLL for (int i = 0; i < M; ++i) {
        const __m256i x = _mm256_set1_epi64x(four<int64_t>(rows + i * stride + j));
        sums[i][0] = _mm256_add_epi32(sums[i][0], _mm256_madd_epi16(x, w0));
        sums[i][1] = _mm256_add_epi32(sums[i][1], _mm256_madd_epi16(x, w1));
      }
    }
    PL_UNROLL for (int i = 0; i < M; ++i) {
      const __m256i halves = _mm256_hadd_epi32(sums[i][0], sums[i][1]);  // columns 0 1 4 5 2 3 6 7
      _mm256_storeu_si256((__m256i*)(out + i * out_stride), _mm256_permute4x64_epi64(halves, 0xd8));
    }
  }
  static void run(const uint16_t* rows, ptrdiff_t stride, int m, int, const int8_t* panel, int k, int32_t* out, ptrdiff_t out_stride) {
    for (int c = 0; c < kPanel; c += 8) PL_HEIGHTS(rows, stride, panel + 4 * c, k, out + c, out_stride)
  }
};
#endif

}  // namespace
