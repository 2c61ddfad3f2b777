#include "sftbench/data/jsonl.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "data/entry_index.h"
#include "data/text_encoding.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_builder.h"
#include "sftbench/base/text.h"
#include "sftbench/data/chat_entry.h"

namespace sftbench {
namespace {

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
    if (known_.insert(name).second) keys.push_back(std::move(name));
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
  std::unordered_set<std::string> known_;  // `keys`, to find each at once
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
                                        : "no such field; found " + join_some(reader.keys);
    error.nearest = nearest_spelling(field, reader.keys);
  }
  return error;
}

// A list of messages without an object around it.
bool is_conversation(const Json& entry) {
  return entry.is_array() && !entry.empty() &&
         std::all_of(entry.begin(), entry.end(),
                     [](const Json& message) { return message.is_object(); });
}

Diagnostic of_file(const std::string& path, int line, std::string message, std::string expected) {
  return {.file = path,
          .line = line,
          .key = {},
          .message = std::move(message),
          .expected = std::move(expected),
          .nearest = {}};
}

}  // namespace

JsonlFile::JsonlFile(const std::filesystem::path& path, int64_t most, Opened opened)
    : file_(std::make_unique<RandomAccessFile>(path)), path_(path.string()) {
  std::unique_ptr<EntryIndex> index;
  std::string piece(1 << 20, '\0');
  uint64_t offset = 0;
  for (size_t got = piece.size(); got == piece.size(); offset += got) {
    got = file_->read_at(offset, piece.data(), piece.size());
    const std::string_view read = std::string_view(piece).substr(0, got);
    if (!index) index = make_entry_index(read, lines_, path_);
    index->add(read);
    if (size() > most) break;  // the last one found may not have ended
  }
  if (size() <= most) {
    index->finish();
    require_entries(offset == 0, *index);
  }
  if (opened == Opened::kWhenRead) {
    changed_ = std::filesystem::last_write_time(path);
    file_.reset();
  }
}

JsonlFile::JsonlFile(std::string_view content, std::string origin)
    : content_(content), path_(std::move(origin)) {
  const std::unique_ptr<EntryIndex> index = make_entry_index(content, lines_, path_);
  index->add(content);
  index->finish();
  require_entries(content.empty(), *index);
}

JsonlFile::JsonlFile(const NextPiece& next, std::string origin, int64_t most,
                     std::shared_ptr<SpillFile> kept)
    : rows_(kept ? std::move(kept) : std::make_shared<SpillFile>()), path_(std::move(origin)) {
  std::unique_ptr<EntryIndex> index;
  std::string held;  // from `begin` on: what has not ended
  uint64_t begin = 0;
  size_t done = 0;
  const auto keep_ended = [&] {
    const uint64_t unfinished = index->unfinished();
    for (; done < lines_.size() && lines_[done].begin_bytes < unfinished; ++done) {
      EntryPlace& line = lines_[done];
      line.begin_bytes =
          rows_->append(std::string_view(held).substr(line.begin_bytes - begin, line.size_bytes));
    }
    held.erase(0, std::min<uint64_t>(unfinished - begin, held.size()));
    begin = unfinished;
  };
  bool any = false;
  for (std::string_view piece = next(); !piece.empty() && size() <= most; piece = next()) {
    any = true;
    if (!index) index = make_entry_index(piece, lines_, path_);
    held += piece;
    index->add(piece);
    keep_ended();
  }
  if (index && size() <= most) {
    index->finish();
    keep_ended();
  } else {
    lines_.resize(done);
  }
  if (lines_.empty() && !index) index = make_entry_index({}, lines_, path_);
  if (index) require_entries(!any, *index);
}

JsonlFile::JsonlFile(const NextRow& next, std::string origin,
                     std::map<std::string, std::string> left_out, std::shared_ptr<SpillFile> kept)
    : rows_(kept ? std::move(kept) : std::make_shared<SpillFile>()),
      path_(std::move(origin)),
      left_out_(std::move(left_out)) {
  std::string row;
  for (int number = 1; next(row, number); ++number) {
    if (row.size() >= EntryIndex::kMostBytesOfEntry) {
      throw InputError({of_file(path_, number, "the row is longer than 256 MiB", "shorter rows")});
    }
    lines_.push_back({rows_->append(row), static_cast<uint32_t>(row.size()), number});
  }
  if (!lines_.empty()) return;
  throw InputError({of_file(path_, 0, "the file has no rows", "one row per entry")});
}

void JsonlFile::require_entries(bool file_is_empty, const EntryIndex& index) const {
  if (!lines_.empty()) return;
  if (index.in_array())
    throw InputError({of_file(path_, 0, "the array is empty", "an array of objects")});
  throw InputError(
      {of_file(path_, 0, file_is_empty ? "the file is empty" : "the file has blank lines only",
               "one JSON object per line")});
}

std::string JsonlFile::line(int64_t entry) const {
  const EntryPlace& line = lines_.at(static_cast<size_t>(entry));
  const size_t size_bytes = line.size_bytes;
  if (!file_ && !rows_ && !changed_)
    return std::string(content_.substr(line.begin_bytes, size_bytes));
  std::string text(size_bytes, '\0');
  if (rows_) {
    rows_->read(line.begin_bytes, text.data(), size_bytes);
  } else if (file_) {
    text.resize(file_->read_at(line.begin_bytes, text.data(), size_bytes));
  } else {
    text.resize(opened_again().read_at(line.begin_bytes, text.data(), size_bytes));
  }
  return text;
}

RandomAccessFile JsonlFile::opened_again() const {
  RandomAccessFile file(path_);
  std::error_code error;
  if (std::filesystem::last_write_time(path_, error) == *changed_) return file;
  throw InputError({of_file(path_, 0, "the file changed while it was read", "one that stays")});
}

int JsonlFile::line_number(int64_t entry) const {
  return lines_.at(static_cast<size_t>(entry)).number;
}

bool JsonlFile::read_text(int64_t entry, std::string_view field, std::string& text,
                          Diagnostic& error, std::vector<std::string>* keys) const {
  FieldReader reader(field);
  const std::string json = line(entry);
  const bool parsed = Json::sax_parse(json.data(), json.data() + json.size(), &reader);
  if (parsed && reader.found) {
    text.swap(reader.value);
    if (keys != nullptr) *keys = std::move(reader.keys);
    return true;
  }
  error = {};
  if (parsed || !is_not_utf8(json, error)) error = describe(reader, parsed, field);
  error.file = path_;
  error.line = line_number(entry);
  explain_left_out(error);
  return false;
}

bool JsonlFile::read_object(int64_t entry, Json& object, Diagnostic& error) const {
  const std::string text = line(entry);
  try {
    object = build_json(text);
    if (is_conversation(object)) object = {{kConversationField, std::move(object)}};
    if (object.is_object()) return true;
    error = {};
    error.message = std::string("the entry is ") + (object.is_array() ? "a list" : "no object");
    error.expected = "a JSON object";
  } catch (const Json::parse_error& problem) {
    error = {};
    if (!is_not_utf8(text, error)) {
      error.message =
          "not JSON at column " + std::to_string(problem.byte) + ": " + json_problem(problem);
      error.expected = "one JSON object per line, or one array of objects";
    }
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
  error.line = 0;  // of all of them
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
