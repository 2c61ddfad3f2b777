#include "engine/job_identity.h"

#include "sftbench/base/digest.h"
#include "sftbench/base/json_text.h"
#include "sftbench/data/token_cache.h"

namespace sftbench {
namespace {

constexpr size_t kDigestLetters = 12;  // enough to tell two files apart, few enough to read

std::string shortened(const std::string& digest) {
  return digest.substr(0, kDigestLetters);
}

void add_tuning(Json& identity, const TrainingJob& job) {
  identity["tuning"] = job.tuning;
  if (job.tuning == "lora" || job.tuning == "gptq-lora") {
    identity["lora rank"] = job.lora.rank;
    identity["lora alpha"] = job.lora.alpha;
    identity["lora dropout"] = job.lora.dropout;
    identity["lora target_modules"] = job.lora.target_modules;
  }
  if (job.tuning == "pt") identity["virtual tokens"] = job.prompt.virtual_tokens;
}

void add_optimizer(Json& identity, const OptimizerPlan& plan) {
  identity["optimizer"] = plan.name;
  identity["learning_rate"] = plan.learning_rate;
  identity["weight_decay"] = plan.weight_decay;
  identity["betas"] = plan.betas;
  identity["epsilon"] = plan.epsilon;
  identity["max_grad_norm"] = plan.max_grad_norm;
  identity["lr_scheduler_type"] = plan.schedule;
  identity["lr_scheduler_kwargs"] = plan.schedule_options;
  identity["warmup_ratio"] = plan.warmup_ratio;
  identity["warmup_steps"] = plan.warmup_steps;
}

std::string text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

}  // namespace

Json identity_of(const TrainingJob& job) {
  Json identity = {
      {"model", job.model.name},
      {"config.json (digest)", shortened(digest(json_text(job.model.hf_config)))},
      {"weights", job.model.weights_directory.empty() ? "random" : "files"},
      {"torch_dtype", job.precision.torch_dtype},
      {"mixed precision", job.precision.autocast},
      {"seed", job.seed},
      {"dataset", job.data.dataset_id},
      {"the dataset's file (digest)", shortened(digest_file(job.data.path))},
      {"the tokenizer's files (digest)",
       shortened(tokenizer_digest(job.model.tokenizer_directory))},
      {"text field", job.data.text_field},
      {"response template", job.data.response_template},
      {"model_max_length", job.data.model_max_length},
      {"padding", job.data.padding},
      {"entries in a step", job.batches.per_device_batch_size *
                                job.batches.gradient_accumulation_steps * job.device.ranks}};
  add_tuning(identity, job);
  add_optimizer(identity, job.optimizer);
  return identity;
}

std::string digest_of(const Json& identity) {
  return digest(json_text(identity));
}

std::vector<std::string> differences(const Json& saved, const Json& now) {
  std::vector<std::string> found;
  for (const auto& [name, value] : now.items()) {
    const auto before = saved.find(name);
    if (before != saved.end() && *before == value) continue;
    found.push_back(name + (before == saved.end() ? " was not known" : " was " + text(*before)) +
                    ", and is " + text(value));
  }
  for (const auto& [name, value] : saved.items()) {
    if (!now.contains(name)) found.push_back(name + " was " + text(value) + ", and is not known");
  }
  return found;
}

}  // namespace sftbench
