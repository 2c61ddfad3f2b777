#include "sftbench/data/jsonl.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/json.h"
#include "sftbench/base/json_builder.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// An entry is held whole, several times over.
constexpr uint64_t kMostBytesOfEntry = uint64_t{256} << 20;

// Takes one string out of a JSON object without building the rest. Nothing recurses, so that no
// depth of nesting can exhaust the stack.
class FieldReader : public nlohmann::json_sax<Json> {
 public:
  explicit FieldReader(std::string_view field) : field_(field) {}

  std::string value;
  bool found = false;             // `value` is the field's string
  std::string other_type;         // what stands under the field instead
  std::string top_type;           // what the line is when it is no object
  std::vector<std::string> keys;  // top-level, in order
  std::string problem;            // why the line is not JSON
  size_t column = 0;              // 1-based byte of the problem

  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a boolean"); }
  bool number_integer(number_integer_t) override { return scalar("a number"); }
  bool number_unsigned(number_unsigned_t) override { return scalar("a number"); }
  bool number_float(number_float_t, const string_t&) override { return scalar("a number"); }
  bool binary(binary_t&) override { return scalar("binary data"); }
  bool string(string_t& text) override {
    if (!wanted()) return scalar("a string");
    value.swap(text);
    found = true;
    other_type.clear();
    return true;
  }
  bool start_object(size_t) override {
    if (depth_ > 0) scalar("an object");
    ++depth_;
    return true;
  }
  bool end_object() override { return --depth_, true; }
  bool start_array(size_t) override {
    scalar("a list");
    ++depth_;
    return true;
  }
  bool end_array() override { return --depth_, true; }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    at_field_ = name == field_;
    if (std::find(keys.begin(), keys.end(), name) == keys.end()) keys.push_back(std::move(name));
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    problem = json_problem(error);
    column = position;
    return false;
  }

 private:
  bool wanted() const { return depth_ == 1 && at_field_; }

  // The last of equal keys counts, so that a later value of another type undoes an earlier string.
  bool scalar(const char* type) {
    if (depth_ == 0) top_type = type;
    if (wanted()) {
      other_type = type;
      found = false;
    }
    return true;
  }

  std::string_view field_;
  int64_t depth_ = 0;
  bool at_field_ = false;
};

Diagnostic describe(const FieldReader& reader, bool parsed, std::string_view field) {
  Diagnostic error;
  if (!parsed) {
    error.message = "not JSON at column " + std::to_string(reader.column) + ": " + reader.problem;
    error.expected = "one JSON object per line";
  } else if (!reader.top_type.empty()) {
    error.message = "the line is " + reader.top_type;
    error.expected = "a JSON object with the field '" + std::string(field) + "'";
  } else if (!reader.other_type.empty()) {
    error.key = field;
    error.message = "the field is " + reader.other_type;
    error.expected = "a string";
  } else {
    error.key = field;
    error.message = reader.keys.empty() ? "no such field; the object is empty"
                                        : "no such field; found " + join(reader.keys);
    error.nearest = nearest_spelling(field, reader.keys);
  }
  return error;
}

}  // namespace

// Finds the lines of a text that arrives in pieces.
class JsonlFile::Indexer {
 public:
  Indexer(std::vector<Line>& lines, const std::string& path) : lines_(lines), path_(path) {}

  void add(std::string_view piece) {
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

  void finish() { end_line(offset_); }

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

  std::vector<Line>& lines_;
  const std::string& path_;
  uint64_t offset_ = 0;  // of the next piece
  uint64_t begin_ = 0;   // of the current line
  int number_ = 0;       // of the last line that ended
  bool blank_ = true;    // the current line, so far
};

// Finds the elements of an array that arrives in pieces. What an element holds is looked at when it
// is read; here only strings and brackets count.
class JsonlFile::ArrayIndexer {
 public:
  ArrayIndexer(std::vector<Line>& lines, const std::string& path) : lines_(lines), path_(path) {}

  void add(std::string_view piece) {
    for (const char c : piece) {
      take(c);
      ++offset_;
      if (c == '\n') ++number_;
    }
  }

  void finish() {
    if (state_ != State::kBehind) fail("ends within its array", "a ] behind the last entry");
  }

 private:
  enum class State { kBefore, kFirst, kValue, kNext, kBetween, kBehind };

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
  }

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

  std::vector<Line>& lines_;
  const std::string& path_;
  State state_ = State::kBefore;
  uint64_t offset_ = 0;
  int number_ = 1;
  int64_t depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

namespace {

// Editors of Windows write a byte order mark in front of UTF-8, which JSON's readers skip.
bool begins_an_array(std::string_view begin) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (begin.substr(0, kMark.size()) == kMark) begin.remove_prefix(kMark.size());
  const size_t first = begin.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && begin[first] == '[';
}

void refuse_utf16(std::string_view begin, const std::string& path) {
  const std::string_view mark = begin.substr(0, 2);
  if (mark != "\xff\xfe" && mark != "\xfe\xff") return;
  throw InputError({{.file = path,
                     .line = 0,
                     .key = {},
                     .message = "the file is UTF-16",
                     .expected = "UTF-8",
                     .nearest = {}}});
}

}  // namespace

