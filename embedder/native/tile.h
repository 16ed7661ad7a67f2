// The interface of a tile. A tile is the inner loop of a matrix product: up to kRows rows by the 32 columns of a
// panel of weights, with all sums in registers. Each instruction set has its own tiles. A tile is a struct with
//
//   Row, Weight, Sum   element types of the rows, the panel and the output
//   kRows, kFewRows    maximum number of rows in a call, and in a call by attention, to save memory
//   kInterleave        number of adjacent inputs of a column: a panel is [k / kInterleave][32][kInterleave]
//   kLevels            int8: largest code of an activation, before 128 is subtracted for signed rows
//   kPanels            maximum number of panels in a call
//   kPaired            whether rows are stored in pairs, which needs memory for an even number of rows
//   place(width, r, c) offset of the columns c to c + kLanes - 1 of row r, if rows have `width` numbers
//   run(rows, stride, m, panels, panel, k, out, out_stride, next)
//                      out[m][32 panels] = rows[m][k] · panels; strides are in elements; k is a multiple of 32;
//                      `next` is the panel to prefetch
//   values(from, stride, left, to)
//                      pack kInterleave rows of 32 numbers in the order of a panel; only `left` rows are read, and the
//                      others become zeros

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

// Check the assumptions of the encoder about a tile.
template <class Tile>
inline void check_tile() {
  static_assert(kPanel % Tile::kInterleave == 0, "multiples of kPanel are multiples of kInterleave");
  static_assert(!Tile::kPaired || (Tile::kRows % 2 == 0 && Tile::kFewRows % 2 == 0), "pairs of rows are not separated");
  static_assert(sizeof(typename Tile::Sum) == 4, "sums are read as vectors of kLanes");
  static_assert(!kIsInt8<Tile> || sizeof(typename Tile::Row) == 1, "codes of activations are bytes too");
}

// The layout of most tiles: rows are stored one after the other.
struct RowMajor {
  static constexpr bool kPaired = false;
  static constexpr float kLevels = kByte;
  static size_t place(int width, int r, int c) { return size_t(r) * width + c; }
};

// Return a number of rows for each call of the tile, at most `most`, that divides `rows` as evenly as possible.
template <class Tile>
inline int tile_height(int rows, int most) {
  const int tiles = at_least(1, (rows + most - 1) / most);
  return round_up((rows + tiles - 1) / tiles, Tile::kPaired ? 2 : 1);
}

// PL_APART makes the loop of one height a separate function that can use all registers. PL_INLINED inlines the
// functions that choose a height, so that the compiler sees constant arguments.
#define PL_APART __attribute__((noinline))
#define PL_INLINED __attribute__((always_inline))

// Call body(m), where m, from 1 to `Most`, is passed as a compile-time constant, so that sums are in registers.
template <int Most, class Body>
PL_INLINED inline void with_height(int m, Body&& body) {
  if constexpr (Most > 1)
    if (m < Most) return with_height<Most - 1>(m, body);
  body(std::integral_constant<int, Most>());
}

// The weights that a tile prefetches while it multiplies. If there is only one text, weights come from memory or the
// third-level cache, and the tile would wait for them.
struct Next {
  const char* at;
  ptrdiff_t step;  // bytes to advance for each 128 bytes that the tile reads of its panel
};
constexpr int kLine = 128;
static_assert(kLine == kPanel * sizeof(float), "a step of x86-64 is one fp32, two bf16 or four int8 of each column");

// Return the share of the next panel that the call for the rows from r prefetches. The shares of all calls are equal,
// so that memory is read evenly. `bytes` is the size of `panel`.
template <class Weight>
inline Next panel_behind(const Weight* panel, size_t bytes, int r, int height, int rows) {
  const char* behind = reinterpret_cast<const char*>(panel) + bytes;
  return {behind + bytes * r / rows, (kLine * height + rows - 1) / rows};
}

// Return a `Next` without effect, for operands that are already in the cache.
inline Next nothing_behind(const void* panel) { return {static_cast<const char*>(panel), 0}; }

// Four activations of a row, which are broadcast to a register.
struct Codes {
  uint8_t numbers[4];
};

// Pack the values of attention in fp32: copy a row to the panel, or zeros if no row is left.
inline void copy_values(const float* from, int left, float* to) {
  for (int c = 0; c < kPanel; ++c) to[c] = left > 0 ? from[c] : 0.0f;
}

}  // namespace
