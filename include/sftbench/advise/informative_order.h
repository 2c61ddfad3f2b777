// The cells of a sweep, the most informative first. A sweep that is cut short then knows as much of
// its other cells as its time allows. TRIM in IBM/ado has the same purpose, without a cost model.
//
// What is not known of an open cell is how much longer its step takes than predicted, and whether it
// runs out of memory. Both are processes over ln(measured / predicted) (advise/uncertainty.h), of
// time and of the allocator's peak. The value of a cell is the logarithm of its time, and one more
// where it dies. The variance of that value over all open cells is
//
//   sum over j: (1 - p_j) variance of time_j + p_j (1 - p_j)       p_j: j runs out of memory
//
// and the next cell is the one that is expected to take most off it per second of what it is
// expected to take. A cell that dies tells nothing of time. Of memory it tells that it takes more
// than there is: a normal distribution with the moments of that one cut off takes its place
// (assumed density filtering, Rasmussen and Williams 2006, 3.6). Cells under way count as if they
// had been measured.
//
// Up to 128 open cells stand for the others of their machine and stack. More than 256 measurements
// of a machine and stack change the order no more. So a choice among 10,000 cells takes milliseconds
// (bench/predict/informative.cpp).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "sftbench/advise/residuals.h"
#include "sftbench/space/operation.h"

namespace sftbench {

struct InformativeCell {
  WalkStep step;
  bool predicted = false;  // false: it comes last, in the order of the cells
  PredictedCase at;
  double step_s = 0;
  int64_t steps = 1;
  double tensor_bytes = 0;  // of a rank
  double room_bytes = 0;    // that a device has for them; 0: not known
  bool guessed = false;     // machine: its speed is not known, and a figure stands for it
};

// What came of a cell. Nothing of it all: it says nothing.
struct CellResult {
  std::optional<double> step_s;
  std::optional<double> tensor_bytes;
  bool ran_out_of_memory = false;
  std::optional<double> start_s;  // that the measurement took beside its steps
};

// How well open cells are known.
struct OpenKnowledge {
  int64_t open = 0;       // that can be predicted
  double factor = 1;      // nine of ten steps are within it of what is expected: the median cell's
  int64_t undecided = 0;  // that may die or not, by 5 to 95 %
};

class InformativeOrder : public WalkSource {
 public:
  // `stood`: places in `cells` of those that have a result already. They come first, since they cost
  // nothing and tell the rest. `jobs`: measurements at a time. The table outlives this.
  InformativeOrder(std::vector<InformativeCell> cells, const std::vector<size_t>& stood,
                   const ResidualTable& table, int64_t jobs);
  ~InformativeOrder() override;

  std::optional<WalkStep> next() override;
  int64_t entities_left_at_most() const override;
  bool waits(int64_t under_way) const override { return under_way >= jobs_; }

  // Of a cell that was asked for.
  void tell(const WalkStep& step, const CellResult& result);

  // What is under way is not known yet.
  OpenKnowledge knowledge();

 private:
  class Group;  // the cells of one machine and stack

  size_t place_of(const WalkStep& step) const;
  double start_s() const;

  std::vector<InformativeCell> cells_;
  int64_t jobs_;
  std::vector<std::pair<WalkStep, size_t>> by_step_;  // sorted
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::pair<Group*, size_t>> group_of_;  // of each cell, and its place there
  std::deque<size_t> first_, last_;                  // what stood, and what cannot be predicted
  std::vector<double> starts_s_;                     // of measurements, before their first step
  int64_t left_ = 0;
  int64_t experiments_ = 1;  // of each entity
};

}  // namespace sftbench
