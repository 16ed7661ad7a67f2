// Runs the native encoder outside Python, for processors that are emulated and for sanitizers:
//   driver ISA JOB WEIGHTS > vectors
// JOB is one file of int32 and int64 in native order: the shape, the number of steps and the steps, threads, repeats,
// the number of tensors and their offsets in WEIGHTS (int64, -1 for none), the number of texts, their offsets, their
// ids. Prints the vectors, float32, once for each repeat (each made by threads of its own when repeats are negative).

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "interface.h"

namespace {

// Linux sends SIGILL at the first tile instruction of a process that has not asked for AMX. Under emulation the call
// fails, and the model of the tiles needs no permission.
void request_amx() {
#if defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  syscall(SYS_arch_prctl, kRequestPermission, kTileData);
#endif
}

std::vector<char> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return std::vector<char>(std::istreambuf_iterator<char>(file), {});
}

struct Reader {
  std::ifstream file;

  template <class T>
  std::vector<T> take(size_t n) {
    std::vector<T> values(n);  // of its own, so that a sanitizer sees where it ends
    file.read(reinterpret_cast<char*>(values.data()), n * sizeof(T));
    if (!file) std::exit(3);
    return values;
  }
  int32_t one() { return take<int32_t>(1)[0]; }
};

}  // namespace

int main(int, char** arguments) {
  request_amx();
  Reader job{std::ifstream(arguments[2], std::ios::binary)};
  const pl_shape shape = job.take<pl_shape>(1)[0];
  const auto steps = job.take<pl_step>(job.one());
  const int threads = job.one(), repeats = job.one();
  const auto places = job.take<int64_t>(job.one());
  const int texts = job.one();
  const auto offsets = job.take<int32_t>(texts + 1);
  const auto ids = job.take<int32_t>(offsets[texts]);

  // Each tensor in memory of its own, at the alignment of the file, so that a sanitizer sees its bounds.
  const std::vector<char> weights = read(arguments[3]);
  std::vector<void*> copies;
  std::vector<const void*> tensors;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 0) {
      tensors.push_back(nullptr);
      continue;
    }
    size_t end = weights.size();
    for (int64_t place : places)
      if (place > places[i] && size_t(place) < end) end = place;
    void* copy = std::aligned_alloc(64, (end - places[i] + 63) / 64 * 64);
    std::copy(weights.begin() + places[i], weights.begin() + end, static_cast<char*>(copy));
    copies.push_back(copy);
    tensors.push_back(copy);
  }
  void* engine = pl_create(arguments[1], &shape, steps.data(), int(steps.size()), tensors.data(), threads);
  if (!engine) return 4;
  const size_t size = size_t(texts) * shape.outputs;
  const int count = std::abs(repeats);
  std::vector<std::vector<float>> vectors(count, std::vector<float>(size));
  std::vector<std::vector<float>> states(count, std::vector<float>(size_t(offsets[texts]) * shape.hidden));
  std::vector<Refusal> refused(count);
  const auto encode = [&](int i) {
    refused[i] = pl_encode(engine, ids.data(), offsets.data(), texts, vectors[i].data(), states[i].data());
  };
  if (repeats < 0) {
    std::vector<std::thread> callers;
    for (int i = 0; i < count; ++i) callers.emplace_back(encode, i);
    for (auto& caller : callers) caller.join();
  } else {
    for (int i = 0; i < count; ++i) encode(i);
  }
  pl_destroy(engine);
  for (void* copy : copies) std::free(copy);
  for (Refusal why : refused)
    if (why != Refusal::kNone) return 10 + int(why);
  for (const auto& one : vectors) std::fwrite(one.data(), sizeof(float), size, stdout);
  return 0;
}
