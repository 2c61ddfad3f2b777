// Tuning methods: which tensors of a model train, and what is added to the model for them. A method
// is one file in src/train/tuning/ and one row in variants/tuning_method.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/model/causal_lm.h"
#include "sftbench/variants/tuning_method.h"

namespace sftbench {

// LoRA as peft's LoraConfig with bias "none": W x + alpha / rank * B A drop(x).
struct LoraOptions {
  int64_t rank = 4;
  double alpha = 16;
  double dropout = 0.05;
  // Which linears: each entry is a linear's whole name or the end of it behind a dot ("q_proj",
  // "mlp.up_proj"); the one entry "all-linear" is every linear of the layers.
  std::vector<std::string> target_modules;
  // Activated LoRA: tokens from whose last occurrence on adapters act. Empty: they act everywhere.
  std::vector<int32_t> invocation = {};
  bool rank_stabilized =
      false;                // scaled by alpha / sqrt(rank) (peft's use_rslora, arXiv 2312.03732)
  bool magnitudes = false;  // DoRA (peft's use_dora, arXiv 2402.09353)
  // Modules that train whole beside the adapters, and have none (families/lora_fit.h:
  // is_saved_whole()). As in peft a tied output projection is then a copy of its own, where it or
  // the embedding is among them.
  std::vector<std::string> modules_to_save = {};
  // Of single linears (checkpoint/module_pattern.h: NumberPatterns).
  Json rank_pattern = Json::object(), alpha_pattern = Json::object();
};

// Prompt tuning as peft's PromptTuningConfig.
struct PromptOptions {
  int64_t virtual_tokens = 8;
  // Whose embeddings the virtual tokens start from, repeated or cut to their number; empty: from
  // numbers of the standard normal distribution.
  std::vector<int32_t> initial_ids;
};

struct TuningOptions {
  LoraOptions lora;
  PromptOptions prompt;
  uint64_t seed = 42;
};

class Tuning {
 public:
  virtual ~Tuning() = default;

  // Prepares the model for training, once, and returns what trains: requires_grad is set on exactly
  // those. What is added belongs to the model. RunError(kUnsupported) when the options do not fit
  // it. What starts from weights does so when LinearGroup::begin_adapter() says that they are
  // there.
  virtual std::vector<NamedParameter> apply(CausalLm& model) const = 0;

  // What adapter_config.json says of it (adapter_files.h), of a model that it was applied to; null
  // for a method without adapters.
  virtual Json peft_config(CausalLm& model) const = 0;

  // Positions that stand in front of every row and are computed like any other.
  virtual int64_t virtual_tokens() const { return 0; }

  // Whether apply() reads the embedding's values.
  virtual bool begins_at_embedding(CausalLm& /*model*/) const { return virtual_tokens() > 0; }
};

std::unique_ptr<Tuning> make_tuning(TuningMethod method, const TuningOptions& options = {});

}  // namespace sftbench
