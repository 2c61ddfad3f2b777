// Methods by the names that people give them. Those over weights of bitsandbytes are predicted as
// the programs that have them train; here only NF4 is trained.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sftbench/catalog/catalog.h"
#include "sftbench/predict/stack_model.h"

namespace sftbench {

struct QuantizedMethod {
  const char* name;
  const char* stack;  // of config/stacks.yaml, which says how many bytes a weight takes
  bool trains = false;
};

inline constexpr const char* kQloraExperiment = "finetune_qlora_benchmark-v1.0.0";

// nullptr: another method.
const QuantizedMethod* find_quantized_method(std::string_view name);
const QuantizedMethod* quantized_method_of(std::string_view stack);
// `stack`, where it is that of transformers, over the weights of `method`. InputError for another
// one where it has none in 8 bits.
std::string stack_over(const std::string& stack, const QuantizedMethod& method);
std::vector<std::string> predicted_methods();  // those that are not trained

// That tunes with a method; InputError for an unknown one.
const Experiment& experiment_of_method(const std::string& method);

// InputError that says how it is predicted, unless it is trained.
void require_trained(const QuantizedMethod& method);

}  // namespace sftbench
