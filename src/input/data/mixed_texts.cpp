#include "sftbench/data/mixed_texts.h"

#include <algorithm>
#include <utility>

namespace sftbench {

MixedTexts::MixedTexts(std::vector<std::shared_ptr<TextDataset>> sets) : sets_(std::move(sets)) {
  for (const auto& set : sets_) {
    begins_.push_back(size_);
    size_ += set->size();
  }
}

size_t MixedTexts::set_of(int64_t index) const {
  const auto behind = std::upper_bound(begins_.begin(), begins_.end(), index);
  return static_cast<size_t>(behind - begins_.begin()) - 1;
}

EncodedEntry MixedTexts::entry(int64_t index) const {
  const size_t set = set_of(index);
  return sets_[set]->entry(index - begins_[set]);
}

int64_t MixedTexts::length(int64_t index) const {
  const size_t set = set_of(index);
  return sets_[set]->length(index - begins_[set]);
}

std::vector<int64_t> MixedTexts::entries_of(size_t set, const std::vector<int64_t>& entries) const {
  std::vector<int64_t> own;
  for (const int64_t entry : entries) {
    if (set_of(entry) == set) own.push_back(entry - begins_[set]);
  }
  return own;
}

DataAccount MixedTexts::account() const {
  DataAccount all;
  for (const auto& set : sets_) all.add(set->account());
  return all;
}

InvocationCount MixedTexts::invocations() const {
  InvocationCount all;
  for (const auto& set : sets_) {
    all.with += set->invocations().with;
    all.without += set->invocations().without;
  }
  return all;
}

}  // namespace sftbench
