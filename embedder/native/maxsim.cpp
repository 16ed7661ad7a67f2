// MaxSim over signs, with lookup tables in registers (André, Kermarrec and Le Scouarnec 2015, "Fast Scan"). The signs
// of four dimensions of a passage's token form one of 16 patterns. For every four dimensions of a query token, a table
// of 16 bytes has the dot products with all patterns. One shuffle instruction looks up a pattern for each byte of a
// register, and each byte is a token. So nothing is multiplied, and signs are not unpacked to numbers.
//
// This file is compiled once for each architecture, for the oldest instruction set. AVX-512 would not be faster: its
// shuffle looks up twice as many bytes, but runs half as often.

#include <cstring>
#include <new>
#include <vector>

#include "interface.h"

#ifdef __x86_64__
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif

namespace {

#ifdef __x86_64__
constexpr int kTokens = 32;  // tokens of one lookup, one for each byte of a register
using Bytes = uint8_t __attribute__((vector_size(32)));
using Words = uint16_t __attribute__((vector_size(32)));

inline __m128i load_square(const uint8_t* p) { return _mm_loadu_si128((const __m128i*)p); }
inline Bytes load_table(const uint8_t* p) { return (Bytes)_mm256_broadcastsi128_si256(load_square(p)); }
inline Bytes look_up(Bytes table, Bytes at) { return (Bytes)_mm256_shuffle_epi8((__m256i)table, (__m256i)at); }
inline Bytes zip_low(Bytes a, Bytes b) { return (Bytes)_mm256_unpacklo_epi8((__m256i)a, (__m256i)b); }
inline Bytes zip_high(Bytes a, Bytes b) { return (Bytes)_mm256_unpackhi_epi8((__m256i)a, (__m256i)b); }
// Load 16 bytes of token t and 16 bytes of token t + 16.
inline Bytes load_tokens(const uint8_t* one, const uint8_t* other) {
  return (Bytes)_mm256_setr_m128i(load_square(one), load_square(other));
}
#else
constexpr int kTokens = 16;
using Bytes = uint8_t __attribute__((vector_size(16)));
using Words = uint16_t __attribute__((vector_size(16)));

inline Bytes load_table(const uint8_t* p) { return (Bytes)vld1q_u8(p); }
inline Bytes look_up(Bytes table, Bytes at) { return (Bytes)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)at); }
inline Bytes zip_low(Bytes a, Bytes b) { return (Bytes)vzip1q_u8((uint8x16_t)a, (uint8x16_t)b); }
inline Bytes zip_high(Bytes a, Bytes b) { return (Bytes)vzip2q_u8((uint8x16_t)a, (uint8x16_t)b); }
inline Bytes load_tokens(const uint8_t* one, const uint8_t*) { return (Bytes)vld1q_u8(one); }
#endif

constexpr int kSquare = 16;  // 16 bytes of 16 tokens are transposed together
constexpr int kPatterns = 16, kDimensions = 4;
constexpr int kMaxCode = 63;     // largest entry of a table, because the sum of four entries must fit into a byte
constexpr int kQueryTokens = 3;  // number of query tokens that are compared with loaded patterns
static_assert(4 * kMaxCode <= 255);

using Sums = uint16_t __attribute__((vector_size(kPatterns * sizeof(uint16_t))));
using Codes = uint8_t __attribute__((vector_size(kPatterns)));
constexpr uint16_t kAll = 0xFFFF;
constexpr Sums kHas[kDimensions] = {
    // for each dimension, kAll in the patterns whose sign is positive in this dimension
    {0, kAll, 0, kAll, 0, kAll, 0, kAll, 0, kAll, 0, kAll, 0, kAll, 0, kAll},
    {0, 0, kAll, kAll, 0, 0, kAll, kAll, 0, 0, kAll, kAll, 0, 0, kAll, kAll},
    {0, 0, 0, 0, kAll, kAll, kAll, kAll, 0, 0, 0, 0, kAll, kAll, kAll, kAll},
    {0, 0, 0, 0, 0, 0, 0, 0, kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll},
};
constexpr int kFraction = 8;  // number of fraction bits of a table entry before rounding

