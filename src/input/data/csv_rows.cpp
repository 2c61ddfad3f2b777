#include "data/csv_rows.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "data/text_encoding.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr size_t kMostBytesOfField = size_t{256} << 20;

// Spreadsheets write semicolons where a comma divides numbers. The one that the first line has most
// often, `usual` among equals.
char separator_of(std::string_view begin, char usual) {
  const auto count = [begin](char separator) {
    int64_t found = 0;
    bool quoted = false;
    for (const char byte : begin) {
      if (byte == '"') quoted = !quoted;
      if (quoted) continue;
      if (byte == '\n' || byte == '\r') break;
      found += byte == separator ? 1 : 0;
    }
    return found;
  };
  char most = usual;
  for (const char other : {',', ';', '\t', '|'})
    if (count(other) > count(most)) most = other;
  return most;
}

}  // namespace

CsvRows::CsvRows(std::unique_ptr<FileBytes> bytes, std::string path, char separator)
    : bytes_(std::move(bytes)), path_(std::move(path)), piece_(bytes_->next()) {
  refuse_wide_text(piece_, path_);
  separator_ = separator_of(piece_, separator);
  int line = 0;
  if (piece_.starts_with("sep=") && piece_.size() > 5 && (piece_[5] == '\n' || piece_[5] == '\r')) {
    separator_ = piece_[4];  // as Excel says it
    read_record(columns_, line);
  }
  if (!read_record(columns_, line)) fail(0, "the file is empty", "a first line of column names");
  columns_.front() = std::string(without_byte_order_mark(columns_.front()));
  std::vector<std::string> sorted = columns_;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    fail(line, "two columns are named '" + *twice + "'", "one column of each name");
  for (const std::string& column : columns_)
    keys_.push_back('"' + in_json(column, line) + "\": \"");
}

void CsvRows::fail(int line, std::string message, std::string expected) const {
  throw InputError({{path_, line, {}, std::move(message), std::move(expected), {}}});
}

std::string CsvRows::in_json(const std::string& field, int line) const {
  const std::optional<std::string> quoted = ascii_json(field);
  if (quoted) return quoted->substr(1, quoted->size() - 2);
  Diagnostic wrong;
  is_not_utf8(field, wrong, " of a field");
  fail(line, wrong.message, wrong.expected);
}

bool CsvRows::next_byte(char& byte) {
  if (at_ == piece_.size()) {
    piece_ = bytes_->next();
    at_ = 0;
    if (piece_.empty()) return false;
  }
  byte = piece_[at_++];
  if (byte == '\n') ++line_;
  return true;
}

// '\0' at the end.
char CsvRows::peek() {
  if (at_ == piece_.size()) {
    piece_ = bytes_->next();
    at_ = 0;
  }
  return piece_.empty() ? '\0' : piece_[at_];
}

// Behind its first quote.
void CsvRows::read_quoted(std::string& field, int line) {
  char byte = 0;
  while (next_byte(byte)) {
    if (byte != '"') {
      field += byte;
    } else if (peek() != '"') {
      return;
    } else {
      next_byte(byte);
      field += '"';
    }
    if (field.size() > kMostBytesOfField)
      fail(line, "a field is longer than 256 MiB", "shorter ones");
  }
  fail(line, "a quote has no end", "a \" behind it");
}

bool CsvRows::read_record(std::vector<std::string>& fields, int& line) {
  fields.clear();
  line = line_;
  std::string field;
  char byte = 0;
  bool any = false, quotable = true;
  while (next_byte(byte)) {
    any = true;
    if (byte == '"' && quotable) {
      read_quoted(field, line);
      quotable = false;
    } else if (byte == separator_) {
      fields.push_back(std::exchange(field, {}));
      quotable = true;
    } else if (byte == '\n' || byte == '\r') {
      if (byte == '\r' && peek() == '\n') next_byte(byte);
      fields.push_back(std::move(field));
      return true;
    } else {
      field += byte;
      // A mark of the order of bytes in front of a first field's quote.
      quotable = line == 1 && fields.empty() && without_byte_order_mark(field).empty();
      if (field.size() > kMostBytesOfField)
        fail(line, "a field is longer than 256 MiB", "shorter ones");
    }
  }
  if (any) fields.push_back(std::move(field));
  return any;
}

bool CsvRows::next(std::string& json, int& line) {
  std::vector<std::string> fields;
  do {
    if (!read_record(fields, line)) return false;
  } while (fields.size() == 1 && fields.front().empty());
  if (fields.size() > columns_.size()) {
    fail(line,
         "the row has " + counted(std::ssize(fields), "field") + ", and the header has " +
             counted(std::ssize(columns_), "column"),
         "as many, and quotes around a field with a " + json_text(std::string(1, separator_)) +
             " in it, which separates them");
  }
  json = "{";
  for (size_t i = 0; i < fields.size(); ++i) {
    json += (i == 0 ? "" : ", ") + keys_[i] + in_json(fields[i], line) + '"';
  }
  json += "}";
  return true;
}

}  // namespace sftbench
