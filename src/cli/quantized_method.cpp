#include "cli/quantized_method.h"

#include <algorithm>
#include <array>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

constexpr std::array kMethods = {
    QuantizedMethod{"qlora", "transformers-bitsandbytes"},
    QuantizedMethod{"lora-8bit", "transformers-bitsandbytes-8bit"},
};

}  // namespace

const QuantizedMethod* find_quantized_method(std::string_view name) {
  const auto* const found = std::find_if(
      kMethods.begin(), kMethods.end(), [name](const auto& method) { return name == method.name; });
  return found == kMethods.end() ? nullptr : found;
}

const QuantizedMethod* quantized_method_of(std::string_view stack) {
  const auto* const found =
      std::find_if(kMethods.begin(), kMethods.end(),
                   [stack](const auto& method) { return stack == method.stack; });
  return found == kMethods.end() ? nullptr : found;
}

std::vector<std::string> quantized_methods() {
  std::vector<std::string> names;
  for (const QuantizedMethod& method : kMethods) names.emplace_back(method.name);
  return names;
}

void refuse_to_train(const QuantizedMethod& method) {
  const std::string name = method.name;
  throw InputError({{{},
                     0,
                     "--method",
                     name + " is over weights of bitsandbytes, which are not trained here",
                     "`sftbench predict --method " + name +
                         "` for what it takes, or --method gptq-lora over a GPTQ model",
                     {}}});
}

}  // namespace sftbench
