// Encoders of BERT's family and ModernBERT, generic over the tiles and vectors of an instruction set. Each isa_*.cpp
// includes this file and names its tiles:
//   Fp32Product, Bf16Product, Int8Product   for the linear layers
//   RoundedAttention                        for attention in precisions other than fp32
//
// The tokens of all texts are concatenated without padding; a row is the vector of one token. Everything here has
// internal linkage. Otherwise the linker would keep only one copy of a function, compiled for any instruction set.

#pragma once

#include "attention.h"
#include "steps.h"

namespace {

// Return the number of ranges into which a team divides a loop. If possible, all ranges have the same length and all
// threads get the same number of ranges, because an uneven division makes two threads 14 % slower.
inline int even_ranges(int total, int threads) {
  constexpr int kRangesPerThread = 6;
  for (int ranges = kRangesPerThread * threads; ranges > 0; ranges -= threads)
    if (total >= ranges && total % ranges == 0) return ranges;
  return at_most(total, 4 * threads);
}

// Activations of the tokens of a group. Products and attention may use tiles with different row types.
template <class Product, class HeadRow>
struct Activations {
  float *x, *y;                   // residual stream, and input of a norm: [rows][hidden] each
  HeadRow* qkv;                   // [rows][3 hidden]
  float* unrotated;               // [rows][2 hidden]: queries and keys before rotation; none if qkv is float
  float* wide_float;              // [rows][intermediate], int8 only
  Operand<Product> narrow, wide;  // inputs of products over hidden and over intermediate columns
  Vectors vectors;

  Activations(Arena& arena, const Model& m, int rows, int texts)  // rounds `rows` up for tiles with paired rows
      : Activations(arena, m, size_t(round_up(rows, 2)), m.shape.hidden, m.shape.intermediate, texts) {}

 private:
  Activations(Arena& arena, const Model& m, size_t n, size_t d, size_t f, int texts)
      : x(arena.take<float>(n * d)),
        y(arena.take<float>(n * d)),
        qkv(arena.take<HeadRow>(n * 3 * d)),
        unrotated(arena.take<float>(m.shape.global_every && !std::is_same_v<HeadRow, float> ? n * 2 * d : 0)),
        wide_float(arena.take<float>(kIsInt8<Product> ? n * f : 0)),
        narrow(arena, n, d),
        wide(arena, n, f),
        vectors(arena, m, texts) {}
};

template <class Product, class Attention>
struct Encoder {
  using HeadRow = typename Attention::Row;
  using Buffers = Activations<Product, HeadRow>;
  using Scratch = AttentionScratch<Attention>;
  static constexpr bool kQuantised = kIsInt8<Product>;
  static constexpr bool kExact = kIsFp32<Product>;

  static size_t activation_bytes(const Model& m, int rows, int texts) { return bytes_of<Buffers>(m, rows, texts); }
  static size_t scratch_bytes(const pl_shape& s, int tokens) { return bytes_of<Scratch>(s.hidden / s.heads, tokens); }

