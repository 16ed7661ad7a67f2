// The interface of a tile. A tile is the inner loop of a matrix product: up to kRows rows by the 32 columns of a
// panel of weights, with all sums in registers. Each instruction set has its own tiles. A tile is a struct with
//
//   Row, Weight, Sum   element types of the rows, the panel and the output
//   kRows, kFewRows    maximum rows of a call; kFewRows in attention, to save memory
//   kInterleave        consecutive k of a column that are adjacent: a panel is [k / kInterleave][32][kInterleave]
//   kLevels            int8: largest code of an activation; for signed rows all codes are less 128
//   kPanels            maximum panels of a call
//   kPaired            whether rows are stored in pairs, which needs memory for an even number of rows
//   place(width, r, c) offset of columns c to c + kLanes - 1 of row r in rows of `width` numbers
//   run(rows, stride, m, panels, panel, k, out, out_stride, next)
// out[m][32 panels] = rows[m][k] · panels; strides in elements; k is a multiple of 32; `next` is the panel to prefetch
//   values(from, stride, left, to)
//                      pack kInterleave rows of 32 numbers in the order of a panel, with zeros for rows from `left` on

#pragma once

#include <cstring>
#include <type_traits>

#include "model.h"

namespace {

inline int at_most(int a, int b) { return a < b ? a : b; }
inline int at_least(int a, int b) { return a < b ? b : a; }
inline int round_up(int n, int to) { return (n + to - 1) / to * to; }

constexpr float kByte = 255;

// The precision of a tile's weights. A tile that is neither fp32 nor int8 is bf16.
template <class Tile>
constexpr bool kIsInt8 = std::is_same_v<typename Tile::Weight, int8_t>;
template <class Tile>
constexpr bool kIsFp32 = std::is_same_v<typename Tile::Weight, float>;

// The encoder's assumptions about every tile.
template <class Tile>
inline void check_tile() {
  static_assert(kPanel % Tile::kInterleave == 0, "a panel's width in k comes out in whole steps");
  static_assert(!Tile::kPaired || (Tile::kRows % 2 == 0 && Tile::kFewRows % 2 == 0), "pairs of rows are never parted");
  static_assert(sizeof(typename Tile::Sum) == 4, "sums are read as vectors of kLanes");
  static_assert(!kIsInt8<Tile> || sizeof(typename Tile::Row) == 1, "codes of activations are bytes too");
}

// Rows stored one after the other, the layout for most instructions.
struct RowMajor {
  static constexpr bool kPaired = false;
  static constexpr float kLevels = kByte;
  static size_t place(int width, int r, int c) { return size_t(r) * width + c; }
};

// The height of the tiles that divide `rows` as evenly as possible, at most `most`.
template <class Tile>
inline int tile_height(int rows, int most) {
  const int tiles = at_least(1, (rows + most - 1) / most);
  return round_up((rows + tiles - 1) / tiles, Tile::kPaired ? 2 : 1);
}

// PL_APART: the loop of one height is a separate function, so that it has all registers. PL_INLINED: the functions that
// choose a height are inlined, so that the compiler sees constant arguments.
#define PL_APART __attribute__((noinline))
#define PL_INLINED __attribute__((always_inline))

// Call body(constant) with a height of 1 to `Most` as a constant, so that sums are registers.
template <int Most, class Body>
PL_INLINED inline void with_height(int m, Body&& body) {
  if constexpr (Most > 1)
    if (m < Most) return with_height<Most - 1>(m, body);
  body(std::integral_constant<int, Most>());
}

// Weights that a tile may prefetch while it multiplies others. For a single text they come from memory or the
// third-level cache, and without prefetching the tile would wait for them.
struct Next {
  const char* at;
  ptrdiff_t step;  // bytes to advance for each 128 bytes that the tile reads of its panel
};
constexpr int kLine = 128;
static_assert(kLine == kPanel * sizeof(float), "a step of x86-64 is one fp32, two bf16 or four int8 of each column");

// The panel that follows one of `bytes` bytes. The tile of rows from r prefetches its share of it, so that reading from
// memory is spread evenly over all tiles.
template <class Weight>
inline Next panel_behind(const Weight* panel, size_t bytes, int r, int height, int rows) {
  const char* behind = reinterpret_cast<const char*>(panel) + bytes;
  return {behind + bytes * r / rows, (kLine * height + rows - 1) / rows};
}

// For operands that are already in the cache.
inline Next nothing_behind(const void* panel) { return {static_cast<const char*>(panel), 0}; }

// Four activations of a row, for broadcasting to a register.
struct Codes {
  uint8_t numbers[4];
};

// Pack fp32 values of attention: a row of the panel is a copy of a row.
inline void copy_values(const float* from, int left, float* to) {
  for (int c = 0; c < kPanel; ++c) to[c] = left > 0 ? from[c] : 0.0f;
}

}  // namespace
