// A BERT-family encoder for processors with AVX512_BF16 and AVX512_VNNI: one call embeds a batch of token rows.
//
// Rows are concatenated without padding. A team of threads shares one group of rows: in latency mode the whole pool is
// one team and splits columns, in bulk mode every thread is a team of its own and takes groups from a queue.
// Weights arrive packed (see packing.py): panels of 32 columns, bf16 pairs or int8 quads of consecutive k interleaved,
// which is the operand layout of vdpbf16ps and vpdpbusd.

#include <mutex>
#include <vector>

#include "attention.h"
#include "product.h"
#include "team.h"

extern "C" struct pl_shape {
  int32_t hidden, layers, heads, intermediate, first_position, max_length, pooling, normalize, quantised;
  float eps;
};

namespace {

struct Layer {
  Linear qkv, out, up, down;
  const float *norm1_weight, *norm1_bias, *norm2_weight, *norm2_bias;
};

struct Buffers {
  std::vector<char> memory;
  float *x, *y;             // residual stream, and a product before its norm: [rows][hidden]
  bf16 *qkv;                // [rows][3 hidden]
  Operand narrow, wide;     // inputs of products over hidden and over intermediate columns
  float* wide_float;        // [rows][intermediate], int8 only
};

struct Model {
  pl_shape shape;
  const bf16* words;        // [vocabulary][hidden]
  const float* positions;   // [positions][hidden], token type 0 added
  const float *norm_weight, *norm_bias;
  const float* relative;    // [heads][max_length][max_length] or null
  std::vector<Layer> layers;
};

// The vector of one text, from the states x [length][hidden] of its tokens.
void pool(const pl_shape& s, const float* x, int length, float* y) {
  const int d = s.hidden;
  if (length == 0) {  // a tokenizer without special tokens makes nothing of an empty text
    std::fill(y, y + d, 0.0f);
    return;
  }
  __m512 squares = _mm512_setzero_ps();
  for (int c = 0; c < d; c += 16) {
    __m512 v = _mm512_loadu_ps(x + c);
    for (int r = 1; r < length && s.pooling != 1; ++r) {
      const __m512 next = _mm512_loadu_ps(x + size_t(r) * d + c);
      v = s.pooling == 0 ? _mm512_add_ps(v, next) : _mm512_max_ps(v, next);
    }
    if (s.pooling == 0) v = _mm512_div_ps(v, _mm512_set1_ps(float(length)));
    _mm512_storeu_ps(y + c, v);
    squares = _mm512_fmadd_ps(v, v, squares);
  }
  if (!s.normalize) return;
  const __m512 inverse = _mm512_set1_ps(1.0f / std::max(std::sqrt(_mm512_reduce_add_ps(squares)), 1e-12f));
  for (int c = 0; c < d; c += 16) _mm512_storeu_ps(y + c, _mm512_mul_ps(_mm512_loadu_ps(y + c), inverse));
}

// Embed a group of token rows; offsets [n + 1] are their bounds in ids. `scratch` has one place a thread of the team.
void encode_group(const Model& model, const int32_t* ids, const int32_t* offsets, int n, float* out, Team& team,
                  Buffers& b, Scratch* scratch) {
  const pl_shape& s = model.shape;
  const int d = s.hidden, f = s.intermediate, rows = offsets[n] - offsets[0];
  const int width = d / s.heads;
  const float scale = 1.0f / std::sqrt(float(width));
  const auto each = [&](int total, auto&& body) { team.each(total, std::min(total, 4 * team.size()), body); };
  const auto norm = [&](const float* weight, const float* bias) {
    each(rows, [&](int, int r0, int r1) {
      for (int r = r0; r < r1; ++r)
        layer_norm(b.y + size_t(r) * d, d, s.eps, weight, bias, b.x + size_t(r) * d, b.narrow, r);
    });
  };
  const auto product = [&](const Operand& from, const Linear& layer, auto&& store) {
    each(layer.n / kPanel, [&](int, int p0, int p1) { linear(from, rows, layer, p0, p1, store); });
  };
  const auto add_residual = [&](int r, int c, __m512 y0, __m512 y1) {
    const size_t at = size_t(r) * d + c;
    _mm512_storeu_ps(b.y + at, _mm512_add_ps(y0, _mm512_loadu_ps(b.x + at)));
    _mm512_storeu_ps(b.y + at + 16, _mm512_add_ps(y1, _mm512_loadu_ps(b.x + at + 16)));
  };

  each(n, [&](int, int t0, int t1) {
    for (int t = t0; t < t1; ++t)
      for (int i = offsets[t]; i < offsets[t + 1]; ++i) {
        const bf16* word = model.words + size_t(ids[i]) * d;
        const float* position = model.positions + size_t(s.first_position + i - offsets[t]) * d;
        float* y = b.y + size_t(i - offsets[0]) * d;
        for (int c = 0; c < d; c += 16)
          _mm512_storeu_ps(y + c, _mm512_add_ps(from_bf16(_mm256_loadu_si256((const __m256i*)(word + c))),
                                                _mm512_loadu_ps(position + c)));
      }
  });
  norm(model.norm_weight, model.norm_bias);
  for (const Layer& layer : model.layers) {
    product(b.narrow, layer.qkv, [&](int r, int c, __m512 y0, __m512 y1) {
      bf16* to = b.qkv + size_t(r) * 3 * d + c;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), to_bf16(y0));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 16), to_bf16(y1));
    });
    each(n * s.heads, [&](int rank, int h0, int h1) {
      for (int i = h0; i < h1; ++i) {
        const int t = i / s.heads, head = i % s.heads, start = offsets[t] - offsets[0];
        attend(b.qkv + size_t(start) * 3 * d, offsets[t + 1] - offsets[t], d, head, width, scale, model.relative,
               s.max_length, scratch[rank], s.quantised ? b.y + size_t(start) * d : nullptr,
               s.quantised ? nullptr : b.narrow.half + size_t(start) * d);
      }
    });
    if (s.quantised)
      each(rows, [&](int, int r0, int r1) {
        for (int r = r0; r < r1; ++r) quantise(b.y + size_t(r) * d, d, b.narrow, r);
      });
    product(b.narrow, layer.out, add_residual);
    norm(layer.norm1_weight, layer.norm1_bias);
    product(b.narrow, layer.up, [&](int r, int c, __m512 y0, __m512 y1) {
      const size_t at = size_t(r) * f + c;
      y0 = gelu(y0);
      y1 = gelu(y1);
      if (s.quantised) {
        _mm512_storeu_ps(b.wide_float + at, y0);
        _mm512_storeu_ps(b.wide_float + at + 16, y1);
      } else {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(b.wide.half + at), to_bf16(y0));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(b.wide.half + at + 16), to_bf16(y1));
      }
    });
    if (s.quantised)
      each(rows, [&](int, int r0, int r1) {
        for (int r = r0; r < r1; ++r) quantise(b.wide_float + size_t(r) * f, f, b.wide, r);
      });
    product(b.wide, layer.down, add_residual);
    norm(layer.norm2_weight, layer.norm2_bias);
  }
  for (int t = 0; t < n; ++t)
    pool(s, b.x + size_t(offsets[t] - offsets[0]) * d, offsets[t + 1] - offsets[t], out + size_t(t) * d);
}

