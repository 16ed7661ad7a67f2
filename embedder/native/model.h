// Types that the library's files share: a model, a group of texts, and the functions of one instruction set. They are
// plain data, because the files are compiled for different processors.

#pragma once

#include "interface.h"
#include "team.h"

struct Linear {
  const void* weight;   // panels of kPanel columns: [n / kPanel][k / q][kPanel][q], where q is from kInterleaves
  const float* bias;    // [n]
  const float* scale;   // [n], int8 only
  const float* column;  // [n], scale times the sum of a column's quantised weights, int8 only
  int k, n;
};

struct Layer {
  Linear qkv, out, up, down;
  const float *norm1_weight, *norm1_bias, *norm2_weight, *norm2_bias;
  const float* angles;  // [max_length][width of a head], cosines and then sines of rotary positions; or null
  int window;           // number of tokens on each side that a token attends to; 0 for all tokens
};

struct Model {
  pl_shape shape;
  const void* words;       // [vocabulary][hidden], fp32 or bf16
  const float* positions;  // [types][first_position + max_length][hidden], with the type's vector added; or null
  const float *norm_weight, *norm_bias, *final_weight, *final_bias;
  const float* relative;  // [heads][max_length][max_length] or null
  const Layer* layers;
  const pl_step* steps;
  const Linear* dense;  // dense layers of the steps, in order
  int step_count;
  int widest;  // largest width of a text's vector between steps
};

// A group of texts: their tokens, and pointers to the memory for their vectors.
struct Group {
  const int32_t* ids;
  const int32_t* offsets;  // [texts + 1], index of each text's first token in ids, and the end
  int texts;
  float* vectors;  // [texts][outputs]
  float* states;   // [tokens][hidden], output of the last layer; or null
};

// A thread's configuration of matrix tiles, the operand of LDTILECFG and STTILECFG. Used with AMX only.
struct alignas(64) TileState {
  uint8_t bytes[64];
};

// An encoder compiled for one instruction set.
struct Kernels {
  const char* name;
  // Return how many bytes the activations of a group need, and how many bytes each thread needs for the longest text.
  size_t (*activation_bytes)(const Model&, int rows, int texts);
  size_t (*scratch_bytes)(const pl_shape&, int tokens);
  // Embed a group. `activations` and the blocks of `scratch`, one for each thread of the team, have these sizes and are
  // aligned to kAlignment.
  void (*encode)(const Model&, const Group&, Team&, char* activations, char* const* scratch);
  // Save and restore the matrix tiles of the caller's thread, at the start and end of its call of the library.
  void (*enter)(TileState*);
  void (*leave)(const TileState*);
};
