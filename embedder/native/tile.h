// The inner loop of every matrix product: a tile of up to 14 rows by 32 columns, all accumulators in registers.
//
// Written in assembly because GCC moves accumulators between registers on every step, which costs a third of the speed.
// One step multiplies 4 bytes of each row (two bf16 or four uint8) with 128 bytes of a weight panel.

#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

constexpr int kPanel = 32;  // columns of a panel: two registers of accumulators a row
constexpr int kRows = 14;   // 28 accumulators, 2 registers of weights, 1 of activations

#define PL_ROW(op, address, c0, c1)               \
  "vpbroadcastd " address ", %%zmm30\n\t"         \
  op " %%zmm28, %%zmm30, %%zmm" c0 "\n\t"         \
  op " %%zmm29, %%zmm30, %%zmm" c1 "\n\t"
#define PL_ZERO(c0, c1) "vpxord %%zmm" c0 ", %%zmm" c0 ", %%zmm" c0 "\n\tvpxord %%zmm" c1 ", %%zmm" c1 ", %%zmm" c1 "\n\t"
#define PL_SAVE(at, c0, c1) "vmovups %%zmm" c0 ", " at "*128(%[out])\n\tvmovups %%zmm" c1 ", " at "*128+64(%[out])\n\t"

// Rows 0 to 4 are addressed from a, 5 to 9 from a5, 10 to 13 from a10: base, stride and three times the stride reach five.
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

#define PL_SECOND(a, c0, c1) c0, c1
#define PL_APPLY(macro, ...) macro(__VA_ARGS__)
#define PL_X_ZERO(m) PL_APPLY(PL_ZERO, PL_APPLY(PL_SECOND, PL_ARGS_##m))
#define PL_X_SAVE(m) PL_APPLY(PL_SAVE, #m, PL_APPLY(PL_SECOND, PL_ARGS_##m))
#define PL_X_BF16(m) PL_APPLY(PL_ROW, "vdpbf16ps", PL_ARGS_##m)
#define PL_X_INT8(m) PL_APPLY(PL_ROW, "vpdpbusd", PL_ARGS_##m)

#define PL_CLOBBERED                                                                                              \
  "memory", "cc", "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10",        \
      "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", "zmm21", "zmm22", \
      "zmm23", "zmm24", "zmm25", "zmm26", "zmm27", "zmm28", "zmm29", "zmm30"

#define PL_TILE(M, ROW)                                                                                     \
  case M:                                                                                                   \
    asm volatile(PL_EACH_##M(PL_X_ZERO)                                                                     \
                 "1:\n\t"                                                                                   \
                 "vmovups (%[b]), %%zmm28\n\t"                                                              \
                 "vmovups 64(%[b]), %%zmm29\n\t" PL_EACH_##M(ROW)                                           \
                 "add $128, %[b]\n\tadd $4, %[a]\n\tadd $4, %[a5]\n\tadd $4, %[a10]\n\t"                    \
                 "dec %[k]\n\tjnz 1b\n\t" PL_EACH_##M(PL_X_SAVE)                                            \
                 : [a] "+r"(a), [a5] "+r"(a5), [a10] "+r"(a10), [b] "+r"(b), [k] "+r"(k)                    \
                 : [s] "r"(stride), [s3] "r"(3 * stride), [out] "r"(out)                                    \
                 : PL_CLOBBERED);                                                                           \
    break;

#define PL_TILES(ROW)                                                                                        \
  const char* a = static_cast<const char*>(rows);                                                            \
  const char* a5 = a + 5 * stride;                                                                           \
  const char* a10 = a + 10 * stride;                                                                         \
  const char* b = static_cast<const char*>(panel);                                                           \
  switch (m) {                                                                                               \
    PL_TILE(1, ROW) PL_TILE(2, ROW) PL_TILE(3, ROW) PL_TILE(4, ROW) PL_TILE(5, ROW) PL_TILE(6, ROW)          \
    PL_TILE(7, ROW) PL_TILE(8, ROW) PL_TILE(9, ROW) PL_TILE(10, ROW) PL_TILE(11, ROW) PL_TILE(12, ROW)       \
    PL_TILE(13, ROW) PL_TILE(14, ROW)                                                                        \
  }

// out[m][32] floats = rows[m][2k] bf16 · panel [k][32][2] bf16; stride is the bytes from row to row.
inline void tile_bf16(const void* rows, ptrdiff_t stride, int m, const void* panel, int64_t k, float* out) {
  PL_TILES(PL_X_BF16)
}

// out[m][32] int32 = rows[m][4k] uint8 · panel [k][32][4] int8.
inline void tile_int8(const void* rows, ptrdiff_t stride, int m, const void* panel, int64_t k, int32_t* out) {
  PL_TILES(PL_X_INT8)
}

// Height of the tiles that cover some rows: as even as can be, so that no sliver is left for last.
inline int tile_height(int rows) {
  const int tiles = std::max(1, (rows + kRows - 1) / kRows);
  return (rows + tiles - 1) / tiles;
}
