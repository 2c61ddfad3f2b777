#include "sftbench/data/text_dataset.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>

#include "data/encode_threads.h"
#include "data/entry_errors.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/data/invocation.h"

namespace sftbench {
namespace {

// What the post-processor puts in front of a text, and behind it: truncation keeps both, as in
// Hugging Face.
std::pair<std::vector<int32_t>, std::vector<int32_t>> post_processor_ids(
    const Tokenizer& tokenizer) {
  const std::vector<int32_t> plain = tokenizer.encode("a", false);
  const std::vector<int32_t> processed = tokenizer.encode("a", true);
  const auto text = std::search(processed.begin(), processed.end(), plain.begin(), plain.end());
  if (text == processed.end()) return {};
  return {{processed.begin(), text},
          {text + static_cast<std::ptrdiff_t>(plain.size()), processed.end()}};
}

bool bears_loss(int32_t label) {
  return label != kIgnoredLabel;
}

// Nothing predicts the first token.
bool any_bears_loss(const std::vector<int32_t>& labels) {
  return !labels.empty() && std::any_of(labels.begin() + 1, labels.end(), bears_loss);
}

// A list of ids; of labels -100 may be among them. False and `error` where it is none.
bool ids_of_field(const Json& entry, const char* field, int64_t vocabulary, bool are_labels,
                  std::vector<int32_t>& ids, Diagnostic& error) {
  const int64_t most = vocabulary > 0 ? vocabulary - 1 : std::numeric_limits<int32_t>::max();
  error = {};
  error.key = field;
  const std::string range = "ids from 0 to " + std::to_string(most);
  error.expected = "a list of " + range + (are_labels ? ", or -100 where none bears loss" : "");
  const auto found = entry.find(field);
  if (found == entry.end()) {
    error.message = "no such field; found " + join_some(keys_of(entry));
    return false;
  }
  if (!found->is_array()) {
    error.message = "the field is no list";
    return false;
  }
  ids.reserve(found->size());
  for (size_t i = 0; i < found->size(); ++i) {
    const Json& id = (*found)[i];
    const bool whole = id.is_number_integer() &&
                       !(id.is_number_unsigned() && id.get<uint64_t>() > uint64_t{1} << 62);
    const int64_t value = whole ? id.get<int64_t>() : -1;
    const bool ignored = whole && are_labels && value == kIgnoredLabel;
    if (!ignored && (!whole || value < 0 || value > most)) {
      error.message = "position " + std::to_string(i) + " is " + json_text(id).substr(0, 40);
      return false;
    }
    ids.push_back(static_cast<int32_t>(value));
  }
  return true;
}

// Padding is added to batches, and all of an entry is seen: a mask that hides something of it would
// be one that nobody applies.
bool is_mask_of_ones(const Json& mask, size_t ids, Diagnostic& error) {
  error = {};
  error.key = "attention_mask";
  error.expected = "ones, as entries without padding have: padding is added to batches";
  if (!mask.is_array()) {
    error.message = "the field is no list";
    return false;
  }
  const auto hidden =
      std::find_if(mask.begin(), mask.end(), [](const Json& seen) { return seen != Json(1); });
  if (hidden != mask.end()) {
    error.message = "position " + std::to_string(hidden - mask.begin()) + " is " +
                    json_text(*hidden).substr(0, 40);
    return false;
  }
  if (mask.size() == ids) return true;
  error.message =
      "has length " + std::to_string(mask.size()) + " for " + std::to_string(ids) + " input_ids";
  error.expected = "as many";
  return false;
}

// Where the last occurrence of the template in a text ends, in bytes; of the template without its
// leading white space where the whole does not occur.
std::optional<size_t> text_after_response(const std::string& text,
                                          const std::string& response_template) {
  const size_t whole = text.rfind(response_template);
  if (whole != std::string::npos) return whole + response_template.size();
  const size_t begin = response_template.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return std::nullopt;
  const std::string without_margin = response_template.substr(begin);
  const size_t found = text.rfind(without_margin);
  if (found == std::string::npos) return std::nullopt;
  return found + without_margin.size();
}

}  // namespace

std::vector<int32_t> response_template_ids(const Tokenizer& tokenizer,
                                           const std::string& response_template) {
  constexpr std::ptrdiff_t kContextDependent = 2;
  std::vector<int32_t> ids = tokenizer.encode(response_template, false);
  const auto left_out = std::min(kContextDependent, std::ssize(ids));
  ids.erase(ids.begin(), ids.begin() + left_out);
  return ids;
}

std::optional<int64_t> position_after_response(const std::vector<int32_t>& ids,
                                               const std::vector<int32_t>& response_ids) {
  const auto last = std::find_end(ids.begin(), ids.end(), response_ids.begin(), response_ids.end());
  if (last == ids.end()) return std::nullopt;
  return last - ids.begin() + static_cast<int64_t>(response_ids.size());
}

// An entry as it is encoded, with what becomes of it.
struct TextDataset::Encoding {
  EncodedEntry entry;
  int64_t text_tokens = 0;   // without what training adds behind the text
  int64_t whole_tokens = 0;  // before they were cut
  bool is_masked = true;     // `labels`, or all of its ids, say what bears loss
  bool bore_loss = false;    // before it was cut
  int64_t doubtful_tokens = 0;
  std::vector<std::string> unused, remarks;
};

std::string counted_text(const TextDatasetOptions& options) {
  if (options.pretokenized) return "input_ids";
  if (!options.conversation_field.empty()) {
    return "conversations " + options.conversation_field + " " + digest(options.chat_template.text);
  }
  if (!options.entry_template.empty()) return "template " + options.entry_template;
  if (!options.input_field.empty()) return options.input_field + " and " + options.output_field;
  return options.text_field;
}

TextDataset::TextDataset(Entries file, const Tokenizer& tokenizer, TextDatasetOptions options)
    : file_(std::move(file)),
      tokenizer_(tokenizer.clone()),
      options_(std::move(options)),
      eos_(tokenizer.special_tokens().eos),
      dataset_token_limit_(std::min(options_.model_max_length, tokenizer.model_max_length())),
      template_(options_.entry_template),
      entries_(static_cast<size_t>(file_.size())),
      ids_(options_.most_bytes_in_memory) {
  check(options_.model_max_length > 0 &&
            options_.model_max_length <= std::numeric_limits<int32_t>::max(),
        "model_max_length is positive and fits the position type");
  std::tie(prefix_ids_, suffix_ids_) = post_processor_ids(tokenizer);
  if (!options_.conversation_field.empty()) {
    conversations_ = std::make_unique<ConversationEncoder>(
        options_.chat_template, options_.conversation_field, options_.now, options_.mask);
  }
  if (options_.seeks_response()) {
    response_ids_ = response_template_ids(tokenizer_, options_.response_template);
  }
  eos_tokens_ = static_cast<int64_t>(tokenizer_.encode("a" + eos_, false).size()) -
                static_cast<int64_t>(tokenizer_.encode("a", false).size());
}

void TextDataset::encode_text(const Tokenizer& tokenizer, const std::string& text,
                              Encoding& encoding) const {
  EncodedEntry& entry = encoding.entry;
  std::vector<int32_t>& ids = entry.input_ids;
  ids = tokenizer.encode(text + eos_, true);
  encoding.is_masked = false;
  encoding.whole_tokens = std::ssize(ids);
  encoding.text_tokens = encoding.whole_tokens - eos_tokens_;
  entry.dataset_tokens = static_cast<int32_t>(std::min(encoding.text_tokens, dataset_token_limit_));

  const int64_t cut_left = cut(ids);
  const std::optional<int64_t> response_end = response_end_of(tokenizer, text, ids, cut_left);
  entry.has_response = response_end.has_value();
  encoding.bore_loss =
      entry.has_response || text_after_response(text, options_.response_template).has_value();
  entry.loss_begin = static_cast<int32_t>(response_end.value_or(static_cast<int64_t>(ids.size())));
}

std::optional<int64_t> TextDataset::response_end_of(const Tokenizer& tokenizer,
                                                    const std::string& text,
                                                    const std::vector<int32_t>& ids,
                                                    int64_t cut_left) const {
  if (!options_.seeks_response()) return 0;
  if (!response_ids_.empty()) {
    if (const auto position = position_after_response(ids, response_ids_)) return position;
  }
  // The ids depend on what stands before the template: SentencePiece joins " ###" where it splits
  // "\n###" into three.
  const std::optional<size_t> end = text_after_response(text, options_.response_template);
  if (!end) return std::nullopt;
  const int64_t position =
      std::ssize(tokenizer.encode(text.substr(0, *end), true)) - std::ssize(suffix_ids_) - cut_left;
  if (position < std::ssize(prefix_ids_)) return std::nullopt;
  if (position > std::ssize(ids) - std::ssize(suffix_ids_)) return std::nullopt;
  return position;
}

int64_t TextDataset::cut(std::vector<int32_t>& ids) const {
  const auto limit = static_cast<size_t>(options_.model_max_length);
  if (ids.size() <= limit) return 0;
  const size_t more = ids.size() - limit;
  const size_t around = prefix_ids_.size() + suffix_ids_.size();
  if (tokenizer_.truncates_left() && around < limit) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(prefix_ids_.size());
    ids.erase(begin, begin + static_cast<std::ptrdiff_t>(more));
    ids.shrink_to_fit();
    return static_cast<int64_t>(more);
  }
  const size_t suffix = std::min(suffix_ids_.size(), limit);
  ids.resize(limit);
  std::copy_n(suffix_ids_.begin(), suffix, ids.end() - static_cast<std::ptrdiff_t>(suffix));
  ids.shrink_to_fit();
  return 0;
}

