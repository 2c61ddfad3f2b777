#include "translate/export_facts.h"

#include "sftbench/catalog/experiment.h"

namespace sftbench {
namespace {

using Facts = std::vector<ExportFact>;

void put_adapters(const TrainingJob& job, Facts& facts) {
  const TuningMethodRow& row = row_of(job.tuning);
  facts.push_back(
      {"tuning", name_of(row.adds_adapters ? TuningMethod::kLora : job.tuning), "full"});
  if (row.adds_adapters) {
    const auto& targets = job.lora.target_modules;
    facts.push_back({"r", job.lora.rank});
    facts.push_back({"lora_alpha", static_cast<int64_t>(job.lora.alpha)});
    facts.push_back({"lora_dropout", job.lora.dropout});
    facts.push_back({"target_modules", targets});
    facts.push_back({"use_rslora", job.lora.use_rslora, false});
    facts.push_back({"use_dora", job.lora.use_dora, false});
    facts.push_back({"modules_to_save", job.lora.modules_to_save, Json::array()});
    facts.push_back({"rank_pattern", job.lora.rank_pattern, Json::object()});
    facts.push_back({"alpha_pattern", job.lora.alpha_pattern, Json::object()});
    if (!job.lora.invocation_string.empty()) {
      facts.push_back({"activated", "true"});
      facts.push_back({"alora_invocation_string", escaped_text(job.lora.invocation_string)});
    }
  }
  if (job.tuning == TuningMethod::kPrompt) {
    facts.push_back({"num_virtual_tokens", job.prompt.virtual_tokens});
    facts.push_back({"prompt_tuning_init", job.prompt.init});
    facts.push_back({"prompt_tuning_init_text", escaped_text(job.prompt.init_text)});
  }
}

void put_optimizer(const TrainingJob& job, Facts& facts) {
  const OptimizerPlan& plan = job.optimizer;
  facts.push_back({"optim", name_of(plan.kind)});
  facts.push_back({"learning_rate", plan.learning_rate});
  facts.push_back({"lr_scheduler_type", plan.schedule});
  if (!plan.schedule_options.empty())
    facts.push_back({"lr_scheduler_kwargs", plan.schedule_options, {}, false});
  if (plan.warmup_steps > 0) {
    facts.push_back({"warmup_steps", plan.warmup_steps});
  } else {
    facts.push_back({"warmup_ratio", plan.warmup_ratio});
  }
  facts.push_back({"weight_decay", plan.weight_decay});
  facts.push_back({"adam_beta1", plan.betas[0], 0.9, false});
  facts.push_back({"adam_beta2", plan.betas[1], 0.999, false});
  facts.push_back({"adam_epsilon", plan.epsilon, 1e-8, false});
  facts.push_back({"max_grad_norm", plan.max_grad_norm});
  // Under FSDP it goes with the parameters.
  const bool along = job.parallel.offload && job.device.ranks > 1;
  facts.push_back({"offload_optimizer", plan.offload_state && !along, false});
}

void put_steps(const TrainingJob& job, Facts& facts) {
  const BatchPlan& plan = job.batches;
  facts.push_back({"model_max_length", job.data.model_max_length});
  facts.push_back({"padding", name_of(job.data.padding), name_of(Padding::kLongest)});
  facts.push_back({"max_train_samples", job.data.most_entries, 0});
  facts.push_back({"batch_size", plan.per_device_batch_size});
  facts.push_back({"gradient_accumulation_steps", plan.gradient_accumulation_steps});
  facts.push_back({"num_train_epochs", plan.num_train_epochs});
  facts.push_back({"max_steps", plan.max_steps, -1});
  facts.push_back({"stop_after_seconds", plan.stop_after_seconds, -1.0, false});
  facts.push_back({"seed", job.seed});
}

void put_memory(const TrainingJob& job, Facts& facts) {
  const ActivationPlan& plan = job.activations;
  facts.push_back({"gradient_checkpointing", plan.gradient_checkpointing});
  if (plan.gradient_checkpointing)
    facts.push_back({"gradient_checkpointing_use_reentrant", plan.use_reentrant});
  facts.push_back({"offload_activations", plan.offload, false});
  facts.push_back({"mlp_tiles", plan.mlp_tiles, 1});
  facts.push_back({"flash_attn", job.kernels.flash_attention});
  facts.push_back({"step_graph", job.kernels.step_graph, false});
  if (const Json fast = job.inputs.value("fast_kernels", Json()); !fast.is_null())
    facts.push_back({"fast_kernels", fast, Json({"False", "False", "False"})});
  facts.push_back({"fast_moe", job.inputs.value("fast_moe", Json(0)), 0});
  facts.push_back({"gradient_sync", name_of(job.parallel.gradient_sync), "last"});
  facts.push_back({"reduce_dtype", job.parallel.reduce_dtype, ""});
  facts.push_back({"context_parallel", job.parallel.context_ranks, 1});
  facts.push_back({"tf32", job.precision.tf32, {}, false});
}

void put_evaluation(const TrainingJob& job, Facts& facts) {
  const EvaluationPlan& plan = job.evaluation;
  facts.push_back({"eval_strategy", name_of(plan.strategy), "no", false});
  if (!plan.evaluates()) return;
  if (plan.split > 0) {
    facts.push_back({"eval_split", plan.split, {}, false});
  } else {
    facts.push_back({"validation_data_path", plan.path, {}, false});
  }
  if (plan.strategy == IntervalStrategy::kSteps) {
    facts.push_back({"eval_steps",
                     plan.steps_ratio > 0 ? Json(plan.steps_ratio) : Json(plan.steps),
                     {},
                     false});
  }
  if (plan.per_device_batch_size > 0)
    facts.push_back({"per_device_eval_batch_size", plan.per_device_batch_size, {}, false});
  facts.push_back({"eval_on_start", plan.on_start, false});
}

}  // namespace

std::vector<ExportFact> export_facts(const TrainingJob& job) {
  Facts facts;
  put_adapters(job, facts);
  put_steps(job, facts);
  put_optimizer(job, facts);
  put_memory(job, facts);
  put_evaluation(job, facts);
  return facts;
}

}  // namespace sftbench
