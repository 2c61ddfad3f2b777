// The fields of a TrainingJob (base/fields.h), in the order of its JSON. Each field says what a run
// that resumes from a checkpoint requires of it: a new field must say so, too.
#pragma once

#include <limits>

#include "sftbench/plan/training_job.h"

namespace sftbench {

// What a number may be. A job is written by the program and edited by people.
struct FieldRange {
  double least = 0;
  double most = 0;
};
inline constexpr double kMostSteps = std::numeric_limits<int32_t>::max();
inline constexpr FieldRange kCount = {1, kMostSteps};
inline constexpr FieldRange kCountOrNone = {0, kMostSteps};
inline constexpr FieldRange kSeconds = {1e-3, 1e9};
inline constexpr FieldRange kFraction = {0, 1};

// What a run that resumes requires of a field (engine/job_identity.h).
struct OnResuming {
  const char* name = nullptr;  // in the identity, when the value itself must be the same
};
inline constexpr OnResuming kMayDiffer = {};
inline constexpr OnResuming kDerived = {};  // engine/job_identity.cpp compares what follows from it
constexpr OnResuming same_as(const char* name) {
  return {name};
}

template <typename Visitor>
void fields(Visitor& visitor, ModelSource& plan) {
  visitor("name", plan.name, same_as("model"));
  visitor("weights_directory", plan.weights_directory, kDerived);
  visitor("tokenizer_directory", plan.tokenizer_directory, kDerived);
  visitor("hf_config", plan.hf_config, kDerived);
}

template <typename Visitor>
void fields(Visitor& visitor, DataSource& plan) {
  visitor("dataset_id", plan.dataset_id, same_as("dataset"));
  visitor("path", plan.path, kDerived);
  visitor("pretokenized", plan.pretokenized, same_as("pretokenized"));
  visitor("conversation_field", plan.conversation_field, same_as("conversation field"));
  visitor("chat_template", plan.chat_template, same_as("chat template"));
  visitor("mask", plan.mask, same_as("conversation mask"));
  visitor("entry_template", plan.entry_template, same_as("entry template"));
  visitor("input_field", plan.input_field, same_as("input field"));
  visitor("output_field", plan.output_field, same_as("output field"));
  visitor("text_field", plan.text_field, same_as("text field"));
  visitor("image_field", plan.image_field, same_as("image field"));
  visitor("response_template", plan.response_template, same_as("response template"));
  visitor("model_max_length", plan.model_max_length, same_as("model_max_length"), kCount);
  visitor("most_entries", plan.most_entries, kDerived, kCountOrNone);
  visitor("padding", plan.padding, same_as("padding"));
  visitor("worst_batch_first", plan.worst_batch_first, same_as("order of the batches"));
  visitor("token_cache_directory", plan.token_cache_directory, kMayDiffer);
  visitor("mixture", plan.mixture, kDerived);
  visitor("sampling_seed", plan.sampling_seed, kDerived);
}

template <typename Visitor>
void fields(Visitor& visitor, BatchPlan& plan) {
  visitor("per_device_batch_size", plan.per_device_batch_size, kDerived, kCount);
  visitor("gradient_accumulation_steps", plan.gradient_accumulation_steps, kDerived, kCount);
  visitor("max_steps", plan.max_steps, kMayDiffer, FieldRange{-kMostSteps, kMostSteps});
  visitor("num_train_epochs", plan.num_train_epochs, kMayDiffer, FieldRange{0, 1e9});
  visitor("stop_after_seconds", plan.stop_after_seconds, kMayDiffer);
  visitor("auto_stop_method", plan.auto_stop_method, kMayDiffer);
  visitor("stop_when_known", plan.stop_when_known, kMayDiffer, FieldRange{0, 50});
}

template <typename Visitor>
void fields(Visitor& visitor, PrecisionPlan& plan) {
  visitor("torch_dtype", plan.torch_dtype, same_as("torch_dtype"));
  visitor("autocast", plan.autocast, same_as("mixed precision"));
  visitor("tf32", plan.tf32, same_as("tf32"));
}

template <typename Visitor>
void fields(Visitor& visitor, OptimizerPlan& plan) {
  visitor("name", plan.kind, same_as("optimizer"));
  visitor("learning_rate", plan.learning_rate, same_as("learning_rate"), FieldRange{0, 1e9});
  visitor("weight_decay", plan.weight_decay, same_as("weight_decay"));
  visitor("beta1", plan.betas[0], kDerived, kFraction);
  visitor("beta2", plan.betas[1], kDerived, kFraction);
  visitor("epsilon", plan.epsilon, same_as("epsilon"));
  visitor("max_grad_norm", plan.max_grad_norm, same_as("max_grad_norm"));
  visitor("schedule", plan.schedule, same_as("lr_scheduler_type"));
  visitor("schedule_options", plan.schedule_options, same_as("lr_scheduler_kwargs"));
  visitor("warmup_ratio", plan.warmup_ratio, same_as("warmup_ratio"), kFraction);
  visitor("warmup_steps", plan.warmup_steps, same_as("warmup_steps"), kCountOrNone);
  visitor("offload_state", plan.offload_state, kMayDiffer);
}

template <typename Visitor>
void fields(Visitor& visitor, DevicePlan& plan) {
  visitor("kind", plan.kind, kMayDiffer);
  visitor("gpu_model", plan.gpu_model, kMayDiffer);
  visitor("ranks", plan.ranks, kDerived, FieldRange{1, 65536});
  visitor("nodes", plan.nodes, kMayDiffer, FieldRange{1, 65536});
  visitor("threads", plan.threads, kMayDiffer, FieldRange{0, 65536});
}

template <typename Visitor>
void fields(Visitor& visitor, ParallelPlan& plan) {
  visitor("strategy", plan.strategy, kMayDiffer);
  visitor("layer_class", plan.layer_class, kMayDiffer);
  visitor("state_dict_type", plan.state_dict_type, kMayDiffer);
  visitor("use_orig_params", plan.use_orig_params, kMayDiffer);
  visitor("gradient_sync", plan.gradient_sync, kMayDiffer);
  visitor("reduce_dtype", plan.reduce_dtype, kMayDiffer);
  visitor("expert_ranks", plan.expert_ranks, kMayDiffer, FieldRange{1, 65536});
  visitor("context_ranks", plan.context_ranks, kMayDiffer, FieldRange{1, 65536});
  visitor("enable_roce", plan.enable_roce, kMayDiffer);
  visitor("distribute_one_rank", plan.distribute_one_rank, kMayDiffer);
  visitor("timeout_s", plan.timeout_s, kMayDiffer, kSeconds);
  visitor("offload", plan.offload, kMayDiffer);
}

template <typename Visitor>
void fields(Visitor& visitor, ActivationPlan& plan) {
  visitor("gradient_checkpointing", plan.gradient_checkpointing, kMayDiffer);
  visitor("use_reentrant", plan.use_reentrant, kMayDiffer);
  visitor("offload", plan.offload, kMayDiffer);
  visitor("mlp_tiles", plan.mlp_tiles, kMayDiffer, FieldRange{1, 65536});
}

template <typename Visitor>
void fields(Visitor& visitor, KernelPlan& plan) {
  visitor("flash_attention", plan.flash_attention, kMayDiffer);
  visitor("fused_loss", plan.fused_loss, kMayDiffer);
  visitor("fused_rms_norm", plan.fused_rms_norm, kMayDiffer);
  visitor("fused_rope", plan.fused_rope, kMayDiffer);
  visitor("step_graph", plan.step_graph, kMayDiffer);
}

template <typename Visitor>
void fields(Visitor& visitor, LoraPlan& plan) {
  visitor("rank", plan.rank, kDerived, kCount);
  visitor("alpha", plan.alpha, kDerived);
  visitor("dropout", plan.dropout, kDerived, kFraction);
  visitor("target_modules", plan.target_modules, kDerived);
  visitor("invocation_string", plan.invocation_string, kDerived);
  visitor("use_rslora", plan.use_rslora, kDerived);
  visitor("use_dora", plan.use_dora, kDerived);
  visitor("modules_to_save", plan.modules_to_save, kDerived);
  visitor("rank_pattern", plan.rank_pattern, kDerived);
  visitor("alpha_pattern", plan.alpha_pattern, kDerived);
}

template <typename Visitor>
void fields(Visitor& visitor, PromptPlan& plan) {
  visitor("virtual_tokens", plan.virtual_tokens, kDerived, kCount);
  visitor("init", plan.init, kMayDiffer);
  visitor("init_text", plan.init_text, kMayDiffer);
}

template <typename Visitor>
void fields(Visitor& visitor, EvaluationPlan& plan) {
  visitor("path", plan.path, kMayDiffer);
  visitor("split", plan.split, kDerived, FieldRange{0, kMostSteps});
  visitor("strategy", plan.strategy, kMayDiffer);
  visitor("steps", plan.steps, kMayDiffer, kCount);
  visitor("steps_ratio", plan.steps_ratio, kMayDiffer, kFraction);
  visitor("per_device_batch_size", plan.per_device_batch_size, kMayDiffer, kCountOrNone);
  visitor("on_start", plan.on_start, kMayDiffer);
  visitor("generated", plan.generated, kMayDiffer, kCountOrNone);
  visitor("max_new_tokens", plan.max_new_tokens, kMayDiffer, kCount);
}

template <typename Visitor>
void fields(Visitor& visitor, SavePlan& plan) {
  visitor("model_directory", plan.model_directory, kMayDiffer);
  visitor("checkpoint_directory", plan.checkpoint_directory, kMayDiffer);
  visitor("strategy", plan.strategy, kMayDiffer);
  visitor("steps", plan.steps, kMayDiffer, kCount);
  visitor("steps_ratio", plan.steps_ratio, kMayDiffer, kFraction);
  visitor("total_limit", plan.total_limit, kMayDiffer, kCountOrNone);
  visitor("resume_from", plan.resume_from, kMayDiffer);
  visitor("best_model", plan.best_model, kMayDiffer);
  visitor("from_nothing", plan.from_nothing, kMayDiffer);
  visitor("output_directory", plan.output_directory, kMayDiffer);
  visitor("log_strategy", plan.log_strategy, kMayDiffer);
  visitor("log_steps", plan.log_steps, kMayDiffer, kCount);
  visitor("log_steps_ratio", plan.log_steps_ratio, kMayDiffer, kFraction);
}

template <typename Visitor>
void fields(Visitor& visitor, TrainingJob& job) {
  visitor("experiment", job.experiment, kMayDiffer);
  visitor("experiment_id", job.experiment_id, kMayDiffer);
  visitor("entity_id", job.entity_id, kMayDiffer);
  visitor("tuning", job.tuning, same_as("tuning"));
  visitor("runs", job.runs, kMayDiffer, FieldRange{1, 1000});
  visitor("seed", job.seed, same_as("seed"));
  visitor("sample_period_s", job.sample_period_s, kMayDiffer, kSeconds);
  visitor("trace_path", job.trace_path, kMayDiffer);
  visitor("dashboard_url", job.dashboard_url, kMayDiffer);
  visitor("model", job.model);
  visitor("data", job.data);
  visitor("batches", job.batches);
  visitor("precision", job.precision);
  visitor("optimizer", job.optimizer);
  visitor("device", job.device);
  visitor("parallel", job.parallel);
  visitor("activations", job.activations);
  visitor("kernels", job.kernels);
  visitor("lora", job.lora);
  visitor("prompt", job.prompt);
  visitor("evaluation", job.evaluation);
  visitor("save", job.save);
  visitor("entity", job.entity, kMayDiffer);
  visitor("inputs", job.inputs, kMayDiffer);
}

}  // namespace sftbench
