// Reads result files for reports and for resuming: simdjson's DOM, which checks the whole text, so
// that a file that was cut off is never taken for one that is whole, and the checksum, so that no
// damage passes. One reader per thread.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "results/text_pool.h"
#include "sftbench/results/outcome_scan.h"
#include "sftbench/results/scan.h"

namespace sftbench {

// The names of figure_specs().
const Record::Names* figure_names();

class ResultReader {
 public:
  // Reads a file of `folder` (a descriptor, or AT_FDCWD). False when there is none. InputError with
  // the cause alone when it is not to be read: no regular file, no permission, too large.
  bool load(int folder, const char* name);

  // What load() read, in one line, its command without secrets. InputError with the cause alone
  // when it is not JSON.
  std::string minified() const;

  // What load() read, with the path left empty. InputError with the cause alone when it is no
  // measurement, damaged, edited, or another key's than `key`. Both say so of the same files: what
  // settles a cell is what a report shows.
  StoredResult parse(std::string_view key, TextPool& texts);
  Status parse_status(std::string_view key);
  CellOutcome parse_outcome(std::string_view key);  // without a date

  ResultReader();
  ~ResultReader();

 private:
  struct Parser;
  struct Checked;
  Checked check(std::string_view key);
  std::string_view minify() const;
  bool has_intact_checksum(std::string_view key);

  std::unique_ptr<Parser> parser_;
  std::string content_;           // with the padding that the parser wants
  mutable std::string minified_;  // kept for its memory
  size_t size_bytes_ = 0;
};

// What a result file's name says: "<key>.json", "<key>.<sample>.json".
struct ResultName {
  std::string key;
  int sample = 1;
};
ResultName result_name(const std::string& file);

StoreScan scan_results(const std::filesystem::path& directory);

// Nothing when there is no file; InputError, with the path, when it is no measurement.
std::optional<Status> read_status(const std::filesystem::path& path);

// The same from the beginning of the file where that names the status; the rest is not checked.
std::optional<Status> glance_at_status(const std::filesystem::path& path);

}  // namespace sftbench
