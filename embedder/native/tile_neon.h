// Tiles of Arm: 6 rows by 16 columns, half a panel, in 24 registers of sums.
//
// In a panel, four bf16 or eight int8 numbers of a column are adjacent. BFMMLA and USMMLA multiply two rows by two
// columns, so their tiles need rows in pairs. Tiles without these instructions read the same panels.

#pragma once

#include <arm_neon.h>

#include "tile.h"

#define PL_UNROLL _Pragma("GCC unroll 8")

namespace {

constexpr int kPart = 16;  // columns
static_assert(kPanel == 2 * kPart);

struct NeonTile {
  static constexpr int kFewRows = 6;
  static constexpr int kPanels = 1;
};

// Call T::part<M>() for both halves of a panel. The height M is a constant.
template <class T>
inline void by_parts(int m, const typename T::Row* rows, ptrdiff_t stride, const typename T::Weight* panel, int k,
                     typename T::Sum* out, ptrdiff_t out_stride) {
  for (int c = 0; c < kPanel; c += kPart)
    with_height<T::kRows>(m, [&](auto M) PL_INLINED {
      T::template part<M>(rows, stride, panel + c * T::kInterleave, k, out + c, out_stride);
    });
}

inline void store_sums(float* p, float32x4_t x) { vst1q_f32(p, x); }
inline void store_sums(int32_t* p, int32x4_t x) { vst1q_s32(p, x); }

// Store the sums of 16 columns.
template <int M, class Register, class Sum>
inline void end(const Register (&sums)[M][4], Sum* out, ptrdiff_t stride) {
  PL_UNROLL for (int i = 0; i < M; ++i) {
    PL_UNROLL for (int c = 0; c < 4; ++c) store_sums(out + i * stride + 4 * c, sums[i][c]);
  }
}

struct Fp32Tile : NeonTile, RowMajor {
  using Row = float;
  using Weight = float;
  using Sum = float;
  static constexpr int kRows = 6;
  static constexpr int kInterleave = 1;

  template <int M>
  PL_APART static void part(const float* rows, ptrdiff_t stride, const float* panel, int k, float* out,
                            ptrdiff_t out_stride) {
    float32x4_t sums[M][4] = {};
    for (int j = 0; j < k; ++j) {
      float32x4_t w[4];
      PL_UNROLL for (int c = 0; c < 4; ++c) w[c] = vld1q_f32(panel + size_t(j) * kPanel + 4 * c);
      PL_UNROLL for (int i = 0; i < M; ++i) {
        const float32x4_t x = vld1q_dup_f32(rows + i * stride + j);
        PL_UNROLL for (int c = 0; c < 4; ++c) sums[i][c] = vfmaq_f32(sums[i][c], x, w[c]);
      }
    }
    end(sums, out, out_stride);
  }
  static void run(const float* rows, ptrdiff_t stride, int m, int, const float* panel, int k, float* out,
                  ptrdiff_t out_stride, Next) {
    by_parts<Fp32Tile>(m, rows, stride, panel, k, out, out_stride);
  }
  static void values(const float* from, ptrdiff_t, int left, float* to) { copy_values(from, left, to); }
};

// A tile for bf16 weights and fp32 rows, on processors without bf16 arithmetic. bf16 is the upper half of a float.
struct WideTile : NeonTile, RowMajor {
  using Row = float;
  using Weight = uint16_t;
  using Sum = float;
  static constexpr int kRows = 4;
  static constexpr int kInterleave = 4;

