// The memory of an encoder: one block, from which structs take their arrays.

#pragma once

#include <cstddef>

namespace {

constexpr size_t kAlignment = 64;  // bytes; a cache line, and the widest vector register

// Hands out the arrays of a block, one after the other. Without a block it only counts the bytes that a struct's arrays
// need.
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

// The bytes that the arrays of a `Parts` of these sizes need.
template <class Parts, class... Sizes>
inline size_t bytes_of(const Sizes&... sizes) {
  Arena counter(nullptr);
  Parts(counter, sizes...);
  return counter.bytes();
}

}  // namespace
