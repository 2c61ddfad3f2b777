// sweep --order informative: what is predicted of the cells of a walk, and what their results say.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cli/sweep_chooser.h"
#include "sftbench/advise/informative_order.h"
#include "sftbench/space/operation.h"
#include "sftbench/sweep/cell.h"
#include "sftbench/sweep/sweep.h"

namespace sftbench {

class InformativeChooser : public Chooser {
 public:
  // All cells of the walk. InputError for more than can be looked at again after each result.
  // `planner` outlives this. `results`: the folder, whose results count, too. `retry_failed`: what
  // failed there is measured again.
  InformativeChooser(Walk& walk, const CellPlanner& planner, const std::string& results,
                     bool retry_failed, int64_t jobs);
  ~InformativeChooser() override;

  WalkSource& source() override { return *source_; }
  void tell(const Cell& cell, const Outcome& outcome) override;
  int64_t say_how_it_went(bool complete) const override;

 private:
  struct Asked {
    WalkStep step;
    double positions = 0;  // of a step; 0: it cannot be predicted
  };
  class Predictor;

  const CellPlanner& planner_;
  std::map<std::string, CellResult> stored_;  // by key, for one position a step
  std::map<std::string, Asked> asked_;        // by key
  std::unique_ptr<InformativeOrder> source_;
  OpenKnowledge before_;
};

}  // namespace sftbench