  template <int M>
  PL_APART static void part(const float* rows, ptrdiff_t stride, const uint16_t* panel, int k, float* out,
                            ptrdiff_t out_stride) {
    float32x4_t sums[M][4] = {};
    for (int j = 0; j < k; j += 4) {
      float32x4_t x[M];
      PL_UNROLL for (int i = 0; i < M; ++i) x[i] = vld1q_f32(rows + i * stride + j);
      PL_UNROLL for (int c = 0; c < 2; ++c) {
        const uint16x8x4_t w = vld4q_u16(panel + size_t(j) * kPanel + 32 * c);  // w.val[i]: weights of k = j + i
#define PL_K(l)                                                                               \
  {                                                                                           \
    const float32x4_t low = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(w.val[l]), 16));   \
    const float32x4_t high = vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(w.val[l]), 16)); \
    PL_UNROLL for (int i = 0; i < M; ++i) {                                                   \
      sums[i][2 * c] = vfmaq_laneq_f32(sums[i][2 * c], low, x[i], l);                         \
      sums[i][2 * c + 1] = vfmaq_laneq_f32(sums[i][2 * c + 1], high, x[i], l);                \
    }                                                                                         \
  }
        PL_K(0) PL_K(1) PL_K(2) PL_K(3)
#undef PL_K
      }
    }
    end(sums, out, out_stride);
  }
  static void run(const float* rows, ptrdiff_t stride, int m, int, const uint16_t* panel, int k, float* out,
                  ptrdiff_t out_stride, Next) {
    by_parts<WideTile>(m, rows, stride, panel, k, out, out_stride);
  }
};

#ifdef __ARM_FEATURE_DOTPROD
// A tile for int8 with SDOT, which needs signed rows: 128 is subtracted from codes and zero points.
struct DotTile : NeonTile, RowMajor {
  using Row = int8_t;
  using Weight = int8_t;
  using Sum = int32_t;
  static constexpr int kRows = 6;
  static constexpr int kInterleave = 8;

  template <int M>
  PL_APART static void part(const int8_t* rows, ptrdiff_t stride, const int8_t* panel, int k, int32_t* out,
                            ptrdiff_t out_stride) {
    int32x4_t sums[M][4] = {};
    for (int j = 0; j < k; j += 8) {
      int8x8_t x[M];
      PL_UNROLL for (int i = 0; i < M; ++i) x[i] = vld1_s8(rows + i * stride + j);
      PL_UNROLL for (int c = 0; c < 4; ++c) {
        // w.val[0] has the first four inputs of four columns, and w.val[1] the next four.
        const int32x4x2_t w = vld2q_s32(reinterpret_cast<const int32_t*>(panel + size_t(j) * kPanel + 32 * c));
        PL_UNROLL for (int i = 0; i < M; ++i) {
          sums[i][c] = vdotq_lane_s32(sums[i][c], vreinterpretq_s8_s32(w.val[0]), x[i], 0);
          sums[i][c] = vdotq_lane_s32(sums[i][c], vreinterpretq_s8_s32(w.val[1]), x[i], 1);
        }
      }
    }
    end(sums, out, out_stride);
  }
  static void run(const int8_t* rows, ptrdiff_t stride, int m, int, const int8_t* panel, int k, int32_t* out,
                  ptrdiff_t out_stride, Next) {
    by_parts<DotTile>(m, rows, stride, panel, k, out, out_stride);
  }
};
#endif

#ifdef __ARM_FEATURE_MATMUL_INT8
// The layout of rows in pairs, [rows / 2][width / q][2][q]: q numbers of one row, then q numbers of the other.
template <int q>
struct RowPairs {
  static constexpr bool kPaired = true;
  static constexpr float kLevels = kByte;
  static size_t place(int width, int r, int c) {
    return size_t(r / 2) * 2 * width + c / q * (2 * q) + r % 2 * q + c % q;
  }
};

