// The JSON parser of tokenizer.json: vocabulary and merges into tables, the rest into a JSON value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe_tables.h"
#include "tokenizer/problems.h"

namespace sftbench {

// The texts of the merges, in one block of memory.
class MergeTexts {
 public:
  void add(std::string_view text) {
    texts_ += text;
    ends_.push_back(texts_.size());
  }
  void clear() {
    texts_.clear();
    ends_.clear();
  }
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(texts_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string texts_;
  std::vector<size_t> ends_;
};

struct TokenizerJson {
  Json rest;  // without model.vocab and model.merges
  bool has_vocabulary = false, has_merges = false;
  TokenTable vocabulary;
  MergeTexts merge_pairs;  // left and right by turns
};

// InputError with the line when the text is not JSON; wrong types inside vocabulary and merges are
// problems.
TokenizerJson parse_tokenizer_json(std::string_view text, TokenizerProblems& problems);

}  // namespace sftbench
