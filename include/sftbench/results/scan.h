// All that a results directory holds, read for reports: a hundred thousand files in a second or two
// and about a kilobyte of memory each. Objects of a file become flat records whose names are shared
// among all files that have the same ones; every text is kept once.
//
// A file that cannot be used is never a reason to stop: it is named in `skipped` with what is wrong
// with it. A file that vanishes while the directory is read was never there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/results/measurement.h"
#include "sftbench/results/scalar.h"

namespace sftbench {

// Names and values in the order of the file.
class Record {
 public:
  using Names = std::vector<std::string_view>;

  Record() = default;
  // REQUIRES: as many values as names; both live as long as the record.
  Record(const Names* names, const Scalar* values) : names_(names), values_(values) {}

  size_t size() const { return names_ == nullptr ? 0 : names_->size(); }
  std::string_view name(size_t index) const { return (*names_)[index]; }
  const Scalar& value(size_t index) const { return values_[index]; }

  // Nothing when there is no such name.
  const Scalar& operator[](std::string_view name) const;

  // Records with the same names share this list: what was looked up for one of them holds for all.
  const Names* names() const { return names_; }

 private:
  const Names* names_ = nullptr;
  const Scalar* values_ = nullptr;
};

// How long the measured steps took (extra.step_seconds without the warm-up steps).
struct StepTimes {
  int64_t count = 0;
  double mean_s = 0;
  double deviation_s = 0;      // of the sample; 0 below two steps
  double autocorrelation = 0;  // of neighboring steps; 0 below three
};

struct StoredResult {
  std::string_view file;  // below the directory: "<experiment>/<key>.json"
  std::string_view key;
  int sample = 1;
  std::string_view experiment, experiment_id, entity_id;
  Status status = Status::kFailed;
  std::optional<Reason> reason;
  Record entity;    // as the space names it; nothing in files of older versions
  Record inputs;    // sorted by name
  Record measured;  // numbers, each only if it was measured
  // What `extra` and `environment` say, one value per name; see kFigures.
  Record figures;
  StepTimes steps;
  std::string_view started_at, finished_at, command;
  bool has_checksum = false;  // false: of an older version; damage to it cannot be seen

  // From the simulated backend: shows that the program works, says nothing about a machine.
  bool simulated() const;
};

// One of the figures and where it stands in a measurement's file.
struct FigureSpec {
  std::string_view name;     // "host_peak_rss_bytes"
  std::string_view section;  // "extra", "environment"
  std::string_view path;     // below it: "memory_bytes/host_peak_rss"
  enum class Take { kItself, kMax, kSum, kFirst, kLast, kCount, kJoined } take = Take::kItself;
  std::string_view old_path = {};  // of versions before 0.2.0
};

// Every figure, in the order in which wide tables show them.
const std::vector<FigureSpec>& figure_specs();

struct SkippedFile {
  std::string file;    // below the directory
  std::string reason;  // "cut off after 812 bytes", "schema 'sftbench.measurement/2', ..."
};

class TextPool;

struct StoreScan {
  std::vector<StoredResult> results;                   // by experiment, key, sample
  std::vector<SkippedFile> skipped;                    // by file
  std::vector<std::shared_ptr<const TextPool>> texts;  // what the views above look at
};

}  // namespace sftbench
