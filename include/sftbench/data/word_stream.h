// The endless, round-robin stream of a seed text's words (or characters) that synthetic datasets
// are cut from. The place in the stream carries over from piece to piece, so that neighbors
// differ.
//
// The seed is written once, in the form in which the dataset needs it; a piece is slices of that,
// so that making a dataset is copying memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sftbench {

enum class TextUnit { kWords, kCharacters };

// kJson: as Python's json.dumps writes it inside of quotes.
enum class TextForm { kPlain, kJson };

class WordStream {
 public:
  // Words are what Python's str.split() finds. `origin` names the seed text in errors.
  // InputError when it has no word or is not UTF-8.
  WordStream(std::string_view seed_text, const std::string& origin, TextUnit unit, TextForm form);

  // Appends the next `units` words, with single spaces between them, or characters.
  void append(int64_t units, std::string& text);

  // Bytes of the first `units` from the beginning of the stream, with a space behind each word.
  int64_t bytes(int64_t units) const;

 private:
  void add_word(std::string_view word, TextForm form);
  int64_t seed_units() const { return static_cast<int64_t>(unit_begins_.size()) - 1; }

  TextUnit unit_;
  std::string stream_;                 // one space behind each word
  std::vector<uint64_t> unit_begins_;  // in stream_, and its end
  int64_t position_ = 0;               // of the next unit
};

// As Python's json.dumps writes a string, without the quotes. InputError, saying that `what` is not
// UTF-8, naming `origin`.
std::string json_escaped(std::string_view text, const std::string& what, const std::string& origin);

}  // namespace sftbench
