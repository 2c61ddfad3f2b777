#include "cli/argument_names.h"

namespace sftbench {

const std::map<std::string, std::string>& argument_properties() {
  static const std::map<std::string, std::string> kProperties = {
      {"adam_beta1", "adam_beta1"},
      {"adam_beta2", "adam_beta2"},
      {"adam_epsilon", "adam_epsilon"},
      {"alora_invocation_string", "alora_invocation_string"},
      {"batch_size", "batch_size"},
      {"bf16", "bf16"},
      {"chat_template", "chat_template"},
      {"context_length", "model_max_length"},
      {"conversation_column", "conversation_column"},
      {"data_formatter_template", "data_formatter_template"},
      {"dataset_text_field", "dataset_text_field"},
      {"eval_batch_size_per_device", "per_device_eval_batch_size"},
      {"eval_steps", "eval_steps"},
      {"eval_strategy", "eval_strategy"},
      {"evaluation_strategy", "eval_strategy"},
      {"fast_moe", "fast_moe"},
      {"flash_attention_2", "flash_attn"},
      {"fsdp_activation_checkpointing", "gradient_checkpointing"},
      {"fsdp_mixed_precision_policy", "accelerate_config_mixed_precision"},
      {"fsdp_offload_params", "offload_params"},
      {"fsdp_sharding_strategy", "fsdp_sharding_strategy"},
      {"fsdp_state_dict_type", "fsdp_state_dict_type"},
      {"fsdp_transformer_layer_cls_to_wrap",
       "accelerate_config_fsdp_transformer_layer_cls_to_wrap"},
      {"fsdp_use_orig_params", "fsdp_use_orig_params"},
      {"gpu_model", "gpu_model"},
      {"gradient_accumulation_steps", "gradient_accumulation_steps"},
      {"gradient_checkpointing", "gradient_checkpointing"},
      {"input_column_name", "input_column_name"},
      {"invocation_string", "alora_invocation_string"},
      {"learning_rate", "learning_rate"},
      {"lora_alpha", "lora_alpha"},
      {"lora_dropout", "lora_dropout"},
      {"lora_r", "r"},
      {"lr_scheduler_kwargs", "lr_scheduler_kwargs"},
      {"lr_scheduler_type", "lr_scheduler_type"},
      {"max_grad_norm", "max_grad_norm"},
      {"max_length", "model_max_length"},
      {"max_seq_length", "model_max_length"},
      {"max_steps", "max_steps"},
      {"mixed_precision", "accelerate_config_mixed_precision"},
      {"model_max_length", "model_max_length"},
      {"num_epochs", "num_train_epochs"},
      {"num_machines", "number_nodes"},
      {"num_train_epochs", "num_train_epochs"},
      {"num_virtual_tokens", "num_virtual_tokens"},
      {"number_gpus", "number_gpus"},
      {"optim", "optim"},
      {"output_column_name", "output_column_name"},
      {"per_device_eval_batch_size", "per_device_eval_batch_size"},
      {"prompt_tuning_init", "prompt_tuning_init"},
      {"prompt_tuning_init_text", "prompt_tuning_init_text"},
      {"mcp", "context_parallel"},
      {"parallelism_config_cp_size", "context_parallel"},
      {"r", "r"},
      {"response_template", "response_template"},
      {"seed", "seed"},
      {"target_modules", "target_modules"},
      {"tf32", "tf32"},
      {"tokenizer_name_or_path", "tokenizer_name_or_path"},
      {"torch_dtype", "torch_dtype"},
      {"dtype", "torch_dtype"},
      {"train_path", "training_data_path"},
      {"training_data_path", "training_data_path"},
      {"use_flash_attn", "flash_attn"},
      {"valid_path", "validation_data_path"},
      {"validation_data_path", "validation_data_path"},
      {"warmup_ratio", "warmup_ratio"},
      {"warmup_steps", "warmup_steps"},
      {"weight_decay", "weight_decay"},
  };
  return kProperties;
}

const std::map<std::string, std::set<std::string>>& fixed_arguments() {
  static const std::map<std::string, std::set<std::string>> kFixed = {
      {"add_eos_token", {"true"}},
      {"bias", {"none"}},
      {"compute_environment", {"LOCAL_MACHINE"}},
      {"dataloader_drop_last", {"false"}},
      {"dataloader_num_workers", {"0"}},
      {"ddp_find_unused_parameters", {"false"}},
      {"debug", {"false"}},
      {"dispatch_batches", {"None"}},
      {"do_eval", {"false", "true"}},  // eval_strategy decides
      {"do_train", {"true"}},
      {"downcast_bf16", {"no", "false"}},
      {"dynamo_backend", {"no", "NO"}},
      {"enable_cpu_affinity", {"false"}},
      {"even_batches", {"true"}},
      {"fan_in_fan_out", {"false"}},
      {"greater_is_better", {"false"}},
      {"metric_for_best_model", {"eval_loss", "loss"}},
      {"fsdp_auto_wrap_policy", {"TRANSFORMER_BASED_WRAP"}},
      {"fsdp_backward_prefetch", {"BACKWARD_PRE"}},
      {"fsdp_backward_prefetch_policy", {"BACKWARD_PRE"}},
      {"fsdp_cpu_ram_efficient_loading", {"true"}},
      {"fsdp_forward_prefetch",
       {"false", "true"}},  // the order alone; bytes and values are the same
      {"fsdp_limit_all_gathers", {"false", "true"}},  // the order alone, too
      {"fsdp_min_num_params", {"0"}},
      {"fsdp_reshard_after_forward", {"FULL_SHARD"}},
      {"fsdp_sync_module_states", {"true"}},
      {"fsdp_version", {"1", "2"}},
      {"fsdp_xla", {"false"}},
      {"fsdp_xla_fsdp_grad_ckpt", {"false"}},
      {"fsdp_xla_fsdp_v2", {"false"}},
      {"gradient_accumulation_kwargs", {"None"}},
      {"include_tokens_per_second", {"true"}},
      {"init_lora_weights", {"true"}},
      {"instruction_template", {"None", ""}},
      {"lora_bias", {"none"}},
      {"machine_rank", {"0"}},
      {"main_training_function", {"main"}},
      {"modules_to_save", {"None", "[]"}},
      {"multiple_of", {"None"}},
      {"non_blocking", {"false"}},
      {"optim_args", {"None", ""}},
      {"remove_unused_columns", {"true"}},
      {"parallelism_config_dp_replicate_size", {"1"}},
      {"parallelism_config_sp_size", {"1"}},
      {"parallelism_config_tp_size", {"1"}},
      {"rdzv_backend", {"static"}},
      {"same_network", {"true"}},
      {"split_batches", {"false"}},
      {"task_type", {"CAUSAL_LM"}},
      {"tpu_use_cluster", {"false"}},
      {"tpu_use_sudo", {"false"}},
      {"use_configured_state", {"false"}},
      {"use_parallelism_config", {"true"}},
      {"use_rslora", {"false"}},
      {"use_seedable_sampler", {"true"}},
      {"use_dora", {"false"}},
  };
  return kFixed;
}

const std::map<std::string, std::string>& arguments_without_effect() {
  static const std::map<std::string, std::string> kIdle = {
      {"log_level", "--log-level says how much is logged"},
      {"main_process_ip", "ranks meet where their launcher says"},
      {"main_process_port", "ranks meet where their launcher says"},
      {"run_name", "results and trackers name a run by its key"},
  };
  return kIdle;
}

const std::map<std::string, std::string>& argument_advice() {
  static const std::map<std::string, std::string> kAdvice = {
      {"aim_repo", "--track tensorboard=DIR, which `aim convert tensorboard` takes"},
      {"alora_invocation_tokens", "alora_invocation_string, their text"},
      {"deepspeed_config", "deepspeed: FILE, a ds_config.json"},
      {"experiment", "MLFLOW_EXPERIMENT_NAME, beside report_to: mlflow"},
  };
  return kAdvice;
}

bool is_section(const std::string& key) {
  static const std::set<std::string> kSections = {
      "accelerate_launch_args", "accelerator_config", "fsdp_config", "lora_config", "peft_config",
      "training_arguments"};
  return kSections.count(key) > 0;
}

const std::string& meaning_of(const std::string& key) {
  // Of those that are no property. What a key says by saying nothing ("packing: false") is no
  // other's matter.
  static const std::map<std::string, std::string> kMeanings = {
      {"attn_implementation", "flash_attn"},
      {"data_config", "data_config_path"},
      {"datasets", "data_config_path"},
      {"distributed_type", "distributed_backend"},
      {"flash_attn_implementation", "flash_attn"},
      {"fsdp", "distributed_backend"},
      {"model_id", "model_name_or_path"},
      {"no_gradient_checkpoint", "gradient_checkpointing"},
      {"num_checkpoints_to_keep", "save_total_limit"},
      {"num_devices", "number_gpus"},
      {"num_processes", "number_gpus"},
      {"per_device_train_batch_size", "batch_size"},
      {"train_batch_size_per_device", "batch_size"},
      {"use_fsdp", "distributed_backend"},
      {"use_liger", "fast_kernels"},
      {"use_liger_kernel", "fast_kernels"},
  };
  const auto property = argument_properties().find(key);
  if (property != argument_properties().end()) return property->second;
  const auto meaning = kMeanings.find(key);
  return meaning == kMeanings.end() ? key : meaning->second;
}

}  // namespace sftbench
