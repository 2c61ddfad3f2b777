#include "sftbench/families/lora_fit.h"

#include <algorithm>
#include <set>

#include "sftbench/base/text.h"
#include "sftbench/families/family.h"

namespace sftbench {
namespace {

std::string leaf_name(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

std::string misspelt_target(const std::vector<AdaptedLinear>& linears,
                            const std::vector<std::string>& targets) {
  std::set<std::string> leaves;
  for (const AdaptedLinear& linear : linears)
    if (!linear.of_tokens) leaves.insert(leaf_name(linear.name));
  const std::vector<std::string> known(leaves.begin(), leaves.end());
  const std::string has = join(known) + ", or all-linear for all of them";
  if (targets.empty()) return "target_modules is empty; the model has " + has;
  for (const std::string& target : targets) {
    const bool found = std::any_of(linears.begin(), linears.end(), [&](const auto& linear) {
      return is_adapted(linear, {target});
    });
    if (found) continue;
    for (const AdaptedLinear& linear : linears) leaves.insert(leaf_name(linear.name));
    const std::string nearest = nearest_spelling(target, {leaves.begin(), leaves.end()});
    return "target_modules '" + target + "' matches no linear of the model; it has " + has +
           (nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
  }
  return {};
}

// Its own, or that of all.
std::string rank_that_does_not_fit(const AdaptedLinear& linear, int64_t of_all) {
  const int64_t rank = linear.rank > 0 ? linear.rank : of_all;
  // A gate has one feature, and all-linear means it, too.
  const bool gate = linear.out == 1 && rank >= 1;
  if (gate || (rank >= 1 && rank <= std::min(linear.in, linear.out))) return {};
  return (rank != of_all ? "rank_pattern " : "r ") + std::to_string(rank) + " does not fit " +
         linear.name + ", which maps " + std::to_string(linear.in) + " to " +
         std::to_string(linear.out) + " features: a rank is between 1 and the smaller of the two";
}

// Of "mlp.up_proj.weight": "mlp.up_proj", then "mlp".
std::vector<std::string> modules_around(const std::string& parameter) {
  std::vector<std::string> modules;
  for (size_t end = parameter.rfind('.'); end != std::string::npos && end > 0;
       end = parameter.rfind('.', end - 1))
    modules.push_back(parameter.substr(0, end));
  return modules;
}

}  // namespace

std::vector<AdaptedLinear> linears_of(const ModelConfig& config, const ModelShape& shape) {
  const std::string prefix = family_of(config).names.layer_prefix;
  std::vector<AdaptedLinear> linears;
  for (const LinearShape& linear : shape.linears_before)
    linears.push_back({linear.name, linear.in, linear.out});
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const std::string layer = prefix + std::to_string(i) + ".";
    for (const LinearShape& linear : shape.layers[i].linears)
      linears.push_back({layer + linear.name, linear.in, linear.out});
  }
  const int64_t tokens = config.vocab_size, width = config.hidden_size;
  const ModelNames& names = family_of(config).names;
  linears.push_back({.name = names.embedding, .in = tokens, .out = width, .of_tokens = true});
  linears.push_back({.name = names.output, .in = width, .out = tokens, .of_tokens = true});
  return linears;
}

bool is_adapted(const AdaptedLinear& linear, const std::vector<std::string>& targets) {
  return std::any_of(targets.begin(), targets.end(), [&](const std::string& target) {
    return is_lora_target(linear.name, target) && !(linear.of_tokens && target == "all-linear");
  });
}

std::string token_adapters_refusal(const std::vector<AdaptedLinear>& linears,
                                   const std::vector<std::string>& targets, bool plain) {
  if (plain) return {};
  for (const AdaptedLinear& linear : linears) {
    if (!linear.of_tokens || !is_adapted(linear, targets)) continue;
    return "target_modules name " + linear.name +
           ": DoRA and activated LoRA adapt linears of the layers; plain LoRA adapts it";
  }
  return {};
}

std::string lora_refusal(const std::vector<AdaptedLinear>& linears,
                         const std::vector<std::string>& targets, int64_t rank) {
  std::string refusal = misspelt_target(linears, targets);
  for (const AdaptedLinear& linear : linears) {
    if (refusal.empty() && is_adapted(linear, targets))
      refusal = rank_that_does_not_fit(linear, rank);
  }
  return refusal;
}

bool is_saved_whole(const std::string& parameter, const std::vector<std::string>& modules) {
  if (modules.empty()) return false;
  const std::vector<std::string> around = modules_around(parameter);
  return std::any_of(around.begin(), around.end(), [&](const std::string& name) {
    return std::any_of(modules.begin(), modules.end(),
                       [&](const std::string& module) { return name.ends_with(module); });
  });
}

std::vector<std::string> parameters_of(const ModelConfig& config, const ModelShape& shape) {
  const ModelNames& names = family_of(config).names;
  std::vector<std::string> parameters;
  for (const TensorShape& tensor : shape.before) parameters.push_back(tensor.name);
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    for (const TensorShape& tensor : shape.layers[i].tensors)
      parameters.push_back(names.layer_prefix + std::to_string(i) + "." + tensor.name);
  }
  for (const TensorShape& tensor : shape.after) parameters.push_back(tensor.name);
  if (config.tie_word_embeddings) parameters.push_back(std::string(names.output) + ".weight");
  return parameters;
}

std::string saved_modules_refusal(const std::vector<std::string>& parameters,
                                  const std::vector<std::string>& modules,
                                  const std::function<bool(const std::string&)>& is_quantized) {
  for (const std::string& module : modules) {
    std::set<std::string> leaves;
    bool found = false;
    for (const std::string& parameter : parameters) {
      leaves.insert(leaf_name(parameter.substr(0, parameter.rfind('.'))));
      if (!is_saved_whole(parameter, {module})) continue;
      found = true;
      if (is_quantized(parameter)) {
        return "modules_to_save '" + module + "' names " + parameter +
               ", which is quantized and does not train; tuning lora trains it";
      }
    }
    if (found) continue;
    const std::vector<std::string> known(leaves.begin(), leaves.end());
    const std::string nearest = nearest_spelling(module, known);
    return "modules_to_save '" + module + "' names no module of the model; it has " + join(known) +
           (nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
  }
  return {};
}

}  // namespace sftbench
