// Tiles of AVX-512: 14 rows by 32 columns, 28 registers of sums, 2 of weights, 1 of activations.
//
// Written in assembly because GCC moves accumulators between registers on every step, which costs a third of the speed.
// One step multiplies 4 bytes of each row (a float, two bf16 or four uint8) with 128 bytes of a panel.

#pragma once

#include <immintrin.h>

#include "tile.h"

// How the macros make a tile: PL_TILE(M, STEP) is the code of height M, PL_STEP_x(M) one step of it in precision x,
// PL_EACH_M(X) is X(0) to X(M - 1), PL_X_x(i) the instructions of row i, and PL_ARGS_i the operands of row i.
// PL_TILE(2, PL_STEP_FP32), two rows of floats, expands to
//
//   case 2:
//     asm volatile(
//         "vpternlogd $255, %%zmm31, %%zmm31, %%zmm31"   // the mask ffff0000 in each lane, used only by WIDE
//         "vpslld $16, %%zmm31, %%zmm31"
//         "vpxord %%zmm0, %%zmm0, %%zmm0"                // PL_EACH_2(PL_X_ZERO): sums of row 0,
//         "vpxord %%zmm1, %%zmm1, %%zmm1"
//         "vpxord %%zmm2, %%zmm2, %%zmm2"                // and of row 1
//         "vpxord %%zmm3, %%zmm3, %%zmm3"
//         "1:"                                           // PL_STEP_FP32(2): for each k
//         "vmovups (%[b]), %%zmm28"                      //   weights of 32 columns
//         "vmovups 64(%[b]), %%zmm29"
//         "vpbroadcastd (%[a]), %%zmm30"                 //   PL_X_FP32(0): k of row 0,
//         "vfmadd231ps %%zmm28, %%zmm30, %%zmm0"         //   times 16 columns,
//         "vfmadd231ps %%zmm29, %%zmm30, %%zmm1"         //   and 16 more
//         "vpbroadcastd (%[a],%[s]), %%zmm30"            //   PL_X_FP32(1): row 1 is one stride further
//         "vfmadd231ps %%zmm28, %%zmm30, %%zmm2"
//         "vfmadd231ps %%zmm29, %%zmm30, %%zmm3"
//         "prefetcht0 1024(%[b])"                        //   PL_ADVANCE("4")
//         "prefetcht0 1088(%[b])"
//         "prefetcht1 (%[n])"
//         "prefetcht1 64(%[n])"
//         "add %[d], %[n]"
//         "add $128, %[b]"
//         "add $4, %[a]"
//         "add $4, %[a5]"
//         "add $4, %[a10]"
//         "dec %[k]"
//         "jnz 1b"
//         "mov %[out], %[a]"                             // the addresses of rows become those of the output
//         "mov %[so], %[s]"
//         "lea (%[s],%[s],2), %[s3]"
//         "lea (%[a],%[s],4), %[a5]"
//         "add %[s], %[a5]"
//         "lea (%[a5],%[s],4), %[a10]"
//         "add %[s], %[a10]"
//         "vmovups %%zmm0, (%[a])"                       // PL_EACH_2(PL_X_SAVE)
//         "vmovups %%zmm1, 64(%[a])"
//         "vmovups %%zmm2, (%[a],%[s])"
//         "vmovups %%zmm3, 64(%[a],%[s])"
//         : [a] "+&r"(a), ...);
//     break;
//
// with a newline after each instruction. The assembly is laid out by hand, one instruction on each line.
// clang-format off

