// Text entries as a supervised fine-tuning run sees them: token ids, and from which position on
// they bear loss.
//
// One entry: the text of the EOS token is appended to the field, the whole is encoded with the
// tokenizer's own special tokens and cut to the maximum length. Labels equal the ids after the last
// occurrence of the response template and -100 before and in it; an entry without the template
// bears no loss at all. Source: trl's DataCollatorForCompletionOnlyLM (up to 0.19) as fms-hf-tuning
// configures it. It seeks ids. Where they do not occur, this program seeks the template in the
// text, with or without its leading white space.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/work_count.h"
#include "sftbench/data/conversation.h"
#include "sftbench/data/data_account.h"
#include "sftbench/data/entries.h"
#include "sftbench/data/entry_template.h"
#include "sftbench/data/spill_file.h"
#include "sftbench/data/token_cache.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

inline constexpr int64_t kIgnoredLabel = -100;

struct TextDatasetOptions {
  // What an entry is, the first of these that is set:
  //   pretokenized    lists of ids, input_ids and, unless all of it bears loss, labels of the same
  //                   length, -100 or ids below `vocabulary`; cut to the maximum length, and
  //                   nothing is added
  //   conversation    messages, of which what assistants say bears loss (data/conversation.h)
  //   entry_template  a text made of its fields, or the name of a usual form, whose prompt bears no
  //                   loss (data/entry_template.h)
  //   input_field     and output_field: the input bears no loss, a space stands between them unless
  //                   one of them has it, EOS follows (tokenize_and_apply_input_masking of
  //                   fms-hf-tuning)
  //   text_field      a text
  bool pretokenized = false;
  std::string conversation_field = {};
  ChatTemplateText chat_template = {};  // with a conversation
  std::time_t now = 0;                  // that it is told
  ConversationMask mask = ConversationMask::kAssistant;
  std::string entry_template = {};
  std::string input_field = {}, output_field = {};
  std::string text_field = "output";
  std::string response_template = "\n### Response:";            // empty: every token bears loss
  int64_t model_max_length = 0;                                 // tokens; > 0
  int64_t vocabulary = 0;                                       // of the model; 0: not known
  std::vector<int32_t> invocation = {};                         // of activated LoRA; empty: none
  size_t most_bytes_in_memory = SpillFile::kMostBytesInMemory;  // of ids and labels

  // Whether response_template decides what bears loss.
  bool seeks_response() const {
    return !pretokenized && conversation_field.empty() &&
           (entry_template.empty() ? input_field.empty() : !is_named_form(entry_template)) &&
           !response_template.empty();
  }
};

// What counts of an entry's tokens are counts of, for the cache of them.
std::string counted_text(const TextDatasetOptions& options);

// Without `labels` the label of position i is input_ids[i] where i >= loss_begin, else -100.
struct EncodedEntry {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> labels;  // as given; empty: see above
  int32_t loss_begin = -1;      // == input_ids.size() when none bears loss; -1: not encoded yet
  int32_t dataset_tokens = 0;   // of the text: at most model_max_length and the tokenizer's maximum
  // The template occurs, also when nothing stands behind it; where none is sought: a position bears
  // loss.
  bool has_response = false;
};

// Encoded entries by whether the invocation of activated LoRA is among their ids; none without one.
struct InvocationCount {
  int64_t with = 0;
  int64_t without = 0;
};

// Entries that are encoded: what batches are made of.
class EncodedEntries {
 public:
  virtual ~EncodedEntries() = default;

  virtual int64_t size() const = 0;
  virtual int64_t model_max_length() const = 0;
  // REQUIRES: it was asked to be encoded. Safe for concurrent calls.
  virtual EncodedEntry entry(int64_t index) const = 0;
  virtual int64_t length(int64_t index) const = 0;  // of its input_ids
  // Of the encoded entries: a caller says once per run what of them is not used.
  virtual DataAccount account() const { return {}; }
  virtual bool seeks_response() const { return false; }
  virtual InvocationCount invocations() const { return {}; }
  // An id whose positions bear no loss wherever it stands, or -1.
  virtual int64_t ignored_id() const { return -1; }
};

class TextDataset : public EncodedEntries {
 public:
  // Files stay open, the tokenizer is shared with the caller's through clone(): set its
  // special tokens before.
  TextDataset(Entries file, const Tokenizer& tokenizer, TextDatasetOptions options);

