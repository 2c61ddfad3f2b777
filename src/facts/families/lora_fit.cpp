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
  for (const AdaptedLinear& linear : linears) leaves.insert(leaf_name(linear.name));
  const std::vector<std::string> known(leaves.begin(), leaves.end());
  const std::string has = join(known) + ", or all-linear for all of them";
  if (targets.empty()) return "target_modules is empty; the model has " + has;
  for (const std::string& target : targets) {
    const bool found = std::any_of(linears.begin(), linears.end(), [&](const auto& linear) {
      return is_lora_target(linear.name, target);
    });
    if (found) continue;
    const std::string nearest = nearest_spelling(target, known);
    return "target_modules '" + target + "' matches no linear of the model; it has " + has +
           (nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
  }
  return {};
}

std::string rank_that_does_not_fit(const AdaptedLinear& linear, int64_t rank) {
  // A gate has one feature, and all-linear means it, too.
  const bool gate = linear.out == 1 && rank >= 1;
  if (gate || (rank >= 1 && rank <= std::min(linear.in, linear.out))) return {};
  return "r " + std::to_string(rank) + " does not fit " + linear.name + ", which maps " +
         std::to_string(linear.in) + " to " + std::to_string(linear.out) +
         " features: a rank is between 1 and the smaller of the two";
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
  return linears;
}

std::string lora_refusal(const std::vector<AdaptedLinear>& linears,
                         const std::vector<std::string>& targets, int64_t rank) {
  std::string refusal = misspelt_target(linears, targets);
  for (const AdaptedLinear& linear : linears) {
    const bool adapted = std::any_of(targets.begin(), targets.end(), [&](const auto& target) {
      return is_lora_target(linear.name, target);
    });
    if (adapted && refusal.empty()) refusal = rank_that_does_not_fit(linear, rank);
  }
  return refusal;
}

}  // namespace sftbench
