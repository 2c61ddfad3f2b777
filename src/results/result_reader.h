// Reads result files for reports and for resuming: simdjson's DOM, which checks the whole text, so
// that a file that was cut off is never taken for one that is whole. One reader per thread.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "results/text_pool.h"
#include "sftbench/results/scan.h"

namespace sftbench {

// The names of figure_specs().
const Record::Names* figure_names();

class ResultReader {
 public:
  // Reads a file of `folder` (a descriptor, or AT_FDCWD). False when there is none. InputError with
  // the cause alone when it is not to be read: no regular file, no permission, too large.
  bool load(int folder, const char* name);

  // What load() read, in one line. InputError with the cause alone when it is not JSON.
  std::string minified() const;

  // What load() read, with the path left empty. InputError with the cause alone when it is no
  // measurement.
  StoredResult parse(TextPool& texts);
  Status parse_status();

  ResultReader();
  ~ResultReader();

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
  std::string content_;  // with the padding that the parser wants
  size_t size_bytes_ = 0;
};

StoreScan scan_results(const std::filesystem::path& directory);

// Nothing when there is no file; InputError, with the path, when it is no measurement.
std::optional<Status> read_status(const std::filesystem::path& path);

}  // namespace sftbench
