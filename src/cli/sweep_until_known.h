// sweep --until-known: which cells there are to decide about, and what their results say.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/sweep_chooser.h"
#include "sftbench/advise/until_known.h"
#include "sftbench/plan/actuator.h"
#include "sftbench/results/scan.h"
#include "sftbench/results/token_cost.h"
#include "sftbench/sweep/cell.h"
#include "sftbench/sweep/sweep.h"

namespace sftbench {

class Decision : public Chooser {
 public:
  // All cells of the walk. InputError for more than can be looked at again after each result.
  // `planner` and `prices` outlive this. `results`: the folder, whose results count, too.
  Decision(Walk& walk, const CellPlanner& planner, const DevicePrices& prices,
           const std::string& results, int64_t jobs);

  WalkSource& source() override { return *source_; }
  void tell(const Cell& cell, const Outcome& outcome) override;
  int64_t say_how_it_went(bool complete) const override;

 private:
  DecisionCell decision_of(const WalkStep& step, const Cell& cell, class Oracle& oracle,
                           const class Uncertainty& uncertainty);
  double merit(const Json& inputs, double dataset_tokens_per_s) const;
  void record(const std::vector<LeftOut>& left) const;

  const CellPlanner& planner_;
  const DevicePrices& prices_;
  std::string results_;
  std::map<std::string, double> stored_;  // dataset tokens per second, by key
  std::map<std::string, WalkStep> steps_;
  std::string unpredicted_;  // why some cell has no prediction
  std::unique_ptr<UntilKnown> source_;
};

}  // namespace sftbench
