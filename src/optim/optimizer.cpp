#include "sftbench/optim/optimizer.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "optim/kinds.h"
#include "optim/quantized_kinds.h"
#include "sftbench/base/error.h"
#include "sftbench/ops/global_norm.h"

namespace sftbench {
namespace {

constexpr const char* kBnbRmspropNote =
    "optim rmsprop_bnb: bitsandbytes' CUDA kernel for 32 bits refuses bfloat16 gradients; here "
    "they "
    "work";
constexpr const char* kScheduleFreeNote =
    "optim schedule_free: the configured learning-rate schedule runs on top, as under "
    "transformers; "
    "its authors advise a constant one";

constexpr const char* kBnb8bitNote =
    "optim with 8 bits: embeddings and tensors below 4096 elements keep float32 states, as under "
    "transformers";
constexpr const char* kRmsprop8bitNote =
    "optim rmsprop_bnb_8bit: embeddings and tensors below 4096 elements keep float32 states, whose "
    "CUDA kernel in bitsandbytes refuses bfloat16 gradients; here they work";
constexpr const char* kPagedNote =
    "optim paged: on GPUs the states of tensors of 100,000 elements and more live in pinned host "
    "memory and are copied for each update; on CPUs this is the kind without paging";
constexpr const char* kGaloreNote =
    "optim galore: transformers asks for optim_target_modules, which no property sets; here the "
    "targets are the linear weights of attention and MLP, at rank 128 or their smaller dimension";
constexpr const char* kGaloreAdafactorLayerwiseNote =
    "optim galore_adafactor_layerwise: transformers raises an error (relative_step with a rate); "
    "here it is galore_adafactor inside the backward. Targets are the linear weights of attention "
    "and MLP, at rank 128 or their smaller dimension";

struct Kind {
  OptimizerFactory* make;
  const char* note = "";
};

// A new optimizer is a file and a row here, and what docs/extending.md lists beside them.
const std::map<std::string, Kind>& optimizers() {
  static const std::map<std::string, Kind> kOptimizers = {
      {"adafactor", {make_adafactor}},
      {"adagrad", {make_adagrad}},
      {"adalomo", {make_adalomo}},
      {"adamw_8bit", {make_adamw_8bit, kBnb8bitNote}},
      {"adamw_anyprecision",
       {make_adamw_float32,
        "optim adamw_anyprecision: transformers raises an error where torchdistx, last touched in "
        "2023, is missing; here its rule runs with float32 states, as transformers "
        "sets them"}},
      {"adamw_apex_fused",
       {make_adamw_float32,
        "optim adamw_apex_fused: apex has CUDA kernels only; here its rule runs with float32 "
        "states "
        "on every device"}},
      {"adamw_bnb_8bit", {make_adamw_8bit, kBnb8bitNote}},
      {"adamw_hf",
       {make_adamw_hf,
        "optim adamw_hf: transformers removed it in 4.50; here it is the rule that it had, in "
        "which "
        "epsilon is added before the bias correction"}},
      {"adamw_torch", {make_adamw}},
      {"adamw_torch_4bit", {make_adamw_4bit}},
      {"adamw_torch_fused", {make_adamw}},
      {"ademamix", {make_ademamix}},
      {"ademamix_8bit", {make_ademamix_8bit, kBnb8bitNote}},
      {"galore_adafactor", {make_galore_adafactor, kGaloreNote}},
      {"galore_adafactor_layerwise",
       {make_galore_adafactor_layerwise, kGaloreAdafactorLayerwiseNote}},
      {"galore_adamw", {make_galore_adamw, kGaloreNote}},
      {"galore_adamw_8bit", {make_galore_adamw_8bit, kGaloreNote}},
      {"galore_adamw_8bit_layerwise", {make_galore_adamw_8bit_layerwise, kGaloreNote}},
      {"galore_adamw_layerwise", {make_galore_adamw_layerwise, kGaloreNote}},
      {"grokadamw", {make_grokadamw}},
      {"lion_32bit", {make_lion}},
      {"lion_8bit", {make_lion_8bit, kBnb8bitNote}},
      {"lomo", {make_lomo}},
      {"paged_adamw_32bit", {make_paged_adamw_32bit, kPagedNote}},
      {"paged_adamw_8bit", {make_paged_adamw_8bit, kPagedNote}},
      {"paged_ademamix_32bit", {make_paged_ademamix_32bit, kPagedNote}},
      {"paged_ademamix_8bit", {make_paged_ademamix_8bit, kPagedNote}},
      {"paged_lion_32bit", {make_paged_lion_32bit, kPagedNote}},
      {"paged_lion_8bit", {make_paged_lion_8bit, kPagedNote}},
      {"rmsprop", {make_rmsprop}},
      {"rmsprop_bnb", {make_rmsprop_float32, kBnbRmspropNote}},
      {"rmsprop_bnb_32bit", {make_rmsprop_float32, kBnbRmspropNote}},
      {"rmsprop_bnb_8bit", {make_rmsprop_8bit, kRmsprop8bitNote}},
      {"schedule_free_adamw", {make_schedule_free_adamw, kScheduleFreeNote}},
      {"schedule_free_sgd", {make_schedule_free_sgd, kScheduleFreeNote}},
      {"sgd", {make_sgd}},
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

std::string optimizer_note(const std::string& name) {
  const auto found = optimizers().find(name);
  return found == optimizers().end() ? "" : found->second.note;
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          std::vector<ParameterGroup> groups,
                                          const OptimizerOptions& options) {
  const auto found = optimizers().find(name);
  if (found != optimizers().end()) return found->second.make(std::move(groups), options);

  throw unsupported_choice("optimizer", name, optimizer_names());
}

}  // namespace sftbench
