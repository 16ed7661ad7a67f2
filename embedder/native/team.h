// Threads that share one piece of work, and how they wait for each other.

#pragma once

#include <immintrin.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

inline void pause() { _mm_pause(); }

// A barrier for a few threads that are all running: they spin, as the wait is shorter than a system call.
struct Barrier {
  std::atomic<int> arrived{0};
  std::atomic<int> phase{0};
  int size = 1;
  void wait() {
    if (size == 1) return;
    const int now = phase.load(std::memory_order_relaxed);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) == size - 1) {
      arrived.store(0, std::memory_order_relaxed);
      phase.store(now + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; phase.load(std::memory_order_acquire) == now; ++spins) {
      if (spins < 20000) pause();
      else std::this_thread::yield();  // the other thread has been descheduled
    }
  }
};

struct Team {
  int rank, size;
  Barrier* barrier;
  void sync() const { barrier->wait(); }
  // This thread's share of n things.
  std::pair<int, int> share(int n) const { return {int(int64_t(n) * rank / size), int(int64_t(n) * (rank + 1) / size)}; }
};