#define PL_EACH_1(X) X(0)
#define PL_EACH_2(X) PL_EACH_1(X) X(1)
#define PL_EACH_3(X) PL_EACH_2(X) X(2)
#define PL_EACH_4(X) PL_EACH_3(X) X(3)
#define PL_EACH_5(X) PL_EACH_4(X) X(4)
#define PL_EACH_6(X) PL_EACH_5(X) X(5)
#define PL_EACH_7(X) PL_EACH_6(X) X(6)
#define PL_EACH_8(X) PL_EACH_7(X) X(7)
#define PL_EACH_9(X) PL_EACH_8(X) X(8)
#define PL_EACH_10(X) PL_EACH_9(X) X(9)
#define PL_EACH_11(X) PL_EACH_10(X) X(10)
#define PL_EACH_12(X) PL_EACH_11(X) X(11)
#define PL_EACH_13(X) PL_EACH_12(X) X(12)
#define PL_EACH_14(X) PL_EACH_13(X) X(13)

// The address of a row, and the two registers of its sums. Rows 0 to 4 are addressed from a, rows 5 to 9 from a5, and
// rows 10 to 13 from a10. To a base register, an address can add 0, 1, 2 or 4 strides, or 3 strides from s3.
#define PL_ARGS_0 "(%[a])", "0", "1"
#define PL_ARGS_1 "(%[a],%[s])", "2", "3"
#define PL_ARGS_2 "(%[a],%[s],2)", "4", "5"
#define PL_ARGS_3 "(%[a],%[s3])", "6", "7"
#define PL_ARGS_4 "(%[a],%[s],4)", "8", "9"
#define PL_ARGS_5 "(%[a5])", "10", "11"
#define PL_ARGS_6 "(%[a5],%[s])", "12", "13"
#define PL_ARGS_7 "(%[a5],%[s],2)", "14", "15"
#define PL_ARGS_8 "(%[a5],%[s3])", "16", "17"
#define PL_ARGS_9 "(%[a5],%[s],4)", "18", "19"
#define PL_ARGS_10 "(%[a10])", "20", "21"
#define PL_ARGS_11 "(%[a10],%[s])", "22", "23"
#define PL_ARGS_12 "(%[a10],%[s],2)", "24", "25"
#define PL_ARGS_13 "(%[a10],%[s3])", "26", "27"

#define PL_APPLY(macro, ...) macro(__VA_ARGS__)
#define PL_ZERO(address, c0, c1)                       \
  "vpxord %%zmm" c0 ", %%zmm" c0 ", %%zmm" c0 "\n\t"   \
  "vpxord %%zmm" c1 ", %%zmm" c1 ", %%zmm" c1 "\n\t"
#define PL_SAVE(address, c0, c1)                       \
  "vmovups %%zmm" c0 ", " address "\n\t"               \
  "vmovups %%zmm" c1 ", 64" address "\n\t"
#define PL_ROW(op, weights0, weights1, offset, address, c0, c1) \
  "vpbroadcastd " offset address ", %%zmm30\n\t"                \
  op " %%zmm" weights0 ", %%zmm30, %%zmm" c0 "\n\t"             \
  op " %%zmm" weights1 ", %%zmm30, %%zmm" c1 "\n\t"
#define PL_X_ZERO(m) PL_APPLY(PL_ZERO, PL_ARGS_##m)
#define PL_X_SAVE(m) PL_APPLY(PL_SAVE, PL_ARGS_##m)
#define PL_X_FP32(m) PL_APPLY(PL_ROW, "vfmadd231ps", "28", "29", "", PL_ARGS_##m)
#define PL_X_BF16(m) PL_APPLY(PL_ROW, "vdpbf16ps", "28", "29", "", PL_ARGS_##m)
#define PL_X_INT8(m) PL_APPLY(PL_ROW, "vpdpbusd", "28", "29", "", PL_ARGS_##m)
#define PL_X_EVEN(m) PL_APPLY(PL_ROW, "vfmadd231ps", "26", "27", "", PL_ARGS_##m)
#define PL_X_ODD(m) PL_APPLY(PL_ROW, "vfmadd231ps", "26", "27", "4", PL_ARGS_##m)