bool TextDataset::read_ids(const Json& object, Encoding& encoding, Diagnostic& error) const {
  EncodedEntry& entry = encoding.entry;
  if (!ids_of_field(object, "input_ids", options_.vocabulary, false, entry.input_ids, error)) {
    return false;
  }
  std::vector<int32_t>& ids = entry.input_ids;
  if (object.contains("labels")) {
    if (!ids_of_field(object, "labels", options_.vocabulary, true, entry.labels, error)) {
      return false;
    }
    if (entry.labels.size() != ids.size()) {
      error = {};
      error.key = "labels";
      error.message = "has " + counted(std::ssize(entry.labels), "label") + " for " +
                      std::to_string(ids.size()) + " input_ids";
      error.expected = "as many";
      return false;
    }
  }
  const auto mask = object.find("attention_mask");
  if (mask != object.end() && !is_mask_of_ones(*mask, ids.size(), error)) return false;
  encoding.text_tokens = encoding.whole_tokens = std::ssize(ids);
  encoding.bore_loss = entry.labels.empty() ? ids.size() > 1 : any_bears_loss(entry.labels);
  const size_t kept = std::min(ids.size(), static_cast<size_t>(options_.model_max_length));
  ids.resize(kept);
  if (!entry.labels.empty()) entry.labels.resize(kept);
  return true;
}

