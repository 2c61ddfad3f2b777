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
  // Lines that follow each other and say the same are one.
  void throw_if_any() {
    if (errors_.empty()) return;
    std::vector<Diagnostic> reported;
    for (auto& [entry, error] : errors_) {
      const bool known = !reported.empty() && reported.back().key == error.key &&
                         reported.back().message == error.message;
      if (!known) reported.push_back(std::move(error));
    }
    const size_t more = count_ - reported.size();
    if (more > 0 && reported.back().line != 0) {  // 0: it is a column that is wrong, in all lines
      Diagnostic rest;
      rest.file = reported.front().file;
      rest.message =
          std::to_string(more) + (more == 1 ? " more line is wrong" : " more lines are wrong");
      reported.push_back(std::move(rest));
    }
    throw InputError(std::move(reported));
  }

 private:
  static constexpr size_t kReported = 20;

  std::mutex mutex_;
  std::map<int64_t, Diagnostic> errors_;  // the first kReported
  size_t count_ = 0;                      // of all
};

}  // namespace sftbench
