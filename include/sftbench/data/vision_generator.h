// Synthetic image-to-text datasets, as ado's sfttrainer_generate_dataset_vision makes them: each
// entry is a chat of two messages about one picture, its words cut from the stream of a seed text
// (word_stream.h), the picture the same in all entries (vision_image.h). One Parquet file:
//
//   images  {bytes, path}: the JPEG, and no path
//   output  [{role: user,      content: [{type: text, text: <input words>}, {type: image, index:
//   i}]},
//            {role: assistant, content: [{type: text, text: <output words>}]}]
//
// with words = int(tokens * words per token + 0.5) and i the entry's number, from 0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "sftbench/data/parquet_library.h"
#include "sftbench/data/word_stream.h"

namespace sftbench {

struct VisionGeneratorOptions {
  int64_t input_tokens = 50;
  int64_t output_tokens = 18200;
  double words_per_token = 0.75;
  int64_t image_width = 384;  // pixels
  int64_t image_height = 384;
  int64_t entries = 8 * 128 * 4;  // GPUs x batch per GPU x accumulation
};

class VisionGenerator {
 public:
  // `origin` names the seed text in errors. InputError when it has no word or is not UTF-8, or an
  // option is out of range.
  VisionGenerator(std::string_view seed_text, const std::string& origin,
                  const VisionGeneratorOptions& options);

  const VisionGeneratorOptions& options() const { return options_; }

  // The words of the next entry.
  void next(std::string& question, std::string& answer);

 private:
  VisionGeneratorOptions options_;
  WordStream stream_;
  int64_t input_words_ = 0;
  int64_t output_words_ = 0;
};

// Streams all entries to `path`: constant memory, and the whole file or nothing. `progress` gets
// the entries done so far, after each; what it throws ends the work. InputError when the file
// cannot be written (disk full).
void write_vision_dataset(VisionGenerator generator, const std::filesystem::path& path,
                          ParquetLibrary& parquet,
                          const std::function<void(int64_t entries)>& progress);

}  // namespace sftbench