  static void encode(const Model& model, const Group& group, Team& team, char* activations, char* const* scratch) {
    const pl_shape& s = model.shape;
    const int d = s.hidden, f = s.intermediate, n = group.texts, width = d / s.heads;
    const int32_t *ids = group.ids, *offsets = group.offsets;
    int rows = offsets[n] - offsets[0];  // rows of the current layer
    // Whether the last layer computes only the first token of each text. The other tokens are only keys and values.
    bool first_only = pools_first_only(model) && !group.states;
    for (int t = 0; t < n; ++t) first_only &= offsets[t + 1] > offsets[t];
    const float scale = 1.0f / __builtin_sqrtf(float(width));
    Arena arena(activations);
    const Buffers b(arena, model, rows, n);
    const auto each = [&](int total, auto&& body) { team.each(total, even_ranges(total, team.size()), body); };
    const auto norm = [&](const float* from, float* to, const float* weight, const float* bias) {
      each(rows, [&](int, int r0, int r1) {
        for (int r = r0; r < r1; ++r)
          layer_norm(from + size_t(r) * d, d, s.eps, weight, bias, to + size_t(r) * d, b.narrow, r);
      });
    };
    const auto product = [&](const Operand<Product>& from, const Linear& layer, auto&& store_result) {
      constexpr int step = Product::kPanels;
      const int panels = layer.n / kPanel;
      each((panels + step - 1) / step, [&](int, int p0, int p1) {
        linear(from, rows, layer, p0 * step, at_most(p1 * step, panels), store_result);
      });
    };
    const auto add_residual = [&](int r, int c, V y) {  // for BERT, whose norms follow the products
      const size_t at = size_t(r) * d + c;
      store(b.y + at, add(y, load(b.x + at)));
    };
    const auto add_to_stream = [&](int r, int c, V y) {  // for ModernBERT, whose norms precede the products
      const size_t at = size_t(r) * d + c;
      store(b.x + at, add(y, load(b.x + at)));
    };
    const auto quantise_rows = [&](const float* from, int columns, const Operand<Product>& to) {
      if constexpr (kQuantised)
        each(rows, [&](int, int r0, int r1) {
          for (int r = r0; r < r1; ++r) quantise(from + size_t(r) * columns, columns, to, r);
        });
    };

    const auto keep_first = [&] {
      for (int t = 0; t < n; ++t)
        std::memmove(b.x + size_t(t) * d, b.x + size_t(offsets[t] - offsets[0]) * d, d * sizeof *b.x);
      rows = n;
    };
    const auto attention = [&](const Layer& layer) {
      const bool first = first_only && &layer == model.layers + s.layers - 1;
      if (first) keep_first();
      each(n * s.heads, [&](int rank, int h0, int h1) {
        for (int h = h0; h < h1; ++h) {
          const int t = h / s.heads, column = h % s.heads * width;
          const int start = offsets[t] - offsets[0], length = offsets[t + 1] - offsets[t];
          HeadRow* q = b.qkv + size_t(start) * 3 * d + column;
          for (int key = 0; key < 2 && layer.angles; ++key) {
            if constexpr (std::is_same_v<HeadRow, float>)
              turn(q + key * d, 3 * d, q + key * d, 3 * d, length, width, layer.angles);
            else
              turn(b.unrotated + size_t(start) * 2 * d + key * d + column, 2 * d, q + key * d, 3 * d, length, width,
                   layer.angles);
          }
          const size_t area = size_t(s.max_length) * s.max_length;
          const float* relative = model.relative ? model.relative + h % s.heads * area : nullptr;
          const int query_count = first ? 1 : length, to = first ? t : start;
          const Head<HeadRow> head{q,           q + d, q + 2 * d, 3 * d,        length,      width,
                                   query_count, scale, relative,  s.max_length, layer.window};
          attend<Attention>(head, scratch[rank], [&](int r, int c, V y) {
            if constexpr (kQuantised)
              store(b.y + size_t(to + r) * d + column + c, y);
            else
              put(b.narrow.place(d, to + r, column + c), y);
          });
        }
      });
      quantise_rows(b.y, d, b.narrow);
    };

    each(rows, [&](int, int r0, int r1) {
      for (int r = r0, t = 0; r < r1; ++r) {
        while (offsets[t + 1] - offsets[0] <= r) ++t;
        add_embeddings(model, ids[offsets[0] + r], offsets[0] + r - offsets[t], b.y + size_t(r) * d);
      }
    });
    norm(b.y, b.x, model.norm_weight, model.norm_bias);
    const auto widen = [&](int r, int c, V y) {
      if constexpr (kQuantised)
        store(b.wide_float + size_t(r) * f + c, y);
      else
        put(b.wide.place(f, r, c), y);
    };
    constexpr int kTerms = kExact ? 7 : 5;
    const auto gaussian = [](V y) { return gelu<std::conditional_t<kExact, ExactErf, RoundedErf>>(y); };
    const auto gated = [&](const Linear& layer, auto&& activation) {
      each(f / kPanel, [&](int, int p0, int p1) {
        gated_linear(b.narrow, rows, layer, p0, p1,
                     [&](int r, int c, V y, V gate) { widen(r, c, mul(activation(y), gate)); });
      });
    };
    for (int i = 0; i < s.layers && s.global_every; ++i) {
      const Layer& layer = model.layers[i];
      if (layer.norm1_weight) norm(b.x, b.y, layer.norm1_weight, layer.norm1_bias);
      product(b.narrow, layer.qkv, [&](int r, int c, V y) {
        if (!std::is_same_v<HeadRow, float> && c < 2 * d)
          store(b.unrotated + size_t(r) * 2 * d + c, y);  // rounded only after rotation
        else
          put(b.qkv + size_t(r) * 3 * d + c, y);
      });
      attention(layer);
      product(b.narrow, layer.out, add_to_stream);
      norm(b.x, b.y, layer.norm2_weight, layer.norm2_bias);
      if (s.activation == Activation::kSilu)
        gated(layer.up, [](V y) { return silu<kTerms>(y); });
      else
        gated(layer.up, gaussian);
      quantise_rows(b.wide_float, f, b.wide);
      product(b.wide, layer.down, add_to_stream);
    }
    if (s.global_every) norm(b.x, b.x, model.final_weight, model.final_bias);
    for (int i = 0; i < s.layers && !s.global_every; ++i) {
      const Layer& layer = model.layers[i];
      product(b.narrow, layer.qkv, [&](int r, int c, V y) { put(b.qkv + size_t(r) * 3 * d + c, y); });
      attention(layer);
      product(b.narrow, layer.out, add_residual);
      norm(b.y, b.x, layer.norm1_weight, layer.norm1_bias);
      product(b.narrow, layer.up, [&](int r, int c, V y) { widen(r, c, gaussian(y)); });
      quantise_rows(b.wide_float, f, b.wide);
      product(b.wide, layer.down, add_residual);
      norm(b.y, b.x, layer.norm2_weight, layer.norm2_bias);
    }
    if (group.states) std::memcpy(group.states, b.x, size_t(rows) * d * sizeof(float));
    embed(model, group, b.x, first_only, b.vectors, each);
  }

