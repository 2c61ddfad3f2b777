// JSON Lines, or one JSON array of objects: opening a file finds where its entries begin and parses
// none of them; an entry is read and parsed when it is asked for. Memory is 16 bytes per entry
// whatever the entries hold.
//
// As Python reads it: one JSON object per line, blank lines skipped, an array where the file begins
// with [, the last of two equal keys counts, invalid UTF-8 is an error. Objects may also stand one
// behind the other without lines of their own: where the first one takes several lines, or a second
// one stands on its line. A list of objects in place of an entry is a conversation: an object whose
// only field `messages` it is. All errors name file, line number, what was found and what was
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

class EntryIndex;

struct EntryPlace {
  uint64_t begin_bytes = 0;
  uint32_t size_bytes = 0;
  int number = 0;  // of the line
};

class JsonlFile {
 public:
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  enum class Opened { kAlways, kWhenRead };
  // The bytes that come next, which stay until the following call; empty behind the last ones.
  using NextPiece = std::function<std::string_view()>;
  // False behind the last row. `number` is one more than the last row's, and may be raised.
  using NextRow = std::function<bool(std::string& row, int& number)>;

  // InputError when the file cannot be read or has no entry at all. Who needs its first `most`
  // entries alone reads little more than these, and may find some more. More files than a process
  // may hold open are opened when an entry is read.
  explicit JsonlFile(const std::filesystem::path& path, int64_t most = kAll,
                     Opened opened = Opened::kAlways);

  // Reads `content` instead of a file; `origin` stands in for its path in errors. `content` must
  // outlive the object.
  JsonlFile(std::string_view content, std::string origin);
  // What a file holds in another form, such as a compressed one. Entries are kept in `kept`, or in
  // a file of their own (data/spill_file.h), not held.
  JsonlFile(const NextPiece& next, std::string origin, int64_t most,
            std::shared_ptr<SpillFile> kept = nullptr);
  // Rows of a table in place of lines, kept likewise. InputError without a row. `left_out`: what
  // the table has and no row shows.
  JsonlFile(const NextRow& next, std::string origin,
            std::map<std::string, std::string> left_out = {},
            std::shared_ptr<SpillFile> kept = nullptr);

  int64_t size() const { return static_cast<int64_t>(lines_.size()); }  // entries
  const std::string& path() const { return path_; }

  // The string under the top-level key `field` of an entry, unescaped, as UTF-8.
  // InputError when the line is no JSON object, lacks the field, or holds something else there.
  std::string text(int64_t entry, std::string_view field) const;

  // The same without the exception: true and `text`, or false and `error`. For reporting many at
  // once. `keys`, when given, gets the entry's keys.
  bool read_text(int64_t entry, std::string_view field, std::string& text, Diagnostic& error,
                 std::vector<std::string>* keys = nullptr) const;

  // The whole entry. False and `error` where it is no JSON object.
  bool read_object(int64_t entry, Json& object, Diagnostic& error) const;

  // Where an error's key is a column that the rows leave out: what its type is, in place of that
  // there is no such field. Where no column has the name: which ones are left out.
  void explain_left_out(Diagnostic& error) const;
  const std::map<std::string, std::string>& left_out() const { return left_out_; }

  // The entry as it stands in the file, without its line end.
  std::string line(int64_t entry) const;
  int line_number(int64_t entry) const;  // of its first character; 1-based, blank lines counted

 private:
  void require_entries(bool file_is_empty, const EntryIndex& index) const;

  RandomAccessFile opened_again() const;

  std::unique_ptr<RandomAccessFile> file_;                  // none: `changed_`
  std::optional<std::filesystem::file_time_type> changed_;  // none: `rows_`
  std::shared_ptr<SpillFile> rows_;                         // none: `content_`
  std::string_view content_;
  std::string path_;
  std::map<std::string, std::string> left_out_;  // types by columns
  std::vector<EntryPlace> lines_;                // those that are not blank
};

}  // namespace sftbench
