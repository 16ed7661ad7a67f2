// MaxSim over signs, by tables in registers ("Fast Scan", André, Kermarrec and Le Scouarnec 2015): four dimensions of a
// token are 16 patterns of signs, and a query's token has one product with each, in a table of 16 bytes. One shuffle
// looks up four dimensions of as many tokens as a register has bytes, so nothing is multiplied and no sign unpacked.
//
// Compiled once, for the poorest instruction set of the architecture: AVX-512 looks up twice as much in an instruction,
// and half as often.

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
constexpr int kTokens = 32;  // looked up at once: bytes of a register
using Bytes = uint8_t __attribute__((vector_size(32)));
using Words = uint16_t __attribute__((vector_size(32)));

inline Bytes load_table(const uint8_t* p) { return (Bytes)_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)p)); }
inline Bytes look_up(Bytes table, Bytes at) { return (Bytes)_mm256_shuffle_epi8((__m256i)table, (__m256i)at); }
#else
constexpr int kTokens = 16;
using Bytes = uint8_t __attribute__((vector_size(16)));
using Words = uint16_t __attribute__((vector_size(16)));

inline Bytes load_table(const uint8_t* p) { return (Bytes)vld1q_u8(p); }
inline Bytes look_up(Bytes table, Bytes at) { return (Bytes)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)at); }
#endif

using Row = uint8_t __attribute__((vector_size(16)));
constexpr int kSquare = sizeof(Row);  // bytes of 16 tokens that are transposed together
constexpr int kPatterns = 16, kDimensions = 4;
constexpr int kHighest = 63;  // of a table's codes: four of them are added before a byte is full
constexpr int kTogether = 3;  // tokens of the query whose tables are looked up with the same patterns
static_assert(4 * kHighest <= 255);

// The products of a query's tokens with all patterns, as codes: product = code * step + least, added over the groups.
struct Tables {
  std::vector<uint8_t> codes;  // [tokens, rounded up][groups][kPatterns]
  std::vector<float> step, least;
  int tokens, groups;

  Tables(const float* query, int count, int width)
      : tokens((count + kTogether - 1) / kTogether * kTogether), groups(width / kDimensions) {
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
    step[t] = 2 * widest / kHighest;
    const float scale = 1 / step[t];
    uint8_t* code = codes.data() + size_t(t) * groups * kPatterns;
    for (int g = 0; g < groups; ++g, q += kDimensions) {
      // product + reach: twice what the dimensions add whose sign agrees
      for (int pattern = 0; pattern < kPatterns; ++pattern) {
        float agreed = 0;
        for (int i = 0; i < kDimensions; ++i)
          if ((q[i] > 0) == (pattern >> i & 1)) agreed += 2 * __builtin_fabsf(q[i]);
        const int rounded = int(agreed * scale + 0.5f);
        *code++ = uint8_t(rounded < kHighest ? rounded : kHighest);
      }
    }
  }
};

// Transpose 16 rows of 16 bytes: each round interleaves the first half of the rows with the second.
inline void transpose(Row* rows) {
  constexpr Row low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
  constexpr Row high = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  Row other[kSquare];
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kSquare / 2; ++i) {
      other[2 * i] = __builtin_shuffle(rows[i], rows[i + kSquare / 2], low);
      other[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + kSquare / 2], high);
    }
    std::memcpy(rows, other, sizeof other);
  }
}

// The patterns of kTokens tokens: [groups][kTokens]. Behind the last token, of `count`, it is repeated, which changes no
// largest product.
void unpack(const uint8_t* signs, int count, int bytes, Bytes* patterns) {
  for (int t = 0; t < kTokens; t += kSquare) {
    for (int b = 0; b < bytes; b += kSquare) {
      const int there = bytes - b < kSquare ? bytes - b : kSquare;
      Row rows[kSquare];
      for (int i = 0; i < kSquare; ++i) {
        const uint8_t* from = signs + size_t(t + i < count ? t + i : count - 1) * bytes + b;
        if (there == kSquare) {
          std::memcpy(&rows[i], from, kSquare);
        } else {
          rows[i] = Row{};
          std::memcpy(&rows[i], from, there);
        }
      }
      transpose(rows);
      for (int i = 0; i < there; ++i) {
        const Row first = rows[i] & 15, second = rows[i] >> 4;
        auto* to = reinterpret_cast<uint8_t*>(patterns + 2 * (b + i)) + t;
        std::memcpy(to, &first, sizeof(Row));
        std::memcpy(to + sizeof(Bytes), &second, sizeof(Row));
      }
    }
  }
}

inline Words larger(Words a, Words b) { return a > b ? a : b; }

// Sums of codes, of even and odd tokens, and the largest of several blocks of tokens.
struct Best {
  Words even, odd;
};

// Add what `Several` groups of kTokens tokens have in the tables of kTogether tokens of the query.
template <int Several>
inline void add(const uint8_t* codes, int groups, const Bytes* patterns, Words* all, Words* odd) {
  Bytes sum[kTogether] = {};
#pragma GCC unroll 8
  for (int i = 0; i < Several; ++i)
#pragma GCC unroll 8
    for (int t = 0; t < kTogether; ++t)
      sum[t] += look_up(load_table(codes + (size_t(t) * groups + i) * kPatterns), patterns[i]);
#pragma GCC unroll 8
  for (int t = 0; t < kTogether; ++t) {
    all[t] += (Words)sum[t];  // even codes, and 256 times the odd ones, modulo 2^16
    odd[t] += (Words)sum[t] >> 8;
  }
}

// Look up all groups of kTokens tokens for kTogether tokens of the query, and keep what is larger.
inline void score(const uint8_t* codes, int groups, const Bytes* patterns, Best* best) {
  Words all[kTogether] = {}, odd[kTogether] = {};
  int g = 0;
  for (; g + 4 <= groups; g += 4) add<4>(codes + g * kPatterns, groups, patterns + g, all, odd);
  for (; g < groups; g += 2) add<2>(codes + g * kPatterns, groups, patterns + g, all, odd);  // groups are even
#pragma GCC unroll 8
  for (int t = 0; t < kTogether; ++t) {
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
      for (int t = 0; t < tables.tokens; t += kTogether)
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
