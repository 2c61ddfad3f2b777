#include "data/entry_index.h"

#include <algorithm>
#include <utility>

#include "data/text_encoding.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// An entry is held whole, several times over.
constexpr uint64_t kMostBytesOfEntry = EntryIndex::kMostBytesOfEntry;

// Finds the lines of a text that arrives in pieces.
class LineIndex final : public EntryIndex {
 public:
  LineIndex(std::vector<EntryPlace>& lines, const std::string& path) : lines_(lines), path_(path) {}

  void add(std::string_view piece) override {
    size_t at = 0;
    while (at < piece.size()) {
      if (blank_) blank_ = skip_blanks(piece, at);
      const size_t end = std::min(piece.find('\n', at), piece.size());
      if (end < piece.size()) end_line(offset_ + end);
      at = end + 1;
    }
    offset_ += piece.size();
    require_short_line(offset_);
  }

  void finish() override { end_line(offset_); }
  uint64_t unfinished() const override { return begin_; }
  bool in_array() const override { return false; }

 private:
  // Moves `at` to the first character of the line that is not blank, or to its end. True: none
  // here.
  static bool skip_blanks(std::string_view piece, size_t& at) {
    at = std::min(piece.find_first_not_of(" \t\r", at), piece.size());
    return at == piece.size() || piece[at] == '\n';
  }

  void require_short_line(uint64_t end) const {
    if (end < begin_ + kMostBytesOfEntry) return;  // the next line may begin behind `end`
    throw InputError({{.file = path_,
                       .line = number_ + 1,
                       .key = {},
                       .message = "longer than 256 MiB",
                       .expected = "one JSON object per line",
                       .nearest = {}}});
  }

  void end_line(uint64_t end) {
    require_short_line(end);
    ++number_;
    if (!blank_) lines_.push_back({begin_, static_cast<uint32_t>(end - begin_), number_});
    begin_ = end + 1;
    blank_ = true;
  }

  std::vector<EntryPlace>& lines_;
  const std::string& path_;
  uint64_t offset_ = 0;  // of the next piece
  uint64_t begin_ = 0;   // of the current line
  int number_ = 0;       // of the last line that ended
  bool blank_ = true;    // the current line, so far
};

// Finds the elements of an array that arrives in pieces, or objects that stand one behind the
// other. What an element holds is looked at when it is read; here only strings and brackets count.
class ValueIndex final : public EntryIndex {
 public:
  ValueIndex(std::vector<EntryPlace>& lines, const std::string& path, bool in_array)
      : lines_(lines), path_(path), state_(in_array ? State::kBefore : State::kObject) {}

  void add(std::string_view piece) override {
    for (const char c : piece) {
      take(c);
      ++offset_;
      if (c == '\n') ++number_;
    }
  }

  void finish() override {
    if (state_ == State::kObject || state_ == State::kBehind) return;
    if (bare_) fail("ends within an object", "a } behind it");
    fail("ends within its array", "a ] behind the last entry");
  }
  bool in_array() const override { return !bare_; }
  uint64_t unfinished() const override {
    return state_ == State::kValue ? lines_.back().begin_bytes : offset_;
  }

 private:
  enum class State { kBefore, kFirst, kValue, kNext, kBetween, kBehind, kObject };

  void take(char c) {
    const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    switch (state_) {
      case State::kBefore:
        if (c == '[') state_ = State::kFirst;
        return;
      case State::kFirst:
        if (c == ']') {
          state_ = State::kBehind;
        } else if (!blank) {
          begin(c);
        }
        return;
      case State::kValue:
        return take_of_value(c, blank);
      case State::kBetween:
        return end_of_value(c, blank);
      case State::kNext:
        if (c == ']' || c == ',') fail("has a comma with no entry behind it", "an entry");
        if (!blank) begin(c);
        return;
      case State::kBehind:
        if (!blank) fail("goes on behind its array", "one array of objects");
        return;
      case State::kObject:
        if (blank || (c != '{' && is_mark())) return;
        if (c != '{') fail("has something else than objects one behind the other", "a {");
        return begin(c);
    }
  }

