// Where measurements are kept: DIR/<experiment>/<key>.json, further samples of the same key in
// <key>.2.json, <key>.3.json, ...; the log of the run beside it. A file is written whole or not at
// all, so that which files exist is all that there is to know. Many processes may use one
// directory; who measures which key is settled by the key's claim (claim.h).
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/file.h"
#include "sftbench/results/measurement.h"
#include "sftbench/results/scan.h"

namespace sftbench {

// Where one of several ranks writes its log, beside that of their measurement: "x.log" ->
// "x.rank2.log", "x.growing.log" -> "x.rank2.growing.log".
std::filesystem::path log_of_rank(const std::filesystem::path& log, int rank);

// Writes a whole file under its name: write_file_atomic(), or what a claim does (claim.h).
using Publish = std::function<void(const std::filesystem::path&, std::string_view)>;

class ResultStore {
 public:
  explicit ResultStore(std::filesystem::path directory);

  const std::filesystem::path& directory() const { return directory_; }
  std::filesystem::path result_path(const std::string& experiment, const std::string& key,
                                    int sample = 1) const;
  std::filesystem::path log_path(const std::string& experiment, const std::string& key,
                                 int sample = 1) const;
  // Where the log grows while the job runs: an earlier measurement keeps its own until this one
  // ends.
  std::filesystem::path growing_log_path(const std::string& experiment, const std::string& key,
                                         int sample = 1) const;
  // The same for what the samplers read (sample_series.h).
  std::filesystem::path growing_series_path(const std::string& experiment, const std::string& key,
                                            int sample = 1) const;

  // Tries what a measurement will do at its end: makes the folder, writes and syncs a file of a
  // result's size, and removes it. InputError (path and the system's reason) when that fails, so
  // that an hour of training does not end at a full disk. Returns the folders that it made, each
  // before those in it; leaves none of them behind when it fails.
  std::vector<std::filesystem::path> probe(const std::string& experiment) const;

  // Writes the file, and gives the logs and the series that grew beside it, if any did, their
  // names; returns the file's path. The result names the series. No result gives way to a worse
  // one:
  //   A valid one stays, and another valid one becomes the next sample that is not valid yet.
  //   An invalid one gives way to a valid one alone, and is kept as <file>.invalid.
  //   A failed or invalid one beside one of these is kept as <file>.failed or <file>.invalid.
  //   A failed one is replaced.
  // A file that is no measurement (foreign, cut off, of a newer schema) is kept as <file>.aside.
  // All of these names go on with .2, .3, ..., and the logs follow (<key>.failed.2.log). InputError
  // when it cannot be written: whatever stood there before stands there still. What `publish`
  // throws goes through.
  std::filesystem::path write(const Measurement& measurement, const std::string& key,
                              int sample = 1, const Publish& publish = write_file_atomic) const;

  // The first from `sample` on that is not valid. REQUIRES, as does write(): the key's claim.
  int next_sample(const std::string& experiment, const std::string& key, int sample = 1) const;

  std::filesystem::path lock_path(const std::string& experiment, const std::string& key) const;

  // Of a measurement that is not kept: its logs and its series.
  void remove_growing_logs(const std::string& experiment, const std::string& key,
                           int sample = 1) const;

  // How that sample ended; nothing when there is no file. Takes microseconds. InputError, with path
  // and cause, when what stands there is no measurement that this program can read.
  std::optional<Status> status_of(const std::string& experiment, const std::string& key,
                                  int sample = 1) const;

  // The same by a glance at the beginning of the file, which is not checked: of what was seen to be
  // written meanwhile.
  std::optional<Status> glance_at_status_of(const std::string& experiment,
                                            const std::string& key) const;

  // Everything below the directory, read on all cores. InputError only when the directory itself
  // cannot be listed.
  StoreScan scan() const;

 private:
  std::filesystem::path directory_;
};

}  // namespace sftbench
