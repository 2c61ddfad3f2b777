#include "sftbench/data/text_generator.h"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace {

constexpr std::string_view kLineEnd = "\"}\n";

// As Python's json.dumps writes a string (ensure_ascii), without the quotes. Throws nlohmann's
// type_error on invalid UTF-8.
std::string escape(std::string_view text) {
  const std::string quoted = Json(text).dump(-1, ' ', true);
  return quoted.substr(1, quoted.size() - 2);
}

// Bytes of the code point that begins at text[0]. REQUIRES: valid UTF-8.
size_t code_point_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// White space as Python's str.split() understands it.
bool is_space(std::string_view code_point) {
  if (code_point.size() == 1) {
    const char c = code_point[0];
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
  }
  static constexpr std::string_view kWide[] = {"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001",
                                               "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
                                               "\u2007", "\u2008", "\u2009", "\u200a", "\u2028",
                                               "\u2029", "\u202f", "\u205f", "\u3000"};
  for (const std::string_view wide : kWide) {
    if (code_point == wide) return true;
  }
  return false;
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t word_begin = 0;
  for (size_t i = 0; i < text.size();) {
    const std::string_view code_point = text.substr(i, code_point_bytes(text.substr(i)));
    if (is_space(code_point)) {
      if (i > word_begin) words.push_back(text.substr(word_begin, i - word_begin));
      word_begin = i + code_point.size();
    }
    i += code_point.size();
  }
  if (text.size() > word_begin) words.push_back(text.substr(word_begin));
  return words;
}

// Far above any use, and low enough that no product of counts overflows.
constexpr int64_t kLargestCount = 100'000'000;

int64_t words_of(int64_t tokens, double words_per_token) {
  return static_cast<int64_t>(static_cast<double>(tokens) * words_per_token + 0.5);
}

void validate(const TextGeneratorOptions& options) {
  std::vector<Diagnostic> errors;
  const auto require = [&errors](double value, double least, double most, const char* key) {
    if (value >= least && value <= most) return;
    std::ostringstream found, expected;
    found << "found " << value;
    expected << "a number from " << least << " to " << static_cast<int64_t>(most);
    errors.push_back({.file = {},
                      .line = 0,
                      .key = key,
                      .message = found.str(),
                      .expected = expected.str(),
                      .nearest = {}});
  };
  const auto most = static_cast<double>(kLargestCount);
  require(static_cast<double>(options.entries), 1, most, "entries");
  if (options.unit == TextUnit::kWords) {
    require(options.words_per_token, 0.001, 1000, "words-per-token");
    require(static_cast<double>(options.input_tokens), 0, most, "tokens-input");
    require(static_cast<double>(options.output_tokens), 0, most, "tokens-output");
  } else {
    require(static_cast<double>(options.characters), 1, most, "characters");
  }
  if (!errors.empty()) throw InputError(std::move(errors));
}

InputError bad_seed(const std::string& origin, std::string what, std::string expected) {
  return InputError({{.file = origin,
                      .line = 0,
                      .key = {},
                      .message = std::move(what),
                      .expected = std::move(expected),
                      .nearest = {}}});
}

}  // namespace

TextGenerator::TextGenerator(std::string_view seed_text, const std::string& origin,
                             TextGeneratorOptions options)
    : options_(std::move(options)) {
  validate(options_);
  const bool by_words = options_.unit == TextUnit::kWords;
  input_units_ =
      by_words ? words_of(options_.input_tokens, options_.words_per_token) : options_.characters;
  output_units_ =
      by_words ? words_of(options_.output_tokens, options_.words_per_token) : options_.characters;
  try {
    escape(seed_text);
  } catch (const Json::type_error&) {
    throw bad_seed(origin, "the seed text is not UTF-8", "UTF-8");
  }
  try {
    head_ = R"({"output": ")" + escape(options_.prompt);
    middle_ = (by_words ? " " : "") + escape(options_.response_delimiter);
  } catch (const Json::type_error&) {
    throw bad_seed({}, "prompt or response delimiter is not UTF-8", "UTF-8");
  }
  fill_stream(seed_text);
  if (unit_begins_.size() < 2) throw bad_seed(origin, "the seed text has no words", "text");
}

void TextGenerator::fill_stream(std::string_view seed_text) {
  for (const std::string_view word : split_words(seed_text)) {
    if (options_.unit == TextUnit::kWords) {
      unit_begins_.push_back(stream_.size());
      stream_ += escape(word);
    } else {
      for (size_t i = 0; i < word.size();) {
        const std::string_view character = word.substr(i, code_point_bytes(word.substr(i)));
        unit_begins_.push_back(stream_.size());
        stream_ += escape(character);
        i += character.size();
      }
      unit_begins_.push_back(stream_.size());
    }
    stream_ += ' ';
  }
  unit_begins_.push_back(stream_.size());
}

void TextGenerator::append_units(int64_t units, std::string& lines) {
  if (units == 0) return;
  const bool by_words = options_.unit == TextUnit::kWords;
  if (by_words) lines += ' ';
  const auto seed_units = static_cast<int64_t>(unit_begins_.size()) - 1;
  while (units > 0) {
    const int64_t taken = std::min(units, seed_units - position_);
    const uint64_t begin = unit_begins_[static_cast<size_t>(position_)];
    const uint64_t end = unit_begins_[static_cast<size_t>(position_ + taken)];
    lines.append(stream_, begin, end - begin);
    position_ = (position_ + taken) % seed_units;
    units -= taken;
  }
  if (by_words) lines.pop_back();  // the space behind the last word
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
  const auto seed_units = static_cast<int64_t>(unit_begins_.size()) - 1;
  const int64_t units = options_.entries * (input_units_ + output_units_);
  const int64_t whole_seeds = units / seed_units;
  const auto rest_bytes =
      static_cast<int64_t>(unit_begins_[static_cast<size_t>(units % seed_units)]);
  const auto frame_bytes = static_cast<int64_t>(head_.size() + middle_.size() + kLineEnd.size());
  return whole_seeds * static_cast<int64_t>(stream_.size()) + rest_bytes +
         options_.entries * frame_bytes;
}

void write_text_dataset(TextGenerator generator, const std::filesystem::path& path,
                        const std::function<void(int64_t entries, int64_t bytes)>& progress) {
  constexpr size_t kChunkBytes = 8 << 20;
  AtomicFile file(path);
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
