// Byte-pair encoding: a piece of text -> ids, by applying the merge of the lowest rank until none
// applies.
//
// Immutable after construction and shared between tokenizers; everything that changes while
// encoding stands in BpeScratch. Ids equal those of tokenizers::models::bpe (Sennrich et al. 2016,
// arXiv:1508.07909).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe_tables.h"

namespace sftbench {

struct BpeConfig {
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unk = false;       // neighboring unknown characters become one unknown token
  bool byte_fallback = false;  // an unknown character becomes its bytes' tokens <0x00>..<0xFF>
  bool ignore_merges = false;  // a piece that is a token is that token
};

struct BpeScratch {
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // positions; -1: none
    bool alive;
  };
  struct Candidate {
    uint64_t rank_and_position;
    int32_t id;
  };
  std::vector<int32_t> ids;
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

class BpeModel {
 public:
  BpeModel(TokenTable vocabulary, BpeConfig config);

  // Adds the merge of the next rank; a message when one of its tokens is not in the vocabulary.
  std::optional<std::string> add_merge(std::string_view left, std::string_view right);
  void reserve_merges(size_t count) { merges_.reserve(count); }

  // Appends the ids of `piece` (valid UTF-8 when it is not bytes). `bytes`: the vocabulary writes
  // bytes as characters and `piece` holds the bytes. InputError when an unknown character needs an
  // unk_token that the vocabulary lacks.
  void encode(std::string_view piece, bool bytes, BpeScratch& scratch,
              std::vector<int32_t>& ids) const;

  // True when no merge joins what stands before a run of `mark` with that run, so that a text
  // encodes the same when it is cut there.
  bool separable_at(std::string_view mark) const;

  const TokenTable& vocabulary() const { return vocabulary_; }

 private:
  void append_chars(std::string_view text, std::vector<int32_t>& symbols) const;
  bool append_byte_fallbacks(std::string_view text, std::vector<int32_t>& symbols) const;
  int32_t unknown() const;

  TokenTable vocabulary_;
  BpeConfig config_;
  MergeTable merges_;
  uint32_t next_rank_ = 0;
  std::array<int32_t, 256> byte_chars_;      // ids of the characters that stand for bytes; -1: none
  std::array<int32_t, 256> byte_fallbacks_;  // ids of <0x00>..<0xFF>; -1: none
  bool all_bytes_ = true;                    // every byte has a character in the vocabulary
  // Characters (below U+10000) that some merge puts behind another character.
  std::vector<bool> joined_behind_other_ = std::vector<bool>(0x10000);
};

}  // namespace sftbench
