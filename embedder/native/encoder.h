// A BERT-family encoder, written once over the tiles and vectors of an instruction set. Included by isa_*.cpp, which
// name the tile of each precision:
//   Fp32Product, Bf16Product, Int8Product   of the linear layers
//   RoundedAttention                        of attention where the precision is not fp32
//
// Rows are concatenated without padding. Everything here has internal linkage: what the linker would share between
// instruction sets would be taken from any of them.

#pragma once

#include "attention.h"
#include "product.h"

namespace {

template <class Product, class Attention>
struct Encoder {
  using Head = typename Attention::Row;
  static constexpr bool kQuantised = sizeof(typename Product::Weight) == 1;
  static constexpr bool kExact = sizeof(typename Product::Weight) == 4;

  // Activations of a group of rows.
  struct Buffers {
    float *x, *y;          // residual stream, and a product before its norm: [rows][hidden]
    Head* qkv;             // [rows][3 hidden]
    float* wide_float;     // [rows][intermediate], int8 only
    Operand<Product> narrow, wide;  // inputs of products over hidden and over intermediate columns
    size_t bytes;

    Buffers(char* memory, const pl_shape& s, int rows) {
      char* at = memory;
      const auto take = [&](size_t size) {
        char* here = at;
        at += (size + 63) & ~size_t(63);
        return here;
      };
      const size_t n = round_up(rows, 2), d = s.hidden, f = s.intermediate;
      x = (float*)take(n * d * 4);
      y = (float*)take(n * d * 4);
      qkv = (Head*)take(n * 3 * d * sizeof(Head));
      wide_float = (float*)take(kQuantised ? n * f * 4 : 0);
      narrow.at = (typename Product::Row*)take(n * d * sizeof(typename Product::Row));
      wide.at = (typename Product::Row*)take(n * f * sizeof(typename Product::Row));
      narrow.scale = (float*)take(n * 4);
      narrow.zero = (float*)take(n * 4);
      wide.scale = (float*)take(n * 4);
      wide.zero = (float*)take(n * 4);
      bytes = at - memory;
    }
  };

  static size_t memory(const pl_shape& s, int rows) { return Buffers(nullptr, s, rows).bytes; }
  static size_t scratch(const pl_shape& s, int longest) {
    return AttentionScratch<Attention>::bytes(s.hidden / s.heads, longest);
  }

  static void encode(const Model& model, const Group& group, Team& team, char* memory, char* const* scratch) {
    const pl_shape& s = model.shape;
    const int d = s.hidden, f = s.intermediate, n = group.texts, width = d / s.heads;
    const int32_t *ids = group.ids, *offsets = group.offsets;
    const int rows = offsets[n] - offsets[0];
    const float scale = 1.0f / __builtin_sqrtf(float(width));
    const Buffers b(memory, s, rows);
    const auto each = [&](int total, auto&& body) { team.each(total, at_most(total, 4 * team.size()), body); };
    const auto norm = [&](const float* weight, const float* bias) {
      each(rows, [&](int, int r0, int r1) {
        for (int r = r0; r < r1; ++r)
          layer_norm(b.y + size_t(r) * d, d, s.eps, weight, bias, b.x + size_t(r) * d, b.narrow, r);
      });
    };
    const auto product = [&](const Operand<Product>& from, const Linear& layer, auto&& store_result) {
      constexpr int step = Product::kPanels;
      const int panels = layer.n / kPanel;
      each((panels + step - 1) / step, [&](int, int p0, int p1) {
        linear(from, rows, layer, p0 * step, at_most(p1 * step, panels), store_result);
      });
    };
    const auto add_residual = [&](int r, int c, V y) {
      const size_t at = size_t(r) * d + c;
      store(b.y + at, add(y, load(b.x + at)));
    };
    const auto quantise_rows = [&](const float* from, int columns, const Operand<Product>& to) {
      if constexpr (kQuantised)
        each(rows, [&](int, int r0, int r1) {
          for (int r = r0; r < r1; ++r) quantise(from + size_t(r) * columns, columns, to, r);
        });
    };

    each(n, [&](int, int t0, int t1) {
      for (int t = t0; t < t1; ++t)
        for (int i = offsets[t]; i < offsets[t + 1]; ++i)
          add_embeddings(model, ids[i], i - offsets[t], b.y + size_t(i - offsets[0]) * d);
    });
    norm(model.norm_weight, model.norm_bias);
    for (int i = 0; i < s.layers; ++i) {
      const Layer& layer = model.layers[i];
      product(b.narrow, layer.qkv, [&](int r, int c, V y) { put(b.qkv + size_t(r) * 3 * d + c, y); });
      each(n * s.heads, [&](int rank, int h0, int h1) {
        for (int h = h0; h < h1; ++h) {
          const int t = h / s.heads, head = h % s.heads, start = offsets[t] - offsets[0];
          const float* relative = model.relative ? model.relative + size_t(head) * s.max_length * s.max_length : nullptr;
          attend<Attention>(b.qkv + size_t(start) * 3 * d + head * width, 3 * d, d, offsets[t + 1] - offsets[t], width, scale,
                            relative, s.max_length, scratch[rank], [&](int r, int c, V y) {
                              if constexpr (kQuantised)
                                store(b.y + size_t(start + r) * d + head * width + c, y);
                              else
                                put(b.narrow.place(d, start + r, head * width + c), y);
                            });
        }
      });
      quantise_rows(b.y, d, b.narrow);
      product(b.narrow, layer.out, add_residual);
      norm(layer.norm1_weight, layer.norm1_bias);
      product(b.narrow, layer.up, [&](int r, int c, V y) {
        y = gelu<std::conditional_t<kExact, ExactErf, RoundedErf>>(y);
        if constexpr (kQuantised)
          store(b.wide_float + size_t(r) * f + c, y);
        else
          put(b.wide.place(f, r, c), y);
      });
      quantise_rows(b.wide_float, f, b.wide);
      product(b.wide, layer.down, add_residual);
      norm(layer.norm2_weight, layer.norm2_bias);
    }
    for (int t = 0; t < n; ++t)
      pool(s, b.x + size_t(offsets[t] - offsets[0]) * d, offsets[t + 1] - offsets[t], group.vectors + size_t(t) * d);
  }

