#include "plan/optimizer_limits.h"

namespace sftbench {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool updates_in_backward(const std::string& name) {
  return name == "lomo" || name == "adalomo" || ends_with(name, "_layerwise");
}

}  // namespace

std::vector<std::string> optimizer_refusals(const std::string& name,
                                            int64_t gradient_accumulation_steps,
                                            const std::string& autocast) {
  std::vector<std::string> reasons;
  if (name == "adamw_torch_xla") {
    reasons.emplace_back(
        "optim adamw_torch_xla needs an XLA device (a TPU, through torch_xla), and this program "
        "trains "
        "on CPUs and on NVIDIA GPUs; adamw_torch is the same update and works");
  }
  if (name == "adamw_torch_npu_fused") {
    reasons.emplace_back(
        "optim adamw_torch_npu_fused needs an Ascend NPU (torch_npu), and this program trains on "
        "CPUs "
        "and on NVIDIA GPUs; adamw_torch_fused is the same update and works");
  }
  if (ends_with(name, "_layerwise") && gradient_accumulation_steps > 1) {
    reasons.push_back("optim " + name + " updates each layer in the backward of one micro-batch: " +
                      "gradient_accumulation_steps " + std::to_string(gradient_accumulation_steps) +
                      " is impossible, 1 works");
  }
  if (updates_in_backward(name) && autocast == "fp16") {
    reasons.push_back(
        "optim " + name +
        " updates in the backward, before loss scaling knows whether a gradient "
        "overflowed: accelerate_config_mixed_precision fp16 is impossible, bf16 works");
  }
  return reasons;
}

}  // namespace sftbench
