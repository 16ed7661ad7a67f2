// What the library's parts tell each other: a model, the memory of a group of rows, and the functions of one
// instruction set. Everything here is plain data, as its users are compiled for different processors.

#pragma once

#include "interface.h"
#include "team.h"

struct Linear {
  const void* weight;   // panels of kPanel columns: [n / kPanel][k / q][kPanel][q], q the interleave
  const float* bias;    // [n]
  const float* scale;   // [n], int8 only
  const float* column;  // [n] scale times the sum of the column's quantised weights, int8 only
  int k, n;
};

struct Layer {
  Linear qkv, out, up, down;
  const float *norm1_weight, *norm1_bias, *norm2_weight, *norm2_bias;
  const float* angles;  // [max_length][width of a head]: cosines, then sines, of rotary positions; or null
  int window;           // tokens to either side that a token attends to; 0 for all
};

struct Model {
  pl_shape shape;
  const void* words;       // [vocabulary][hidden], fp32 or bf16
  const float* positions;  // [types][first_position + max_length][hidden], the type added; or null
  const float *norm_weight, *norm_bias, *final_weight, *final_bias;
  const float* relative;  // [heads][max_length][max_length] or null
  const Layer* layers;
  const pl_step* steps;
  const Linear* dense;  // of the steps, in their order
  int step_count;
  int widest;  // most numbers that a text's vector has on its way
};

// Token rows of some texts, and where their vectors go.
struct Group {
  const int32_t* ids;
  const int32_t* offsets;  // [texts + 1], bounds in ids
  int texts;
  float* vectors;  // [texts][outputs]
  float* states;   // [tokens][hidden], of what the last layer gives; or null
};

// A thread's configuration of matrix tiles, where the processor has them: the operand of LDTILECFG and STTILECFG.
struct alignas(64) TileState {
  uint8_t bytes[64];
};

// An encoder compiled for one instruction set.
struct Kernels {
  const char* name;
  // Bytes of the activations of a group of so many rows and texts, and of each thread's scratch for a text of so many
  // tokens.
  size_t (*activation_bytes)(const Model&, int rows, int texts);
  size_t (*scratch_bytes)(const pl_shape&, int tokens);
  // Embed a group in memory of these sizes, aligned to kAlignment; `scratch` has one for each thread of the team.
  void (*encode)(const Model&, const Group&, Team&, char* activations, char* const* scratch);
  // Around all that a call does in the thread it came from, which may have matrix tiles of its own.
  void (*enter)(TileState*);
  void (*leave)(const TileState*);
};
