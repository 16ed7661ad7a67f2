// Linear layers over packed weights.

#pragma once

#include "arithmetic.h"

namespace {

// Panels [p0, p1) of y = A · W + bias; store(row, column, lanes) takes each result.
template <class Tile, class Store>
inline void linear(const Operand<Tile>& a, int rows, const Linear& w, int p0, int p1, Store&& store) {
  check_tile<Tile>();
  using Sum = typename Tile::Sum;
  const int height = tile_height<Tile>(rows, Tile::kRows);
  alignas(kAlignment) Sum sums[Tile::kRows * Tile::kPanels * kPanel];
  for (int p = p0; p < p1; p += Tile::kPanels) {
    // A constant where it can be, so that what belongs to columns stays in registers.
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
            // s_a (s_w sum - z s_w sum_w) + bias
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

}  // namespace
