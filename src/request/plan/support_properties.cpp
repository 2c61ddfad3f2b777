#include "plan/support_properties.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace sftbench {

bool support_depends_on(const std::string& property) {
  static constexpr std::string_view kNames[] = {
      "accelerate_config_fsdp_transformer_layer_cls_to_wrap",
      "accelerate_config_mixed_precision",
      "alora_invocation_string",
      "alpha_pattern",
      "batch_size",
      "bf16",
      "chat_template",
      "context_parallel",
      "conversation_column",
      "data_formatter_template",
      "data_mixture",
      "dataset_id",
      "dataset_image_field",
      "dataset_kwargs_skip_prepare_dataset",
      "distributed_backend",
      "eval_split",
      "eval_strategy",
      "fast_kernels",
      "fast_moe",
      "fsdp_sharding_strategy",
      "gpu_model",
      "gradient_accumulation_steps",
      "gradient_checkpointing",
      "input_column_name",
      "learning_rate",
      "lora_dropout",
      "lr_scheduler_kwargs",
      "lr_scheduler_type",
      "max_steps",
      "max_train_samples",
      "mlp_tiles",
      "model_max_length",
      "model_name",
      "modules_to_save",
      "number_gpus",
      "number_nodes",
      "offload_activations",
      "offload_optimizer",
      "offload_params",
      "optim",
      "output_column_name",
      "pretokenized",
      "r",
      "rank_pattern",
      "remove_unused_columns",
      "step_graph",
      "target_modules",
      "tokenizer_name_or_path",
      "training_data_path",
      "validation_data_path",
      "warmup_ratio",
      "warmup_steps"};
  return std::find(std::begin(kNames), std::end(kNames), property) != std::end(kNames);
}

}  // namespace sftbench