void reserve(Buffers& b, const pl_shape& s, int rows) {
  const size_t d = s.hidden, f = s.intermediate, n = rows;
  size_t sizes[] = {n * d * 4, n * d * 4, n * 3 * d * 2, n * d * 2, n * f * 2, s.quantised ? n * f * 4 : 0, n * 4, n * 4, n * 4, n * 4};
  size_t total = 64;
  for (size_t size : sizes) total += size + 64;
  if (b.memory.size() < total) b.memory.resize(total);
  char* p = b.memory.data();
  const auto take = [&](size_t size) { char* at = align(p); p = at + size; return at; };
  b.x = (float*)take(sizes[0]);
  b.y = (float*)take(sizes[1]);
  b.qkv = (bf16*)take(sizes[2]);
  char* narrow = take(sizes[3]);
  char* wide = take(sizes[4]);
  b.wide_float = (float*)take(sizes[5]);
  float* scales[4];
  for (int i = 0; i < 4; ++i) scales[i] = (float*)take(sizes[6 + i]);
  b.narrow = s.quantised ? Operand{nullptr, (uint8_t*)narrow, scales[0], scales[1]} : Operand{(bf16*)narrow};
  b.wide = s.quantised ? Operand{nullptr, (uint8_t*)wide, scales[2], scales[3]} : Operand{(bf16*)wide};
}

