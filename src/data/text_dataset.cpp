#include "sftbench/data/text_dataset.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <mutex>
#include <utility>

#include "data/entry_errors.h"
#include "data/encode_threads.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// What the post-processor puts behind a text (nothing, for most): truncation keeps it, as in
// Hugging Face.
std::vector<int32_t> post_processor_suffix(const Tokenizer& tokenizer) {
  const std::vector<int32_t> plain = tokenizer.encode("a", false);
  const std::vector<int32_t> processed = tokenizer.encode("a", true);
  const auto text = std::search(processed.begin(), processed.end(), plain.begin(), plain.end());
  if (text == processed.end()) return {};
  return {text + static_cast<std::ptrdiff_t>(plain.size()), processed.end()};
}

}  // namespace

std::vector<int32_t> response_template_ids(const Tokenizer& tokenizer,
                                           const std::string& response_template) {
  constexpr std::ptrdiff_t kContextDependent = 2;
  std::vector<int32_t> ids = tokenizer.encode(response_template, false);
  if (static_cast<std::ptrdiff_t>(ids.size()) <= kContextDependent) {
    throw InputError("the response template has " + std::to_string(ids.size()) +
                     " tokens under this tokenizer; expected at least 3, because the first 2 are "
                     "not searched for");
  }
  ids.erase(ids.begin(), ids.begin() + kContextDependent);
  return ids;
}

std::optional<int64_t> position_after_response(const std::vector<int32_t>& ids,
                                               const std::vector<int32_t>& response_ids) {
  const auto last = std::find_end(ids.begin(), ids.end(), response_ids.begin(), response_ids.end());
  if (last == ids.end()) return std::nullopt;
  return last - ids.begin() + static_cast<int64_t>(response_ids.size());
}

TextDataset::TextDataset(JsonlFile file, const Tokenizer& tokenizer, TextDatasetOptions options)
    : file_(std::move(file)),
      tokenizer_(tokenizer.clone()),
      options_(std::move(options)),
      eos_(tokenizer.special_tokens().eos),
      dataset_token_limit_(std::min(options_.model_max_length, tokenizer.model_max_length())),
      suffix_ids_(post_processor_suffix(tokenizer)),
      entries_(static_cast<size_t>(file_.size())) {
  check(options_.model_max_length > 0 &&
            options_.model_max_length <= std::numeric_limits<int32_t>::max(),
        "model_max_length is positive and fits the position type");
  if (!options_.response_template.empty()) {
    response_ids_ = response_template_ids(tokenizer_, options_.response_template);
  }
  eos_tokens_ = static_cast<int64_t>(tokenizer_.encode("a" + eos_, false).size()) -
                static_cast<int64_t>(tokenizer_.encode("a", false).size());
}

EncodedEntry TextDataset::encode_one(const Tokenizer& tokenizer, const std::string& text,
                                     int64_t& text_tokens) const {
  EncodedEntry entry;
  std::vector<int32_t>& ids = entry.input_ids;
  ids = tokenizer.encode(text + eos_, true);
  text_tokens = static_cast<int64_t>(ids.size()) - eos_tokens_;
  entry.dataset_tokens = static_cast<int32_t>(std::min(text_tokens, dataset_token_limit_));

  const auto limit = static_cast<size_t>(options_.model_max_length);
  if (ids.size() > limit) {
    const size_t suffix = std::min(suffix_ids_.size(), limit);
    ids.resize(limit);
    std::copy_n(suffix_ids_.begin(), suffix, ids.end() - static_cast<std::ptrdiff_t>(suffix));
    ids.shrink_to_fit();
  }
  const std::optional<int64_t> response_end =
      response_ids_.empty() ? 0 : position_after_response(ids, response_ids_);
  entry.has_response = response_end.has_value();
  entry.loss_begin = static_cast<int32_t>(response_end.value_or(static_cast<int64_t>(ids.size())));
  return entry;
}

void TextDataset::encode(const std::vector<int64_t>& entries, int threads, TokenCountCache* counts,
                         WorkCount* work) {
  std::vector<int64_t> missing;
  for (const int64_t index : entries) {
    if (!encoded(index)) missing.push_back(index);
  }
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());

  std::mutex mutex;
  EntryErrors errors;
  if (work != nullptr) work->total = static_cast<int64_t>(missing.size());
  const auto encode_entry = [&](int64_t index, const Tokenizer& tokenizer) {
    add_work(work, 1);
    std::string text;
    Diagnostic error;
    if (!file_.read_text(index, options_.text_field, text, error))
      return errors.add(index, std::move(error));
    int64_t text_tokens = 0;
    EncodedEntry& entry = entries_[static_cast<size_t>(index)];
    entry = encode_one(tokenizer, text, text_tokens);
    if (counts == nullptr && entry.has_response) return;
    const std::lock_guard lock(mutex);
    if (counts != nullptr) counts->set(index, text_tokens);
    if (!entry.has_response) ++entries_without_response_;
  };
  for_each_in_parallel(missing, threads, tokenizer_, encode_entry);
  errors.throw_if_any();
}

const EncodedEntry& TextDataset::entry(int64_t index) const {
  check(encoded(index), "the entry was encoded before it is used");
  return entries_[static_cast<size_t>(index)];
}

}  // namespace sftbench
