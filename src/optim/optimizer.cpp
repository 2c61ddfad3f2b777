#include "sftbench/optim/optimizer.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "optim/adamw.h"
#include "sftbench/base/error.h"
#include "sftbench/ops/adamw.h"

namespace sftbench {
namespace {

using Factory = std::unique_ptr<Optimizer> (*)(std::vector<ParameterGroup>,
                                               const OptimizerOptions&);

// The three spellings of AdamW differ in how their kernels are launched, not in the update.
const std::map<std::string, Factory>& optimizers() {
  static const std::map<std::string, Factory> kOptimizers = {
      {"adamw_hf", make_adamw},
      {"adamw_torch", make_adamw},
      {"adamw_torch_fused", make_adamw},
  };
  return kOptimizers;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Trainer's patterns: "bias", "layernorm" and "rmsnorm" anywhere; "norm" as a whole component of
// the dotted name, or as the end of one after an underscore.
bool never_decays(const std::string& name) {
  const std::string text = lower(name);
  for (const char* word : {"bias", "layernorm", "rmsnorm"}) {
    if (text.find(word) != std::string::npos) return true;
  }
  for (size_t at = text.find("norm"); at != std::string::npos; at = text.find("norm", at + 1)) {
    const bool begins = at == 0 || text[at - 1] == '.' || text[at - 1] == '_';
    const bool ends = at + 4 == text.size() || text[at + 4] == '.';
    if (begins && ends) return true;
  }
  return false;
}

bool is_embedding(const std::string& name) {
  return name.find("embed") != std::string::npos;
}

}  // namespace

ParameterRole role_of(const TrainableTensor& trainable) {
  if (is_embedding(trainable.name)) return ParameterRole::kEmbedding;
  const bool matrix = trainable.tensor.dim() == 2;
  return matrix ? ParameterRole::kLinearWeight : ParameterRole::kOther;
}

void Optimizer::begin_backward(double /*learning_rate*/, double /*gradient_scale*/) {}

double Optimizer::gradient_norm(const std::vector<torch::Tensor>& gradients) {
  return ops::global_norm(gradients);
}

std::vector<ParameterGroup> group_by_decay(const std::vector<TrainableTensor>& tensors,
                                           double weight_decay) {
  std::vector<ParameterGroup> groups(2);
  groups[0].weight_decay = weight_decay;
  for (const TrainableTensor& trainable : tensors) {
    groups[never_decays(trainable.name) ? 1 : 0].parameters.push_back(trainable);
  }
  return groups;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& row : optimizers()) names.push_back(row.first);
  return names;
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          std::vector<ParameterGroup> groups,
                                          const OptimizerOptions& options) {
  const auto found = optimizers().find(name);
  if (found != optimizers().end()) return found->second(std::move(groups), options);

  throw unsupported_choice("optimizer", name, optimizer_names());
}

}  // namespace sftbench
