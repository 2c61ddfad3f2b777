#include "sftbench/data/word_stream.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

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

InputError bad_seed(const std::string& origin, std::string what, std::string expected) {
  return InputError({{.file = origin,
                      .line = 0,
                      .key = {},
                      .message = std::move(what),
                      .expected = std::move(expected),
                      .nearest = {}}});
}

}  // namespace

std::string json_escaped(std::string_view text, const std::string& what,
                         const std::string& origin) {
  const std::optional<std::string> quoted = ascii_json(text);
  if (!quoted) throw bad_seed(origin, what + " is not UTF-8", "UTF-8");
  return quoted->substr(1, quoted->size() - 2);
}

WordStream::WordStream(std::string_view seed_text, const std::string& origin, TextUnit unit,
                       TextForm form)
    : unit_(unit) {
  json_escaped(seed_text, "the seed text", origin);  // throws unless it is UTF-8
  for (const std::string_view word : split_words(seed_text)) {
    add_word(word, form);
    stream_ += ' ';
  }
  unit_begins_.push_back(stream_.size());
  if (unit_begins_.size() < 2) throw bad_seed(origin, "the seed text has no words", "text");
}

void WordStream::add_word(std::string_view word, TextForm form) {
  const auto add_unit = [&](std::string_view text) {
    unit_begins_.push_back(stream_.size());
    stream_ += form == TextForm::kJson ? json_escaped(text, {}, {}) : std::string(text);
  };
  if (unit_ == TextUnit::kWords) return add_unit(word);
  for (size_t i = 0; i < word.size();) {
    const std::string_view character = word.substr(i, code_point_bytes(word.substr(i)));
    add_unit(character);
    i += character.size();
  }
  unit_begins_.push_back(stream_.size());  // the space behind it is a character too
}

void WordStream::append(int64_t units, std::string& text) {
  if (units == 0) return;
  while (units > 0) {
    const int64_t taken = std::min(units, seed_units() - position_);
    const uint64_t begin = unit_begins_[static_cast<size_t>(position_)];
    const uint64_t end = unit_begins_[static_cast<size_t>(position_ + taken)];
    text.append(stream_, begin, end - begin);
    position_ = (position_ + taken) % seed_units();
    units -= taken;
  }
  if (unit_ == TextUnit::kWords) text.pop_back();  // the space behind the last word
}

int64_t WordStream::bytes(int64_t units) const {
  const auto rest = static_cast<int64_t>(unit_begins_[static_cast<size_t>(units % seed_units())]);
  return units / seed_units() * static_cast<int64_t>(stream_.size()) + rest;
}

}  // namespace sftbench