bool TextDataset::encode_pair(const Tokenizer& tokenizer, const Json& object, Encoding& encoding,
                              Diagnostic& error) const {
  std::string input, output;
  if (!text_of_field(object, options_.input_field, input, error) ||
      !text_of_field(object, options_.output_field, output, error)) {
    return false;
  }
  const auto is_blank = [](char c) { return c == ' ' || c == '\n' || c == '\t'; };
  const bool parted =
      (!input.empty() && is_blank(input.back())) || (!output.empty() && is_blank(output.front()));
  encode_prompt(tokenizer, input, (parted ? "" : " ") + output, encoding);
  return true;
}

void TextDataset::encode_prompt(const Tokenizer& tokenizer, const std::string& prompt,
                                const std::string& response, Encoding& encoding) const {
  std::vector<int32_t>& ids = encoding.entry.input_ids;
  std::vector<int32_t>& labels = encoding.entry.labels;
  ids = tokenizer.encode(prompt + response + eos_, true);
  encoding.whole_tokens = std::ssize(ids);
  encoding.text_tokens = encoding.whole_tokens - eos_tokens_;
  std::vector<int32_t> before = tokenizer.encode(prompt, true);
  encoding.bore_loss = before.size() < ids.size();
  const int64_t cut_left = cut(ids);
  if (cut_left == 0) cut(before);
  const int64_t masked = std::max<int64_t>(std::ssize(before) - cut_left, std::ssize(prefix_ids_));
  labels = ids;
  std::fill_n(labels.begin(), std::min(masked, std::ssize(labels)),
              static_cast<int32_t>(kIgnoredLabel));
}