// Prefetch the next panel into the second-level cache, and the weights of the eighth step from now into the first-level
// cache. Then advance to the next step.
#define PL_ADVANCE(bytes)         \
  "prefetcht0 1024(%[b])\n\t"     \
  "prefetcht0 1088(%[b])\n\t"     \
  "prefetcht1 (%[n])\n\t"         \
  "prefetcht1 64(%[n])\n\t"       \
  "add %[d], %[n]\n\t"            \
  "add $128, %[b]\n\t"            \
  "add $" bytes ", %[a]\n\t"      \
  "add $" bytes ", %[a5]\n\t"     \
  "add $" bytes ", %[a10]\n\t"
#define PL_STEP(M, ROW)           \
  "vmovups (%[b]), %%zmm28\n\t"   \
  "vmovups 64(%[b]), %%zmm29\n\t" \
  PL_EACH_##M(ROW)                \
  PL_ADVANCE("4")
#define PL_STEP_FP32(M) PL_STEP(M, PL_X_FP32)
#define PL_STEP_BF16(M) PL_STEP(M, PL_X_BF16)
#define PL_STEP_INT8(M) PL_STEP(M, PL_X_INT8)
// bf16 is the upper half of a float. A shift converts the first number of each pair, and a mask (zmm31) the second one.
#define PL_STEP_WIDE(M)                    \
  "vmovups (%[b]), %%zmm24\n\t"            \
  "vmovups 64(%[b]), %%zmm25\n\t"          \
  "vpslld $16, %%zmm24, %%zmm26\n\t"       \
  "vpslld $16, %%zmm25, %%zmm27\n\t"       \
  PL_EACH_##M(PL_X_EVEN)                   \
  "vpandd %%zmm31, %%zmm24, %%zmm26\n\t"   \
  "vpandd %%zmm31, %%zmm25, %%zmm27\n\t"   \
  PL_EACH_##M(PL_X_ODD)                    \
  PL_ADVANCE("8")

#define PL_CLOBBERED                                                                \
  "memory", "cc", "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7",   \
  "zmm8", "zmm9", "zmm10", "zmm11", "zmm12", "zmm13", "zmm14", "zmm15",             \
  "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", "zmm21", "zmm22", "zmm23",           \
  "zmm24", "zmm25", "zmm26", "zmm27", "zmm28", "zmm29", "zmm30", "zmm31"

// The code for height M. After the loop, the registers with addresses of rows get the addresses of the output.
#define PL_TILE(M, STEP)                                                                      \
  case M:                                                                                     \
    asm volatile(                                                                             \
        "vpternlogd $255, %%zmm31, %%zmm31, %%zmm31\n\t"                                      \
        "vpslld $16, %%zmm31, %%zmm31\n\t"                                                    \
        PL_EACH_##M(PL_X_ZERO)                                                                \
        "1:\n\t"                                                                              \
        STEP(M)                                                                               \
        "dec %[k]\n\t"                                                                        \
        "jnz 1b\n\t"                                                                          \
        "mov %[out], %[a]\n\t"                                                                \
        "mov %[so], %[s]\n\t"                                                                 \
        "lea (%[s],%[s],2), %[s3]\n\t"                                                        \
        "lea (%[a],%[s],4), %[a5]\n\t"                                                        \
        "add %[s], %[a5]\n\t"                                                                 \
        "lea (%[a5],%[s],4), %[a10]\n\t"                                                      \
        "add %[s], %[a10]\n\t"                                                                \
        PL_EACH_##M(PL_X_SAVE)                                                                \
        : [a] "+&r"(a), [a5] "+&r"(a5), [a10] "+&r"(a10), [b] "+&r"(b), [k] "+&r"(steps),     \
          [s] "+&r"(s), [s3] "+&r"(s3), [n] "+&r"(n)                                          \
        : [out] "r"(out), [so] "r"(so), [d] "r"(next.step)                                    \
        : PL_CLOBBERED);                                                                      \
    break;