// The dot products of a query's tokens with all patterns, quantised to codes. The dot product with a passage's token is
// step times the sum of its codes, plus least. A group is four dimensions.
struct Tables {
  std::vector<uint8_t> codes;  // [tokens, rounded up][groups][kPatterns]
  std::vector<float> step, least;
  int tokens, groups;

  Tables(const float* query, int count, int width)
      : tokens((count + kQueryTokens - 1) / kQueryTokens * kQueryTokens), groups(width / kDimensions) {
    codes.resize(size_t(tokens) * groups * kPatterns);
    step.resize(tokens);
    least.resize(tokens);
    for (int t = 0; t < count; ++t) fill(t, query + size_t(t) * width);
  }

 private:
  void fill(int t, const float* q) {
    float widest = 0, sum = 0;
    for (int g = 0; g < groups; ++g) {
      float reach = 0;
      for (int i = 0; i < kDimensions; ++i) reach += __builtin_fabsf(q[g * kDimensions + i]);
      widest = reach > widest ? reach : widest;
      sum += reach;
    }
    least[t] = -sum;
    if (!(widest > 0)) return;
    step[t] = 2 * widest / kMaxCode;
    const float scale = (1 << kFraction) / step[t];
    uint8_t* code = codes.data() + size_t(t) * groups * kPatterns;
    for (int g = 0; g < groups; ++g, q += kDimensions, code += kPatterns) {
      // Dot product plus reach, scaled. That is twice the sum of |q| over the dimensions whose signs agree.
      // Intermediate sums may wrap around modulo 2^16, but the result is below 2^16.
      Sums agreed = Sums{} + uint16_t(1 << (kFraction - 1));
      for (int i = 0; i < kDimensions; ++i) {
        const auto twice = uint16_t(int(2 * q[i] * scale));
        const uint16_t without = q[i] > 0 ? 0 : -twice;
        agreed += (kHas[i] & (Sums{} + twice)) + without;
      }
      const auto rounded = __builtin_convertvector(agreed >> kFraction, Codes);
      std::memcpy(code, &rounded, kPatterns);
    }
  }
};

// Interleave the first half of the rows with the second half. Doing so four times transposes 16 rows of 16 bytes.
inline void interleave(const Bytes* from, Bytes* to) {
#pragma GCC unroll 8
  for (int i = 0; i < kSquare / 2; ++i) {
    to[2 * i] = zip_low(from[i], from[i + kSquare / 2]);
    to[2 * i + 1] = zip_high(from[i], from[i + kSquare / 2]);
  }
}

// Write the patterns of kTokens tokens as [groups][kTokens]. If there are fewer tokens, the last of the `count` tokens
// is repeated, which does not change a maximum.
inline void unpack(const uint8_t* signs, int count, int bytes, Bytes* patterns) {
  const auto token = [&](int t) { return signs + size_t(t < count ? t : count - 1) * bytes; };
  for (int b = 0; b < bytes; b += kSquare) {
    const int there = bytes - b < kSquare ? bytes - b : kSquare;
    Bytes rows[kSquare], other[kSquare];
    for (int i = 0; i < kSquare; ++i) {
      const uint8_t *one = token(i) + b, *second = token(i + kTokens - kSquare) + b;
      uint8_t padded[2][kSquare] = {};
      if (there < kSquare) {
        one = static_cast<uint8_t*>(std::memcpy(padded[0], one, there));
        second = static_cast<uint8_t*>(std::memcpy(padded[1], second, there));
      }
      rows[i] = load_tokens(one, second);
    }
    interleave(rows, other);
    interleave(other, rows);
    interleave(rows, other);
    interleave(other, rows);
    for (int i = 0; i < there; ++i) {
      *patterns++ = rows[i] & 15;
      *patterns++ = rows[i] >> 4;
    }
  }
}