bool TextDataset::encode_conversation(const Tokenizer& tokenizer, const Json& object,
                                      Encoding& encoding, Diagnostic& error) const {
  EncodedConversation encoded;
  if (!conversations_->encode(tokenizer, object, encoded, error)) return false;
  encoding.text_tokens = encoding.whole_tokens = std::ssize(encoded.input_ids);
  encoding.doubtful_tokens = encoded.doubtful_tokens;
  encoding.unused = std::move(encoded.unused);
  encoding.remarks = std::move(encoded.remarks);
  encoding.bore_loss = any_bears_loss(encoded.labels);
  const auto more = std::max<int64_t>(std::ssize(encoded.input_ids) - options_.model_max_length, 0);
  for (std::vector<int32_t>* values : {&encoded.input_ids, &encoded.labels}) {
    const auto begin = tokenizer_.truncates_left() ? values->begin() : values->end() - more;
    values->erase(begin, begin + more);
  }
  encoding.entry.input_ids = std::move(encoded.input_ids);
  encoding.entry.labels = std::move(encoded.labels);
  return true;
}

bool TextDataset::encode_object(const Tokenizer& tokenizer, const Json& object, Encoding& encoding,
                                Diagnostic& error) const {
  if (conversations_) return encode_conversation(tokenizer, object, encoding, error);
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_null() && !(value.is_structured() && value.empty())) keys.push_back(key);
  }
  tell_unused(keys, encoding);
  if (options_.pretokenized) return read_ids(object, encoding, error);
  if (options_.entry_template.empty()) return encode_pair(tokenizer, object, encoding, error);
  std::string text, response;
  if (!template_.fill(object, text, response, error)) return false;
  if (is_named_form(options_.entry_template)) {
    encode_prompt(tokenizer, text, response, encoding);
  } else {
    encode_text(tokenizer, text, encoding);
  }
  return true;
}

// Of an entry that is no conversation.
void TextDataset::tell_unused(const std::vector<std::string>& keys, Encoding& encoding) const {
  const std::vector<std::string> used =
      options_.pretokenized ? std::vector<std::string>{"input_ids", "labels", "attention_mask"}
      : !options_.entry_template.empty() ? template_.fields()
      : !options_.input_field.empty()
          ? std::vector<std::string>{options_.input_field, options_.output_field}
          : std::vector<std::string>{options_.text_field};
  for (const std::string& key : keys) {
    const bool is_used = std::any_of(used.begin(), used.end(), [&key](const std::string& field) {
      return field == key || trimmed(field) == key;
    });
    if (!is_used) encoding.unused.push_back("column " + key);
  }
}

bool TextDataset::encode_entry(const Tokenizer& tokenizer, int64_t index, Encoding& encoding,
                               Diagnostic& error) const {
  EncodedEntry& entry = encoding.entry;
  const bool is_text = !options_.pretokenized && !conversations_ &&
                       options_.entry_template.empty() && options_.input_field.empty();
  if (is_text) {
    std::string text;
    std::vector<std::string> keys;
    if (!file_.read_text(index, options_.text_field, text, error, &keys)) return false;
    tell_unused(keys, encoding);
    encode_text(tokenizer, text, encoding);
    return true;
  }
  Json object;
  if (!file_.read_object(index, object, error)) return false;
  if (!encode_object(tokenizer, object, encoding, error)) {
    error.file = file_.path(index);
    error.line = file_.line_number(index);
    file_.explain_left_out(index, error);
    return false;
  }
  if (!encoding.is_masked) return true;
  entry.dataset_tokens = static_cast<int32_t>(
      std::min(encoding.text_tokens,
               options_.pretokenized ? options_.model_max_length : dataset_token_limit_));
  const auto& labels = entry.labels;
  const auto first = std::find_if(labels.begin(), labels.end(), bears_loss);
  entry.has_response = labels.empty() ? entry.input_ids.size() > 1 : any_bears_loss(labels);
  entry.loss_begin = static_cast<int32_t>(first - labels.begin());
  return true;
}

