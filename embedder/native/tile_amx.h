// Tiles of AMX: 32 rows by 32 columns in four tile registers of sums. Each step multiplies 64 bytes of k.
//
// The panels of bf16 pairs and int8 quads are already in the order of the second operand of TDPBF16PS and TDPBUSD, with
// a stride of 128 bytes. The unit starts a tile product every 16 cycles, and the latency is 52, so it needs four
// independent sums. Up to 16 rows have only two sums in a panel, so two panels are multiplied together.

#pragma once

#ifdef PL_AMX_MODEL
#include "amx_model.h"
#else
#include <immintrin.h>
#endif

#include "tile_avx512.h"

#define PL_TILE_STATE

namespace {

constexpr int kTiles = 8, kTileRows = 16;
constexpr int kTileRowBytes = 64;
constexpr int kStepBytes = kTileRows * kLine;
static_assert(kLine == 2 * kTileRowBytes);  // a panel is two tiles wide

// The operand of LDTILECFG (Intel's manual, volume 1, 18.3).
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64 && sizeof(TileState) == 64 && offsetof(TileConfig, rows) == 48);

// Number of rows for which this thread's tiles are configured, or 0 if they are not configured.
thread_local int configured_rows = 0;

// Tiles 0 to 3 have sums, 4 and 5 rows, 6 and 7 weights. If there are up to 16 rows, tile 5 has weights.
inline void configure(int m) {
  if (configured_rows == m) return;
  TileConfig config;
  const bool both = m > kTileRows;
  const int upper = both ? kTileRows : m, lower = both ? m - kTileRows : m;
  const int heights[kTiles] = {upper, upper, lower, lower, upper, both ? lower : kTileRows, kTileRows, kTileRows};
  for (int i = 0; i < kTiles; ++i) {
    config.bytes[i] = kTileRowBytes;
    config.rows[i] = uint8_t(heights[i]);
  }
  _tile_loadconfig(&config);
  configured_rows = m;
}

// Save and restore the configuration of tiles, because another library may use tiles in the caller's thread.
inline void enter(TileState* saved) {
  _tile_storeconfig(saved);
  configured_rows = 0;
}
inline void leave(const TileState* saved) {
  if (saved->bytes[0])  // the palette; 0 if no tiles were configured
    _tile_loadconfig(saved);
  else
    _tile_release();
  configured_rows = 0;
}

#define PL_AMX_RUN(MULTIPLY, a, stride, m, panels, b, steps, next, out, out_stride) \
  configure(m);                                                                     \
  _tile_zero(0);                                                                    \
  _tile_zero(1);                                                                    \
  _tile_zero(2);                                                                    \
  _tile_zero(3);                                                                    \
  if (m > kTileRows) {                                                              \
    for (int j = 0; j < steps; ++j) {                                               \
      _tile_loadd(4, a + kTileRowBytes * j, stride);                                \
      _tile_loadd(5, a + kTileRows * (stride) + kTileRowBytes * j, stride);         \
      _tile_loadd(6, b + kStepBytes * j, kLine);                                    \
      _tile_loadd(7, b + kStepBytes * j + kTileRowBytes, kLine);                    \
      MULTIPLY(0, 4, 6);                                                            \
      MULTIPLY(1, 4, 7);                                                            \
      MULTIPLY(2, 5, 6);                                                            \
      MULTIPLY(3, 5, 7);                                                            \
    }                                                                               \
    _tile_stored(0, out, out_stride);                                               \
    _tile_stored(1, out + kTileRowBytes, out_stride);                               \
    _tile_stored(2, out + kTileRows * (out_stride), out_stride);                    \
    _tile_stored(3, out + kTileRows * (out_stride) + kTileRowBytes, out_stride);    \
  } else if (panels == 2) {                                                         \
    for (int j = 0; j < steps; ++j) {                                               \
      _tile_loadd(4, a + kTileRowBytes * j, stride);                                \
      _tile_loadd(5, b + kStepBytes * j, kLine);                                    \
      _tile_loadd(6, b + kStepBytes * j + kTileRowBytes, kLine);                    \
      _tile_loadd(7, b + next + kStepBytes * j, kLine);                             \
      MULTIPLY(0, 4, 5);                                                            \
      _tile_loadd(5, b + next + kStepBytes * j + kTileRowBytes, kLine);             \
      MULTIPLY(1, 4, 6);                                                            \
      MULTIPLY(2, 4, 7);                                                            \
      MULTIPLY(3, 4, 5);                                                            \
    }                                                                               \
    _tile_stored(0, out, out_stride);                                               \
    _tile_stored(1, out + kTileRowBytes, out_stride);                               \
    _tile_stored(2, out + 2 * kTileRowBytes, out_stride);                           \
    _tile_stored(3, out + 3 * kTileRowBytes, out_stride);                           \
  } else {                                                                          \
    for (int j = 0; j < steps; ++j) {                                               \
      _tile_loadd(4, a + kTileRowBytes * j, stride);                                \
      _tile_loadd(6, b + kStepBytes * j, kLine);                                    \
      _tile_loadd(7, b + kStepBytes * j + kTileRowBytes, kLine);                    \
      MULTIPLY(0, 4, 6);                                                            \
      MULTIPLY(1, 4, 7);                                                            \
    }                                                                               \
    _tile_stored(0, out, out_stride);                                               \
    _tile_stored(1, out + kTileRowBytes, out_stride);                               \
  }

