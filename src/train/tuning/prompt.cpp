#include "tuning/prompt.h"

#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "tuning/adapter_tensors.h"

namespace sftbench {
namespace {

constexpr const char* kName = "prompt_embeddings";

class PromptTuning : public Tuning {
 public:
  explicit PromptTuning(const TuningOptions& options)
      : options_(options.prompt), seed_(options.seed) {
    if (options_.virtual_tokens >= 1) return;
    throw RunError(ReasonCode::kUnsupported, "prompt tuning with " +
                                                 std::to_string(options_.virtual_tokens) +
                                                 " virtual tokens; it takes at least one");
  }

  std::vector<NamedParameter> apply(CausalLm& model) const override {
    const torch::Tensor start = options_.initial_ids.empty() ? random(model) : of_text(model);
    model.prompt() = start.to(adapter_options(model)).requires_grad_(true);
    return {{kName, &model.prompt()}};
  }

  Json peft_config(CausalLm& /*model*/) const override {
    return {{"peft_type", "PROMPT_TUNING"},
            {"task_type", "CAUSAL_LM"},
            {"inference_mode", true},
            {"num_virtual_tokens", options_.virtual_tokens},
            {"prompt_tuning_init", "RANDOM"}};  // of no effect on trained values
  }

  int64_t virtual_tokens() const override { return options_.virtual_tokens; }

 private:
  torch::Tensor random(CausalLm& model) const {
    return torch::randn({options_.virtual_tokens, model.config().hidden_size},
                        cpu_generator(seed_, kName), torch::kFloat32);
  }

  torch::Tensor of_text(CausalLm& model) const {
    const torch::Tensor& embedding = model.embedding();
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < options_.virtual_tokens; ++i) {
      const auto given = static_cast<int64_t>(options_.initial_ids.size());
      ids.push_back(options_.initial_ids[static_cast<size_t>(i % given)]);
    }
    return embedding.index_select(0, torch::tensor(ids, torch::kInt64).to(embedding.device()));
  }

  PromptOptions options_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<Tuning> make_prompt_tuning(const TuningOptions& options) {
  return std::make_unique<PromptTuning>(options);
}

}  // namespace sftbench
