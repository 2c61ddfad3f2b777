#include "cli/assumptions.h"

#include <cstring>

#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/predict/stack_model.h"
#include "sftbench/variants/precision.h"

namespace sftbench {
namespace {

std::string precision_text(const TrainingJob& job, const std::string& stack) {
  const std::string dtype = name_of(job.precision.torch_dtype);
  const std::string products =
      product_dtype_name(job.precision.torch_dtype, job.precision.autocast);
  if (StackModel::named(stack).keeps_master_weights && products != "float32")
    return "weights, gradients and products in " + products + ", the optimizer's own in float32";
  if (job.precision.autocast == Autocast::kNo)
    return "weights, gradients and products in " + dtype + " (--set torch_dtype=float32 --set " +
           (dtype == "float16" ? "accelerate_config_mixed_precision=fp16)" : "bf16=true)");
  return "weights in " + dtype + ", products in autocast's " +
         std::string(name_of(job.precision.autocast));
}

std::string tuning_text(const TrainingJob& job, const std::string& stack) {
  if (job.tuning == TuningMethod::kFull) return "all parameters are trained (--method)";
  if (job.tuning == TuningMethod::kPrompt)
    return counted(job.prompt.virtual_tokens, "virtual token is trained",
                   "virtual tokens are trained") +
           " (--method)";
  return std::string(job.lora.use_dora ? "DoRA" : "LoRA") + " of rank " +
         std::to_string(job.lora.rank) + " on " + join(job.lora.target_modules) +
         (!row_of(job.tuning).quantized_weights ? ""
          : stack.find("8bit") != stack.npos    ? " over 8-bit weights"
                                                : " over 4-bit weights") +
         " (--set r=N --set target_modules=all-linear)";
}

// Other programs have them where they are asked for.
std::string kernels_text(const TrainingJob& job, const std::string& stack) {
  const KernelPlan& kernels = job.kernels;
  std::vector<std::string> fused;
  if (kernels.fused_loss) fused.emplace_back("loss");
  if (kernels.fused_rms_norm) fused.emplace_back("norms");
  if (kernels.fused_rope) fused.emplace_back("positions");
  const bool by_default = StackModel::named(stack).fused_by_default;
  const char* other = fused.empty() ? R"('["True","True","True"]')"
                      : by_default  ? R"('["False","False","False"]')"
                                    : "None";
  return (fused.empty()
              ? "without fused kernels for loss, norms and positions"
              : std::string("with fused kernels for ") +
                    (fused.size() == 3 ? "loss, norms and positions" : join(fused, " and "))) +
         " (--set fast_kernels=" + other + "), " +
         (job.kernels.flash_attention ? "flash attention (--set flash_attn=false)"
                                      : "eager attention (--set flash_attn=true)");
}

std::string ranks_text(const TrainingJob& job) {
  return std::to_string(job.device.ranks) + " ranks under " + name_of(job.parallel.strategy) +
         " (--set distributed_backend=DDP or FSDP)";
}

}  // namespace

Definitions assumptions_of(const TrainingJob& job, const std::string& stack) {
  Definitions lines = {{"assumes", "trained by " + stack + " (--stack)"},
                       {"", precision_text(job, stack)},
                       {"", tuning_text(job, stack)},
                       {"", "optimizer " + std::string(name_of(job.optimizer.kind)) +
                                (job.tuning == TuningMethod::kFull ? " of all parameters" : "") +
                                " (--set optim=NAME)"}};
  if (stack != "sftbench") lines.emplace_back("", kernels_text(job, stack));
  if (stack.ends_with(kTrlLoss)) {
    const std::string older = stack.substr(0, stack.size() - std::strlen(kTrlLoss));
    lines.emplace_back("", "a tile of logits, as in trl 1.15 and newer (--stack " + older + ")");
  }
  if (job.device.ranks > 1) lines.emplace_back("", ranks_text(job));
  return lines;
}

std::string step_text(const TrainingJob& job) {
  const BatchPlan& batches = job.batches;
  const int64_t steps = batches.gradient_accumulation_steps, rows = batches.per_device_batch_size;
  return counted(steps, "micro-batch", "micro-batches") + " of " + counted(rows, "row") +
         " a step (--set gradient_accumulation_steps=N), " +
         (job.activations.gradient_checkpointing ? "with" : "without") +
         " gradient checkpointing (--set gradient_checkpointing=" +
         (job.activations.gradient_checkpointing ? "false)" : "true)");
}

}  // namespace sftbench
