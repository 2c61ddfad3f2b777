// One cell of a sweep: an entity under an experiment, by name (which files it has) and as a plan
// (the job, or why there will be none). Naming is cheap and done for every cell; planning looks at
// files and is done only for cells that the store does not hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sftbench/catalog/catalog.h"
#include "sftbench/plan/classify_error.h"
#include "sftbench/plan/resolve.h"
#include "sftbench/space/operation.h"
#include "sftbench/space/space.h"
#include "sftbench/sweep/machine.h"

namespace sftbench {

struct CellPlan {
  TrainingJob job;  // names and inputs are always there
  bool generate_dataset = false;
  std::vector<std::string> notes;     // settings that have no effect in this cell
  std::optional<ErrorClass> settled;  // how it ends without a child: a rule, weights, data, ...
  // Why this machine cannot measure it, though another may.
  std::optional<std::string> elsewhere;
};

struct Cell {
  WalkStep step = {};
  MeasurementRequest request;
  Json inputs;        // effective ones
  std::string key;    // of experiment and inputs
  int sample = 1;     // the one to measure next
  int samples = 1;    // that are wanted
  int attempt = 1;    // of this sample, in this sweep
  int looks = 0;      // that found another sweep measuring it
  bool read = false;  // its result was, and does not settle it
};

// What cells are named and planned from. Everything outlives the planner.
struct PlanContext {
  const Space& space;
  const ActuatorSettings& settings;
  const ResolveOptions& options;
  const Catalog& catalog;
  const Machine& machine;
  const Nvml* nvml = nullptr;  // without it there are no GPUs, for the reason in `no_nvml`
  std::string no_nvml;
  int64_t nodes = 1;      // that a measurement on GPUs may use
  int64_t cpu_nodes = 1;  // among which ranks on CPUs are divided
};

class CellPlanner {
 public:
  explicit CellPlanner(PlanContext context) : context_(std::move(context)) {}

  Cell name(const WalkStep& step) const;

  // Static rules first, then everything else that can be known before training, the devices of this
  // machine included. Never throws RunError.
  CellPlan plan(const Cell& cell) const;

  // Ranks, threads and GPUs that a planned job needs on this machine.
  Demand demand(const TrainingJob& job) const;

  // Cells of a walk through so many entities.
  int64_t cells(int64_t entities) const;

  const PlanContext& context() const { return context_; }

 private:
  void refuse_what_does_not_fit(const TrainingJob& job) const;
  void look_for_devices(CellPlan& plan) const;

  PlanContext context_;
};

}  // namespace sftbench
