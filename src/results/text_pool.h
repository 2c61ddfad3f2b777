// What the results of a scan look at: texts, values and lists of names, at addresses that stay,
// given back all at once. One pool per thread while a scan reads.
#pragma once

#include <memory>
#include <set>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "sftbench/results/scan.h"

namespace sftbench {

// Pieces of large blocks, never given back one by one.
template <typename T>
class Arena {
 public:
  // Room for `count` of them, not initialized to anything but what T() is.
  T* take(size_t count) {
    if (count > left_) {
      left_ = std::max(count, kBlock);
      blocks_.push_back(std::make_unique<T[]>(left_));
      next_ = blocks_.back().get();
    }
    T* piece = next_;
    next_ += count;
    left_ -= count;
    return piece;
  }

 private:
  static constexpr size_t kBlock = (size_t{1} << 18) / sizeof(T);
  std::vector<std::unique_ptr<T[]>> blocks_;
  T* next_ = nullptr;
  size_t left_ = 0;
};

class TextPool {
 public:
  // A copy. For texts that hardly any other result has, too.
  std::string_view store(std::string_view text);
  // A copy that all equal texts share.
  std::string_view share(std::string_view text);
  // The same list for the same names, which are themselves in this pool.
  const Record::Names* share(const Record::Names& names);
  const Scalar* store(const std::vector<Scalar>& values);

  // The names of the file before, which most files repeat: a guess that saves a search.
  const Record::Names* latest_entity = nullptr;
  const Record::Names* latest_inputs = nullptr;
  const Record::Names* latest_measured = nullptr;

 private:
  Arena<char> characters_;
  Arena<Scalar> values_;
  std::unordered_set<std::string_view> texts_;
  std::set<Record::Names> names_;
};

}  // namespace sftbench
