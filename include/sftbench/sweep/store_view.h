// What a store says about a cell: which sample is to be measured next, or how the cell has ended.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "sftbench/results/store.h"
#include "sftbench/sweep/cell.h"
#include "sftbench/sweep/sweep.h"

namespace sftbench {

class StoreView {
 public:
  StoreView(const ResultStore& store, const SweepOptions& options);

  // Takes note of what the folder of an experiment holds as a sweep begins: what has failed by then
  // is tried again, what fails from then on has just been tried. Without this all is tried again.
  void remember(const std::string& experiment);

  // Sets how many samples are wanted in all. Once per cell.
  void count_samples(Cell& cell);

  // How the cell has ended; or nothing, and cell.sample is the one to measure.
  std::optional<Status> settled(Cell& cell);

  // What could not be read as a measurement since the last call; each file once.
  std::set<std::string> take_problems();

  // Of one sample; nothing when there is none, or none that can be read.
  std::optional<Status> status_of(const Cell& cell, int sample);

 private:
  bool tried_again(const Cell& cell, int sample) const;

  const ResultStore& store_;
  const SweepOptions& options_;
  // By experiment: the files that stood there, by hash of their names, and what they looked like.
  std::map<std::string, std::unordered_map<uint64_t, uint64_t>> remembered_;
  std::set<std::string> reported_, problems_;
};

}  // namespace sftbench
