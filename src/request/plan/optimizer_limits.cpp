#include "plan/optimizer_limits.h"

namespace sftbench {

std::vector<std::string> optimizer_refusals(OptimizerKind kind, int64_t gradient_accumulation_steps,
                                            Autocast autocast, bool distributed) {
  const OptimizerRow& row = row_of(kind);
  const std::string optim = std::string("optim ") + row.name;
  std::vector<std::string> reasons;
  if (row.has_obstacle()) reasons.push_back(optim + " " + row.obstacle);
  if (row.update == UpdateTime::kInBackwardOfLayer && gradient_accumulation_steps > 1) {
    reasons.push_back(optim + " updates each layer in the backward of one micro-batch: " +
                      "gradient_accumulation_steps " + std::to_string(gradient_accumulation_steps) +
                      " is impossible, 1 works");
  }
  if (row.updates_in_backward() && distributed) {
    reasons.push_back(optim +
                      " updates in the backward, before gradients of several ranks are summed; one "
                      "rank works, or an optimizer that updates after it, as adamw_torch");
  }
  if (row.updates_in_backward() && autocast == Autocast::kFp16) {
    reasons.push_back(
        optim +
        " updates in the backward, before loss scaling knows whether a gradient "
        "overflowed: accelerate_config_mixed_precision fp16 is impossible, bf16 works");
  }
  return reasons;
}

std::string offload_refusal(const std::string& offload, OptimizerKind kind) {
  const OptimizerRow& row = row_of(kind);
  if (row.can_offload()) return {};
  const bool there = row.state.paged || row.state.on_host;
  return offload + " true: optim " + row.name +
         (there ? " keeps states on the host already; false works"
                : " has states that are not of one tensor's elements alone; adamw_torch works");
}

}  // namespace sftbench
