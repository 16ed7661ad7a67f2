// The tile instructions of AMX in software, under the names of their intrinsics, so that tile_amx.h can be compiled for
// and run on a processor without them. After the pseudocode of Intel's manual, volume 2.

#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

struct TileUnit {
  uint8_t config[64] = {};
  alignas(64) uint8_t data[8][16][64] = {};

  int bytes(int t) const {
    uint16_t value;
    std::memcpy(&value, config + 16 + 2 * t, 2);
    return value;
  }
  int rows(int t) const { return config[48 + t]; }
};
thread_local TileUnit unit;

// What the hardware answers with an exception ends the program.
inline void require(bool fine) {
  if (!fine) std::abort();
}

inline void model_loadconfig(const void* from) {
  std::memset(&unit, 0, sizeof unit);
  std::memcpy(unit.config, from, 64);
  require(unit.config[0] <= 1);
  for (int t = 0; t < 8; ++t) require(unit.bytes(t) <= 64 && unit.rows(t) <= 16);
}
inline void model_storeconfig(void* to) { std::memcpy(to, unit.config, 64); }
inline void model_release() { std::memset(&unit, 0, sizeof unit); }
inline void model_zero(int t) {
  require(unit.rows(t));
  std::memset(unit.data[t], 0, sizeof unit.data[t]);
}
inline void model_loadd(int t, const void* base, ptrdiff_t stride) {
  model_zero(t);
  for (int r = 0; r < unit.rows(t); ++r) std::memcpy(unit.data[t][r], (const char*)base + r * stride, unit.bytes(t));
}
inline void model_stored(int t, void* base, ptrdiff_t stride) {
  require(unit.rows(t));
  for (int r = 0; r < unit.rows(t); ++r) std::memcpy((char*)base + r * stride, unit.data[t][r], unit.bytes(t));
}

// Sums, rows and weights must fit each other, and be three different tiles.
inline void require_shapes(int c, int a, int b) {
  require(c != a && a != b && b != c);
  require(unit.rows(c) == unit.rows(a) && unit.bytes(c) == unit.bytes(b) && unit.bytes(a) == 4 * unit.rows(b));
}

inline float bf16_at(const uint8_t* p) {
  uint32_t bits = uint32_t(p[0] | p[1] << 8) << 16;
  if (!(bits & 0x7f800000)) bits &= 0x80000000;  // denormals count as zeros
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline void model_dpbf16ps(int c, int a, int b) {
  require_shapes(c, a, b);
  for (int m = 0; m < unit.rows(c); ++m)
    for (int n = 0; n < unit.bytes(c) / 4; ++n) {
      float even = 0, odd = 0, sum;
      for (int k = 0; k < unit.bytes(a) / 4; ++k) {
        const uint8_t *x = unit.data[a][m] + 4 * k, *w = unit.data[b][k] + 4 * n;
        even = __builtin_fmaf(bf16_at(x), bf16_at(w), even);
        odd = __builtin_fmaf(bf16_at(x + 2), bf16_at(w + 2), odd);
      }
      std::memcpy(&sum, unit.data[c][m] + 4 * n, 4);
      sum += even + odd;
      std::memcpy(unit.data[c][m] + 4 * n, &sum, 4);
    }
}

inline void model_dpbusd(int c, int a, int b) {
  require_shapes(c, a, b);
  for (int m = 0; m < unit.rows(c); ++m)
    for (int n = 0; n < unit.bytes(c) / 4; ++n) {
      int32_t sum;
      std::memcpy(&sum, unit.data[c][m] + 4 * n, 4);
      for (int k = 0; k < unit.bytes(a); ++k) sum += unit.data[a][m][k] * int8_t(unit.data[b][k / 4][4 * n + k % 4]);
      std::memcpy(unit.data[c][m] + 4 * n, &sum, 4);
    }
}

}  // namespace

#undef _tile_loadconfig
#define _tile_loadconfig model_loadconfig
#undef _tile_storeconfig
#define _tile_storeconfig model_storeconfig
#undef _tile_release
#define _tile_release model_release
#undef _tile_zero
#define _tile_zero model_zero
#undef _tile_loadd
#define _tile_loadd model_loadd
#undef _tile_stored
#define _tile_stored model_stored
#undef _tile_dpbf16ps
#define _tile_dpbf16ps model_dpbf16ps
#undef _tile_dpbusd
#define _tile_dpbusd model_dpbusd
