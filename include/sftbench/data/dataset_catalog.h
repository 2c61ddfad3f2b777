// The synthetic datasets that have a name, and what makes each of them again, byte for byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/data/text_generator.h"
#include "sftbench/data/vision_generator.h"

namespace sftbench {

struct NamedDataset {
  std::string id;
  std::string file_name;                         // <id>.jsonl, <id>.parquet
  std::optional<TextGeneratorOptions> text;      // one of the two is there
  std::optional<VisionGeneratorOptions> vision;  // images and text
};

// All of them, in a stable order.
const std::vector<NamedDataset>& named_datasets();

// InputError with the nearest name when there is none of that id.
const NamedDataset& named_dataset(const std::string& id);

// The default place of a named dataset: user_data_directory()/datasets/<file name>.
std::filesystem::path default_dataset_path(const NamedDataset& dataset);

// Whether there is a named dataset of that id and `path` is its default place.
bool is_default_dataset(const std::string& id, const std::filesystem::path& path);

// "sftbench dataset text ID": what makes it at its default place.
std::string making_command(const NamedDataset& dataset);

// What generates it, from the seed text that ships. InputError for the other kind of dataset.
TextGenerator named_text_generator(const NamedDataset& dataset);
VisionGenerator named_vision_generator(const NamedDataset& dataset);

// Makes the file at `path` unless it stands there: texts with the size that this version would
// write, images with any. `announce` gets one line before the work starts. Returns true when it was
// generated. RunError(kUnsupported) for images without the library that writes Parquet.
bool ensure_named_dataset(const NamedDataset& dataset, const std::filesystem::path& path,
                          const std::function<void(const std::string&)>& announce);

}  // namespace sftbench
