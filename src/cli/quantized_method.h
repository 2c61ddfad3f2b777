// Methods that people call by their own names, and that are predicted, not trained: LoRA over weights of bitsandbytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sftbench {

struct QuantizedMethod {
  const char* name;
  const char* stack;  // of config/stacks.yaml, which says how many bytes a weight takes
};

// Of the experiment that adapts quantized weights.
inline constexpr const char* kQuantizedExperiment = "finetune_gptq-lora_benchmark-v1.0.0";

// nullptr: another method.
const QuantizedMethod* find_quantized_method(std::string_view name);
const QuantizedMethod* quantized_method_of(std::string_view stack);
std::vector<std::string> quantized_methods();

// InputError that says how it is predicted.
[[noreturn]] void refuse_to_train(const QuantizedMethod& method);

}  // namespace sftbench