  int64_t size() const override { return file_.size(); }
  int64_t model_max_length() const override { return options_.model_max_length; }
  const TextDatasetOptions& options() const { return options_; }

  // Encodes these entries (repeats are fine, those that are encoded already cost nothing) on
  // `threads` threads; a run asks once, before its clock starts, for what it will use. `counts`,
  // when given, learns the token count of each entry; `work`, when given, counts entries.
  // InputError with everything that is wrong with the entries asked for, up to 20 lines.
  void encode(const std::vector<int64_t>& entries, int threads, TokenCountCache* counts = nullptr,
              WorkCount* work = nullptr);

  EncodedEntry entry(int64_t index) const override;
  int64_t length(int64_t index) const override;
  DataAccount account() const override { return account_; }
  bool seeks_response() const override { return options_.seeks_response(); }
  InvocationCount invocations() const override { return invocations_; }

 private:
  // An EncodedEntry whose ids, and labels behind them, are in ids_.
  struct KeptEntry {
    enum class Labels : uint8_t { kNone, kIdsBehindBegin, kKept };

    uint64_t begin_bytes = 0;
    int32_t length = 0;  // ids, and labels where they are kept
    int32_t loss_begin = -1;
    int32_t dataset_tokens = 0;
    Labels labels = Labels::kNone;
    bool has_response = false;
  };

  bool encoded(int64_t index) const {
    return entries_.at(static_cast<size_t>(index)).loss_begin >= 0;
  }
  const KeptEntry& kept(int64_t index) const;
  KeptEntry keep(const EncodedEntry& entry);
  // An entry as it is encoded, with what becomes of it.
  struct Encoding;
  void encode_text(const Tokenizer& tokenizer, const std::string& text, Encoding& encoding) const;
  // False and `error` where the entry is not what the options say.
  bool encode_entry(const Tokenizer& tokenizer, int64_t index, Encoding& encoding,
                    Diagnostic& error) const;
  bool encode_object(const Tokenizer& tokenizer, const Json& object, Encoding& encoding,
                     Diagnostic& error) const;
  // Of `text` in `ids`, of which so many were cut off at the left; 0 where no response is sought.
  std::optional<int64_t> response_end_of(const Tokenizer& tokenizer, const std::string& text,
                                         const std::vector<int32_t>& ids, int64_t cut_left) const;
  bool read_ids(const Json& object, Encoding& encoding, Diagnostic& error) const;
  bool encode_pair(const Tokenizer& tokenizer, const Json& object, Encoding& encoding,
                   Diagnostic& error) const;
  void encode_prompt(const Tokenizer& tokenizer, const std::string& prompt,
                     const std::string& response, Encoding& encoding) const;
  bool encode_conversation(const Tokenizer& tokenizer, const Json& object, Encoding& encoding,
                           Diagnostic& error) const;
  // How many were cut off at the left. Special tokens around a text stay.
  int64_t cut(std::vector<int32_t>& ids) const;
  void tell_unused(const std::vector<std::string>& keys, Encoding& encoding) const;
  void add_to_account(int64_t index, const Encoding& encoding);

  Entries file_;
  Tokenizer tokenizer_;
  TextDatasetOptions options_;
  std::string eos_;
  int64_t eos_tokens_ = 0;  // 1 wherever EOS is a special token
  int64_t dataset_token_limit_ = 0;
  std::vector<int32_t> prefix_ids_, suffix_ids_;  // what the post-processor puts around the text
  std::vector<int32_t> response_ids_;
  EntryTemplate template_;
  std::unique_ptr<const ConversationEncoder> conversations_;
  std::vector<KeptEntry> entries_;
  SpillFile ids_;
  DataAccount account_;
  InvocationCount invocations_;
};

// The ids that mark the response: the template encoded without special tokens, less its first two
// ids (how a tokenizer merges around the leading newline depends on what stands before it). Empty
// where that leaves none.
std::vector<int32_t> response_template_ids(const Tokenizer& tokenizer,
                                           const std::string& response_template);

// First position after the last occurrence of `response_ids`.
std::optional<int64_t> position_after_response(const std::vector<int32_t>& ids,
                                               const std::vector<int32_t>& response_ids);

}  // namespace sftbench
