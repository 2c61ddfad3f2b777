#include "sftbench/data/vision_generator.h"

#include <memory>
#include <utility>

#include "data/generator_options.h"
#include "data/vision_image.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace {

VisionGeneratorOptions validated(const VisionGeneratorOptions& options) {
  OptionRanges ranges;
  const auto most = static_cast<double>(kLargestCount);
  const auto side = static_cast<double>(kLargestImageSide);
  ranges.require(static_cast<double>(options.entries), 1, most, "--entries");
  ranges.require(options.words_per_token, 0.001, 1000, "--words-per-token");
  ranges.require(static_cast<double>(options.input_tokens), 0, most, "--tokens-input");
  ranges.require(static_cast<double>(options.output_tokens), 0, most, "--tokens-output");
  ranges.require(static_cast<double>(options.image_width), 1, side, "--image-width");
  ranges.require(static_cast<double>(options.image_height), 1, side, "--image-height");
  ranges.throw_if_any();
  return options;
}

}  // namespace

VisionGenerator::VisionGenerator(std::string_view seed_text, const std::string& origin,
                                 const VisionGeneratorOptions& options)
    : options_(validated(options)),
      stream_(seed_text, origin, TextUnit::kWords, TextForm::kPlain),
      input_words_(words_of_tokens(options_.input_tokens, options_.words_per_token)),
      output_words_(words_of_tokens(options_.output_tokens, options_.words_per_token)) {
  require_entry_fits(stream_, input_words_ + output_words_);
}

void VisionGenerator::next(std::string& question, std::string& answer) {
  question.clear();
  answer.clear();
  stream_.append(input_words_, question);
  stream_.append(output_words_, answer);
}

void write_vision_dataset(VisionGenerator generator, const std::filesystem::path& path,
                          ParquetLibrary& parquet,
                          const std::function<void(int64_t entries)>& progress) {
  const VisionGeneratorOptions& options = generator.options();
  AtomicFile file(path, NamedBy::kUser);
  const std::unique_ptr<VisionParquetWriter> writer =
      parquet.write_vision(vision_image_jpeg(options.image_width, options.image_height),
                           [&file](std::string_view bytes) { file.append(bytes); });
  std::string question, answer;
  for (int64_t entry = 1; entry <= options.entries; ++entry) {
    generator.next(question, answer);
    writer->append(question, answer);
    if (progress) progress(entry);
  }
  writer->finish();
  file.commit();
}

}  // namespace sftbench
