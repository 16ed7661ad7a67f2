// Softmax attention of one head over one text. It uses the same tiles as the matrix products of linear layers.

#pragma once

#include "arithmetic.h"

namespace {

// The queries, keys and values of one head for one text: [tokens][width]. The next token is `stride` numbers further.
template <class Row>
struct Head {
  const Row *queries, *keys, *values;
  ptrdiff_t stride;
  int tokens, width;
  int query_count;        // attention is computed for this many tokens at the start of the text
  float scale;            // factor for query-key products
  const float* relative;  // [max_length][max_length], added to the scaled products; or null
  int max_length;
  int window;  // number of keys on each side of a query that it attends to; 0 for all keys
};

// Memory that one thread needs for texts of at most `tokens` tokens.
template <class Tile>
struct AttentionScratch {
  using Row = typename Tile::Row;
  Row* keys;      // panels over tokens: [padded / 32][width / q][32][q], q = kInterleave
  Row* values;    // panels over width: [width / 32][padded / q][32][q]
  Row* queries;   // copy of the head's queries, only if the tile needs rows in pairs
  Row* weights;   // [kFewRows][padded], exponentials
  float* scores;  // [kFewRows][padded]

  AttentionScratch(Arena& arena, int width, int tokens) {
    const size_t padded = round_up(tokens, kPanel);
    keys = arena.take<Row>(padded * width);
    values = arena.take<Row>(padded * width);
    queries = arena.take<Row>(Tile::kPaired ? padded * width : 0);
    weights = arena.take<Row>(Tile::kFewRows * padded);
    scores = arena.take<float>(Tile::kFewRows * padded);
  }
};

// Apply rotary positions (Su et al. 2021): rotate the pairs (i, i + width / 2) of a head's numbers by the angles of the
// token's position. Each row of `angles` [tokens][width] has first cosines, then sines. `to` may equal `from`.
template <class Row>
inline void turn(const float* from, ptrdiff_t from_stride, Row* to, ptrdiff_t stride, int tokens, int width,
                 const float* angles) {
  const int half = width / 2;
  for (int t = 0; t < tokens; ++t, from += from_stride, to += stride, angles += width)
    for (int c = 0; c < half; c += kLanes) {
      const V first = load(from + c), second = load(from + half + c);
      const V cosine = load(angles + c), sine = load(angles + half + c);
      put(to + c, sub(mul(first, cosine), mul(second, sine)));
      put(to + half + c, fma(second, cosine, mul(first, sine)));
    }
}

template <class Tile>
inline void pack_keys(const Head<typename Tile::Row>& head, int padded, typename Tile::Row* to) {
  constexpr int q = Tile::kInterleave;
  struct Piece {
    typename Tile::Row numbers[q];
  };
  for (int t = 0; t < padded; ++t) {
    char* at = (char*)(to + size_t(t / kPanel) * kPanel * head.width + t % kPanel * q);
    for (int i = 0; i < head.width; i += q, at += sizeof(Piece) * kPanel)
      if (t < head.tokens)
        std::memcpy(at, head.keys + t * head.stride + i, sizeof(Piece));
      else
        std::memset(at, 0, sizeof(Piece));
  }
}

template <class Tile>
inline void pack_values(const Head<typename Tile::Row>& head, int padded, typename Tile::Row* to) {
  for (int t = 0; t < padded; t += Tile::kInterleave)
    for (int c = 0; c < head.width; c += kPanel)
      Tile::values(head.values + t * head.stride + c, head.stride, head.tokens - t,
                   to + size_t(c) * padded + size_t(t) * kPanel);
}

// Compute the softmax of one query's scores without the division. Writes the exponentials, padded with zeros, to row i
// of `weights`, and returns the inverse of their sum. `bias` has a number for each token that is added to the score, or
// is null.
template <class Tile>
inline float exponentials(float* scores, int tokens, int padded, float scale, const float* bias,
                          typename Tile::Row* weights, int i) {
  constexpr float kLog2e = 1.44269504f;
  constexpr int terms = kIsFp32<Tile> ? 7 : 5;
  const int whole = tokens / kLanes * kLanes;
  if (bias)
    for (int c = 0; c < tokens; c += kLanes)
      store(scores + c, fma(load(scores + c), set(scale), load_first(bias + c, tokens - c)));
  V most = set(-__builtin_inff());
  for (int c = 0; c < whole; c += kLanes) most = max(most, load(scores + c));
  if (whole < tokens) most = max(most, keep(load(scores + whole), tokens - whole, -__builtin_inff()));
  const V by = set(bias ? kLog2e : scale * kLog2e);
  const V below = mul(set(-highest(most)), by);
  const auto weight = [&](int c) { return exp2<terms>(fma(load(scores + c), by, below)); };
  V total = zero();
  for (int c = 0; c < whole; c += kLanes) {
    const V e = weight(c);
    total = add(total, e);
    put(weights + Tile::place(padded, i, c), e);
  }
  for (int c = whole; c < padded; c += kLanes) {
    const V e = c < tokens ? keep(weight(c), tokens - c, 0.0f) : zero();
    total = add(total, e);
    put(weights + Tile::place(padded, i, c), e);
  }
  return 1.0f / sum(total);
}

constexpr float kFar = -1e30f;  // score of a key outside the window; its weight underflows to 0

// Compute softmax(queries · keysᵀ · scale + relative) · values for one head. The result is passed to
// put_result(row, column, vector), kLanes numbers at a time.
template <class Tile, class Put>
inline void attend(const Head<typename Tile::Row>& head, char* scratch, Put&& put_result) {
  check_tile<Tile>();
  using Row = typename Tile::Row;
  static_assert(std::is_same_v<Row, typename Tile::Weight>, "both operands are activations");
  static_assert(Tile::kFewRows <= Tile::kRows);
  const int tokens = head.tokens, width = head.width, padded = round_up(tokens, kPanel);
  Arena arena(scratch);
  const AttentionScratch<Tile> s(arena, width, tokens);
  pack_keys<Tile>(head, padded, s.keys);
  pack_values<Tile>(head, padded, s.values);
  const Row* queries = head.queries;
  ptrdiff_t stride = head.stride;
  if constexpr (Tile::kPaired) {
    for (int t = 0; t < tokens; ++t)
      for (int c = 0; c < width; c += kLanes)
        std::memcpy(s.queries + Tile::place(width, t, c), queries + t * stride + c, kLanes * sizeof(Row));
    queries = s.queries;
    stride = width;
  }
  const int height = tile_height<Tile>(tokens, Tile::kFewRows);
  alignas(kAlignment) float sums[Tile::kFewRows * kPanel];
  for (int r = 0; r < head.query_count; r += height) {
    const int m = at_most(height, head.query_count - r);
    // These panels of keys, from token `first` to `last`, cover the windows of the m queries.
    const int first = head.window ? at_least(0, r - head.window) / kPanel * kPanel : 0;
    const int last = head.window ? at_most(padded, round_up(r + m + head.window, kPanel)) : padded;
    const int span = last - first, valid = at_most(last, tokens) - first;
    for (int t = first; t < last; t += kPanel)
      Tile::run(queries + r * stride, stride, m, 1, s.keys + size_t(t) * width, width, s.scores + t - first, span,
                nothing_behind(s.keys));
    float inverse[Tile::kFewRows];
    for (int i = 0; i < m; ++i) {
      float* scores = s.scores + size_t(i) * span;
      if (head.window) {
        for (int c = 0; c < r + i - head.window - first; ++c) scores[c] = kFar;
        for (int c = r + i + head.window + 1 - first; c < valid; ++c) scores[c] = kFar;
      }
      const float* bias = head.relative ? head.relative + size_t(r + i) * head.max_length : nullptr;
      inverse[i] = exponentials<Tile>(scores, valid, span, head.scale, bias, s.weights, i);
    }
    for (int c = 0; c < width; c += kPanel) {
      Tile::run(s.weights, span, m, 1, s.values + size_t(c) * padded + size_t(first) * kPanel, span, sums, kPanel,
                nothing_behind(s.values));
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < kPanel; j += kLanes)
          put_result(r + i, c + j, mul(load(sums + i * kPanel + j), set(inverse[i])));
    }
  }
}

}  // namespace