  void begin(char c) {
    lines_.push_back({offset_, 0, number_});
    depth_ = 0;
    in_string_ = escaped_ = false;
    state_ = State::kValue;
    take_of_value(c, false);
  }

  void take_of_value(char c, bool blank) {
    if (offset_ - lines_.back().begin_bytes >= kMostBytesOfEntry) {
      fail("has an entry longer than 256 MiB", "shorter entries");
    }
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
      return;
    }
    if (depth_ == 0 && (c == ',' || c == ']' || blank)) {
      lines_.back().size_bytes = static_cast<uint32_t>(offset_ - lines_.back().begin_bytes);
      state_ = State::kBetween;
      return end_of_value(c, blank);
    }
    if (c == '"') in_string_ = true;
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') --depth_;
    if (bare_ && depth_ == 0) {
      lines_.back().size_bytes = static_cast<uint32_t>(offset_ + 1 - lines_.back().begin_bytes);
      state_ = State::kObject;
    }
  }

  // Of the order of bytes, in front of UTF-8.
  bool is_mark() const { return offset_ < 3 && lines_.empty(); }

  void end_of_value(char c, bool blank) {
    if (blank) return;
    if (c != ',' && c != ']') fail("has no comma between entries", "a comma");
    state_ = c == ',' ? State::kNext : State::kBehind;
  }

  [[noreturn]] void fail(const std::string& message, const std::string& expected) const {
    throw InputError({{.file = path_,
                       .line = number_,
                       .key = {},
                       .message = "the file " + message,
                       .expected = expected,
                       .nearest = {}}});
  }

  std::vector<EntryPlace>& lines_;
  const std::string& path_;
  State state_;
  const bool bare_ = state_ == State::kObject;  // no array is around
  uint64_t offset_ = 0;
  int number_ = 1;
  int64_t depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

std::string_view without_mark_and_space(std::string_view begin) {
  begin = without_byte_order_mark(begin);
  const size_t first = begin.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos ? std::string_view() : begin.substr(first);
}

// Whether the first object takes several lines, or another one follows it on its line.
bool are_objects_without_lines(std::string_view begin) {
  if (!begin.starts_with('{')) return false;
  std::vector<EntryPlace> found;
  ValueIndex objects(found, {}, false);
  size_t at = 0;
  try {
    for (; at < begin.size() && (found.empty() || found.front().size_bytes == 0); ++at)
      objects.add(begin.substr(at, 1));
  } catch (const InputError&) {
    return false;
  }
  if (found.front().size_bytes == 0) return false;  // a line that is no JSON, or a very long one
  if (begin.substr(0, at).find('\n') != std::string_view::npos) return true;
  const size_t next = begin.find_first_not_of(" \t\r", at);
  return next != std::string_view::npos && begin[next] == '{';
}

// Whether the first line is a list of objects, and the next line begins another one.
bool are_lists_on_lines(std::string_view begin) {
  const size_t end = begin.find('\n');
  if (!begin.starts_with('[') || end == std::string_view::npos) return false;
  if (!without_mark_and_space(begin.substr(1)).starts_with('{')) return false;
  return without_mark_and_space(begin.substr(end)).starts_with('[') &&
         Json::accept(begin.substr(0, end));
}

}  // namespace

std::unique_ptr<EntryIndex> make_entry_index(std::string_view begin,
                                             std::vector<EntryPlace>& places,
                                             const std::string& path) {
  refuse_wide_text(begin, path);
  const std::string_view text = without_mark_and_space(begin);
  const bool array = text.starts_with('[') && !are_lists_on_lines(text);
  if (array || are_objects_without_lines(text))
    return std::make_unique<ValueIndex>(places, path, array);
  return std::make_unique<LineIndex>(places, path);
}

}  // namespace sftbench
