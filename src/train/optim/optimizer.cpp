#include "sftbench/optim/optimizer.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "optim/kinds.h"
#include "optim/quantized_kinds.h"
#include "sftbench/base/error.h"
#include "sftbench/ops/global_norm.h"

namespace sftbench {
namespace {

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

}  // namespace

TrainedShape trained_shape(const TrainableTensor& trainable) {
  return {trainable.name, trainable.tensor.sizes().vec()};
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
    const bool never = trainable.of_layer_norm || never_decays(trainable.name);
    groups[never ? 1 : 0].parameters.push_back(trainable);
  }
  return groups;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerRow& row : kOptimizers) {
    if (!row.has_obstacle()) names.emplace_back(row.name);
  }
  return names;
}

// A new optimizer is a file, a row in variants/optimizer.h, and a case here.
std::unique_ptr<Optimizer> make_optimizer(OptimizerKind kind, std::vector<ParameterGroup> groups,
                                          const OptimizerOptions& options) {
  switch (kind) {
    case OptimizerKind::kAdafactor:
      return make_adafactor(std::move(groups), options);
    case OptimizerKind::kAdagrad:
      return make_adagrad(std::move(groups), options);
    case OptimizerKind::kAdalomo:
      return make_adalomo(std::move(groups), options);
    case OptimizerKind::kAdamwAnyprecision:
    case OptimizerKind::kAdamwApexFused:
      return make_adamw_float32(std::move(groups), options);
    case OptimizerKind::kAdamwHf:
      return make_adamw_hf(std::move(groups), options);
    case OptimizerKind::kAdamwTorch:
    case OptimizerKind::kAdamwTorchFused:
      return make_adamw(std::move(groups), options);
    case OptimizerKind::kAdemamix:
      return make_ademamix(std::move(groups), options);
    case OptimizerKind::kGaloreAdafactor:
      return make_galore_adafactor(std::move(groups), options);
    case OptimizerKind::kGaloreAdafactorLayerwise:
      return make_galore_adafactor_layerwise(std::move(groups), options);
    case OptimizerKind::kGaloreAdamw:
      return make_galore_adamw(std::move(groups), options);
    case OptimizerKind::kGaloreAdamw8bit:
      return make_galore_adamw_8bit(std::move(groups), options);
    case OptimizerKind::kGaloreAdamw8bitLayerwise:
      return make_galore_adamw_8bit_layerwise(std::move(groups), options);
    case OptimizerKind::kGaloreAdamwLayerwise:
      return make_galore_adamw_layerwise(std::move(groups), options);
    case OptimizerKind::kGrokadamw:
      return make_grokadamw(std::move(groups), options);
    case OptimizerKind::kLion32bit:
      return make_lion(std::move(groups), options);
    case OptimizerKind::kLomo:
      return make_lomo(std::move(groups), options);
    case OptimizerKind::kRmsprop:
      return make_rmsprop(std::move(groups), options);
    case OptimizerKind::kRmspropBnb:
    case OptimizerKind::kRmspropBnb32bit:
      return make_rmsprop_float32(std::move(groups), options);
    case OptimizerKind::kScheduleFreeAdamw:
      return make_schedule_free_adamw(std::move(groups), options);
    case OptimizerKind::kScheduleFreeSgd:
      return make_schedule_free_sgd(std::move(groups), options);
    case OptimizerKind::kSgd:
      return make_sgd(std::move(groups), options);
    case OptimizerKind::kAdamw8bit:
    case OptimizerKind::kAdamwBnb8bit:
    case OptimizerKind::kAdamwTorch4bit:
    case OptimizerKind::kAdemamix8bit:
    case OptimizerKind::kLion8bit:
    case OptimizerKind::kPagedAdamw32bit:
    case OptimizerKind::kPagedAdamw8bit:
    case OptimizerKind::kPagedAdemamix32bit:
    case OptimizerKind::kPagedAdemamix8bit:
    case OptimizerKind::kPagedLion32bit:
    case OptimizerKind::kPagedLion8bit:
    case OptimizerKind::kRmspropBnb8bit:
      return make_quantized(kind, std::move(groups), options);
    case OptimizerKind::kAdamwTorchNpuFused:
    case OptimizerKind::kAdamwTorchXla:
      break;
  }
  const OptimizerRow& row = row_of(kind);
  throw RunError(ReasonCode::kUnsupported, std::string("optim ") + row.name + " " + row.obstacle);
}

}  // namespace sftbench