void TextDataset::add_to_account(int64_t index, const Encoding& encoding) {
  ++account_.entries;
  account_.tokens += encoding.whole_tokens;
  const int64_t cut = encoding.whole_tokens - std::ssize(encoding.entry.input_ids);
  if (cut > 0) ++account_.cut_entries;
  account_.cut_tokens += cut;
  if (!encoding.entry.has_response) {
    ++account_.without_loss;
    if (encoding.bore_loss) ++account_.without_loss_by_cut;
  }
  if (encoding.doubtful_tokens > 0) ++account_.doubtful_entries;
  account_.doubtful_tokens += encoding.doubtful_tokens;
  for (const std::string& what : encoding.unused) ++account_.unused[what];
  for (const std::string& what : encoding.remarks) ++account_.remarks[what];
  for (const auto& [column, type] : file_.left_out(index))
    ++account_.unused["column " + column + " (" + type + ")"];
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
  const auto encode_missing = [&](int64_t index, const Tokenizer& tokenizer) {
    add_work(work, 1);
    Diagnostic error;
    Encoding read;
    if (!this->encode_entry(tokenizer, index, read, error))
      return errors.add(index, std::move(error));
    const std::span<const int32_t> ids(read.entry.input_ids);
    const bool invokes = last_invocation(ids, options_.invocation).has_value();
    const std::lock_guard lock(mutex);
    entries_[static_cast<size_t>(index)] = keep(read.entry);
    if (counts != nullptr) counts->set(index, read.whole_tokens);
    add_to_account(index, read);
    if (!options_.invocation.empty()) ++(invokes ? invocations_.with : invocations_.without);
  };
  for_each_in_parallel(missing, threads, tokenizer_, encode_missing);
  errors.throw_if_any();
}

TextDataset::KeptEntry TextDataset::keep(const EncodedEntry& entry) {
  using Labels = KeptEntry::Labels;
  const std::vector<int32_t>&ids = entry.input_ids, &labels = entry.labels;
  KeptEntry kept;
  kept.length = static_cast<int32_t>(ids.size());
  kept.loss_begin = entry.loss_begin;
  kept.dataset_tokens = entry.dataset_tokens;
  kept.has_response = entry.has_response;
  const auto append = [this](const std::vector<int32_t>& values) {
    return ids_.append(
        {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t)});
  };
  if (labels.empty()) {
    kept.begin_bytes = append(ids);
    return kept;
  }
  // Labels that follow from the ids, as they mostly do, take no room.
  const auto begin = static_cast<std::ptrdiff_t>(entry.loss_begin);
  const bool follow = std::equal(labels.begin() + begin, labels.end(), ids.begin() + begin) &&
                      std::none_of(labels.begin(), labels.begin() + begin, bears_loss);
  kept.labels = follow ? Labels::kIdsBehindBegin : Labels::kKept;
  if (follow) {
    kept.begin_bytes = append(ids);
    return kept;
  }
  std::vector<int32_t> both = ids;
  both.insert(both.end(), labels.begin(), labels.end());
  kept.begin_bytes = append(both);
  return kept;
}

const TextDataset::KeptEntry& TextDataset::kept(int64_t index) const {
  check(encoded(index), "the entry was encoded before it is used");
  return entries_[static_cast<size_t>(index)];
}

int64_t TextDataset::length(int64_t index) const {
  return kept(index).length;
}

EncodedEntry TextDataset::entry(int64_t index) const {
  using Labels = KeptEntry::Labels;
  const KeptEntry& from = kept(index);
  const auto length = static_cast<size_t>(from.length);
  std::vector<int32_t> values(from.labels == Labels::kKept ? 2 * length : length);
  ids_.read(from.begin_bytes, reinterpret_cast<char*>(values.data()),
            values.size() * sizeof(int32_t));
  EncodedEntry entry;
  const auto end = values.begin() + from.length;
  if (from.labels == Labels::kKept) entry.labels.assign(end, values.end());
  values.resize(length);
  if (from.labels == Labels::kIdsBehindBegin) {
    entry.labels = values;
    std::fill_n(entry.labels.begin(), from.loss_begin, static_cast<int32_t>(kIgnoredLabel));
  }
  entry.input_ids = std::move(values);
  entry.loss_begin = from.loss_begin;
  entry.dataset_tokens = from.dataset_tokens;
  entry.has_response = from.has_response;
  return entry;
}

}  // namespace sftbench