#define PL_TILES_12(STEP)                                               \
  PL_TILE(1, STEP) PL_TILE(2, STEP) PL_TILE(3, STEP) PL_TILE(4, STEP)   \
  PL_TILE(5, STEP) PL_TILE(6, STEP) PL_TILE(7, STEP) PL_TILE(8, STEP)   \
  PL_TILE(9, STEP) PL_TILE(10, STEP) PL_TILE(11, STEP) PL_TILE(12, STEP)
#define PL_TILES_14(STEP) PL_TILES_12(STEP) PL_TILE(13, STEP) PL_TILE(14, STEP)
// clang-format on

// Define the variables that PL_TILE uses. The strides of rows and output are in bytes.
#define PL_TILE_REGISTERS(rows, panel, k, stride, out_stride) \
  const char* a = reinterpret_cast<const char*>(rows);        \
  const char* b = reinterpret_cast<const char*>(panel);       \
  int64_t s = (stride), s3 = 3 * s, steps = (k);              \
  const int64_t so = (out_stride);                            \
  const char *a5 = a + 5 * s, *a10 = a5 + 5 * s, *n = next.at;

namespace {

struct Avx512Tile : RowMajor {
  static constexpr int kRows = 14;
  static constexpr int kFewRows = kRows;
  static constexpr int kPanels = 1;
  static_assert(2 * kRows + 4 <= 32, "registers: sums, two of weights, an activation and the mask");
};

struct Fp32Tile : Avx512Tile {
  using Row = float;
  using Weight = float;
  using Sum = float;
  static constexpr int kInterleave = 1;

  static void run(const float* rows, ptrdiff_t stride, int m, int, const float* panel, int k, float* out,
                  ptrdiff_t out_stride, Next next) {
    PL_TILE_REGISTERS(rows, panel, k, 4 * stride, 4 * out_stride)
    switch (m) { PL_TILES_14(PL_STEP_FP32) }
  }
  static void values(const float* from, ptrdiff_t, int left, float* to) { copy_values(from, left, to); }
};

// A tile for bf16 weights and fp32 rows, on processors without bf16 arithmetic. Products are exact, and weights take
// half the memory of fp32.
struct WideTile : Avx512Tile {
  using Row = float;
  using Weight = uint16_t;
  using Sum = float;
  static constexpr int kRows = 12;  // two rows fewer, because the weights in fp32 take four registers
  static constexpr int kInterleave = 2;

  static void run(const float* rows, ptrdiff_t stride, int m, int, const uint16_t* panel, int k, float* out,
                  ptrdiff_t out_stride, Next next) {
    PL_TILE_REGISTERS(rows, panel, k / 2, 4 * stride, 4 * out_stride)
    switch (m) { PL_TILES_12(PL_STEP_WIDE) }
  }
};

#ifdef __AVX512BF16__
// Interleave two rows of 32 bf16 numbers to 32 pairs.
inline void pair_values(const uint16_t* from, ptrdiff_t stride, int left, uint16_t* to) {
  const __m512i a = left > 0 ? _mm512_loadu_si512(from) : _mm512_setzero_si512();
  const __m512i b = left > 1 ? _mm512_loadu_si512(from + stride) : _mm512_setzero_si512();
  const auto pairs = [](__m256i x, __m256i y) {
    return _mm512_or_si512(_mm512_cvtepu16_epi32(x), _mm512_slli_epi32(_mm512_cvtepu16_epi32(y), 16));
  };
  _mm512_storeu_si512(to, pairs(_mm512_castsi512_si256(a), _mm512_castsi512_si256(b)));
  _mm512_storeu_si512(to + 32, pairs(_mm512_extracti64x4_epi64(a, 1), _mm512_extracti64x4_epi64(b, 1)));
}

struct Bf16Tile : Avx512Tile {
  using Row = uint16_t;
  using Weight = uint16_t;
  using Sum = float;
  static constexpr int kInterleave = 2;

