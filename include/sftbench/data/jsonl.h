// JSON Lines, or one JSON array of objects: opening a file finds where its entries begin and parses
// none of them; an entry is read and parsed when it is asked for. Memory is 16 bytes per entry
// whatever the entries hold.
//
// As Python reads it: one JSON object per line, blank lines skipped, an array where the file begins
// with [ and is not called .jsonl, the last of two equal keys
// counts, invalid UTF-8 is an error. All errors name file, line number, what was found and what was
// expected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/data/spill_file.h"

namespace sftbench {

class JsonlFile {
 public:
  // InputError when the file cannot be read or has no entry at all. Who needs its first `most` entries
  // alone reads little more than these, and may find some more.
  explicit JsonlFile(const std::filesystem::path& path,
                     int64_t most = std::numeric_limits<int64_t>::max());

  // Reads `content` instead of a file; `origin` stands in for its path in errors. `content` must
  // outlive the object.
  JsonlFile(std::string_view content, std::string origin);
  // Rows of a table in place of lines: those that `next` gives until it says false. They are kept
  // (data/spill_file.h), not held. InputError without a row. `left_out`: what the table has and no row
  // shows.
  JsonlFile(const std::function<bool(std::string& row)>& next, std::string origin,
            std::map<std::string, std::string> left_out = {});

  int64_t size() const { return static_cast<int64_t>(lines_.size()); }  // entries
  const std::string& path() const { return path_; }

  // The string under the top-level key `field` of an entry, unescaped, as UTF-8.
  // InputError when the line is no JSON object, lacks the field, or holds something else there.
  std::string text(int64_t entry, std::string_view field) const;

  // The same without the exception: true and `text`, or false and `error`. For reporting many at
  // once.
  bool read_text(int64_t entry, std::string_view field, std::string& text, Diagnostic& error) const;

  // The whole entry. False and `error` where it is no JSON object.
  bool read_object(int64_t entry, Json& object, Diagnostic& error) const;

  // Where an error's key is a column that the rows leave out: what its type is, in place of that there
  // is no such field. Where no column has the name: which ones are left out.
  void explain_left_out(Diagnostic& error) const;

  // The entry as it stands in the file, without its line end.
  std::string line(int64_t entry) const;
  int line_number(int64_t entry) const;  // of its first character; 1-based, blank lines counted

 private:
  struct Line {
    uint64_t begin_bytes = 0;
    uint32_t size_bytes = 0;
    int number = 0;
  };
  class Indexer;
  class ArrayIndexer;
  void require_entries(bool file_is_empty) const;

  std::optional<RandomAccessFile> file_;  // none: `rows_`
  std::unique_ptr<SpillFile> rows_;       // none: `content_`
  std::string_view content_;
  std::string path_;
  std::map<std::string, std::string> left_out_;  // types by columns
  std::vector<Line> lines_;                      // those that are not blank
};

}  // namespace sftbench
