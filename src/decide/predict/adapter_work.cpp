#include "predict/adapter_work.h"

#include <algorithm>
#include <cmath>

#include "sftbench/checkpoint/module_pattern.h"
#include "sftbench/families/family.h"
#include "sftbench/plan/known_model.h"

namespace sftbench {
namespace {

int64_t rank_in(const NumberPatterns& ranks, const LoraPlan& lora, const std::string& linear) {
  return static_cast<int64_t>(ranks.of(linear).value_or(static_cast<double>(lora.rank)));
}

}  // namespace

bool trains(const TrainingJob& job, const std::string& parameter) {
  return trains_weights(job) ||
         (row_of(job.tuning).adds_adapters && is_saved_whole(parameter, job.lora.modules_to_save));
}

bool is_target(const LoraPlan& lora, const std::string& linear) {
  return !is_saved_whole(linear + ".weight", lora.modules_to_save) &&
         std::any_of(
             lora.target_modules.begin(), lora.target_modules.end(),
             [&linear](const std::string& target) { return is_lora_target(linear, target); });
}

int64_t layer_rank(const TrainingJob& job, const std::string& linear) {
  if (job.lora.rank_pattern.empty()) return job.lora.rank;
  const ModelConfig& config = known_model(job.model).config;
  const NumberPatterns ranks(job.lora.rank_pattern, /*whole=*/true);
  int64_t sum = 0;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string name =
        family_of(config).names.layer_prefix + std::to_string(layer) + "." + linear;
    sum += rank_in(ranks, job.lora, name);
  }
  return std::llround(static_cast<double>(sum) / static_cast<double>(config.num_hidden_layers));
}

std::vector<AdaptedLinear> adapted_tokens(const TrainingJob& job, const ModelConfig& config) {
  if (!row_of(job.tuning).adds_adapters) return {};
  std::vector<AdaptedLinear> tokens = linears_of(config, {});
  std::erase_if(tokens, [&](const AdaptedLinear& linear) {
    return is_saved_whole(linear.name + ".weight", job.lora.modules_to_save) ||
           !is_adapted(linear, job.lora.target_modules);
  });
  const NumberPatterns ranks(job.lora.rank_pattern, /*whole=*/true);
  for (AdaptedLinear& linear : tokens) linear.rank = rank_in(ranks, job.lora, linear.name);
  return tokens;
}

}  // namespace sftbench
