#include "engine/choose_tuning.h"

#include <vector>

#include "engine/encode_entries.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// Virtual tokens start from the embeddings of a text or, with no ids, at random.
std::vector<int32_t> initial_prompt(const PromptPlan& plan, const Tokenizer& tokenizer) {
  if (plan.init == "RANDOM") return {};
  if (plan.init != "TEXT") throw unsupported_choice("prompt.init", plan.init, {"RANDOM", "TEXT"});
  std::vector<int32_t> ids = tokenizer.encode(plan.init_text);
  if (!ids.empty()) return ids;
  throw RunError(ReasonCode::kUnsupported,
                 "prompt.init_text has no tokens; give a text, or \"init\": \"RANDOM\"");
}

// Virtual tokens stand in front of rows; of a row of several entries only the first would see them.
void require_prompt_per_row(const PaddingRow& padding) {
  if (!padding.one_row) return;
  throw RunError(ReasonCode::kUnsupported,
                 std::string("prompt tuning with padding ") + padding.name +
                     ": its virtual tokens stand in front of each row, so a row has to be one "
                     "entry; longest or max_length works");
}

LoraOptions lora_options(const TrainingJob& job, const Tokenizer& tokenizer) {
  const LoraPlan& plan = job.lora;
  return {.rank = plan.rank,
          .alpha = plan.alpha,
          .dropout = plan.dropout,
          .target_modules = plan.target_modules,
          .invocation = invocation_of(job, tokenizer),
          .rank_stabilized = plan.use_rslora,
          .magnitudes = plan.use_dora,
          .modules_to_save = plan.modules_to_save,
          .rank_pattern = plan.rank_pattern,
          .alpha_pattern = plan.alpha_pattern};
}

}  // namespace

void require_invocation_fits(const TrainingJob& job) {
  if (job.lora.invocation_string.empty()) return;
  const auto refuse = [](const std::string& what) {
    throw RunError(ReasonCode::kUnsupported, "lora.invocation_string: " + what);
  };
  if (row_of(job.tuning).quantized_weights) {
    refuse("peft has no activated LoRA over quantized weights; tuning lora works");
  }
  if (!job.data.image_field.empty()) {
    refuse("activated LoRA is trained on texts; tuning lora without it trains on images");
  }
}

std::unique_ptr<Tuning> choose_tuning(const TrainingJob& job, const Tokenizer& tokenizer) {
  TuningOptions options;
  options.seed = job.seed;
  options.lora = lora_options(job, tokenizer);
  options.prompt.virtual_tokens = job.prompt.virtual_tokens;
  if (job.tuning == TuningMethod::kPrompt) {
    require_prompt_per_row(row_of(job.data.padding));
    options.prompt.initial_ids = initial_prompt(job.prompt, tokenizer);
  }
  return make_tuning(job.tuning, options);
}

}  // namespace sftbench
