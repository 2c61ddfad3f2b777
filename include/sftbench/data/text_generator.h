// Synthetic text datasets: entries cut from the stream of a seed text's words (word_stream.h).
//
// Words (ado's sfttrainer_generate_dataset_text):  <prompt> <input words> <delimiter> <output
// words>, joined by single spaces; words = int(tokens * words per token + 0.5). Characters (the
// news-chars sets): prompt, then exactly N characters, delimiter, then exactly N characters. Each
// entry is one line {"output": "..."}, escaped as Python's json.dumps escapes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "sftbench/data/word_stream.h"

namespace sftbench {

struct TextGeneratorOptions {
  TextUnit unit = TextUnit::kWords;
  int64_t input_tokens = 10;      // kWords
  int64_t output_tokens = 18240;  // kWords
  double words_per_token = 0.75;  // kWords
  int64_t characters = 0;         // kCharacters: of the input, and again of the output
  std::string prompt = "### Input:\n";
  std::string response_delimiter = "\n\n### Response:";
  int64_t entries = 8 * 128 * 4;  // GPUs x batch per GPU x accumulation
};

class TextGenerator {
 public:
  // `origin` names the seed text in errors. InputError when it has no word or is not UTF-8, or an
  // option is out of range.
  TextGenerator(std::string_view seed_text, const std::string& origin,
                TextGeneratorOptions options);

  const TextGeneratorOptions& options() const { return options_; }

  // Appends the next entry's line, with its line end.
  void append_entry(std::string& lines);

  // Bytes of all entries together, from the first.
  int64_t total_bytes() const;

 private:
  void append_units(int64_t units, std::string& lines);

  TextGeneratorOptions options_;
  WordStream stream_;
  int64_t input_units_ = 0;  // words or characters of each entry
  int64_t output_units_ = 0;
  std::string head_, middle_;  // of a line: up to the input, from there to the output
};

// Streams all entries to `path`: constant memory, and the whole file or nothing. `progress` gets
// the entries and bytes done so far every few megabytes. InputError when it cannot be written (disk
// full).
void write_text_dataset(TextGenerator generator, const std::filesystem::path& path,
                        const std::function<void(int64_t entries, int64_t bytes)>& progress);

// The seed text that ships with the program: datasets/news_seed.txt.
std::filesystem::path default_seed_path();

}  // namespace sftbench
