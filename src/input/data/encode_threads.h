// Work over many entries on several threads, each with a tokenizer of its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

// Calls work(item, tokenizer) for every item, in no particular order, on the calling thread and up
// to threads - 1 others. The first exception ends the work and is thrown here.
template <typename Work>
void for_each_in_parallel(const std::vector<int64_t>& items, int threads,
                          const Tokenizer& tokenizer, const Work& work) {
  if (items.empty()) return;
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&](const Tokenizer& own) {
    try {
      for (size_t i = next++; i < items.size(); i = next++) work(items[i], own);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = items.size();
    }
  };

  std::vector<Tokenizer> copies;
  const size_t helpers = std::min(static_cast<size_t>(std::max(threads, 1)), items.size()) - 1;
  for (size_t i = 0; i < helpers; ++i) copies.push_back(tokenizer.clone());
  std::vector<std::thread> workers;
  for (const Tokenizer& copy : copies) workers.emplace_back([&run, &copy] { run(copy); });
  run(tokenizer);
  for (std::thread& worker : workers) worker.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace sftbench
