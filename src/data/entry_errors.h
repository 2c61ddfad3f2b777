// What is wrong with the entries of a file, gathered from several threads and reported in the
// file's order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "sftbench/base/error.h"

namespace sftbench {

class EntryErrors {
 public:
  void add(int64_t entry, Diagnostic error) {
    const std::lock_guard lock(mutex_);
    errors_.emplace(entry, std::move(error));
    ++count_;
    if (errors_.size() > kReported) errors_.erase(std::prev(errors_.end()));
  }

  // Throws InputError with the first of them, and how many more there are, unless there are none.
  void throw_if_any() {
    if (errors_.empty()) return;
    std::vector<Diagnostic> reported;
    for (auto& [entry, error] : errors_) {
      if (!reported.empty() && is_of_file(error) && is_of_file(reported.back()) &&
          error.message == reported.back().message) {
        continue;  // a column's, for each of its rows
      }
      reported.push_back(std::move(error));
    }
    const size_t more = count_ - errors_.size();
    if (more > 0 && !is_of_file(reported.back())) {
      Diagnostic rest;
      rest.file = reported.front().file;
      rest.message = std::to_string(more) + " more lines are wrong";
      reported.push_back(std::move(rest));
    }
    throw InputError(std::move(reported));
  }

 private:
  static constexpr size_t kReported = 20;

  static bool is_of_file(const Diagnostic& error) { return error.line == 0; }

  std::mutex mutex_;
  std::map<int64_t, Diagnostic> errors_;  // the first kReported
  size_t count_ = 0;                      // of all
};

}  // namespace sftbench
