#include "advise/csv_file.h"

#include <algorithm>
#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace {

constexpr const char* kByteOrderMark = "\xEF\xBB\xBF";

// What the header has most of: spreadsheets write semicolons where a comma is in numbers.
char separator_of(const std::string& text) {
  const std::string_view header(text.data(), std::min(text.find_first_of("\r\n"), text.size()));
  char most = ',';
  for (const char other : {';', '\t'}) {
    if (std::count(header.begin(), header.end(), other) >
        std::count(header.begin(), header.end(), most))
      most = other;
  }
  return most;
}

class CsvParser {
 public:
  CsvParser(const std::string& path, const std::string& text)
      : path_(path), text_(text), separator_(separator_of(text)) {
    if (text_.rfind(kByteOrderMark, 0) == 0) at_ = 3;
  }

  bool at_end() const { return at_ >= text_.size(); }

  CsvRow row() {
    CsvRow row;
    row.line = line_;
    for (;;) {
      row.cells.push_back(cell());
      if (at_end()) return row;
      const char c = text_[at_++];
      if (c == separator_) continue;
      if (c == '\r' && !at_end() && text_[at_] == '\n') ++at_;
      ++line_;
      return row;
    }
  }

 private:
  std::string cell() {
    std::string value;
    if (!at_end() && text_[at_] == '"') value = quoted();
    const char ends[] = {separator_, '\r', '\n', '\0'};
    const size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    value.append(text_, at_, end - at_);
    at_ = end;
    return value;
  }

  std::string quoted() {
    const int64_t first = line_;
    std::string value;
    for (++at_; !at_end(); ++at_) {
      if (text_[at_] == '"') {
        if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') {
          ++at_;
          return value;
        }
        ++at_;
      }
      if (text_[at_] == '\n') ++line_;
      value += text_[at_];
    }
    throw InputError({{path_, static_cast<int>(first), {}, "a quote is never closed", "\"", {}}});
  }

  const std::string& path_;
  const std::string& text_;
  const char separator_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

bool is_blank(const CsvRow& row) {
  return row.cells.size() == 1 && row.cells.front().empty();
}

}  // namespace

CsvFile read_csv(const std::string& path) {
  const std::string text = read_file(path);
  CsvParser parser(path, text);
  CsvFile file;
  if (!parser.at_end()) file.header = parser.row().cells;
  if (file.header.empty() || (file.header.size() == 1 && file.header.front().empty())) {
    throw InputError({{path, 1, {}, "has no header", "the names of the columns", {}}});
  }
  for (size_t i = 0; i < file.header.size(); ++i) {
    const auto first = std::find(file.header.begin(), file.header.end(), file.header[i]);
    if (file.header[i].empty() || first == file.header.begin() + static_cast<ptrdiff_t>(i))
      continue;
    throw InputError({{path, 1, file.header[i], "names two columns", "one", {}}});
  }
  while (!parser.at_end()) {
    CsvRow row = parser.row();
    if (!is_blank(row)) file.rows.push_back(std::move(row));
  }
  return file;
}

}  // namespace sftbench
