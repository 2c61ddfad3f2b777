// Measures what may still be the best of its contest, and leaves out what is known not to be.
//
// Each cell has an interval of its merit: predicted, and sharpened by every result of the sweep. The
// next cell is the one whose interval reaches highest. A contest is decided when no other interval
// reaches what its best measured cell surely has. Nine of ten merits are in their interval, so a cell
// that was left out may be the best after all, with a probability below 5 %.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/advise/residuals.h"
#include "sftbench/space/operation.h"

namespace sftbench {

struct DecisionCell {
  WalkStep step;
  std::string contest;   // cells that are compared with each other
  double predicted = 0;  // merit, higher is better; 0: it cannot be predicted and is measured
  PredictedCase at;
  double dies = 0;  // the probability of running out of memory
};

struct LeftOut {
  WalkStep step;
  double most = 0;  // what it reaches at most, of what the contest's best has
  double dies = 0;  // above kSurelyDies: that is why
};

inline constexpr double kSurelyDies = 0.99;

class UntilKnown : public WalkSource {
 public:
  // `jobs`: measurements at a time. The table outlives this.
  UntilKnown(std::vector<DecisionCell> cells, const ResidualTable& table, int64_t jobs);

  std::optional<WalkStep> next() override;
  int64_t entities_left_at_most() const override;
  bool waits(int64_t under_way) const override { return under_way >= jobs_; }

  // What came of a cell: its merit, known within this part of it. Nothing: it was not valid.
  void tell(const WalkStep& step, std::optional<double> merit, double within = 0.01);

  // Cells that were not asked for, up to now.
  std::vector<LeftOut> left_out() const;

 private:
  struct Cell {
    DecisionCell decision;
    bool asked = false;
    double high = 0;  // of the interval; infinity where nothing is known
  };

  void sharpen();
  bool may_win(const Cell& cell) const;

  std::vector<Cell> cells_;
  const ResidualTable& table_;
  int64_t jobs_;
  std::vector<Residual> residuals_;
  std::map<std::string, double> best_;  // of each contest: what its best cell surely has
  bool stale_ = true;
  int64_t experiments_ = 1;  // of each entity
};

}  // namespace sftbench
