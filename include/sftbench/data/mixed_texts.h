// Several sets of texts as one: entries are numbered through, one set behind the other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sftbench/data/text_dataset.h"

namespace sftbench {

class MixedTexts : public EncodedEntries {
 public:
  // REQUIRES: at least one set, all of the same model_max_length.
  explicit MixedTexts(std::vector<std::shared_ptr<TextDataset>> sets);

  int64_t begin(size_t set) const { return begins_[set]; }
  // Those of a set among these entries, by its own numbers.
  std::vector<int64_t> entries_of(size_t set, const std::vector<int64_t>& entries) const;

  int64_t size() const override { return size_; }
  int64_t model_max_length() const override { return sets_.front()->model_max_length(); }
  EncodedEntry entry(int64_t index) const override;
  int64_t length(int64_t index) const override;
  DataAccount account() const override;
  bool seeks_response() const override { return sets_.front()->seeks_response(); }
  InvocationCount invocations() const override;

 private:
  size_t set_of(int64_t index) const;

  std::vector<std::shared_ptr<TextDataset>> sets_;
  std::vector<int64_t> begins_;
  int64_t size_ = 0;
};

}  // namespace sftbench
