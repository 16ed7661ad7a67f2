// What the library's parts tell each other: a model, the memory of a group of rows, and the functions of one
// instruction set. Everything here is plain data, as its users are compiled for different processors.

#pragma once

#include <cstddef>
#include <cstdint>

#include "team.h"

extern "C" struct pl_shape {
  int32_t hidden, layers, heads, intermediate, vocabulary, first_position, max_length, pooling, normalize, precision;
  float eps;
};

constexpr int kFp32 = 0, kBf16 = 1, kInt8 = 2;  // pl_shape::precision
constexpr int kMean = 0, kCls = 1, kMax = 2;    // pl_shape::pooling

struct Linear {
  const void* weight;   // panels of 32 columns
  const float* bias;    // [n]
  const float* scale;   // [n], int8 only
  const float* column;  // [n] scale times the sum of the column's quantised weights, int8 only
  int k, n;
};

struct Layer {
  Linear qkv, out, up, down;
  const float *norm1_weight, *norm1_bias, *norm2_weight, *norm2_bias;
};

struct Model {
  pl_shape shape;
  const void* words;       // [vocabulary][hidden], fp32 or bf16
  const float* positions;  // [positions][hidden], token type 0 added
  const float *norm_weight, *norm_bias;
  const float* relative;   // [heads][max_length][max_length] or null
  const Layer* layers;
};

// Token rows of some texts, and where their vectors go.
struct Group {
  const int32_t* ids;
  const int32_t* offsets;  // [texts + 1], bounds in ids
  int texts;
  float* vectors;          // [texts][hidden]
};

// An encoder compiled for one instruction set.
struct Kernels {
  const char* name;
  size_t (*memory)(const pl_shape&, int rows);     // bytes that a group of so many rows needs
  size_t (*scratch)(const pl_shape&, int longest);  // bytes that each thread needs for a text of so many tokens
  void (*encode)(const Model&, const Group&, Team&, char* memory, char* const* scratch);
  // Around all that a call does in the thread it came from, which may have matrix tiles of its own.
  void (*enter)(void* saved64);
  void (*leave)(const void* saved64);
};
