// What every tile has in common. A tile is the inner loop of a matrix product: up to kRows rows by the 32 columns of a
// panel of weights, with all sums in registers. Each instruction set brings its own, as a struct with
//
//   Row, Weight, Sum   element types of the rows, of the panel, and of what comes out
//   kRows, kFewRows    most rows at once, and where the memory that they take counts
//   kInterleave        consecutive k that stand together for a column: a panel is [k / kInterleave][32][kInterleave]
//   kLevels            int8: activations have codes from 0 to this, all of them 128 less where rows are signed
//   kPanels            most panels that one call multiplies
//   kPaired            whether rows stand in pairs, so that memory for them is of an even number
//   place(width, r, c) where columns c to c + kLanes - 1 of row r stand in the memory of rows of that width
//   run(rows, stride, m, panels, panel, k, out, out_stride, next)
//                      out[m][32 panels] = rows[m][k] · panels; strides in elements; k is a multiple of 32; `next` is
//                      what will be multiplied after it
//   values(from, stride, left, to)
//                      kInterleave rows of 32 numbers in the order of a panel; rows from `left` on count as zeros

#pragma once

#include <cstring>
#include <type_traits>

#include "model.h"

namespace {

inline int at_most(int a, int b) { return a < b ? a : b; }
inline int at_least(int a, int b) { return a < b ? b : a; }
inline int round_up(int n, int to) { return (n + to - 1) / to * to; }

constexpr float kByte = 255;

// The precision whose weights a tile multiplies; bf16 is what is neither.
template <class Tile>
constexpr bool kIsInt8 = std::is_same_v<typename Tile::Weight, int8_t>;
template <class Tile>
constexpr bool kIsFp32 = std::is_same_v<typename Tile::Weight, float>;

// What the encoder takes for granted of every tile.
template <class Tile>
inline void check_tile() {
  static_assert(kPanel % Tile::kInterleave == 0, "a panel's width in k comes out in whole steps");
  static_assert(!Tile::kPaired || (Tile::kRows % 2 == 0 && Tile::kFewRows % 2 == 0), "pairs of rows are never parted");
  static_assert(sizeof(typename Tile::Sum) == 4, "sums are read as vectors of kLanes");
  static_assert(!kIsInt8<Tile> || sizeof(typename Tile::Row) == 1, "codes of activations are bytes too");
}

// Rows one after the other, as most instructions read them.
struct RowMajor {
  static constexpr bool kPaired = false;
  static constexpr float kLevels = kByte;
  static size_t place(int width, int r, int c) { return size_t(r) * width + c; }
};

// Height of the tiles that cover some rows: as even as can be, so that no sliver is left for last.
template <class Tile>
inline int tile_height(int rows, int most) {
  const int tiles = at_least(1, (rows + most - 1) / most);
  return round_up((rows + tiles - 1) / tiles, Tile::kPaired ? 2 : 1);
}

// The loop of one height is a function of its own, so that it has all registers to itself. What chooses among them is
// always inlined: the compiler then sees what each is called with, and makes constants of what is constant.
#define PL_APART __attribute__((noinline))
#define PL_INLINED __attribute__((always_inline))

// Call body(constant) with a height of 1 to `Most` as a constant, so that sums are registers.
template <int Most, class Body>
PL_INLINED inline void with_height(int m, Body&& body) {
  if constexpr (Most > 1)
    if (m < Most) return with_height<Most - 1>(m, body);
  body(std::integral_constant<int, Most>());
}

// Weights that a tile may fetch while it multiplies others: those of a single text come from memory or the third-level
// cache, and asked for when they are wanted they come too late.
struct Next {
  const char* at;
  ptrdiff_t step;  // bytes for each line of two vectors, 128 bytes, that the tile reads of its own panel
};
constexpr int kLine = 128;
static_assert(kLine == kPanel * sizeof(float), "a step of x86-64 is one fp32, two bf16 or four int8 of each column");

// The panel behind one of so many bytes. The tile of rows from r fetches its share of it, so that memory is read evenly
// over the time that all rows take, and not in the first tile's alone.
template <class Weight>
inline Next panel_behind(const Weight* panel, size_t bytes, int r, int height, int rows) {
  const char* behind = reinterpret_cast<const char*>(panel) + bytes;
  return {behind + bytes * r / rows, (kLine * height + rows - 1) / rows};
}

// For operands that are in the cache already.
inline Next nothing_behind(const void* panel) { return {static_cast<const char*>(panel), 0}; }

// Four activations of a row, to be spread over a register.
struct Codes {
  uint8_t numbers[4];
};

// Values of attention in fp32: a panel's row is a row.
inline void copy_values(const float* from, int left, float* to) {
  for (int c = 0; c < kPanel; ++c) to[c] = left > 0 ? from[c] : 0.0f;
}

}  // namespace
