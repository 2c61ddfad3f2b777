// Where measurements are kept: DIR/<experiment>/<key>.json, the log of the run beside it. A file is
// written whole or not at all, so that which files exist is all that there is to know.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sftbench/results/measurement.h"

namespace sftbench {

class ResultStore {
 public:
  explicit ResultStore(std::filesystem::path directory);

  std::filesystem::path result_path(const std::string& experiment, const std::string& key) const;
  std::filesystem::path log_path(const std::string& experiment, const std::string& key) const;
  // Where the log grows while the job runs: an earlier measurement keeps its own until this one
  // ends.
  std::filesystem::path growing_log_path(const std::string& experiment,
                                         const std::string& key) const;

  // Tries what a measurement will do at its end: makes the folder, writes and syncs a file of a
  // result's size, and removes it. InputError (path and the system's reason) when that fails, so
  // that an hour of training does not end at a full disk. Returns the folders that it made, each
  // before those in it; leaves none of them behind when it fails.
  std::vector<std::filesystem::path> probe(const std::string& experiment) const;

  // Writes the file, and gives the log that grew beside it, if one did, its name; returns the
  // file's path. InputError when it cannot be written: whatever stood there before stands there
  // still.
  std::filesystem::path write(const Measurement& measurement, const std::string& key) const;

 private:
  std::filesystem::path directory_;
};

}  // namespace sftbench