  // Write the sum of a token's word, position and type embeddings to y.
  static void add_embeddings(const Model& model, int id, int place, float* y) {
    const pl_shape& s = model.shape;
    const int type = id / s.vocabulary, token = id % s.vocabulary;
    const size_t row = size_t(type) * (s.first_position + s.max_length) + s.first_position + place;
    const float* position = model.positions ? model.positions + row * s.hidden : nullptr;
    for (int c = 0; c < s.hidden; c += kLanes) {
      const size_t at = size_t(token) * s.hidden + c;
      const V word = kExact ? load((const float*)model.words + at) : load_half((const uint16_t*)model.words + at);
      store(y + c, position ? add(word, load(position + c)) : word);
    }
  }
};

// Every instruction set of an architecture reads the same packed weights.
template <class Product, Precision precision>
constexpr bool kReadsPanels = Product::kInterleave == kInterleaves[int(precision)];
static_assert(kReadsPanels<Fp32Product, Precision::kFp32> && kReadsPanels<Bf16Product, Precision::kBf16>);
static_assert(kReadsPanels<Int8Product, Precision::kInt8> || !kIsInt8<Int8Product>);
static_assert(kPanel % (2 * kLanes) == 0, "two vectors of columns are processed together");

template <class Call>
auto with_precision(const pl_shape& s, Call&& call) {
  switch (s.precision) {
    case Precision::kFp32: return call(Encoder<Fp32Product, Fp32Product>());
    case Precision::kBf16: return call(Encoder<Bf16Product, RoundedAttention>());
    case Precision::kInt8: break;
  }
  return call(Encoder<Int8Product, RoundedAttention>());
}

size_t activation_bytes(const Model& m, int rows, int texts) {
  return with_precision(m.shape, [&](auto encoder) { return encoder.activation_bytes(m, rows, texts); });
}

size_t scratch_bytes(const pl_shape& s, int tokens) {
  return with_precision(s, [&](auto encoder) { return encoder.scratch_bytes(s, tokens); });
}

void encode(const Model& model, const Group& group, Team& team, char* activations, char* const* scratch) {
  with_precision(model.shape, [&](auto encoder) { encoder.encode(model, group, team, activations, scratch); });
}

#ifndef PL_TILE_STATE
void enter(TileState*) {}
void leave(const TileState*) {}
#endif

}  // namespace

#define PL_KERNELS(isa)               \
  extern const Kernels kernels_##isa; \
  const Kernels kernels_##isa = {#isa, activation_bytes, scratch_bytes, encode, enter, leave};
