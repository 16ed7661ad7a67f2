// An encoder allocates one block of memory. Its structs take their arrays from this block.

#pragma once

#include <cstddef>

namespace {

constexpr size_t kAlignment = 64;  // bytes; a cache line, and the widest vector register

// Returns arrays in a block, one after the other. If the block is null, it only counts the bytes of the arrays.
class Arena {
 public:
  explicit Arena(char* block) : block_(block) {}

  template <class T>
  T* take(size_t count) {
    static_assert(alignof(T) <= kAlignment);
    T* array = block_ ? reinterpret_cast<T*>(block_ + bytes_) : nullptr;
    bytes_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return array;
  }
  size_t bytes() const { return bytes_; }

 private:
  char* block_;
  size_t bytes_ = 0;
};

// Return how many bytes the arrays of the struct `Parts` need. `sizes` are the arguments of its constructor.
template <class Parts, class... Sizes>
inline size_t bytes_of(const Sizes&... sizes) {
  Arena counter(nullptr);
  Parts(counter, sizes...);
  return counter.bytes();
}

}  // namespace