JsonlFile::JsonlFile(const std::filesystem::path& path, int64_t most)
    : file_(path), path_(path.string()) {
  Indexer lines(lines_, path_);
  ArrayIndexer elements(lines_, path_);
  bool array = false;
  std::string piece(1 << 20, '\0');
  uint64_t offset = 0;
  for (size_t got = piece.size(); got == piece.size(); offset += got) {
    got = file_->read_at(offset, piece.data(), piece.size());
    const std::string_view read = std::string_view(piece).substr(0, got);
    if (offset == 0) refuse_utf16(read, path_);
    if (offset == 0) array = path.extension() != ".jsonl" && begins_an_array(read);
    array ? elements.add(read) : lines.add(read);
    if (size() > most) return;  // the last one found may not have ended
  }
  array ? elements.finish() : lines.finish();
  if (array && lines_.empty()) {
    throw InputError({{.file = path_,
                       .line = 0,
                       .key = {},
                       .message = "the array is empty",
                       .expected = "an array of objects",
                       .nearest = {}}});
  }
  require_entries(offset == 0);
}

JsonlFile::JsonlFile(std::string_view content, std::string origin)
    : content_(content), path_(std::move(origin)) {
  Indexer indexer(lines_, path_);
  indexer.add(content);
  indexer.finish();
  require_entries(content.empty());
}

JsonlFile::JsonlFile(const std::function<bool(std::string& row)>& next, std::string origin,
                     std::map<std::string, std::string> left_out)
    : rows_(std::make_unique<SpillFile>()),
      path_(std::move(origin)),
      left_out_(std::move(left_out)) {
  std::string row;
  while (next(row)) {
    const int number = static_cast<int>(lines_.size()) + 1;
    if (row.size() >= kMostBytesOfEntry) {
      throw InputError({{.file = path_,
                         .line = number,
                         .key = {},
                         .message = "the row is longer than 256 MiB",
                         .expected = "shorter rows",
                         .nearest = {}}});
    }
    lines_.push_back({rows_->append(row), static_cast<uint32_t>(row.size()), number});
  }
  if (!lines_.empty()) return;
  throw InputError({{.file = path_,
                     .line = 0,
                     .key = {},
                     .message = "the file has no rows",
                     .expected = "one row per entry",
                     .nearest = {}}});
}

void JsonlFile::require_entries(bool file_is_empty) const {
  if (!lines_.empty()) return;
  throw InputError(
      {{.file = path_,
        .line = 0,
        .key = {},
        .message = file_is_empty ? "the file is empty" : "the file has blank lines only",
        .expected = "one JSON object per line",
        .nearest = {}}});
}

std::string JsonlFile::line(int64_t entry) const {
  const Line& line = lines_.at(static_cast<size_t>(entry));
  const size_t size_bytes = line.size_bytes;
  if (!file_ && !rows_) return std::string(content_.substr(line.begin_bytes, size_bytes));
  std::string text(size_bytes, '\0');
  if (rows_) {
    rows_->read(line.begin_bytes, text.data(), size_bytes);
  } else {
    text.resize(file_->read_at(line.begin_bytes, text.data(), size_bytes));
  }
  return text;
}

int JsonlFile::line_number(int64_t entry) const {
  return lines_.at(static_cast<size_t>(entry)).number;
}

bool JsonlFile::read_text(int64_t entry, std::string_view field, std::string& text,
                          Diagnostic& error) const {
  FieldReader reader(field);
  const std::string json = line(entry);
  const bool parsed = Json::sax_parse(json.data(), json.data() + json.size(), &reader);
  if (parsed && reader.found) {
    text.swap(reader.value);
    return true;
  }
  error = describe(reader, parsed, field);
  explain_left_out(error);
  error.file = path_;
  error.line = line_number(entry);
  return false;
}

bool JsonlFile::read_object(int64_t entry, Json& object, Diagnostic& error) const {
  const std::string text = line(entry);
  try {
    object = build_json(text);
    if (object.is_object()) return true;
    error = {};
    error.message = std::string("the entry is ") + (object.is_array() ? "a list" : "no object");
    error.expected = "a JSON object";
  } catch (const Json::parse_error& problem) {
    error = {};
    error.message =
        "not JSON at column " + std::to_string(problem.byte) + ": " + json_problem(problem);
    error.expected = "one JSON object per line, or one array of objects";
  } catch (const Json::out_of_range& problem) {  // 1e999, or nested too deep; it has no position
    error = {};
    error.message = "not usable JSON: " + json_problem(problem);
  }
  error.file = path_;
  error.line = line_number(entry);
  return false;
}

void JsonlFile::explain_left_out(Diagnostic& error) const {
  const auto found = left_out_.find(error.key);
  if (found == left_out_.end()) {
    if (left_out_.empty() || !error.message.starts_with("no such field")) return;
    std::vector<std::string> columns;
    for (const auto& [name, type] : left_out_) columns.push_back(name + " (" + type + ")");
    error.message += "; columns that are not read here: " + join(columns);
    return;
  }
  error.message = "the column is of type " + found->second + ", which is not read here";
  error.expected = "a column of texts or of lists";
  error.nearest.clear();
}

std::string JsonlFile::text(int64_t entry, std::string_view field) const {
  std::string text;
  Diagnostic error;
  if (!read_text(entry, field, text, error)) throw InputError({error});
  return text;
}

}  // namespace sftbench
