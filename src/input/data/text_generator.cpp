#include "sftbench/data/text_generator.h"

#include <cstddef>
#include <utility>

#include "data/generator_options.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace {

constexpr std::string_view kLineEnd = "\"}\n";

TextGeneratorOptions validated(TextGeneratorOptions options) {
  OptionRanges ranges;
  const auto most = static_cast<double>(kLargestCount);
  ranges.require(static_cast<double>(options.entries), 1, most, "--entries");
  if (options.unit == TextUnit::kWords) {
    ranges.require(options.words_per_token, 0.001, 1000, "--words-per-token");
    ranges.require(static_cast<double>(options.input_tokens), 0, most, "--tokens-input");
    ranges.require(static_cast<double>(options.output_tokens), 0, most, "--tokens-output");
  } else {
    ranges.require(static_cast<double>(options.characters), 1, most, "--characters");
  }
  ranges.throw_if_any();
  return options;
}

}  // namespace

TextGenerator::TextGenerator(std::string_view seed_text, const std::string& origin,
                             TextGeneratorOptions options)
    : options_(validated(std::move(options))),
      stream_(seed_text, origin, options_.unit, TextForm::kJson) {
  const bool by_words = options_.unit == TextUnit::kWords;
  const double words_per_token = options_.words_per_token;
  input_units_ =
      by_words ? words_of_tokens(options_.input_tokens, words_per_token) : options_.characters;
  output_units_ =
      by_words ? words_of_tokens(options_.output_tokens, words_per_token) : options_.characters;
  require_entry_fits(stream_, input_units_ + output_units_);
  head_ = R"({"output": ")" + json_escaped(options_.prompt, "the prompt", {});
  middle_ = (by_words ? " " : "") +
            json_escaped(options_.response_delimiter, "the response delimiter", {});
}

void TextGenerator::append_units(int64_t units, std::string& lines) {
  if (units > 0 && options_.unit == TextUnit::kWords) lines += ' ';
  stream_.append(units, lines);
}

void TextGenerator::append_entry(std::string& lines) {
  lines += head_;
  append_units(input_units_, lines);
  lines += middle_;
  append_units(output_units_, lines);
  lines += kLineEnd;
}

int64_t TextGenerator::total_bytes() const {
  // Units follow one another without a gap over all entries; the space before each run of words
  // stands in for the one behind it.
  const auto frame_bytes = static_cast<int64_t>(head_.size() + middle_.size() + kLineEnd.size());
  return stream_.bytes(options_.entries * (input_units_ + output_units_)) +
         options_.entries * frame_bytes;
}

void write_text_dataset(TextGenerator generator, const std::filesystem::path& path,
                        const std::function<void(int64_t entries, int64_t bytes)>& progress) {
  constexpr size_t kChunkBytes = 8 << 20;
  AtomicFile file(path, NamedBy::kUser);
  std::string chunk;
  int64_t bytes = 0;
  const int64_t entries = generator.options().entries;
  for (int64_t entry = 1; entry <= entries; ++entry) {
    generator.append_entry(chunk);
    if (chunk.size() < kChunkBytes && entry < entries) continue;
    file.append(chunk);
    bytes += static_cast<int64_t>(chunk.size());
    chunk.clear();
    if (progress) progress(entry, bytes);
  }
  file.commit();
}

std::filesystem::path default_seed_path() {
  return resource_directory() / "datasets" / "news_seed.txt";
}

}  // namespace sftbench
