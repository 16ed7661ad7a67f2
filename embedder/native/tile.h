// What every tile has in common. A tile is the inner loop of a matrix product: up to kRows rows by the 32 columns of a
// panel of weights, with all sums in registers. Each instruction set brings its own, as a struct with
//
//   Row, Weight, Sum   element types of the rows, of the panel, and of what comes out
//   kRows, kFewRows    most rows at once, and where the memory that they take counts
//   kInterleave        consecutive k that stand together for a column: a panel is [k / kInterleave][32][kInterleave]
//   kLevels            int8: activations have codes from 0 to this, all of them 128 less where rows are signed
//   kPanels            most panels that one call multiplies
//   place(width, r, c) where columns c to c + kLanes - 1 of row r stand in the memory of rows of that width
//   run(rows, stride, m, panels, panel, k, out, out_stride, next)
//                      out[m][32 panels] = rows[m][k] · panels; strides in elements; k is a multiple of 32; a hint of
//                      what is multiplied after it
//   values(from, stride, left, to)
//                      kInterleave rows of 32 numbers in the order of a panel; rows from `left` on count as zeros

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "model.h"

namespace {

constexpr int kPanel = 32;

inline int at_most(int a, int b) { return a < b ? a : b; }
inline int at_least(int a, int b) { return a < b ? b : a; }
inline int round_up(int n, int to) { return (n + to - 1) / to * to; }

constexpr float kByte = 255;

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

// Weights that a tile may fetch while it multiplies others: those of a single text come from memory or the third-level
// cache, and asked for when they are wanted they come too late.
struct Next {
  const char* at;
  ptrdiff_t step;  // bytes for each line of two vectors, 128 bytes, that the tile reads of its own panel
};
constexpr int kLine = 128;

// The panel behind one of so many bytes. The tile of rows from r fetches its share of it, so that memory is read evenly
// over the time that all rows take, and not in the first tile's alone.
template <class Weight>
inline Next panel_behind(const Weight* panel, size_t bytes, int r, int height, int rows) {
  const char* behind = reinterpret_cast<const char*>(panel) + bytes;
  return {behind + bytes * r / rows, (kLine * height + rows - 1) / rows};
}

// For operands that are in the cache already.
inline Next nothing_behind(const void* panel) { return {static_cast<const char*>(panel), 0}; }

// Four numbers of a row, to be spread over a register.
template <class Four, class Row>
inline Four four(const Row* row) {
  static_assert(sizeof(Four) == 4 * sizeof(Row));
  Four value;
  std::memcpy(&value, row, sizeof value);
  return value;
}

// Values of attention in fp32: a panel's row is a row.
inline void copy_values(const float* from, int left, float* to) {
  for (int c = 0; c < kPanel; ++c) to[c] = left > 0 ? from[c] : 0.0f;
}

}  // namespace
