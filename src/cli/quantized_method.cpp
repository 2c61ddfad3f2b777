#include "cli/quantized_method.h"

#include <algorithm>
#include <array>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr std::array kMethods = {
    QuantizedMethod{"qlora", kNf4Stack, true},
    QuantizedMethod{"lora-8bit", "transformers-bitsandbytes-8bit"},
};

}  // namespace

const QuantizedMethod* find_quantized_method(std::string_view name) {
  const auto* const found = std::find_if(
      kMethods.begin(), kMethods.end(), [name](const auto& method) { return name == method.name; });
  return found == kMethods.end() ? nullptr : found;
}

const QuantizedMethod* quantized_method_of(std::string_view stack) {
  for (const std::string_view loss : {kLigerLoss, kTrlLoss})
    if (stack.ends_with(loss)) stack.remove_suffix(loss.size());
  const auto* const found =
      std::find_if(kMethods.begin(), kMethods.end(),
                   [stack](const auto& method) { return stack == method.stack; });
  return found == kMethods.end() ? nullptr : found;
}

std::string stack_over(const std::string& stack, const QuantizedMethod& method) {
  const bool quantized = quantized_method_of(stack) != nullptr;
  for (const std::string loss : {kLigerLoss, kTrlLoss, ""})
    if (stack == kPeoplesStack + loss || (quantized && stack.ends_with(loss)))
      return method.stack + loss;
  if (method.trains) return stack;
  throw InputError({{{},
                     0,
                     "--stack",
                     stack + " has no weights in 8 bits",
                     std::string(method.stack) + ", or --method qlora",
                     {}}});
}

std::vector<std::string> predicted_methods() {
  std::vector<std::string> names;
  for (const QuantizedMethod& method : kMethods)
    if (!method.trains) names.emplace_back(method.name);
  return names;
}

const Experiment& experiment_of_method(const std::string& method) {
  std::vector<std::string> methods = predicted_methods();
  if (find_quantized_method(method) != nullptr)
    return *Catalog::shipped().experiment(kQloraExperiment);
  for (const Experiment& experiment : Catalog::shipped().experiments) {
    if (experiment.runs > 1) continue;
    methods.emplace_back(name_of(experiment.tuning));
    if (methods.back() == method) return experiment;
  }
  throw InputError({{{},
                     0,
                     "--method",
                     "unknown method '" + method + "'",
                     join(methods, " or "),
                     nearest_spelling(method, methods)}});
}

void require_trained(const QuantizedMethod& method) {
  if (method.trains) return;
  const std::string name = method.name;
  throw InputError(
      {{{},
        0,
        "--method",
        name + " is over weights in 8 bits, which are not trained here",
        "`sftbench predict --method " + name + "` for what it takes, or --method qlora",
        {}}});
}

}  // namespace sftbench
