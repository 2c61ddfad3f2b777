// Added tokens: texts that are one token wherever they stand, found before (or after)
// normalization. Source: tokenizers::tokenizer::added_vocabulary, Aho-Corasick "leftmost longest"
// semantics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/normalizer.h"
#include "tokenizer/problems.h"

namespace sftbench {

struct AddedToken {
  std::string content;
  bool single_word = false;  // no match inside a word
  bool lstrip = false;       // swallows the white space before it
  bool rstrip = false;       // and behind it
  bool normalized = true;    // looked for in normalized text, by its own normalized form
  bool special = false;
};

// Finds the leftmost, there the longest, of a set of texts. Costs O(longest token) at each place
// where the first byte of a token stands.
class TokenFinder {
 public:
  struct Entry {
    std::string text;
    int32_t id;
    bool single_word, lstrip, rstrip;
  };
  // The later of two entries with one text wins. Empty texts never match.
  void build(std::vector<Entry> entries);
  bool empty() const { return entries_.empty(); }

  // Cuts `text` at the tokens in it: calls text_part(begin, end) and token(id) in order of the
  // text.
  template <typename TextPart, typename Token>
  void split(std::string_view text, TextPart text_part, Token token) const {
    size_t start = 0;
    if (!entries_.empty()) {
      SpaceRun spaces;
      for (size_t at = candidate(text, 0); at < text.size();) {
        const Entry* entry = longest_at(text, at);
        if (entry == nullptr) {
          at = candidate(text, at + 1);
          continue;
        }
        size_t begin = at, end = at + entry->text.size();
        at = candidate(text, end);
        if (!accepts(*entry, text, start, begin, end, spaces)) continue;
        if (start < begin) text_part(start, begin);
        token(entry->id);
        start = end;
      }
    }
    if (start != text.size()) text_part(start, text.size());
  }

 private:
  // White space that an rstrip token has swallowed: tokens inside it must not walk over it again.
  struct SpaceRun {
    size_t begin = 0, end = 0;
  };
  size_t candidate(std::string_view text, size_t from) const;  // where a token may begin
  const Entry* longest_at(std::string_view text, size_t at) const;
  // Word limits and stripping: may widen [begin, end); false: no match after all.
  static bool accepts(const Entry& entry, std::string_view text, size_t start, size_t& begin,
                      size_t& end, SpaceRun& spaces);

  void choose_anchor();

  std::vector<Entry> entries_;  // sorted by text
  // Candidates are found by the bytes that stand `anchor_` bytes into the tokens: "<" in "▁<s>",
  // "▁</s>".
  size_t anchor_ = 0;
  std::string anchor_bytes_;
  bool is_anchor_byte_[256] = {};
};

class AddedVocabulary {
 public:
  static constexpr size_t kLongestToken_bytes = 1024;

  // Tokens are added in batches: the first new id of a batch stands behind all ids of before it.
  // `model_size` is the number of the model's tokens.
  void start_batch(int64_t model_size);
  // Gives `token` the id of the model's token of that text (`model_id`, -1: none), else the next
  // free one. Returns the id. Call refresh() before the next search.
  int32_t add(AddedToken token, int32_t model_id);
  void refresh(const NormalizerChain& normalizer);

  int32_t find(const std::string& text) const;  // -1: not there
  int32_t largest_id() const { return largest_id_; }
  std::map<int32_t, AddedToken> by_id() const { return {tokens_.begin(), tokens_.end()}; }

  const TokenFinder& before_normalization() const { return raw_; }
  const TokenFinder& after_normalization() const { return normalized_; }

 private:
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<int32_t, AddedToken> tokens_;
  int32_t largest_id_ = -1;
  int64_t next_id_ = 0;
  TokenFinder raw_, normalized_;
};

}  // namespace sftbench
