// Threads that share loops. Work is claimed, never assigned: a thread that the system has descheduled is not waited for
// unless it holds an item, so that one busy neighbour does not stall every step.

#pragma once

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

class Team {
 public:
  explicit Team(int size) : size_(size) {
    for (int rank = 1; rank < size; ++rank) threads_.emplace_back([this, rank] { help(rank); });
  }

  ~Team() {
    stop_.store(true);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      wake_.notify_all();
    }
    for (auto& thread : threads_) thread.join();
  }

  int size() const { return size_; }

  // Call body(rank, begin, end) on ranges that cover [0, total), on several threads; returns when all are done.
  // `items` is the number of ranges. Only one thread may call this at a time.
  template <class Body>
  void each(int total, int items, Body&& body) {
    if (size_ == 1 || items <= 1) {
      body(0, 0, total);
      return;
    }
    call_ = [](void* context, int rank, int begin, int end) {
      (*static_cast<std::remove_reference_t<Body>*>(context))(rank, begin, end);
    };
    context_ = const_cast<void*>(static_cast<const void*>(&body));
    total_ = total;
    done_.store(0, std::memory_order_relaxed);
    const uint64_t epoch = (state_.load(std::memory_order_relaxed) >> 48) + 1;
    state_.store(epoch << 48 | uint64_t(items) << 24);
    if (sleepers_.load() > 0) {
      std::lock_guard<std::mutex> lock(mutex_);
      wake_.notify_all();
    }
    while (run_one(0)) {
    }
    // Short waits spin; past that a helper holds an item and has been descheduled: give it the processor.
    for (int spins = 0; done_.load(std::memory_order_acquire) != items; ++spins)
      spins < kSpins ? _mm_pause() : std::this_thread::yield();
  }

 private:
  static constexpr int kSpins = 4000;  // about 100 us; sleeping and waking costs half of that

  // Claim an item of the current loop and run it; false if none is left. What the loop is may be read only between a
  // successful claim and its count in done_: until then the caller of each() cannot go on.
  bool run_one(int rank) {
    uint64_t state = state_.load(std::memory_order_acquire);
    int index, items;
    do {
      index = int(state & 0xffffff);
      items = int(state >> 24 & 0xffffff);
      if (index >= items) return false;
    } while (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel, std::memory_order_acquire));
    const int64_t total = total_;
    call_(context_, rank, int(total * index / items), int(total * (index + 1) / items));
    done_.fetch_add(1, std::memory_order_release);
    return true;
  }

  void help(int rank) {
    while (!stop_.load(std::memory_order_relaxed)) {
      int spins = 0;
      while (!run_one(rank) && ++spins < kSpins) _mm_pause();
      if (spins < kSpins) continue;
      std::unique_lock<std::mutex> lock(mutex_);
      sleepers_.fetch_add(1);
      wake_.wait(lock, [&] {
        const uint64_t state = state_.load();
        return stop_.load() || (state & 0xffffff) < (state >> 24 & 0xffffff);
      });
      sleepers_.fetch_sub(1);
    }
  }

  const int size_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  void (*call_)(void*, int, int, int) = nullptr;
  void* context_ = nullptr;
  int total_ = 0;
  alignas(64) std::atomic<uint64_t> state_{0};  // epoch, items and the next index: 16, 24 and 24 bits
  alignas(64) std::atomic<int> done_{0};
};
