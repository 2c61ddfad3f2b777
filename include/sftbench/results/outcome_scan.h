// How the cells of a folder of results have ended: status, reason code and date of each, and
// nothing else. Read on all cores, and at the next refresh only what is new or has changed: a
// campaign of a hundred thousand results can be watched.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/results/measurement.h"

namespace sftbench {

struct CellOutcome {
  Status status = Status::kFailed;
  std::optional<ReasonCode> reason;
  double written_s = 0;  // Unix time, as the file system has it
};

class OutcomeScan {
 public:
  explicit OutcomeScan(std::filesystem::path results) : results_(std::move(results)) {}

  // InputError when the folder cannot be listed, or holds other things than results.
  void refresh();

  // The first sample of each key, by "EXPERIMENT/KEY".
  const std::unordered_map<std::string, CellOutcome>& cells() const { return cells_; }

  // Result files that are no measurements, or damaged.
  int64_t unreadable() const { return unreadable_; }

 private:
  struct File {
    std::string experiment, name, id;  // id: "EXPERIMENT/KEY"
    uint64_t look = 0;                 // of its date and size
    double written_s = 0;
    std::optional<CellOutcome> outcome;
  };
  struct Known {
    uint64_t look = 0;
    uint64_t round = 0;  // in which it was seen last
  };

  std::vector<File> changed_files();
  void list(const std::string& experiment, std::vector<File>& changed);
  void read_all(std::vector<File>& files) const;
  void forget_vanished();

  std::filesystem::path results_;
  std::unordered_map<std::string, CellOutcome> cells_;
  std::unordered_map<std::string, Known> known_;
  uint64_t round_ = 0;
  int64_t unreadable_ = 0;
};

}  // namespace sftbench
