// Arithmetic between the matrix products, written with vec_*.h: exponential, GELU, quantisation and layer norm.

#pragma once

#include "arena.h"
#include "tile.h"

namespace {

// Compute 2^x as 2^n times a Taylor polynomial on [-1/2, 1/2]. With 7 `Terms` the relative error is 2e-7. With 5 it is
// 6e-5, a thirtieth of the rounding error of bf16.
template <int Terms>
inline V exp2(V x) {
  constexpr float series[8] = {1.0f,
                               6.931471806e-01f,
                               2.402265070e-01f,
                               5.550410866e-02f,
                               9.618129108e-03f,
                               1.333355815e-03f,
                               1.540353039e-04f,
                               1.525273380e-05f};
  x = max(x, set(-125.0f));
  const V n = round(x), r = sub(x, n);
  V p = set(series[Terms - 1]);
#pragma GCC unroll 8
  for (int i = Terms - 2; i >= 0; --i) p = fma(p, r, set(series[i]));
  return scale_by_power(p, n);
}

// Coefficients of an odd polynomial for erf(x / sqrt 2) on [-kRange, kRange], fitted to minimise the error of GELU.
struct ExactErf {  // error of GELU under 2e-5 for |x| < 4.2
  static constexpr int kTerms = 9;
  static constexpr float kRange = 4.2f;
  static constexpr float k[] = {7.978038696e-01f,  -1.326906866e-01f, 1.963634231e-02f,
                                -2.219755146e-03f, 1.875321565e-04f,  -1.134800390e-05f,
                                4.581282555e-07f,  -1.092270911e-08f, 1.153699712e-10f};
};
struct RoundedErf {  // error of GELU under 2e-4, a tenth of the rounding error of bf16 and int8
  static constexpr int kTerms = 7;
  static constexpr float kRange = 3.9f;
  static constexpr float k[] = {7.959502534e-01f, -1.294129684e-01f, 1.767114990e-02f, -1.655132895e-03f,
                                9.881538127e-05f, -3.348932821e-06f, 4.864025706e-08f};
};

// Gaussian error linear unit: x/2 (1 + erf(x/sqrt 2)).
template <class E>
inline V gelu(V x) {
  const V c = min(max(x, set(-E::kRange)), set(E::kRange));
  const V u = mul(c, c);
  V p = set(E::k[E::kTerms - 1]);
#pragma GCC unroll 16
  for (int i = E::kTerms - 2; i >= 0; --i) p = fma(p, u, set(E::k[i]));
  const V half = mul(x, set(0.5f));
  return fma(half, mul(p, c), half);
}

// Sigmoid linear unit: x / (1 + exp(-x)).
template <int Terms>
inline V silu(V x) {
  return div(x, add(set(1.0f), exp2<Terms>(min(mul(x, set(-1.44269504f)), set(125.0f)))));
}

// The input of a matrix product: rows of numbers, and for int8 a scale and a zero point for each row.
template <class Tile>
struct Operand {
  using Row = typename Tile::Row;

  Row* at;
  float *scale, *zero;

  Operand(Arena& arena, size_t rows, int width)
      : at(arena.take<Row>(rows * width)),
        scale(arena.take<float>(kIsInt8<Tile> ? rows : 0)),
        zero(arena.take<float>(kIsInt8<Tile> ? rows : 0)) {}

  Row* place(int width, int r, int c) const { return at + Tile::place(width, r, c); }
};

inline void put(float* p, V x) { store(p, x); }
#ifdef PL_HAS_BF16
inline void put(uint16_t* p, V x) { store_half(p, x); }
#endif

// Quantise row r, `width` floats, to codes q from 0 to kLevels, so that x ≈ scale (q - zero). If the tile's rows are
// signed, q - 128 is stored.
template <class Tile>
inline void quantise(const float* x, int width, const Operand<Tile>& to, int r) {
  constexpr float shift = std::is_signed_v<typename Tile::Row> ? 128.0f : 0.0f;
  V low = zero(), high = zero();
  for (int i = 0; i < width; i += kLanes) {
    const V v = load(x + i);
    low = min(low, v);
    high = max(high, v);
  }
  const float least = lowest(low), most = highest(high);
  const float step = (most - least) / Tile::kLevels, scale = step > 1e-12f ? step : 1e-12f;
  const float origin = __builtin_nearbyintf(-least / scale) - shift;
  const V inverse = set(1.0f / scale), offset = set(origin), floor = set(-shift), ceiling = set(Tile::kLevels - shift);
  for (int i = 0; i < width; i += kLanes)
    store_codes(to.place(width, r, i), min(max(fma(load(x + i), inverse, offset), floor), ceiling));
  to.scale[r] = scale;
  to.zero[r] = origin;
}

// Apply layer norm to x, and write the result as floats to `out` and as row r of the operand `next`.
template <class Tile>
inline void layer_norm(const float* x, int d, float eps, const float* weight, const float* bias, float* out,
                       const Operand<Tile>& next, int r) {
  V total = zero(), squares = zero();
  for (int i = 0; i < d; i += kLanes) total = add(total, load(x + i));
  const V mean = set(sum(total) / d);
  for (int i = 0; i < d; i += kLanes) {
    const V c = sub(load(x + i), mean);
    squares = fma(c, c, squares);
  }
  const V inverse = set(1.0f / __builtin_sqrtf(sum(squares) / d + eps));
  for (int i = 0; i < d; i += kLanes) {
    const V y = fma(mul(sub(load(x + i), mean), inverse), load(weight + i), load(bias + i));
    store(out + i, y);
    if constexpr (!kIsInt8<Tile>) put(next.place(d, r, i), y);
  }
  if constexpr (kIsInt8<Tile>) quantise(out, d, next, r);
}

}  // namespace