  static void run(const uint16_t* rows, ptrdiff_t stride, int m, int, const uint16_t* panel, int k, float* out,
                  ptrdiff_t out_stride, Next next) {
    PL_TILE_REGISTERS(rows, panel, k / 2, 2 * stride, 4 * out_stride)
    switch (m) { PL_TILES_14(PL_STEP_BF16) }
  }
  static void values(const uint16_t* from, ptrdiff_t stride, int left, uint16_t* to) {
    pair_values(from, stride, left, to);
  }
};
#endif

#ifdef __AVX512VNNI__
struct VnniTile : Avx512Tile {
  using Row = uint8_t;
  using Weight = int8_t;
  using Sum = int32_t;
  static constexpr int kInterleave = 4;

  static void run(const uint8_t* rows, ptrdiff_t stride, int m, int, const int8_t* panel, int k, int32_t* out,
                  ptrdiff_t out_stride, Next next) {
    PL_TILE_REGISTERS(rows, panel, k / 4, stride, 4 * out_stride)
    switch (m) { PL_TILES_14(PL_STEP_INT8) }
  }
};
#else
// A tile for int8 without VNNI. vpmaddubsw adds two products of bytes in 16 bits, which is exact because activations
// have 7 bits (2 · 127 · 127 < 2¹⁵). Then vpmaddwd, with a factor of one, adds these sums in 32 bits.
struct MaddTile : Avx512Tile {
  using Row = uint8_t;
  using Weight = int8_t;
  using Sum = int32_t;
  static constexpr float kLevels = 127;
  static constexpr int kRows = 12;
  static constexpr int kInterleave = 4;

  template <int M>
  PL_APART static void part(const uint8_t* rows, ptrdiff_t stride, const int8_t* panel, int k, int32_t* out,
                            ptrdiff_t out_stride, Next next) {
    const __m512i ones = _mm512_set1_epi16(1);
    __m512i sums[M][2];
#pragma GCC unroll 12
    for (int i = 0; i < M; ++i) sums[i][0] = sums[i][1] = _mm512_setzero_si512();
    for (int j = 0; j < k; j += 4, next.at += next.step) {
      const __m512i* quads = (const __m512i*)(panel + size_t(j) * kPanel);
      _mm_prefetch(next.at, _MM_HINT_T1);
      _mm_prefetch(next.at + 64, _MM_HINT_T1);
      const __m512i w0 = _mm512_loadu_si512(quads), w1 = _mm512_loadu_si512(quads + 1);
#pragma GCC unroll 12
      for (int i = 0; i < M; ++i) {
        // In assembly, because GCC computes more products together than there are registers, and so spills the sums.
        __m512i x, y;
        asm volatile(
            "vpbroadcastd %[row], %[x]\n\tvpmaddubsw %[w0], %[x], %[y]\n\tvpmaddubsw %[w1], %[x], %[x]\n\t"
            "vpmaddwd %[ones], %[y], %[y]\n\tvpmaddwd %[ones], %[x], %[x]\n\t"
            "vpaddd %[y], %[s0], %[s0]\n\tvpaddd %[x], %[s1], %[s1]"
            : [s0] "+v"(sums[i][0]), [s1] "+v"(sums[i][1]), [x] "=&v"(x), [y] "=&v"(y)
            : [w0] "v"(w0), [w1] "v"(w1), [ones] "v"(ones), [row] "m"(*(const Codes*)(rows + i * stride + j)));
      }
    }
#pragma GCC unroll 12
    for (int i = 0; i < M; ++i) {
      _mm512_storeu_si512(out + i * out_stride, sums[i][0]);
      _mm512_storeu_si512(out + i * out_stride + 16, sums[i][1]);
    }
  }
  static void run(const uint8_t* rows, ptrdiff_t stride, int m, int, const int8_t* panel, int k, int32_t* out,
                  ptrdiff_t out_stride, Next next) {
    with_height<kRows>(m, [&](auto M) PL_INLINED { part<M>(rows, stride, panel, k, out, out_stride, next); });
  }
};
#endif

}  // namespace
