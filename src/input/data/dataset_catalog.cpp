#include "sftbench/data/dataset_catalog.h"

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

using Announce = std::function<void(const std::string&)>;

// Prompt and delimiter of the news-chars sets are 127 characters together.
constexpr const char* kCharactersPrompt =
    "Below is the beginning of a news story. Write how it goes on in the same style, as one plain "
    "text."
    "\n\n### Input:\n";
constexpr const char* kCharactersDelimiter = "\n\n### Response: ";

NamedDataset by_characters(int64_t characters, int64_t entries) {
  TextGeneratorOptions options;
  options.unit = TextUnit::kCharacters;
  options.characters = characters;
  options.prompt = kCharactersPrompt;
  options.response_delimiter = kCharactersDelimiter;
  options.entries = entries;
  const std::string id =
      "news-chars-" + std::to_string(characters) + "-entries-" + std::to_string(entries);
  return {id, id + ".jsonl", options, {}};
}

NamedDataset by_tokens(const std::string& id, int64_t output_tokens, int64_t entries) {
  TextGeneratorOptions options;
  options.output_tokens = output_tokens;
  options.entries = entries;
  return {id, id + ".jsonl", options, {}};
}

NamedDataset with_images(int64_t width, int64_t height) {
  VisionGeneratorOptions options;
  options.image_width = width;
  options.image_height = height;
  const std::string id = "vision-" + std::to_string(width) + "x" + std::to_string(height) +
                         "-16384plus-entries-" + std::to_string(options.entries);
  return {id, id + ".parquet", {}, options};
}

InputError other_kind(const NamedDataset& dataset, const std::string& what) {
  return InputError("dataset '" + dataset.id + "' holds " + what +
                    "; it is made with: " + making_command(dataset));
}

std::vector<NamedDataset> make_catalog() {
  std::vector<NamedDataset> datasets;
  for (const int64_t characters : {512, 1024, 2048}) {
    for (const int64_t entries : {256, 1024, 4096})
      datasets.push_back(by_characters(characters, entries));
  }
  const int64_t tokens_16k = TextGeneratorOptions{}.output_tokens;
  const int64_t tokens_128k =
      8 * tokens_16k;  // the same surplus over the length that the name promises
  datasets.push_back(by_tokens("news-tokens-16384plus-entries-4096", tokens_16k, 4096));
  datasets.push_back(by_tokens("news-tokens-128kplus-entries-320", tokens_128k, 320));
  datasets.push_back(by_tokens("news-tokens-128kplus-entries-4096", tokens_128k, 4096));
  for (const int64_t height : {384, 768}) datasets.push_back(with_images(384, height));
  return datasets;
}

bool ensure_text(const NamedDataset& dataset, const std::filesystem::path& path,
                 const Announce& announce) {
  TextGenerator generator = named_text_generator(dataset);
  const int64_t bytes = generator.total_bytes();
  std::error_code absent;
  if (std::filesystem::file_size(path, absent) == static_cast<uintmax_t>(bytes) && !absent)
    return false;
  if (announce) {
    announce("generating dataset " + dataset.id + " (" + std::to_string(dataset.text->entries) +
             " entries, " + std::to_string(bytes / 1'000'000) + " MB) at " + path.string());
  }
  write_text_dataset(std::move(generator), path, {});
  return true;
}

// A Parquet file's size is not known before it is written: one that is there is taken for whole, as
// files are written whole or not at all.
bool ensure_images(const NamedDataset& dataset, const std::filesystem::path& path,
                   const Announce& announce) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return false;
  VisionGenerator generator = named_vision_generator(dataset);
  const std::unique_ptr<ParquetLibrary> parquet = load_parquet_library();
  if (announce) {
    announce("generating dataset " + dataset.id + " (" + std::to_string(dataset.vision->entries) +
             " entries with images) at " + path.string());
  }
  write_vision_dataset(std::move(generator), path, *parquet, [](int64_t) {});
  return true;
}

}  // namespace

const std::vector<NamedDataset>& named_datasets() {
  static const std::vector<NamedDataset> datasets = make_catalog();
  return datasets;
}

const NamedDataset& named_dataset(const std::string& id) {
  std::vector<std::string> ids;
  for (const NamedDataset& dataset : named_datasets()) {
    if (dataset.id == id) return dataset;
    ids.push_back(dataset.id);
  }
  throw InputError({{.file = {},
                     .line = 0,
                     .key = "dataset_id",
                     .message = "unknown dataset '" + id + "'",
                     .expected = "one of " + join(ids),
                     .nearest = nearest_spelling(id, ids)}});
}

std::filesystem::path default_dataset_path(const NamedDataset& dataset) {
  return user_data_directory() / "datasets" / dataset.file_name;
}

bool is_default_dataset(const std::string& id, const std::filesystem::path& path) {
  return std::any_of(named_datasets().begin(), named_datasets().end(),
                     [&](const NamedDataset& dataset) {
                       return dataset.id == id && default_dataset_path(dataset) == path;
                     });
}

std::string making_command(const NamedDataset& dataset) {
  return std::string("sftbench dataset ") + (dataset.text ? "text " : "vision ") + dataset.id;
}

TextGenerator named_text_generator(const NamedDataset& dataset) {
  if (!dataset.text) throw other_kind(dataset, "images");
  const std::filesystem::path seed = default_seed_path();
  return TextGenerator(read_file(seed), seed.string(), *dataset.text);
}

VisionGenerator named_vision_generator(const NamedDataset& dataset) {
  if (!dataset.vision) throw other_kind(dataset, "no images");
  const std::filesystem::path seed = default_seed_path();
  return VisionGenerator(read_file(seed), seed.string(), *dataset.vision);
}

bool ensure_named_dataset(const NamedDataset& dataset, const std::filesystem::path& path,
                          const Announce& announce) {
  return dataset.text ? ensure_text(dataset, path, announce)
                      : ensure_images(dataset, path, announce);
}

}  // namespace sftbench