inline Words larger(Words a, Words b) { return a > b ? a : b; }

// The largest sums of codes so far, separately for tokens in even and in odd bytes.
struct Best {
  Words even, odd;
};

// Look up the patterns of `Several` groups for kTokens tokens and kQueryTokens query tokens, and add the codes.
template <int Several>
inline void add(const uint8_t* codes, int groups, const Bytes* patterns, Words* all, Words* odd) {
  Bytes sum[kQueryTokens] = {};
#pragma GCC unroll 8
  for (int i = 0; i < Several; ++i)
#pragma GCC unroll 8
    for (int t = 0; t < kQueryTokens; ++t)
      sum[t] += look_up(load_table(codes + (size_t(t) * groups + i) * kPatterns), patterns[i]);
#pragma GCC unroll 8
  for (int t = 0; t < kQueryTokens; ++t) {
    all[t] += (Words)sum[t];  // sum of an even token + 256 * sum of an odd token, modulo 2^16
    odd[t] += (Words)sum[t] >> 8;
  }
}

// Compare kTokens tokens with kQueryTokens query tokens over all groups, and update the largest sums.
inline void score(const uint8_t* codes, int groups, const Bytes* patterns, Best* best) {
  Words all[kQueryTokens] = {}, odd[kQueryTokens] = {};
  int g = 0;
  for (; g + 4 <= groups; g += 4) add<4>(codes + g * kPatterns, groups, patterns + g, all, odd);
  for (; g < groups; g += 2) add<2>(codes + g * kPatterns, groups, patterns + g, all, odd);  // groups is even
#pragma GCC unroll 8
  for (int t = 0; t < kQueryTokens; ++t) {
    best[t].even = larger(best[t].even, all[t] - (odd[t] << 8));
    best[t].odd = larger(best[t].odd, odd[t]);
  }
}

inline int largest(const Best& best) {
  const Words either = larger(best.even, best.odd);
  int found = 0;
  for (size_t i = 0; i < sizeof either / sizeof either[0]; ++i) found = either[i] > found ? either[i] : found;
  return found;
}

}  // namespace

extern "C" int32_t pl_maxsim(const float* query, int32_t tokens, int32_t width, const uint8_t* signs,
                             const int64_t* starts, const int32_t* counts, int32_t passages, float* out) try {
  const Tables tables(query, tokens, width);
  const int bytes = width / 8;
  const size_t row = size_t(tables.groups) * kPatterns;
  std::vector<char> memory((tables.groups + 2 * size_t(tables.tokens) + 1) * sizeof(Bytes));
  const size_t odd = reinterpret_cast<uintptr_t>(memory.data()) % sizeof(Bytes);
  auto* patterns = reinterpret_cast<Bytes*>(memory.data() + (odd ? sizeof(Bytes) - odd : 0));
  auto* best = reinterpret_cast<Best*>(patterns + tables.groups);
  for (int p = 0; p < passages; ++p) {
    for (int t = 0; t < tables.tokens; ++t) best[t] = Best{};
    const uint8_t* from = signs + starts[p] * bytes;
    for (int begin = 0; begin < counts[p]; begin += kTokens) {
      unpack(from + size_t(begin) * bytes, counts[p] - begin, bytes, patterns);
      for (int t = 0; t < tables.tokens; t += kQueryTokens)
        score(tables.codes.data() + t * row, tables.groups, patterns, best + t);
    }
    float sum = 0;
    if (counts[p] > 0)
      for (int t = 0; t < tokens; ++t) sum += float(largest(best[t])) * tables.step[t] + tables.least[t];
    out[p] = sum;
  }
  return 0;
} catch (const std::bad_alloc&) {
  return 1;
}
