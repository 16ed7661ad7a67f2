// A BERT-family encoder for processors with AVX512_BF16 and AVX512_VNNI: one call embeds a batch of token rows.
//
// Rows are concatenated without padding. A team of threads shares one group of rows: in latency mode the whole pool is
// one team and splits columns, in bulk mode every thread is a team of its own and takes groups from a queue.
// Weights arrive packed (see packing.py): panels of 32 columns, bf16 pairs or int8 quads of consecutive k interleaved,
// which is the operand layout of vdpbf16ps and vpdpbusd.

#include <condition_variable>
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

// Embed a group of token rows; offsets [n + 1] are their bounds in ids.
void encode_group(const Model& model, const int32_t* ids, const int32_t* offsets, int n, float* out, const Team& team,
                  Buffers& b, Scratch& scratch) {
  const pl_shape& s = model.shape;
  const int d = s.hidden, f = s.intermediate, rows = offsets[n] - offsets[0];
  const int width = d / s.heads;
  const float scale = 1.0f / std::sqrt(float(width));
  {
    const auto [r0, r1] = team.share(rows);
    for (int t = 0, r = 0; t < n; ++t)
      for (int i = offsets[t]; i < offsets[t + 1]; ++i, ++r) {
        if (r < r0 || r >= r1) continue;
        const bf16* word = model.words + size_t(ids[i]) * d;
        const float* position = model.positions + size_t(s.first_position + i - offsets[t]) * d;
        float* y = b.y + size_t(r) * d;
        for (int c = 0; c < d; c += 16)
          _mm512_storeu_ps(y + c, _mm512_add_ps(from_bf16(_mm256_loadu_si256((const __m256i*)(word + c))),
                                                _mm512_loadu_ps(position + c)));
        layer_norm(y, d, s.eps, model.norm_weight, model.norm_bias, b.x + size_t(r) * d, b.narrow, r);
      }
  }
  team.sync();
  for (const Layer& layer : model.layers) {
    {
      const auto [p0, p1] = team.share(3 * d / kPanel);
      linear(b.narrow, rows, layer.qkv, p0, p1, [&](int r, int c, __m512 y0, __m512 y1) {
        bf16* to = b.qkv + size_t(r) * 3 * d + c;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), to_bf16(y0));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 16), to_bf16(y1));
      });
    }
    team.sync();
    {
      const auto [h0, h1] = team.share(n * s.heads);
      for (int i = h0; i < h1; ++i) {
        const int t = i / s.heads, head = i % s.heads, start = offsets[t] - offsets[0];
        attend(b.qkv + size_t(start) * 3 * d, offsets[t + 1] - offsets[t], d, head, width, scale, model.relative,
               s.max_length, scratch, s.quantised ? b.y + size_t(start) * d : nullptr,
               s.quantised ? nullptr : b.narrow.half + size_t(start) * d);
      }
    }
    team.sync();
    const auto [r0, r1] = team.share(rows);
    if (s.quantised) {
      for (int r = r0; r < r1; ++r) quantise(b.y + size_t(r) * d, d, b.narrow, r);
      team.sync();
    }
    const auto add_residual = [&](int r, int c, __m512 y0, __m512 y1) {
      const size_t at = size_t(r) * d + c;
      _mm512_storeu_ps(b.y + at, _mm512_add_ps(y0, _mm512_loadu_ps(b.x + at)));
      _mm512_storeu_ps(b.y + at + 16, _mm512_add_ps(y1, _mm512_loadu_ps(b.x + at + 16)));
    };
    const auto [p0, p1] = team.share(d / kPanel);
    linear(b.narrow, rows, layer.out, p0, p1, add_residual);
    team.sync();
    for (int r = r0; r < r1; ++r)
      layer_norm(b.y + size_t(r) * d, d, s.eps, layer.norm1_weight, layer.norm1_bias, b.x + size_t(r) * d, b.narrow, r);
    team.sync();
    {
      const auto [u0, u1] = team.share(f / kPanel);
      linear(b.narrow, rows, layer.up, u0, u1, [&](int r, int c, __m512 y0, __m512 y1) {
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
    }
    team.sync();
    if (s.quantised) {
      for (int r = r0; r < r1; ++r) quantise(b.wide_float + size_t(r) * f, f, b.wide, r);
      team.sync();
    }
    linear(b.wide, rows, layer.down, p0, p1, add_residual);
    team.sync();
    for (int r = r0; r < r1; ++r)
      layer_norm(b.y + size_t(r) * d, d, s.eps, layer.norm2_weight, layer.norm2_bias, b.x + size_t(r) * d, b.narrow, r);
    team.sync();
  }
  const auto [t0, t1] = team.share(n);
  for (int t = t0; t < t1; ++t) {
    const int start = offsets[t] - offsets[0], length = offsets[t + 1] - offsets[t];
    const float* x = b.x + size_t(start) * d;
    float* y = out + size_t(t) * d;
    if (length == 0) {  // a tokenizer without special tokens makes nothing of an empty text
      std::fill(y, y + d, 0.0f);
      continue;
    }
    __m512 squares = _mm512_setzero_ps();
    for (int c = 0; c < d; c += 16) {
      __m512 v = _mm512_loadu_ps(x + c);
      if (s.pooling == 0) {
        for (int r = 1; r < length; ++r) v = _mm512_add_ps(v, _mm512_loadu_ps(x + size_t(r) * d + c));
        v = _mm512_div_ps(v, _mm512_set1_ps(float(length)));
      } else if (s.pooling == 2) {
        for (int r = 1; r < length; ++r) v = _mm512_max_ps(v, _mm512_loadu_ps(x + size_t(r) * d + c));
      }
      _mm512_storeu_ps(y + c, v);
      squares = _mm512_fmadd_ps(v, v, squares);
    }
    if (s.normalize) {
      const __m512 inverse = _mm512_set1_ps(1.0f / std::max(std::sqrt(_mm512_reduce_add_ps(squares)), 1e-12f));
      for (int c = 0; c < d; c += 16) _mm512_storeu_ps(y + c, _mm512_mul_ps(_mm512_loadu_ps(y + c), inverse));
    }
  }
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

struct Job {
  const int32_t *ids, *offsets;
  int texts = 0;
  float* out = nullptr;
  bool together = false;      // the whole pool on one group
  std::vector<int> groups;    // bounds, in texts
};

// A model and the threads that run it. Calls from several threads are taken one after the other.
struct Engine {
  Model model;
  int threads;
  std::vector<std::thread> pool;
  std::mutex entry, mutex;
  std::condition_variable wake;
  std::atomic<uint64_t> ticket{0};
  std::atomic<int> running{0}, next{0};
  std::atomic<bool> stop{false};
  Job job;
  Barrier barrier, alone;
  Buffers shared;
  std::vector<Buffers> own;
  std::vector<Scratch> scratch;

  void work(int rank) {
    if (job.together) {
      encode_group(model, job.ids, job.offsets, job.texts, job.out, Team{rank, threads, &barrier}, shared, scratch[rank]);
      return;
    }
    const int d = model.shape.hidden;
    for (int g; (g = next.fetch_add(1)) + 1 < int(job.groups.size());) {
      const int t0 = job.groups[g], t1 = job.groups[g + 1];
      reserve(own[rank], model.shape, job.offsets[t1] - job.offsets[t0]);
      encode_group(model, job.ids, job.offsets + t0, t1 - t0, job.out + size_t(t0) * d, Team{0, 1, &alone}, own[rank],
                   scratch[rank]);
    }
  }

  void loop(int rank) {
    for (uint64_t seen = 0;;) {
      int spins = 0;  // a second query often follows the first at once; sleeping and waking costs 50 us
      while (ticket.load(std::memory_order_acquire) == seen && ++spins < 4000) pause();
      if (spins >= 4000) {
        std::unique_lock<std::mutex> lock(mutex);
        wake.wait(lock, [&] { return ticket.load() != seen || stop.load(); });
      }
      if (stop.load()) return;
      seen = ticket.load(std::memory_order_acquire);
      work(rank);
      running.fetch_sub(1, std::memory_order_acq_rel);
    }
  }

  void run() {
    running.store(threads - 1);
    next.store(0);
    {
      std::lock_guard<std::mutex> lock(mutex);
      ticket.fetch_add(1, std::memory_order_release);
    }
    wake.notify_all();
    work(0);
    while (running.load(std::memory_order_acquire)) pause();
  }
};

constexpr int kGroupRows = 256;  // tokens a bulk group: its activations stay in the second-level cache

}  // namespace

