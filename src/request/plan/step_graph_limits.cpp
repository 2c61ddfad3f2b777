#include "sftbench/plan/step_graph_limits.h"

namespace sftbench {
namespace {

bool drops(const ModelConfig& model) {
  return model.attention.dropout > 0 || model.embedding_dropout > 0 || model.residual_dropout > 0;
}

}  // namespace

std::vector<std::string> step_graph_refusals(const GraphedStep& step) {
  std::vector<std::string> reasons;
  const auto refuse = [&reasons](const std::string& why) {
    reasons.push_back("step_graph true: " + why);
  };
  if (step.distributed) {
    refuse("collective operations are no part of the graph; one GPU works");
  }
  if (const OptimizerRow& row = row_of(step.optimizer); !row.is_elementwise()) {
    refuse(std::string("optim ") + row.name +
           " does not update element by element from its states on the GPU; adamw_torch works");
  }
  if (step.autocast == Autocast::kFp16 || step.autocast == Autocast::kFp8) {
    refuse(std::string("the host reads the scales of accelerate_config_mixed_precision ") +
           name_of(step.autocast) + " in each step; bf16 or no works");
  }
  if (const PaddingRow& row = row_of(step.padding); row.one_row) {
    refuse(std::string("--padding ") + row.name +
           " divides each row otherwise; longest or max_length works");
  }
  if (step.lora_dropout > 0)
    refuse("each step drops other inputs of adapters; lora_dropout 0 works");
  if (step.offloads) {
    refuse(
        "what waits on the host is no part of the graph; without offload_optimizer, "
        "offload_params and offload_activations it works");
  }
  if (!step.fused_loss) {
    refuse("the graph has the fused loss; fast_kernels None, or True in its first place, works");
  }
  if (step.traced) refuse("--trace times layers, which have no launches of their own then");
  if (step.images) refuse("images have other sizes in each step; a dataset of texts works");
  if (step.model == nullptr) return reasons;
  if (step.model->experts)
    refuse("the host reads how many tokens each expert gets; a model without experts works");
  if (drops(*step.model)) {
    refuse(
        "each step drops other values of this model; its config.json with shares of dropout of "
        "0 works");
  }
  if (step.model->rope.type == RopeType::kDynamic) {
    refuse(
        "dynamic RoPE has other angles after a longer row; a model with another rope_type works");
  }
  return reasons;
}

}  // namespace sftbench