// A model and the threads that run it. Calls from several threads are taken one after the other.
struct Engine {
  Model model;
  Team team, alone{1};
  std::mutex entry;
  Buffers shared;
  std::vector<Buffers> own;
  std::vector<Scratch> scratch;

  explicit Engine(int threads) : team(threads), own(threads), scratch(threads) {}
};

constexpr int kGroupRows = 256;  // tokens a bulk group: its activations stay in the second-level cache

}  // namespace

extern "C" {

// `tensors`: words, positions, norm weight, norm bias, relative or null, then for each layer qkv, out, up, down as
// (weight, bias, scale, column) and norm1 weight, norm1 bias, norm2 weight, norm2 bias.
void* pl_create(const pl_shape* shape, const void* const* tensors, int threads) {
  auto* e = new Engine(threads);
  e->model.shape = *shape;
  const void* const* t = tensors;
  e->model.words = (const bf16*)*t++;
  e->model.positions = (const float*)*t++;
  e->model.norm_weight = (const float*)*t++;
  e->model.norm_bias = (const float*)*t++;
  e->model.relative = (const float*)*t++;
  const int d = shape->hidden, f = shape->intermediate;
  const auto linear = [&](int k, int n) {
    Linear l{t[0], (const float*)t[1], (const float*)t[2], (const float*)t[3], k, n};
    t += 4;
    return l;
  };
  for (int i = 0; i < shape->layers; ++i) {
    Layer l;
    l.qkv = linear(d, 3 * d);
    l.out = linear(d, d);
    l.up = linear(d, f);
    l.down = linear(f, d);
    l.norm1_weight = (const float*)*t++;
    l.norm1_bias = (const float*)*t++;
    l.norm2_weight = (const float*)*t++;
    l.norm2_bias = (const float*)*t++;
    e->model.layers.push_back(l);
  }
  return e;
}

// Embed texts: ids of all of them in a row, offsets [texts + 1], out [texts][hidden].
void pl_encode(void* engine, const int32_t* ids, const int32_t* offsets, int32_t texts, float* out) {
  auto* e = static_cast<Engine*>(engine);
  std::lock_guard<std::mutex> lock(e->entry);
  const int d = e->model.shape.hidden, threads = e->team.size();
  std::vector<int> groups{0};  // bounds, in texts
  for (int t = 0; t < texts; ++t)
    if (t + 1 == texts || offsets[t + 2] - offsets[groups.back()] > kGroupRows) groups.push_back(t + 1);
  const int count = int(groups.size()) - 1;
  // Few groups would leave threads idle: then all of them work on one, together.
  if (count < 2 * threads && offsets[texts] <= 2 * kGroupRows * threads) {
    reserve(e->shared, e->model.shape, offsets[texts]);
    encode_group(e->model, ids, offsets, texts, out, e->team, e->shared, e->scratch.data());
    return;
  }
  e->team.each(count, count, [&](int rank, int g0, int g1) {
    for (int g = g0; g < g1; ++g) {
      const int t0 = groups[g], t1 = groups[g + 1];
      reserve(e->own[rank], e->model.shape, offsets[t1] - offsets[t0]);
      encode_group(e->model, ids, offsets + t0, t1 - t0, out + size_t(t0) * d, e->alone, e->own[rank], &e->scratch[rank]);
    }
  });
}

void pl_destroy(void* engine) { delete static_cast<Engine*>(engine); }
}
