// Compute a text's vector from the states of its tokens: poolings, then dense layers and norms.

#pragma once

#include "product.h"

namespace {

// The vectors of a group's texts before and after a step: [texts][width of a vector at that step].
struct Vectors {
  Operand<Fp32Product> now, next;

  Vectors(Arena& arena, const Model& model, int texts)
      : now(arena, texts, model.widest), next(arena, texts, model.widest) {}
};
static_assert(!Fp32Product::kPaired && kIsFp32<Fp32Product>, "vectors are rows of floats");

// Pool the states x [length][d] of a text's tokens into y [d]. If the text has no tokens, y becomes zeros.
inline void pool(Pooling pooling, const float* x, int length, int d, float* y) {
  for (int c = 0; c < d; c += kLanes) {
    const auto state = [&](int r) { return load(x + size_t(r) * d + c); };
    V v = length ? state(pooling == Pooling::kLasttoken ? length - 1 : 0) : zero();
    if (pooling != Pooling::kCls && pooling != Pooling::kLasttoken && length) {
      for (int r = 1; r < length; ++r) v = pooling == Pooling::kMax ? max(v, state(r)) : add(v, state(r));
      if (pooling != Pooling::kMax) v = div(v, set(float(length)));
    }
    store(y + c, v);
  }
}

// Divide a vector by its norm. A vector of zeros does not change.
inline void normalize(float* y, int width) {
  V squares = zero();
  for (int c = 0; c < width; c += kLanes) {
    const V v = load_first(y + c, width - c);
    squares = fma(v, v, squares);
  }
  const float norm = __builtin_sqrtf(sum(squares));
  const float inverse = 1.0f / (norm > 1e-12f ? norm : 1e-12f);
  for (int c = 0; c < width; ++c) y[c] *= inverse;
}

// Return whether a text's vector depends only on the state of the first token.
inline bool pools_first_only(const Model& model) {
  const pl_step* step = model.steps;
  return step->action == Action::kPool && Pooling(step->option) == Pooling::kCls &&
         (model.step_count == 1 || step[1].action != Action::kPool);
}

// Apply a model's steps to the states x of a group's tokens. If `first_only` is true, x has only the first token of
// each text. `each` divides a loop among the threads.
template <class Each>
inline void embed(const Model& model, const Group& group, const float* x, bool first_only, Vectors v, Each&& each) {
  const int d = model.shape.hidden, texts = group.texts;
  const auto each_text = [&](auto&& body) {
    each(texts, [&](int, int t0, int t1) {
      for (int t = t0; t < t1; ++t) body(t);
    });
  };
  const pl_step *step = model.steps, *end = step + model.step_count, *poolings = step;
  while (step < end && step->action == Action::kPool) ++step;
  int width = int(step - poolings) * d;
  each_text([&](int t) {
    const int start = first_only ? t : group.offsets[t] - group.offsets[0];
    const int length = first_only ? 1 : group.offsets[t + 1] - group.offsets[t];
    for (const pl_step* one = poolings; one < step; ++one)
      pool(Pooling(one->option), x + size_t(start) * d, length, d, v.now.at + size_t(t) * width + (one - poolings) * d);
  });
  for (const Linear* dense = model.dense; step < end; ++step) {
    if (step->action == Action::kNormalize) {
      each_text([&](int t) { normalize(v.now.at + size_t(t) * width, width); });
      continue;
    }
    const int outputs = step->outputs;
    each(outputs / kPanel, [&](int, int p0, int p1) {
      linear(v.now, texts, *dense, p0, p1, [&](int r, int c, V y) { store(v.next.at + size_t(r) * outputs + c, y); });
    });
    if (Activation(step->option) == Activation::kTanh)
      each_text([&](int t) {
        float* y = v.next.at + size_t(t) * outputs;
        for (int c = 0; c < outputs; ++c) y[c] = __builtin_tanhf(y[c]);
      });
    ++dense;
    float* before = v.now.at;
    v.now.at = v.next.at;
    v.next.at = before;
    width = outputs;
  }
  std::memcpy(group.vectors, v.now.at, size_t(texts) * width * sizeof(float));
}

}  // namespace
