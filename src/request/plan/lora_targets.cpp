#include "plan/lora_targets.h"

#include <map>
#include <set>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/checkpoint/module_pattern.h"
#include "sftbench/families/lora_fit.h"

namespace sftbench {
namespace {

[[noreturn]] void refuse_targets(const std::string& expression, const std::string& problem) {
  throw RunError(ReasonCode::kUnsupported, "target_modules '" + expression + "' " + problem);
}

}  // namespace

std::vector<std::string> linears_that_match(const Json& hf_config, const std::string& expression) {
  std::vector<std::string> matching;
  std::set<std::string> leaves;
  const ModelConfig config = parse_model_config(hf_config);
  try {
    const ModulePattern pattern(expression);
    for (const AdaptedLinear& linear : linears_of(config, shape_of(config))) {
      leaves.insert(linear.name.substr(linear.name.rfind('.') + 1));
      if (pattern.matches(linear.name)) matching.push_back(linear.name);
    }
  } catch (const ModulePatternError& problem) {
    refuse_targets(expression, problem.what());
  }
  if (matching.empty()) {
    refuse_targets(expression, "matches no linear of the model from end to end; it has " +
                                   join({leaves.begin(), leaves.end()}));
  }
  return matching;
}

std::vector<std::string> usual_targets(const std::string& model, const std::string& family) {
  static const std::map<std::string, std::vector<std::string>> kTargets = {
      {"bloom", {"query_key_value"}},       {"gemma", {"q_proj", "v_proj"}},
      {"stablelm", {"q_proj", "v_proj"}},   {"gemma2", {"q_proj", "v_proj"}},
      {"gemma3", {"q_proj", "v_proj"}},     {"gemma3_text", {"q_proj", "v_proj"}},
      {"gpt_bigcode", {"c_attn"}},          {"gpt2", {"c_attn"}},
      {"gpt_neox", {"query_key_value"}},    {"granite", {"q_proj", "v_proj"}},
      {"granitemoe", {"q_proj", "v_proj"}}, {"llama", {"q_proj", "v_proj"}},
      {"mistral", {"q_proj", "v_proj"}},    {"mistral3", {"q_proj", "v_proj"}},
      {"mixtral", {"q_proj", "v_proj"}},    {"qwen2", {"q_proj", "v_proj"}},
      {"qwen3", {"q_proj", "v_proj"}}};
  const auto found = kTargets.find(family);
  if (found != kTargets.end()) return found->second;
  throw RunError(ReasonCode::kUnsupported,
                 "model_name " + model +
                     ": neither config/models.yaml nor peft says which linears " + "of family " +
                     family +
                     " adapters go to; --set target_modules=all-linear, or their names, works");
}

}  // namespace sftbench
