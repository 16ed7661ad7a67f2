// Tiles of AVX2 with FMA, and of AVX-VNNI: 6 rows by 16 columns, half a panel, in 12 registers of sums.
//
// With only six rows, loading weights from the second-level cache takes longer than multiplying. So one call has many
// rows, and divides k into stretches whose weights fit into the first-level cache. Between stretches, `out` has the
// sums.

#pragma once

#include <immintrin.h>

#include "tile.h"

namespace {

struct Avx2Tile : RowMajor {
  static constexpr int kRows = 48;
  static constexpr int kFewRows = 12;
  static constexpr int kPanels = 1;
};

constexpr int kRowsAtOnce = 6;
static_assert(2 * kRowsAtOnce + 3 <= 16, "registers: sums, two of weights and an activation");

inline void fetch(Next& next) {
  _mm_prefetch(next.at, _MM_HINT_T0);
  next.at += next.step;
}

#define PL_UNROLL _Pragma("GCC unroll 8")

// Call T::part<M>() for all rows, columns and stretches. The height M is a constant, so that sums are in registers.
template <class T>
inline void by_stretches(const typename T::Row* rows, ptrdiff_t stride, int m, const typename T::Weight* panel, int k,
                         typename T::Sum* out, ptrdiff_t out_stride) {
  static_assert(kPanel % T::kColumns == 0 && T::kStretch % kPanel == 0);
  const int blocks = (m + kRowsAtOnce - 1) / kRowsAtOnce;
  const int parts = blocks * (kPanel / T::kColumns);  // calls in a stretch; each prefetches a share of the next stretch
  for (int j = 0; j < k; j += T::kStretch) {
    const int length = at_most(T::kStretch, k - j);
    Next next{reinterpret_cast<const char*>(panel + size_t(j + length) * kPanel), (kLine + parts - 1) / parts};
    for (int c = 0; c < kPanel; c += T::kColumns) {
      const auto* weights = panel + size_t(j) * kPanel + c * T::kInterleave;
      for (int block = 0, r = 0; block < blocks; ++block) {  // the heights of blocks differ by at most one row
        const int height = (m - r + blocks - block - 1) / (blocks - block);
        const auto* from = rows + r * stride + j;
        auto* to = out + r * out_stride + c;
        with_height<kRowsAtOnce>(height, [&](auto M) PL_INLINED {
          T::template part<M>(from, stride, weights, length, to, out_stride, j > 0, next);
        });
        r += height;
      }
    }
  }
}

inline __m256 load_sums(const float* p) { return _mm256_loadu_ps(p); }
inline __m256i load_sums(const int32_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
inline void store_sums(float* p, __m256 x) { _mm256_storeu_ps(p, x); }
inline void store_sums(int32_t* p, __m256i x) { _mm256_storeu_si256((__m256i*)p, x); }

// Start with the sums over the previous part of k, or with zeros for the first part.
template <int M, class Register, class Sum>
inline void begin(Register (&sums)[M][2], const Sum* out, ptrdiff_t stride, bool more) {
  PL_UNROLL for (int i = 0; i < M; ++i) {
    sums[i][0] = more ? load_sums(out + i * stride) : Register{};
    sums[i][1] = more ? load_sums(out + i * stride + 8) : Register{};
  }
}
template <int M, class Register, class Sum>
inline void end(const Register (&sums)[M][2], Sum* out, ptrdiff_t stride) {
  PL_UNROLL for (int i = 0; i < M; ++i) {
    store_sums(out + i * stride, sums[i][0]);
    store_sums(out + i * stride + 8, sums[i][1]);
  }
}

struct Fp32Tile : Avx2Tile {
  using Row = float;
  using Weight = float;
  using Sum = float;
  static constexpr int kInterleave = 1;
  static constexpr int kColumns = 16, kStretch = 96;

  template <int M>
  PL_APART static void part(const float* rows, ptrdiff_t stride, const float* panel, int k, float* out,
                            ptrdiff_t out_stride, bool more, Next& next) {
    __m256 sums[M][2];
    begin(sums, out, out_stride, more);
    for (int j = 0; j < k; ++j) {
      fetch(next);
      const float* weights = panel + size_t(j) * kPanel;
      const __m256 w0 = _mm256_loadu_ps(weights), w1 = _mm256_loadu_ps(weights + 8);
      PL_UNROLL for (int i = 0; i < M; ++i) {
        const __m256 x = _mm256_broadcast_ss(rows + i * stride + j);
        sums[i][0] = _mm256_fmadd_ps(x, w0, sums[i][0]);
        sums[i][1] = _mm256_fmadd_ps(x, w1, sums[i][1]);
      }
    }
    end(sums, out, out_stride);
  }
  static void run(const float* rows, ptrdiff_t stride, int m, int, const float* panel, int k, float* out,
                  ptrdiff_t out_stride, Next) {
    by_stretches<Fp32Tile>(rows, stride, m, panel, k, out, out_stride);
  }
  static void values(const float* from, ptrdiff_t, int left, float* to) { copy_values(from, left, to); }
};

// A tile for bf16 weights and fp32 rows. bf16 is the upper half of a float.
struct WideTile : Avx2Tile {
  using Row = float;
  using Weight = uint16_t;
  using Sum = float;
  static constexpr int kInterleave = 2;
  static constexpr int kColumns = 16, kStretch = 192;

  template <int M>
  PL_APART static void part(const float* rows, ptrdiff_t stride, const uint16_t* panel, int k, float* out,
                            ptrdiff_t out_stride, bool more, Next& next) {
    __m256 sums[M][2];
    begin(sums, out, out_stride, more);
    const __m256i upper = _mm256_set1_epi32(int(0xffff0000));
    for (int j = 0; j < k; j += 2) {
      const __m256i* pairs = (const __m256i*)(panel + size_t(j) * kPanel);
      fetch(next);
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
    end(sums, out, out_stride);
  }
  static void run(const float* rows, ptrdiff_t stride, int m, int, const uint16_t* panel, int k, float* out,
                  ptrdiff_t out_stride, Next) {
    by_stretches<WideTile>(rows, stride, m, panel, k, out, out_stride);
  }
};

// Add the products of four activations with the weights of 16 columns to sums.
#ifdef PL_VNNI
constexpr float kCodeLevels = kByte;

inline void add_products(const Codes* row, __m256i w0, __m256i w1, __m256i (&sums)[2]) {
  int32_t four;
  std::memcpy(&four, row, sizeof four);
  const __m256i x = _mm256_set1_epi32(four);
  sums[0] = _mm256_dpbusd_epi32(sums[0], x, w0);
  sums[1] = _mm256_dpbusd_epi32(sums[1], x, w1);
}
#else
// Without VNNI, vpmaddubsw adds two products of bytes in 16 bits, which is exact because activations have 7 bits
// (2 · 127 · 127 < 2¹⁵). Then vpmaddwd, with a factor of one, adds these sums in 32 bits. So 32 products take three
// instructions. With activations of 8 bits, exact sums would take four instructions and more loads.
constexpr float kCodeLevels = 127;
alignas(32) constexpr int16_t kOnes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

inline void add_products(const Codes* row, __m256i w0, __m256i w1, __m256i (&sums)[2]) {
  __m256i x, y;
  // In assembly, because GCC computes more products together than there are registers, and so spills the sums.
  asm volatile(
      "vpbroadcastd %[row], %[x]\n\tvpmaddubsw %[w0], %[x], %[y]\n\tvpmaddubsw %[w1], %[x], %[x]\n\t"
      "vpmaddwd %[ones], %[y], %[y]\n\tvpmaddwd %[ones], %[x], %[x]\n\t"
      "vpaddd %[y], %[s0], %[s0]\n\tvpaddd %[x], %[s1], %[s1]"
      : [s0] "+x"(sums[0]), [s1] "+x"(sums[1]), [x] "=&x"(x), [y] "=&x"(y)
      : [w0] "x"(w0), [w1] "x"(w1), [ones] "m"(kOnes), [row] "m"(*row));
}
#endif

struct CodeTile : Avx2Tile {
  using Row = uint8_t;
  using Weight = int8_t;
  using Sum = int32_t;
  static constexpr float kLevels = kCodeLevels;
  static constexpr int kInterleave = 4;
  static constexpr int kColumns = 16, kStretch = 384;

  template <int M>
  PL_APART static void part(const uint8_t* rows, ptrdiff_t stride, const int8_t* panel, int k, int32_t* out,
                            ptrdiff_t out_stride, bool more, Next& next) {
    __m256i sums[M][2];
    begin(sums, out, out_stride, more);
    for (int j = 0; j < k; j += 4) {
      const __m256i* quads = (const __m256i*)(panel + size_t(j) * kPanel);
      fetch(next);
      const __m256i w0 = _mm256_loadu_si256(quads), w1 = _mm256_loadu_si256(quads + 1);
      PL_UNROLL for (int i = 0; i < M; ++i) add_products((const Codes*)(rows + i * stride + j), w0, w1, sums[i]);
    }
    end(sums, out, out_stride);
  }
  static void run(const uint8_t* rows, ptrdiff_t stride, int m, int, const int8_t* panel, int k, int32_t* out,
                  ptrdiff_t out_stride, Next) {
    by_stretches<CodeTile>(rows, stride, m, panel, k, out, out_stride);
  }
};

}  // namespace
