// Linear layers over packed weights.

#pragma once

#include "arithmetic.h"

namespace {

// Compute the panels [p0, p1) of A · W + bias. Each result is passed to store(row, column, vector), kLanes numbers at a
// time.
template <class Tile, class Store>
inline void linear(const Operand<Tile>& a, int rows, const Linear& w, int p0, int p1, Store&& store) {
  check_tile<Tile>();
  using Sum = typename Tile::Sum;
  const int height = tile_height<Tile>(rows, Tile::kRows);
  alignas(kAlignment) Sum sums[Tile::kRows * Tile::kPanels * kPanel];
  for (int p = p0; p < p1; p += Tile::kPanels) {
    // If `panels` is a constant, biases and scales of the columns stay in registers.
    const int panels = Tile::kPanels == 1 ? 1 : at_most(Tile::kPanels, p1 - p);
    const int first = p * kPanel, width = panels * kPanel;
    const auto* panel = static_cast<const typename Tile::Weight*>(w.weight) + size_t(first) * w.k;
    for (int r = 0; r < rows; r += height) {
      const int m = at_most(height, rows - r);
      Tile::run(a.at + size_t(r) * w.k, w.k, m, panels, panel, w.k, sums, width,
                panel_behind(panel, size_t(width) * w.k * sizeof *panel, r, height, rows));
      for (int c = 0; c < width; c += 2 * kLanes) {
        const int n0 = first + c, n1 = n0 + kLanes;
        const V bias0 = load(w.bias + n0), bias1 = load(w.bias + n1);
        if constexpr (kIsInt8<Tile>) {
          const V scale0 = load(w.scale + n0), scale1 = load(w.scale + n1);
          const V column0 = load(w.column + n0), column1 = load(w.column + n1);
          for (int i = 0; i < m; ++i) {
            const V scale = set(a.scale[r + i]), zero = set(-a.zero[r + i]);
            const Sum* sum = sums + i * width + c;
            // scale_a (scale_w sum - zero_a column) + bias
            store(r + i, n0, fma(fma(from_int(sum), scale0, mul(zero, column0)), scale, bias0));
            store(r + i, n1, fma(fma(from_int(sum + kLanes), scale1, mul(zero, column1)), scale, bias1));
          }
        } else {
          for (int i = 0; i < m; ++i) {
            const Sum* sum = sums + i * width + c;
            store(r + i, n0, add(load(sum), bias0));
            store(r + i, n1, add(load(sum + kLanes), bias1));
          }
        }
      }
    }
  }
}

// Converts the sums of kLanes columns to results. A result is sum + bias, or for int8
// scale_a (scale_w sum - zero_a column) + bias.
template <class Tile>
struct Columns {
  V bias, scale, column;

  Columns(const Linear& w, int n)
      : bias(load(w.bias + n)),
        scale(kIsInt8<Tile> ? load(w.scale + n) : zero()),
        column(kIsInt8<Tile> ? load(w.column + n) : zero()) {}

  V result(const typename Tile::Sum* sum, const Operand<Tile>& a, int r) const {
    if constexpr (kIsInt8<Tile>)
      return fma(fma(from_int(sum), scale, mul(set(-a.zero[r]), column)), set(a.scale[r]), bias);
    else
      return add(load(sum), bias);
  }
};

// Compute the columns [32 p0, 32 p1) of a gated layer. In its weight, panels of values and panels of their gates
// alternate. Each result is passed to store(row, column, values, gates).
template <class Tile, class Store>
inline void gated_linear(const Operand<Tile>& a, int rows, const Linear& w, int p0, int p1, Store&& store) {
  check_tile<Tile>();
  using Sum = typename Tile::Sum;
  constexpr int kPair = 2 * kPanel, kAtOnce = Tile::kPanels == 1 ? 1 : 2;
  const int height = tile_height<Tile>(rows, Tile::kRows);
  alignas(kAlignment) Sum sums[Tile::kRows * kPair];
  for (int p = p0; p < p1; ++p) {
    const auto* pair = static_cast<const typename Tile::Weight*>(w.weight) + size_t(p) * kPair * w.k;
    for (int r = 0; r < rows; r += height) {
      const int m = at_most(height, rows - r);
      for (int side = 0; side < 2; side += kAtOnce) {
        const auto* panel = pair + size_t(side) * kPanel * w.k;
        Tile::run(a.at + size_t(r) * w.k, w.k, m, kAtOnce, panel, w.k, sums + side * kPanel, kPair,
                  panel_behind(panel, size_t(kAtOnce) * kPanel * w.k * sizeof *panel, r, height, rows));
      }
      for (int c = 0; c < kPanel; c += kLanes) {
        const Columns<Tile> value(w, p * kPair + c), gate(w, p * kPair + kPanel + c);
        for (int i = 0; i < m; ++i) {
          const Sum* sum = sums + i * kPair + c;
          store(r + i, p * kPanel + c, value.result(sum, a, r + i), gate.result(sum + kPanel, a, r + i));
        }
      }
    }
  }
}

}  // namespace