  // Word and position of one token.
  static void add_embeddings(const Model& model, int id, int place, float* y) {
    const pl_shape& s = model.shape;
    const float* position = model.positions + size_t(s.first_position + place) * s.hidden;
    for (int c = 0; c < s.hidden; c += kLanes) {
      const size_t at = size_t(id) * s.hidden + c;
      const V word = kExact ? load((const float*)model.words + at) : load_half((const uint16_t*)model.words + at);
      store(y + c, add(word, load(position + c)));
    }
  }

  // The vector of one text, from the states x [length][hidden] of its tokens.
  static void pool(const pl_shape& s, const float* x, int length, float* y) {
    const int d = s.hidden;
    V squares = zero();
    for (int c = 0; c < d; c += kLanes) {
      V v = length ? load(x + c) : zero();  // a tokenizer without special tokens makes nothing of an empty text
      for (int r = 1; r < length && s.pooling != kCls; ++r) {
        const V next = load(x + size_t(r) * d + c);
        v = s.pooling == kMean ? add(v, next) : max(v, next);
      }
      if (s.pooling == kMean && length) v = div(v, set(float(length)));
      store(y + c, v);
      squares = fma(v, v, squares);
    }
    if (!s.normalize || !length) return;
    const float norm = __builtin_sqrtf(sum(squares));
    const V inverse = set(1.0f / (norm > 1e-12f ? norm : 1e-12f));
    for (int c = 0; c < d; c += kLanes) store(y + c, mul(load(y + c), inverse));
  }
};

template <class Call>
auto with_precision(const pl_shape& s, Call&& call) {
  if (s.precision == kFp32) return call(Encoder<Fp32Product, Fp32Product>());
  if (s.precision == kBf16) return call(Encoder<Bf16Product, RoundedAttention>());
  return call(Encoder<Int8Product, RoundedAttention>());
}

size_t memory(const pl_shape& s, int rows) {
  return with_precision(s, [&](auto encoder) { return encoder.memory(s, rows); });
}

size_t scratch(const pl_shape& s, int longest) {
  return with_precision(s, [&](auto encoder) { return encoder.scratch(s, longest); });
}

void encode(const Model& model, const Group& group, Team& team, char* memory, char* const* scratch) {
  with_precision(model.shape, [&](auto encoder) { encoder.encode(model, group, team, memory, scratch); });
}

#ifndef PL_TILE_STATE
void enter(void*) {}
void leave(const void*) {}
#endif

}  // namespace

#define PL_KERNELS(isa) extern const Kernels kernels_##isa; const Kernels kernels_##isa = {#isa, memory, scratch, encode, enter, leave};