extern "C" {

// `tensors`: words, positions, norm weight, norm bias, relative or null, then for each layer qkv, out, up, down as
// (weight, bias, scale, column) and norm1 weight, norm1 bias, norm2 weight, norm2 bias.
void* pl_create(const pl_shape* shape, const void* const* tensors, int threads) {
  auto* e = new Engine;
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
  e->threads = threads;
  e->barrier.size = threads;
  e->own.resize(threads);
  e->scratch.resize(threads);
  for (int rank = 1; rank < threads; ++rank) e->pool.emplace_back([e, rank] { e->loop(rank); });
  return e;
}

// Embed texts: ids of all of them in a row, offsets [texts + 1], out [texts][hidden].
void pl_encode(void* engine, const int32_t* ids, const int32_t* offsets, int32_t texts, float* out) {
  auto* e = static_cast<Engine*>(engine);
  std::lock_guard<std::mutex> lock(e->entry);
  Job& job = e->job;
  job.ids = ids;
  job.offsets = offsets;
  job.texts = texts;
  job.out = out;
  job.groups.assign(1, 0);
  for (int t = 0; t < texts; ++t)
    if (t + 1 == texts || offsets[t + 2] - offsets[job.groups.back()] > kGroupRows) job.groups.push_back(t + 1);
  // Few groups would leave threads idle: then all of them work on one, together.
  job.together = int(job.groups.size()) - 1 < 2 * e->threads && offsets[texts] <= 2 * kGroupRows * e->threads;
  if (job.together) reserve(e->shared, e->model.shape, offsets[texts]);
  if (e->threads == 1) { e->next.store(0); e->work(0); return; }
  e->run();
}

void pl_destroy(void* engine) {
  auto* e = static_cast<Engine*>(engine);
  e->stop.store(true);
  { std::lock_guard<std::mutex> lock(e->mutex); e->ticket.fetch_add(1); }
  e->wake.notify_all();
  for (auto& thread : e->pool) thread.join();
  delete e;
}
}
