#include "sftbench/sweep/cell.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/launch/devices.h"
#include "sftbench/space/validity.h"

namespace sftbench {

Cell CellPlanner::name(const WalkStep& step) const {
  Cell cell;
  cell.step = step;
  cell.request =
      make_request(context_.space.entity(step.entity), context_.space.experiments[step.experiment]);
  cell.inputs = effective_inputs(cell.request, context_.options);
  cell.key = measurement_key(cell.request.experiment, cell.inputs);
  return cell;
}

CellPlan CellPlanner::plan(const Cell& cell) const {
  CellPlan plan;
  plan.job.experiment = cell.request.experiment;
  plan.job.experiment_id = cell.request.experiment_id;
  plan.job.entity_id = cell.request.entity_id;
  plan.job.entity = cell.request.entity;
  plan.job.inputs = cell.inputs;
  const std::vector<Violation> violations = validate(cell.request.inputs, context_.catalog.models);
  if (!violations.empty()) {
    plan.settled = ErrorClass{violations.front().code, violations.front().message, {}};
    return plan;
  }
  try {
    Resolution resolution =
        resolve(cell.request, context_.settings, context_.options, context_.catalog);
    plan.job = std::move(resolution.job);
    plan.generate_dataset = resolution.generate_dataset;
    plan.notes = std::move(resolution.notes);
  } catch (const RunError& error) {
    plan.settled = classify_exception(error, plan.job);
    return plan;
  }
  look_for_devices(plan);
  return plan;
}

void CellPlanner::look_for_devices(CellPlan& plan) const {
  try {
    refuse_what_does_not_fit(plan.job);
  } catch (const RunError& error) {
    plan.settled = classify_exception(error, plan.job);
    plan.elsewhere = error.what();
    return;
  }
  if (plan.job.device.nodes <= context_.nodes || !demand(plan.job).computes) return;
  plan.elsewhere = "number_nodes asks for " + counted(plan.job.device.nodes, "node") +
                   ", and this worker has " + std::to_string(context_.nodes);
}

void CellPlanner::refuse_what_does_not_fit(const TrainingJob& job) const {
  if (context_.machine.fits(demand(job))) return;
  check_devices(job, context_.nvml, context_.no_nvml, context_.catalog.gpus);
  throw RunError(ReasonCode::kUnsupported, "its ranks and threads need more than the " +
                                               counted(context_.machine.cores(), "core") +
                                               " that this process may use");
}

int64_t CellPlanner::cells(int64_t entities) const {
  return entities * static_cast<int64_t>(context_.space.experiments.size());
}

Demand CellPlanner::demand(const TrainingJob& job) const {
  Demand demand;
  demand.computes = context_.options.backend != kBackendSimulate;
  const int64_t nodes = job.device.kind == "cuda" ? job.device.nodes : context_.cpu_nodes;
  demand.ranks = std::max<int64_t>(1, job.device.ranks / std::max<int64_t>(1, nodes));
  demand.threads_per_rank = context_.options.threads;
  if (job.device.kind == "cuda") {
    demand.gpus = demand.ranks;
    demand.gpu_model = job.device.gpu_model;
  }
  return demand;
}

}  // namespace sftbench
