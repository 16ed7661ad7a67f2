#include "team.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace {

// A thread spins for this time before it sleeps, because sleeping and waking takes about 50 us. If there are more
// threads than processors, it does not spin, because a spinning thread would delay the others.
constexpr auto kPatience = std::chrono::microseconds(100);
constexpr int kPausesALook = 16;

// The epoch, the number of items and the next item of a loop in one number, so that one compare-and-exchange claims an
// item.
constexpr int kItemBits = 24;
constexpr uint64_t kItemMask = (uint64_t(1) << kItemBits) - 1;
static_assert(std::atomic<uint64_t>::is_always_lock_free);

int next_index(uint64_t state) { return int(state & kItemMask); }
int item_count(uint64_t state) { return int(state >> kItemBits & kItemMask); }
uint64_t next_state(uint64_t state, int items) {
  const uint64_t epoch = (state >> 2 * kItemBits) + 1;
  return epoch << 2 * kItemBits | uint64_t(items) << kItemBits;
}

void pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#else
  asm volatile("yield");
#endif
}

}  // namespace

struct Crew {
  Crew(int size) : patience(size <= int(std::thread::hardware_concurrency()) ? kPatience : kPatience.zero()) {
    for (int rank = 1; rank < size; ++rank) threads.emplace_back([this, rank] { help(rank); });
  }

  ~Crew() {
    stop.store(true);
    {
      std::lock_guard<std::mutex> lock(mutex);
      wake.notify_all();
    }
    for (auto& thread : threads) thread.join();
  }

  void run(int count, int items, Team::Call function, void* argument) {
    call = function;
    context = argument;
    total = count;
    done.store(0, std::memory_order_relaxed);
    state.store(next_state(state.load(std::memory_order_relaxed), items));
    if (sleepers.load() > 0) {
      std::lock_guard<std::mutex> lock(mutex);
      wake.notify_all();
    }
    while (run_one(0)) {
    }
    const auto finished = [&] { return done.load(std::memory_order_acquire) == items; };
    // Spin at first. After a longer wait, yield the processor: a thread with an unfinished item may be waiting for it.
    while (!spin_until(finished)) std::this_thread::yield();
  }

  // Spin until a condition is true. Returns false if it is still false after `patience`.
  template <class Condition>
  bool spin_until(Condition&& condition) {
    const auto end = std::chrono::steady_clock::now() + patience;
    do {
      for (int i = 0; i < kPausesALook; ++i) {
        if (condition()) return true;
        pause();
      }
    } while (std::chrono::steady_clock::now() < end);
    return condition();
  }

  // Claim an item of the current loop and run it. Returns false if all items are claimed. `call`, `context` and `total`
  // may be read only between a successful claim and the increment of `done`, because afterwards run() may change them.
  bool run_one(int rank) {
    uint64_t now = state.load(std::memory_order_acquire);
    int index, items;
    do {
      index = next_index(now);
      items = item_count(now);
      if (index >= items) return false;
    } while (!state.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel, std::memory_order_acquire));
    const int64_t count = total;
    call(context, rank, int(count * index / items), int(count * (index + 1) / items));
    done.fetch_add(1, std::memory_order_release);
    return true;
  }

  void help(int rank) {
    const auto stopped = [&] { return stop.load(std::memory_order_relaxed); };
    while (!stopped()) {
      if (spin_until([&] { return stopped() || run_one(rank); })) continue;
      std::unique_lock<std::mutex> lock(mutex);
      sleepers.fetch_add(1);
      wake.wait(lock, [&] {
        const uint64_t now = state.load();
        return stop.load() || next_index(now) < item_count(now);
      });
      sleepers.fetch_sub(1);
    }
  }

  const std::chrono::microseconds patience;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  Team::Call call = nullptr;
  void* context = nullptr;
  int total = 0;
  alignas(64) std::atomic<uint64_t> state{0};
  alignas(64) std::atomic<int> done{0};
  std::vector<std::thread> threads;  // the last member, so that threads start when all others are constructed
};

Team::Team(int size) : size_(size), crew_(size > 1 ? new Crew(size) : nullptr) {}

Team::~Team() { delete crew_; }

void Team::run(int total, int items, Call call, void* context) { crew_->run(total, items, call, context); }
