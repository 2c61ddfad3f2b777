// Text entries as a supervised fine-tuning run sees them: token ids, and from which position on
// they bear loss.
//
// One entry: the text of the EOS token is appended to the field, the whole is encoded with the
// tokenizer's own special tokens and cut to the maximum length. Labels equal the ids after the last
// occurrence of the response template and -100 before and in it; an entry without the template
// bears no loss at all. Source: trl's DataCollatorForCompletionOnlyLM (up to 0.19) as fms-hf-tuning
// configures it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/work_count.h"
#include "sftbench/data/jsonl.h"
#include "sftbench/data/token_cache.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

inline constexpr int64_t kIgnoredLabel = -100;

struct TextDatasetOptions {
  std::string text_field = "output";
  std::string response_template = "\n### Response:";  // empty: every token bears loss
  int64_t model_max_length = 0;                       // tokens; > 0
};

// Labels are not stored: the label of position i is input_ids[i] where i >= loss_begin, else -100.
struct EncodedEntry {
  std::vector<int32_t> input_ids;
  int32_t loss_begin = -1;     // == input_ids.size() when none bears loss; -1: not encoded yet
  int32_t dataset_tokens = 0;  // of the text: at most model_max_length and the tokenizer's maximum
  bool has_response = false;   // the template occurs (also when nothing stands behind it)
};

class TextDataset {
 public:
  // The file stays mapped, the tokenizer is shared with the caller's through clone(): set its
  // special tokens before. InputError when the response template has too few tokens to be searched
  // for.
  TextDataset(JsonlFile file, const Tokenizer& tokenizer, TextDatasetOptions options);

  int64_t size() const { return file_.size(); }
  const TextDatasetOptions& options() const { return options_; }

  // Encodes these entries (repeats are fine, those that are encoded already cost nothing) on
  // `threads` threads; a run asks once, before its clock starts, for what it will use. `counts`,
  // when given, learns the token count of each entry; `work`, when given, counts entries.
  // InputError with everything that is wrong with the entries asked for, up to 20 lines.
  void encode(const std::vector<int64_t>& entries, int threads, TokenCountCache* counts = nullptr,
              WorkCount* work = nullptr);

  // REQUIRES: encode() was asked for it.
  const EncodedEntry& entry(int64_t index) const;

  // Among the encoded entries. They bear no loss: a caller says so once per run.
  int64_t entries_without_response() const { return entries_without_response_; }

 private:
  bool encoded(int64_t index) const {
    return entries_.at(static_cast<size_t>(index)).loss_begin >= 0;
  }
  EncodedEntry encode_one(const Tokenizer& tokenizer, const std::string& text,
                          int64_t& text_tokens) const;

  JsonlFile file_;
  Tokenizer tokenizer_;
  TextDatasetOptions options_;
  std::string eos_;
  int64_t eos_tokens_ = 0;  // 1 wherever EOS is a special token
  int64_t dataset_token_limit_ = 0;
  std::vector<int32_t> suffix_ids_;  // what the post-processor puts behind the text
  std::vector<int32_t> response_ids_;
  std::vector<EncodedEntry> entries_;
  int64_t entries_without_response_ = 0;
};

// The ids that mark the response: the template encoded without special tokens, less its first two
// ids (how a tokenizer merges around the leading newline depends on what stands before it).
std::vector<int32_t> response_template_ids(const Tokenizer& tokenizer,
                                           const std::string& response_template);

// First position after the last occurrence of `response_ids`.
std::optional<int64_t> position_after_response(const std::vector<int32_t>& ids,
                                               const std::vector<int32_t>& response_ids);

}  // namespace sftbench
