// sweep --operation FILE of ado's ray_tune operator: advise/search.h on the cells of a space.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sftbench/advise/search.h"
#include "sftbench/space/operation.h"
#include "sftbench/sweep/cell.h"
#include "sftbench/sweep/sweep.h"

namespace sftbench {

class SearchChooser : public WalkSource {
 public:
  // `planner` outlives this. `results`: the folder; what it holds of a cell is not measured again.
  // InputError for a metric or a point that the space does not have.
  SearchChooser(const CellPlanner& planner, const Operation& operation, uint64_t seed,
                const std::string& results, int64_t jobs);

  // A cell is settled, by this sweep or before it.
  void tell(const Cell& cell, const Outcome& outcome);
  void say_how_it_went() const;  // to the log, where nothing cut the sweep short

  std::optional<WalkStep> next() override;
  int64_t entities_left_at_most() const override { return search_.left_at_most(); }
  bool waits(int64_t under_way) const override;

 private:
  const CellPlanner& planner_;
  SearchPlan plan_;
  int64_t jobs_;
  GridSearchSpace space_;
  std::map<std::string, double> stored_;  // the metric, by key
  std::map<std::string, int64_t> asked_;  // candidates, by key
  std::optional<double> best_;
  std::string best_label_;
  int64_t told_ = 0, valid_ = 0;
  SpaceSearch search_;
};

}  // namespace sftbench
