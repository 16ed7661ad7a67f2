// The interface between Python and the library. embedder/engines/library.py declares the same in ctypes, and compares
// pl_abi with its own values before any call. If you change this file, change library.py and raise kAbiVersion in both.

#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

constexpr int32_t kAbiVersion = 7;

enum class Precision : int32_t { kFp32, kBf16, kInt8 };
enum class Pooling : int32_t { kCls, kMax, kMean, kLasttoken };
enum class Action : int32_t { kPool, kDense, kNormalize };
enum class Activation : int32_t { kIdentity, kTanh, kGelu, kSilu };
enum class Refusal : int32_t { kNone, kUnknownToken, kTooLong };

// The layout of packed weights, as in embedder/engines/library.py: the number of columns in a panel, and for each
// Precision the number of inputs of a column that are adjacent in memory.
constexpr int kPanel = 32;
#ifdef __x86_64__
constexpr int kInterleaves[] = {1, 2, 4};
#else
constexpr int kInterleaves[] = {1, 4, 8};
#endif

extern "C" {
#pragma GCC visibility push(default)  // all other symbols are hidden

// Sizes of a model. All widths, including the width of a head, are multiples of kPanel.
struct pl_shape {
  int32_t hidden, layers, heads, intermediate, vocabulary;
  int32_t first_position;  // row of a text's first token in the table of positions
  int32_t max_length;      // tokens
  int32_t outputs;         // numbers in a text's vector
  int32_t global_every;    // ModernBERT: layers 0, n, 2n, … attend to all tokens; 0 for BERT's family
  int32_t window;          // in the other layers, number of tokens on each side that a token attends to
  Activation activation;   // between the products of a layer: kGelu or kSilu
  Precision precision;
  float eps;      // added to the variance in layer norm
  int32_t types;  // token types: an id is token + type * vocabulary
};
static_assert(sizeof(pl_shape) == 14 * 4 && std::is_standard_layout_v<pl_shape>, "library.py expects no padding");

// A step from a text's token states to its vector. Poolings come first, and each appends `hidden` numbers to the
// vector. Then come dense layers and norms. The widths of a dense layer are multiples of kPanel.
struct pl_step {
  Action action;
  int32_t option;   // the Pooling, or the Activation of a dense layer: kIdentity or kTanh
  int32_t outputs;  // width of a dense layer's output
};
static_assert(sizeof(pl_step) == 3 * 4 && std::is_standard_layout_v<pl_step>, "library.py expects no padding");

// kAbiVersion, the sizes of pl_shape and pl_step in bytes, kPanel, and the three kInterleaves.
extern const int32_t pl_abi[7];

// SHA-256 of the library's source files, in hex.
const char* pl_sources();

// Create an engine for one model. Returns null if the library has no kernels for `isa`. The caller checks that the
// processor supports `isa`. The steps are copied, the tensors are not.
//
// `tensors` lists, in this order: words, positions, norm weight, norm bias, relative position bias, global angles,
// local angles, final norm weight, final norm bias; for each layer qkv, out, up and down as (weight, bias, scale,
// column), and norm1 weight, norm1 bias, norm2 weight, norm2 bias; then each dense step in fp32 as (weight, bias, null,
// null). A tensor that the model lacks is null: ModernBERT has no positions, and no norm1 in the first layer; BERT's
// family has no angles and no final norm. In the weight `up` of ModernBERT, panels of the activation's input and panels
// of its gate alternate.
void* pl_create(const char* isa, const pl_shape* shape, const pl_step* steps, int32_t count, const void* const* tensors,
                int32_t threads);

// Embed texts. `ids` has the tokens of all texts, one text after the other. Text t has the tokens from offsets[t] to
// offsets[t + 1]. The vectors are written to `out` [texts][outputs], and the last layer's output to `states`
// [tokens][hidden] if it is not null. If a token is outside the vocabulary or a text is longer than max_length, the
// call fails and writes nothing.
Refusal pl_encode(void* engine, const int32_t* ids, const int32_t* offsets, int32_t texts, float* out, float* states);

// Compute MaxSim (Khattab and Zaharia 2020) of a query's tokens and the signs of passages' tokens. The score of a
// passage is the sum, over the query's tokens, of the largest dot product with a token of the passage. A sign is a bit,
// 1 for +1 and 0 for -1. The first sign is the lowest bit of the first byte.
//   query    [tokens][width], width a multiple of 8
//   starts, counts [passages]: index of the passage's first token in `signs` [][width / 8], and its number of tokens
//   out      [passages]; 0 for a passage without tokens
// Returns 0, or 1 if there is too little memory.
int32_t pl_maxsim(const float* query, int32_t tokens, int32_t width, const uint8_t* signs, const int64_t* starts,
                  const int32_t* counts, int32_t passages, float* out);

void pl_destroy(void* engine);

#pragma GCC visibility pop
}
