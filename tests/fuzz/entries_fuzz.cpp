// Own data, from the bytes of a file to ids and labels. The first byte chooses what an entry is, a
// text up to the first NUL is its template, the rest is a file of JSON. It is refused with an error
// that says something, or every entry has ids of the vocabulary and as many labels.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "file_in_memory.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/data/text_dataset.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace {

constexpr int32_t kVocabulary = 97;
constexpr int64_t kMaximumLength = 48;
constexpr size_t kMostEntries = 64;  // more take time and find nothing

// One id a printable character, the others are unknown: ids never hide what the data did.
sftbench::Tokenizer characters() {
  sftbench::Json vocabulary = {{"<unk>", 0}, {"</s>", 1}};
  for (int32_t id = 2; id < kVocabulary; ++id) {
    vocabulary[std::string(1, static_cast<char>(' ' + id - 2))] = id;
  }
  const sftbench::Json json = {
      {"added_tokens", {{{"id", 1}, {"content", "</s>"}, {"special", true}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"vocab", vocabulary},
        {"merges", sftbench::Json::array()}}},
  };
  sftbench::Tokenizer tokenizer = sftbench::Tokenizer::from_json(json.dump(), "tokenizer.json");
  sftbench::complete_special_tokens(tokenizer);
  return tokenizer;
}

sftbench::TextDatasetOptions options_of(uint8_t form, std::string text) {
  sftbench::TextDatasetOptions options;
  options.model_max_length = kMaximumLength;
  options.vocabulary = kVocabulary;
  switch (form % 5) {
    case 0:
      options.pretokenized = true;
      break;
    case 1:
      options.conversation_field = "messages";
      options.chat_template = {std::move(text), "chat_template.jinja"};
      break;
    case 2:
      options.entry_template = std::move(text);
      break;
    case 3:
      options.input_field = "input";
      options.output_field = "output";
      break;
    default:
      options.response_template = std::move(text);
  }
  if (form / 5 % 2 == 1) options.invocation = {40, 41};
  return options;
}

void check_entry(const sftbench::EncodedEntry& entry) {
  const auto& ids = entry.input_ids;
  if (std::ssize(ids) > kMaximumLength) std::abort();
  for (const int32_t id : ids) {
    if (id < 0 || id >= kVocabulary) std::abort();
  }
  if (entry.loss_begin < 0 || entry.loss_begin > std::ssize(ids)) std::abort();
  if (!entry.labels.empty() && entry.labels.size() != ids.size()) std::abort();
  for (const int32_t label : entry.labels) {
    if (label != sftbench::kIgnoredLabel && (label < 0 || label >= kVocabulary)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const sftbench::Tokenizer kTokenizer = characters();
  static const sftbench::FolderInMemory kFolder;
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t end = std::min(input.find('\0'), input.size());
  const std::string file =
      kFolder.write("entries.json", input.substr(std::min(end + 1, input.size())));
  try {
    sftbench::TextDataset dataset(sftbench::open_entries(file), kTokenizer,
                                  options_of(data[0], std::string(input.substr(0, end))));
    std::vector<int64_t> indices(std::min(static_cast<size_t>(dataset.size()), kMostEntries));
    std::iota(indices.begin(), indices.end(), 0);
    dataset.encode(indices, 1);
    for (const int64_t index : indices) check_entry(dataset.entry(index));
  } catch (const sftbench::InputError& error) {
    if (error.diagnostics().empty()) std::abort();
    for (const auto& finding : error.diagnostics()) {
      if (finding.message.empty() || finding.file.empty()) std::abort();
    }
  } catch (const sftbench::RunError& error) {
    // "PAR1" begins a Parquet file, whose library is no part of this build.
    if (error.code() != sftbench::ReasonCode::kUnsupported) std::abort();
  }
  return 0;
}
