#include "sftbench/sweep/cell.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/space/validity.h"

namespace sftbench {

Cell CellPlanner::name(const WalkStep& step) const {
  Cell cell;
  cell.request = make_request(space_.entity(step.entity), space_.experiments[step.experiment]);
  cell.inputs = effective_inputs(cell.request, options_);
  cell.key = measurement_key(cell.request.experiment, cell.inputs);
  return cell;
}

CellPlan CellPlanner::plan(const Cell& cell) const {
  CellPlan plan;
  plan.job.experiment = cell.request.experiment;
  plan.job.experiment_id = cell.request.experiment_id;
  plan.job.entity_id = cell.request.entity_id;
  plan.job.inputs = cell.inputs;
  const std::vector<Violation> violations = validate(cell.request.inputs, catalog_.models);
  if (!violations.empty()) {
    plan.settled = ErrorClass{violations.front().code, violations.front().message, {}};
    return plan;
  }
  try {
    Resolution resolution = resolve(cell.request, settings_, options_, catalog_);
    plan.job = std::move(resolution.job);
    plan.generate_dataset = resolution.generate_dataset;
    plan.notes = std::move(resolution.notes);
  } catch (const RunError& error) {
    plan.settled = classify_exception(error, plan.job);
  }
  return plan;
}

Demand CellPlanner::demand(const TrainingJob& job) const {
  Demand demand;
  demand.computes = options_.backend != kBackendSimulate;
  demand.ranks = std::max<int64_t>(1, job.device.ranks / std::max<int64_t>(1, job.device.nodes));
  demand.threads_per_rank = options_.threads;
  if (job.device.kind == "cuda") {
    demand.gpus = demand.ranks;
    demand.gpu_model = job.device.gpu_model;
  }
  return demand;
}

}  // namespace sftbench
