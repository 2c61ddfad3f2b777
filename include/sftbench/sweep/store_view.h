// What a store says about a cell: which sample is to be measured next, or how the cell has ended.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "sftbench/results/store.h"
#include "sftbench/sweep/cell.h"
#include "sftbench/sweep/sweep.h"

namespace sftbench {

class StoreView {
 public:
  StoreView(const ResultStore& store, const SweepOptions& options);

  // Takes note of what the folder of an experiment holds as a sweep begins: what has failed by then
  // is tried again, what fails from then on has just been tried. Without this all is tried again.
  // Reads names alone, no file.
  void remember(const std::string& experiment);

  // What names alone tell of a cell's first sample.
  enum class Seen {
    kNothing,  // there is no result
    kStood,    // there was one as the sweep began
    kCame,     // there is one, and somebody has written it since
  };
  Seen seen(const Cell& cell);

  // How the cell has ended, by a glance at its result. Nothing when there is none that can be read.
  std::optional<Status> glance(const Cell& cell);

  // Sets how many samples are wanted in all. Once per cell.
  void count_samples(Cell& cell);

  // How the cell has ended; or nothing, and cell.sample is the one to measure.
  std::optional<Status> settled(Cell& cell);

  // What could not be read as a measurement since the last call; each file once.
  std::set<std::string> take_problems();

  // Of one sample; nothing when there is none, or none that can be read.
  std::optional<Status> status_of(const Cell& cell, int sample);

 private:
  // What stood in the folder of an experiment, by hash of the names, and what told it from a later
  // file of the same name: the number of its file or, where listings do not tell that, its look.
  struct Folder {
    std::unordered_map<uint64_t, uint64_t> stood;
    std::unordered_set<uint64_t> came;
    bool by_number = true;
    double listed_s = 0;  // steady_seconds()
    double took_s = 0;    // to list it
  };

  static void list(const std::filesystem::path& path, Folder& folder);
  bool tried_again(const Cell& cell, int sample) const;

  const ResultStore& store_;
  const SweepOptions& options_;
  std::map<std::string, Folder> folders_;  // by experiment
  std::set<std::string> reported_, problems_;
};

}  // namespace sftbench
