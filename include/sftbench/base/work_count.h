// How much of a work is done: several threads add to it, another one looks.
#pragma once

#include <atomic>
#include <cstdint>

namespace sftbench {

struct WorkCount {
  std::atomic<int64_t> done{0};
  std::atomic<int64_t> total{0};  // 0: not known yet

  void add(int64_t amount) { done.fetch_add(amount, std::memory_order_relaxed); }
};

// For work that nobody looks at.
inline void add_work(WorkCount* count, int64_t amount) {
  if (count != nullptr) count->add(amount);
}

}  // namespace sftbench