// Store four columns of a pair of rows. Each register has two columns of both rows. If `rows` is 1, store only one row.
inline void store_pair(float* out, ptrdiff_t stride, int rows, float32x4_t a, float32x4_t b) {
  vst1q_f32(out, vcombine_f32(vget_low_f32(a), vget_low_f32(b)));
  if (rows > 1) vst1q_f32(out + stride, vcombine_f32(vget_high_f32(a), vget_high_f32(b)));
}
inline void store_pair(int32_t* out, ptrdiff_t stride, int rows, int32x4_t a, int32x4_t b) {
  vst1q_s32(out, vcombine_s32(vget_low_s32(a), vget_low_s32(b)));
  if (rows > 1) vst1q_s32(out + stride, vcombine_s32(vget_high_s32(a), vget_high_s32(b)));
}

// A tile for up to three pairs of rows. `Step` loads the numbers of two rows or two columns, and multiplies them.
template <class Step, class RowType, class WeightType, class SumType, int q>
struct PairedTile : NeonTile, RowPairs<q> {
  using Row = RowType;
  using Weight = WeightType;
  using Sum = SumType;
  static constexpr int kRows = 6;
  static constexpr int kInterleave = q;

  template <int Pairs>
  PL_APART static void part(const Row* rows, ptrdiff_t stride, const Weight* panel, int k, Sum* out,
                            ptrdiff_t out_stride, int m) {
    typename Step::Register sums[Pairs][8] = {};
    for (int j = 0; j < k; j += q) {
      typename Step::Rows x[Pairs];
      PL_UNROLL for (int i = 0; i < Pairs; ++i) x[i] = Step::rows(rows + 2 * i * stride + 2 * j);
      PL_UNROLL for (int c = 0; c < 8; ++c) {
        const auto w = Step::columns(panel + size_t(j) * kPanel + 2 * q * c);
        PL_UNROLL for (int i = 0; i < Pairs; ++i) sums[i][c] = Step::multiply(sums[i][c], x[i], w);
      }
    }
    PL_UNROLL for (int i = 0; i < Pairs; ++i) {
      PL_UNROLL for (int c = 0; c < 8; c += 2) {
        store_pair(out + 2 * i * out_stride + 2 * c, out_stride, m - 2 * i, sums[i][c], sums[i][c + 1]);
      }
    }
  }
  static void run(const Row* rows, ptrdiff_t stride, int m, int, const Weight* panel, int k, Sum* out,
                  ptrdiff_t out_stride, Next) {
    for (int c = 0; c < kPanel; c += kPart) {
      const Weight* weights = panel + c * q;
      with_height<kRows / 2>(
          (m + 1) / 2, [&](auto pairs) PL_INLINED { part<pairs>(rows, stride, weights, k, out + c, out_stride, m); });
    }
  }
};

struct Bfmmla {
  using Register = float32x4_t;
  using Rows = bfloat16x8_t;
  static Rows rows(const uint16_t* p) { return vreinterpretq_bf16_u16(vld1q_u16(p)); }
  static Rows columns(const uint16_t* p) { return rows(p); }
  static Register multiply(Register sum, Rows x, Rows w) { return vbfmmlaq_f32(sum, x, w); }
};
struct Usmmla {
  using Register = int32x4_t;
  using Rows = uint8x16_t;
  static Rows rows(const uint8_t* p) { return vld1q_u8(p); }
  static int8x16_t columns(const int8_t* p) { return vld1q_s8(p); }
  static Register multiply(Register sum, Rows x, int8x16_t w) { return vusmmlaq_s32(sum, x, w); }
};

struct BfmmlaTile : PairedTile<Bfmmla, uint16_t, uint16_t, float, 4> {
  static void values(const uint16_t* from, ptrdiff_t stride, int left, uint16_t* to) {
    for (int c = 0; c < kPanel; c += 8) {
      uint16x8x4_t rows;
      PL_UNROLL for (int i = 0; i < 4; ++i) rows.val[i] = i < left ? vld1q_u16(from + i * stride + c) : vdupq_n_u16(0);
      vst4q_u16(to + 4 * c, rows);
    }
  }
};
struct UsmmlaTile : PairedTile<Usmmla, uint8_t, int8_t, int32_t, 8> {};
#endif

}  // namespace
