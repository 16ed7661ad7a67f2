// Threads that divide loops among each other. A thread claims one range of a loop after another. So a thread that the
// system does not schedule delays the others only if it has already claimed a range.

#pragma once

#include <type_traits>

struct Crew;  // the threads; team.cpp

class Team {
 public:
  using Call = void (*)(void* context, int rank, int begin, int end);

  explicit Team(int size);
  ~Team();
  Team(const Team&) = delete;

  int size() const { return size_; }

  // Call body(rank, begin, end) on ranges that cover [0, total), on several threads, and return when all are done.
  // `items` is the number of ranges. Only one thread may call this at a time.
  template <class Body>
  void each(int total, int items, Body&& body) {
    if (size_ == 1 || items <= 1) {
      body(0, 0, total);
      return;
    }
    using Kind = std::remove_reference_t<Body>;
    run(
        total, items,
        [](void* context, int rank, int begin, int end) { (*static_cast<Kind*>(context))(rank, begin, end); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  void run(int total, int items, Call call, void* context);

  const int size_;
  Crew* crew_;
};
