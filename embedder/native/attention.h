// Softmax attention of one head over one text, by the same tiles as the products.

#pragma once

#include "arithmetic.h"

namespace {

// Memory of one thread, for texts of at most so many tokens.
template <class Tile>
struct AttentionScratch {
  using Row = typename Tile::Row;
  Row *keys;      // panels over tokens: [padded / 32][width / q][32][q], q = kInterleave
  Row *values;    // panels over width: [width / 32][padded / q][32][q]
  Row *queries;   // rows of this head, where tiles do not read them as they are
  Row *weights;   // [kFewRows][padded] of exponentials
  float *scores;  // [kFewRows][padded]

  static size_t bytes(int width, int longest) {
    const size_t padded = round_up(longest, kPanel);
    return (padded + 2) * width * 3 * sizeof(Row) + Tile::kFewRows * padded * (sizeof(Row) + sizeof(float)) + 5 * 64;
  }
  AttentionScratch(char* memory, int width, int padded) {
    const auto take = [&](size_t size) {
      char* at = memory;
      memory += (size + 63) & ~size_t(63);
      return at;
    };
    keys = (Row*)take(size_t(padded) * width * sizeof(Row));
    values = (Row*)take(size_t(padded) * width * sizeof(Row));
    queries = (Row*)take(Tile::kPaired ? size_t(padded + 2) * width * sizeof(Row) : 0);
    weights = (Row*)take(Tile::kFewRows * size_t(padded) * sizeof(Row));
    scores = (float*)take(Tile::kFewRows * size_t(padded) * sizeof(float));
  }
};

template <class Tile>
inline void pack_keys(const typename Tile::Row* k, ptrdiff_t stride, int tokens, int padded, int width, typename Tile::Row* to) {
  constexpr int q = Tile::kInterleave;
  struct Piece {
    typename Tile::Row numbers[q];
  };
  for (int t = 0; t < padded; ++t) {
    char* at = (char*)(to + size_t(t / kPanel) * kPanel * width + t % kPanel * q);
    for (int i = 0; i < width; i += q, at += sizeof(Piece) * kPanel)
      if (t < tokens)
        std::memcpy(at, k + t * stride + i, sizeof(Piece));
      else
        std::memset(at, 0, sizeof(Piece));
  }
}

// One head: softmax(q kᵀ scale + bias) v. `put(row, column, lanes)` takes the result.
template <class Tile, class Put>
inline void attend(const typename Tile::Row* q, ptrdiff_t stride, int d, int tokens, int width, float scale, const float* relative,
                   int max_length, char* memory, Put&& put_result) {
  using Row = typename Tile::Row;
  constexpr bool exact = sizeof(Row) == 4;
  constexpr float kLog2e = 1.44269504f;
  const int padded = round_up(tokens, kPanel);
  const AttentionScratch<Tile> s(memory, width, padded);
  const Row *k = q + d, *v = k + d;
  pack_keys<Tile>(k, stride, tokens, padded, width, s.keys);
  for (int t = 0; t < padded; t += Tile::kInterleave)
    for (int c = 0; c < width; c += kPanel)
      Tile::values(v + t * stride + c, stride, tokens - t, s.values + size_t(c) * padded + size_t(t) * kPanel);
  if constexpr (Tile::kPaired) {
    for (int t = 0; t < tokens; ++t)
      for (int c = 0; c < width; c += kLanes)
        std::memcpy(s.queries + Tile::place(width, t, c), q + t * stride + c, kLanes * sizeof(Row));
    q = s.queries;
    stride = width;
  }
  const int height = tile_height<Tile>(tokens, Tile::kFewRows), whole = tokens / kLanes * kLanes;
  const V factor = set(scale * kLog2e);
  alignas(64) float sums[Tile::kFewRows * kPanel];
  for (int r = 0; r < tokens; r += height) {
    const int m = at_most(height, tokens - r);
    for (int p = 0; p < padded; p += kPanel)
      Tile::run(q + r * stride, stride, m, 1, s.keys + size_t(p) * width, width, s.scores + p, padded,
                nothing_behind(s.keys));
    float inverse[Tile::kFewRows];
    for (int i = 0; i < m; ++i) {
      float* row = s.scores + size_t(i) * padded;
      V most = set(-__builtin_inff());
      if (relative) {
        const float* bias = relative + size_t(r + i) * max_length;
        for (int c = 0; c < tokens; c += kLanes)
          store(row + c, fma(load(row + c), set(scale), load_first(bias + c, tokens - c)));
      }
      for (int c = 0; c < whole; c += kLanes) most = max(most, load(row + c));
      if (whole < tokens) most = max(most, keep(load(row + whole), tokens - whole, -__builtin_inff()));
      const V by = relative ? set(kLog2e) : factor;
      const V below = mul(set(-highest(most)), by);
      const auto weight = [&](int c) { return exp2<exact ? 7 : 5>(fma(load(row + c), by, below)); };
      V total = zero();
      for (int c = 0; c < whole; c += kLanes) {
        const V e = weight(c);
        total = add(total, e);
        put(s.weights + Tile::place(padded, i, c), e);
      }
      for (int c = whole; c < padded; c += kLanes) {
        const V e = c < tokens ? keep(weight(c), tokens - c, 0.0f) : zero();
        total = add(total, e);
        put(s.weights + Tile::place(padded, i, c), e);
      }
      inverse[i] = 1.0f / sum(total);
    }
    for (int c = 0; c < width; c += kPanel) {
      Tile::run(s.weights, padded, m, 1, s.values + size_t(c) * padded, padded, sums, kPanel, nothing_behind(s.values));
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < kPanel; j += kLanes)
          put_result(r + i, c + j, mul(load(sums + i * kPanel + j), set(inverse[i])));
    }
  }
}

}  // namespace
