// The functions of interface.h. An engine runs one model with its own threads and memory. This file is compiled for the
// oldest processor of the architecture. Kernels for the instruction set that the caller names do the work.
//
// In latency mode, all threads work on the same group of texts and split the columns of each product. In bulk mode,
// every thread works on a separate group and takes groups from a queue.

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "arena.h"
#include "model.h"

#if defined(PL_ISAS)  // instruction sets named on the compiler's command line
#elif defined(__x86_64__)
#define PL_ISAS(X) X(amx) X(avx512_bf16) X(avx512_vnni) X(avx512) X(avx_vnni) X(avx2)
#else
#define PL_ISAS(X) X(neon_mmla) X(neon_dot) X(neon)
#endif
#define PL_DECLARE(isa) extern const Kernels kernels_##isa;
#define PL_ADDRESS(isa) &kernels_##isa,
PL_ISAS(PL_DECLARE)

namespace {

const Kernels* const kKernels[] = {PL_ISAS(PL_ADDRESS)};
constexpr int kGroupRows = 256;  // tokens in a group of bulk mode; their activations fit into the second-level cache

// Memory that is reused from call to call and grows when needed.
class Memory {
 public:
  char* reserve(size_t bytes) {
    static_assert((kAlignment & (kAlignment - 1)) == 0, "the mask below requires a power of two");
    if (memory_.size() < bytes + kAlignment) memory_.resize(bytes + kAlignment);
    const auto at = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (-at & (kAlignment - 1));
  }

 private:
  std::vector<char> memory_;
};

// Divide texts into groups of up to kGroupRows tokens, but at least one text. Group i has the texts from bounds[i] to
// bounds[i + 1].
std::vector<int> group_texts(const Group& all) {
  std::vector<int> bounds{0};
  for (int t = 0; t < all.texts; ++t)
    if (t + 1 == all.texts || all.offsets[t + 2] - all.offsets[bounds.back()] > kGroupRows) bounds.push_back(t + 1);
  return bounds;
}

// A model and the threads that run it. Concurrent calls run one after the other.
struct Engine {
  const Kernels& kernels;
  Model model;
  std::vector<Layer> layers;
  std::vector<pl_step> steps;
  std::vector<Linear> dense;
  Team team, alone{1};
  std::mutex entry;
  Memory shared;                      // activations in latency mode
  std::vector<Memory> bulk, scratch;  // for each thread: activations in bulk mode, and memory for attention
  std::vector<char*> scratch_blocks;  // the blocks of `scratch`

  Engine(const Kernels& kernels, int threads)
      : kernels(kernels), team(threads), bulk(threads), scratch(threads), scratch_blocks(threads) {}

  // Embed texts of at most `longest` tokens.
  void encode(const Group& all, int longest) {
    const int32_t* offsets = all.offsets;
    const size_t bytes = kernels.scratch_bytes(model.shape, longest);
    for (int i = 0; i < team.size(); ++i) scratch_blocks[i] = scratch[i].reserve(bytes);
    const std::vector<int> bounds = group_texts(all);
    const int count = int(bounds.size()) - 1;
    TileState saved;
    kernels.enter(&saved);
    // If there are too few groups for all threads, use latency mode.
    if (count < 2 * team.size() && offsets[all.texts] <= 2 * kGroupRows * team.size()) {
      kernels.encode(model, all, team, activations(shared, all), scratch_blocks.data());
    } else {
      team.each(count, count, [&](int rank, int g0, int g1) {
        for (int g = g0; g < g1; ++g) {
          const int t0 = bounds[g], t1 = bounds[g + 1];
          float* states = all.states ? all.states + size_t(offsets[t0]) * model.shape.hidden : nullptr;
          const Group group{all.ids, offsets + t0, t1 - t0, all.vectors + size_t(t0) * model.shape.outputs, states};
          kernels.encode(model, group, alone, activations(bulk[rank], group), &scratch_blocks[rank]);
        }
      });
    }
    kernels.leave(&saved);
  }

  char* activations(Memory& memory, const Group& group) {
    const int rows = group.offsets[group.texts] - group.offsets[0];
    return memory.reserve(kernels.activation_bytes(model, rows, group.texts));
  }
};

}  // namespace

extern "C" {

const int32_t pl_abi[] = {kAbiVersion,     sizeof(pl_shape), sizeof(pl_step), kPanel,
                          kInterleaves[0], kInterleaves[1],  kInterleaves[2]};

const char* pl_sources() { return PL_SOURCES; }

void* pl_create(const char* isa, const pl_shape* shape, const pl_step* steps, int32_t count, const void* const* tensors,
                int32_t threads) {
  const auto named = [&](const Kernels* one) { return !std::strcmp(one->name, isa); };
  const auto* kernels = std::find_if(std::begin(kKernels), std::end(kKernels), named);
  if (kernels == std::end(kKernels)) return nullptr;
  auto* engine = new Engine(**kernels, threads);
  const auto next = [&] { return *tensors++; };
  const auto floats = [&] { return static_cast<const float*>(next()); };
  const auto linear = [&](int k, int n) {
    const void* weight = next();
    const float *bias = floats(), *scale = floats(), *column = floats();
    return Linear{weight, bias, scale, column, k, n};
  };
  Model& model = engine->model;
  model.shape = *shape;
  model.words = next();
  model.positions = floats();
  model.norm_weight = floats();
  model.norm_bias = floats();
  model.relative = floats();
  const float *global_angles = floats(), *local_angles = floats();
  model.final_weight = floats();
  model.final_bias = floats();
  const int d = shape->hidden, f = shape->intermediate, every = shape->global_every;
  for (int i = 0; i < shape->layers; ++i) {
    Layer& layer = engine->layers.emplace_back();
    layer.qkv = linear(d, 3 * d);
    layer.out = linear(d, d);
    layer.up = linear(d, every ? 2 * f : f);
    layer.down = linear(f, d);
    layer.norm1_weight = floats();
    layer.norm1_bias = floats();
    layer.norm2_weight = floats();
    layer.norm2_bias = floats();
    const bool local = every && i % every;
    layer.angles = local ? local_angles : global_angles;
    layer.window = local ? shape->window : 0;
  }
  model.layers = engine->layers.data();
  engine->steps.assign(steps, steps + count);
  int width = 0;
  model.widest = 0;
  for (const pl_step& step : engine->steps) {
    if (step.action == Action::kDense) engine->dense.push_back(linear(width, step.outputs));
    if (step.action == Action::kPool)
      width += d;
    else if (step.action != Action::kNormalize)
      width = step.outputs;
    model.widest = std::max(model.widest, width);
  }
  model.steps = engine->steps.data();
  model.dense = engine->dense.data();
  model.step_count = count;
  return engine;
}

Refusal pl_encode(void* engine, const int32_t* ids, const int32_t* offsets, int32_t texts, float* out, float* states) {
  auto* e = static_cast<Engine*>(engine);
  const pl_shape& shape = e->model.shape;
  int longest = 0;
  for (int t = 0; t < texts; ++t) longest = std::max(longest, offsets[t + 1] - offsets[t]);
  if (longest > shape.max_length) return Refusal::kTooLong;
  for (int i = 0; i < offsets[texts]; ++i)
    if (uint32_t(ids[i]) >= uint32_t(shape.types) * uint32_t(shape.vocabulary)) return Refusal::kUnknownToken;

  std::lock_guard<std::mutex> lock(e->entry);
  e->encode(Group{ids, offsets, texts, out, states}, longest);
  return Refusal::kNone;
}

void pl_destroy(void* engine) { delete static_cast<Engine*>(engine); }
}