struct AmxTile : RowMajor {
  static constexpr int kRows = 2 * kTileRows;
  static constexpr int kFewRows = kRows;
  static constexpr int kPanels = 2;
};

// Call part() for two panels together if there are up to 16 rows, else for each panel.
template <class Part>
inline void by_panels(int m, int panels, Part&& part) {
  if (m <= kTileRows)
    part(0, panels);
  else
    for (int p = 0; p < panels; ++p) part(p, 1);
}

struct AmxBf16Tile : AmxTile {
  using Row = uint16_t;
  using Weight = uint16_t;
  using Sum = float;
  static constexpr int kInterleave = 2;

  static void run(const uint16_t* rows, ptrdiff_t stride, int m, int panels, const uint16_t* panel, int k, float* out,
                  ptrdiff_t out_stride, Next) {
    const char* a = reinterpret_cast<const char*>(rows);
    const ptrdiff_t next = ptrdiff_t(k) * kPanel * 2;
    by_panels(m, panels, [&](int p, int together) {
      const char* b = reinterpret_cast<const char*>(panel) + p * next;
      char* to = reinterpret_cast<char*>(out + p * kPanel);
      PL_AMX_RUN(_tile_dpbf16ps, a, 2 * stride, m, together, b, 2 * k / kTileRowBytes, next, to, 4 * out_stride)
    });
  }
  static void values(const uint16_t* from, ptrdiff_t stride, int left, uint16_t* to) {
    pair_values(from, stride, left, to);
  }
};

template <class Rest>
struct AmxInt8Tile : AmxTile {
  using Row = uint8_t;
  using Weight = int8_t;
  using Sum = int32_t;
  static constexpr int kInterleave = 4;

  static void run(const uint8_t* rows, ptrdiff_t stride, int m, int panels, const int8_t* panel, int k, int32_t* out,
                  ptrdiff_t out_stride, Next behind) {
    const ptrdiff_t next = ptrdiff_t(k) * kPanel;
    if (k % kTileRowBytes) {  // a step needs 64 numbers, so other multiples of 32 use the VNNI tile
      for (int p = 0; p < panels; ++p)
        for (int r = 0; r < m; r += Rest::kRows)
          Rest::run(rows + r * stride, stride, at_most(m - r, Rest::kRows), 1, panel + p * next, k,
                    out + r * out_stride + p * kPanel, out_stride, behind);
      return;
    }
    const char* a = reinterpret_cast<const char*>(rows);
    by_panels(m, panels, [&](int p, int together) {
      const char* b = reinterpret_cast<const char*>(panel) + p * next;
      char* to = reinterpret_cast<char*>(out + p * kPanel);
      PL_AMX_RUN(_tile_dpbusd, a, stride, m, together, b, k / kTileRowBytes, next, to, 4 * out_stride)
    });
  }
};

}  // namespace
