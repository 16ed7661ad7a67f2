// The library's interface: one engine a model, with its threads and its memory. Compiled for the oldest processor of
// the architecture; the work itself is done by the kernels of one instruction set, named by the caller.
//
// A team of threads shares one group of rows: in latency mode the whole pool is one team and splits columns, in bulk
// mode every thread is a team of its own and takes groups from a queue.

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "model.h"

#define PL_PUBLIC __attribute__((visibility("default")))

#ifdef __x86_64__
#define PL_ISAS(X) X(amx) X(avx512_bf16) X(avx512_vnni) X(avx512) X(avx_vnni) X(avx2)
#else
#define PL_ISAS(X) X(neon_mmla) X(neon_dot) X(neon)
#endif
#define PL_DECLARE(isa) extern const Kernels kernels_##isa;
#define PL_ADDRESS(isa) &kernels_##isa,
PL_ISAS(PL_DECLARE)

namespace {

const Kernels* const kKernels[] = {PL_ISAS(PL_ADDRESS)};
constexpr int kGroupRows = 256;  // tokens a bulk group: its activations stay in the second-level cache
constexpr size_t kAlignment = 64;

// Memory that grows and is kept from call to call.
class Memory {
 public:
  char* reserve(size_t bytes) {
    if (memory_.size() < bytes + kAlignment) memory_.resize(bytes + kAlignment);
    const auto at = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (-at & (kAlignment - 1));
  }

 private:
  std::vector<char> memory_;
};

// A model and the threads that run it. Calls from several threads are taken one after the other.
struct Engine {
  const Kernels& kernels;
  Model model;
  std::vector<Layer> layers;
  Team team, alone{1};
  std::mutex entry;
  Memory shared;
  std::vector<Memory> own, scratch;
  std::vector<char*> scratch_at;

  Engine(const Kernels& kernels, int threads)
      : kernels(kernels), team(threads), own(threads), scratch(threads), scratch_at(threads) {}

  char* activations(Memory& memory, int rows) { return memory.reserve(kernels.memory(model.shape, rows)); }
};

}  // namespace

extern "C" {

// SHA-256 of the files that the library was made of.
PL_PUBLIC const char* pl_sources() { return PL_SOURCES; }

// `tensors`: words, positions, norm weight, norm bias, relative or null, then for each layer qkv, out, up, down as
// (weight, bias, scale, column) and norm1 weight, norm1 bias, norm2 weight, norm2 bias. Null for an unknown `isa`;
// whether the processor has it is for the caller to know.
PL_PUBLIC void* pl_create(const char* isa, const pl_shape* shape, const void* const* tensors, int threads) {
  const Kernels* kernels = nullptr;
  for (const Kernels* one : kKernels)
    if (!std::strcmp(one->name, isa)) kernels = one;
  if (!kernels) return nullptr;
  auto* e = new Engine(*kernels, threads);
  const void* const* t = tensors;
  const auto floats = [&] { return static_cast<const float*>(*t++); };
  Model& model = e->model;
  model.shape = *shape;
  model.words = *t++;
  model.positions = floats();
  model.norm_weight = floats();
  model.norm_bias = floats();
  model.relative = floats();
  const auto linear = [&](int k, int n) {
    const void* weight = *t++;
    const float *bias = floats(), *scale = floats(), *column = floats();
    return Linear{weight, bias, scale, column, k, n};
  };
  const int d = shape->hidden, f = shape->intermediate;
  for (int i = 0; i < shape->layers; ++i) {
    Layer l;
    l.qkv = linear(d, 3 * d);
    l.out = linear(d, d);
    l.up = linear(d, f);
    l.down = linear(f, d);
    l.norm1_weight = floats();
    l.norm1_bias = floats();
    l.norm2_weight = floats();
    l.norm2_bias = floats();
    e->layers.push_back(l);
  }
  model.layers = e->layers.data();
  return e;
}

// Embed texts: ids of all of them in a row, offsets [texts + 1], out [texts][hidden].
// Returns 0; 1 for a token that is not in the vocabulary, 2 for a text longer than the table of positions: nothing is
// read past the weights.
PL_PUBLIC int pl_encode(void* engine, const int32_t* ids, const int32_t* offsets, int32_t texts, float* out) {
  auto* e = static_cast<Engine*>(engine);
  const pl_shape& shape = e->model.shape;
  int longest = 0;
  for (int t = 0; t < texts; ++t) longest = std::max(longest, offsets[t + 1] - offsets[t]);
  if (longest > shape.max_length) return 2;
  for (int i = 0; i < offsets[texts]; ++i)
    if (uint32_t(ids[i]) >= uint32_t(shape.vocabulary)) return 1;

  std::lock_guard<std::mutex> lock(e->entry);
  const int threads = e->team.size();
  const size_t scratch = e->kernels.scratch(shape, longest);
  for (int i = 0; i < threads; ++i) e->scratch_at[i] = e->scratch[i].reserve(scratch);
  std::vector<int> groups{0};  // bounds, in texts
  for (int t = 0; t < texts; ++t)
    if (t + 1 == texts || offsets[t + 2] - offsets[groups.back()] > kGroupRows) groups.push_back(t + 1);
  const int count = int(groups.size()) - 1;
  alignas(64) char saved[64];
  e->kernels.enter(saved);
  // Few groups would leave threads idle: then all of them work on one, together.
  if (count < 2 * threads && offsets[texts] <= 2 * kGroupRows * threads) {
    e->kernels.encode(e->model, Group{ids, offsets, texts, out}, e->team, e->activations(e->shared, offsets[texts]),
                      e->scratch_at.data());
  } else {
    e->team.each(count, count, [&](int rank, int g0, int g1) {
      for (int g = g0; g < g1; ++g) {
        const int t0 = groups[g], t1 = groups[g + 1];
        e->kernels.encode(e->model, Group{ids, offsets + t0, t1 - t0, out + size_t(t0) * shape.hidden}, e->alone,
                          e->activations(e->own[rank], offsets[t1] - offsets[t0]), &e->scratch_at[rank]);
      }
    });
  }
  e->kernels.leave(saved);
  return 0;
}

PL_PUBLIC void pl_destroy(void* engine) { delete static_cast<Engine*>(engine); }
}
