// What crosses between Python and the library. embedder/engines/library.py says the same in ctypes, and compares
// pl_abi before it calls anything: with a change here, change it there and raise kAbiVersion in both.

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

// The layout of packed weights, as embedder/engines/library.py has it: columns of a panel, and how many consecutive
// inputs of a column stand together, by Precision.
constexpr int kPanel = 32;
#ifdef __x86_64__
constexpr int kInterleaves[] = {1, 2, 4};
#else
constexpr int kInterleaves[] = {1, 4, 8};
#endif

extern "C" {
#pragma GCC visibility push(default)  // all else is hidden

// Sizes of a model. All widths are multiples of kPanel, that of a head too.
struct pl_shape {
  int32_t hidden, layers, heads, intermediate, vocabulary;
  int32_t first_position;  // of a text's first token, in the table of positions
  int32_t max_length;      // tokens
  int32_t outputs;         // numbers of a text's vector
  int32_t
      global_every;  // ModernBERT: every so many layers attend to all tokens, from the first on; 0 for BERT's family
  int32_t window;    // of the other layers: tokens to either side
  Activation activation;  // between the products of a layer: kGelu or kSilu
  Precision precision;
  float eps;      // of layer norm
  int32_t types;  // of tokens: an id is a token plus its type times `vocabulary`
};
static_assert(sizeof(pl_shape) == 14 * 4 && std::is_standard_layout_v<pl_shape>, "library.py has it without gaps");

// What happens to a text's token states, one after the other: poolings, each of which appends `hidden` numbers to the
// text's vector, and then what maps it to another. The widths of a dense layer are multiples of kPanel.
struct pl_step {
  Action action;
  int32_t option;   // the Pooling, or the Activation of a dense layer: kIdentity or kTanh
  int32_t outputs;  // numbers of the vector after a dense layer
};
static_assert(sizeof(pl_step) == 3 * 4 && std::is_standard_layout_v<pl_step>, "library.py has it without gaps");

// kAbiVersion, the sizes of pl_shape and pl_step, kPanel, and the three kInterleaves.
extern const int32_t pl_abi[7];

// SHA-256 of the files that the library was made of, in hex.
const char* pl_sources();

// An engine for one model, or null for an unknown `isa`; whether the processor has it is for the caller to know.
// `tensors`: words, positions, norm weight, norm bias, relative or null, global and local angles, final norm weight and
// bias, then for each layer qkv, out, up, down as (weight, bias, scale, column) and norm1 weight, norm1 bias, norm2
// weight, norm2 bias, and at last the dense steps in
// fp32 as (weight, bias, null, null). They are not copied; the steps are. Positions are null for ModernBERT, angles and
// the final norm for BERT's family, and ModernBERT's first layer has no norm1. Its up has a panel of the activation's
// input and a panel of the gate in turn.
void* pl_create(const char* isa, const pl_shape* shape, const pl_step* steps, int32_t count, const void* const* tensors,
                int32_t threads);

// Embed texts: ids of all of them in a row, offsets [texts + 1], out [texts][outputs]. `states` [tokens][hidden],
// unless it is null, gets what the last layer makes of each token. What the weights do not cover, a token outside the
// vocabulary or a text longer than max_length, is refused, and nothing is written.
Refusal pl_encode(void* engine, const int32_t* ids, const int32_t* offsets, int32_t texts, float* out, float* states);

// MaxSim (Khattab and Zaharia 2020) of a query's tokens with the signs of passages' tokens: for each passage the sum,
// over the query's tokens, of the largest product with one of its own. A sign is a bit, 1 for +1 and 0 for -1, the
// first in the lowest bit of the first byte.
//   query    [tokens][width], width a multiple of 8
//   starts, counts [passages]: the first token of each in `signs` [][width / 8], and how many it has
//   out      [passages]; 0 for one without tokens
// Returns 0, or 1 if there is no memory for the tables.
int32_t pl_maxsim(const float* query, int32_t tokens, int32_t width, const uint8_t* signs, const int64_t* starts,
                  const int32_t* counts, int32_t passages, float* out);

void pl_destroy(void* engine);

#pragma GCC visibility pop
}
