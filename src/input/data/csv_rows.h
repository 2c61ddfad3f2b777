// Rows of CSV and TSV as JSON objects of texts: RFC 4180, as Python's csv writes and pandas reads
// it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/file_bytes.h"

namespace sftbench {

class CsvRows {
 public:
  // The first row has the names of the columns. InputError without one, and for two of one name.
  // `separator`: the usual one, unless the first row has more of another.
  CsvRows(std::unique_ptr<FileBytes> bytes, std::string path, char separator);

  // The next row that is not blank, as a JSON object, and the line that it begins on. False behind
  // the last one. A row shorter than the first one lacks the last fields. InputError for a longer
  // one, and for a quote that never ends.
  bool next(std::string& json, int& line);

 private:
  bool next_byte(char& byte);
  char peek();
  std::string in_json(const std::string& field, int line) const;
  bool read_record(std::vector<std::string>& fields, int& line);
  void read_quoted(std::string& field, int line);
  [[noreturn]] void fail(int line, std::string message, std::string expected) const;

  std::unique_ptr<FileBytes> bytes_;
  std::string path_;
  char separator_ = ',';
  std::string_view piece_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<std::string> columns_, keys_;  // and these as JSON
};

}  // namespace sftbench
