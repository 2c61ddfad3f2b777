#include "sweep/child_spec.h"

#include "sftbench/base/text.h"

namespace sftbench {

ChildSpec child_spec(const Cell& cell, const CellPlan& plan, const Claim& claim, const Share& share,
                     const ResultStore& store, const SweepOptions& options) {
  ChildSpec spec;
  spec.job = plan.job;
  spec.generate_dataset = plan.generate_dataset;
  spec.command = options.command(cell);
  spec.simulate = options.simulate;
  spec.trackers = options.trackers;
  spec.sample = cell.sample;
  spec.attempt = cell.attempt;
  const std::string& experiment = cell.request.experiment;
  spec.log = store.growing_log_path(experiment, cell.key, cell.sample);
  spec.final_log = store.log_path(experiment, cell.key, cell.sample).string();
  if (plan.job.backend != kBackendSimulate) {  // nothing was sampled there
    spec.series = store.growing_series_path(experiment, cell.key, cell.sample);
  }
  // Whoever has no GPU of its own must not see one either.
  spec.environment = {{"CUDA_VISIBLE_DEVICES", join(share.gpus, ",")}};
  spec.cpus = share.cores;
  spec.host_memory_bytes = options.host_memory_bytes;
  spec.timeout_s = options.timeout_s;
  spec.stall_timeout_s = options.stall_timeout_s;
  spec.inherited_fds = claim.inherited_fds();
  spec.executable = options.executable;
  return spec;
}

}  // namespace sftbench
