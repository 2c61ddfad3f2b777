#include "cli/generation_options.h"

#include "cli/number_checks.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace {

[[noreturn]] void refuse(const char* option, const char* message, const char* expected) {
  throw InputError({{{}, 0, option, message, expected, {}}});
}

}  // namespace

void add_generation_options(CLI::App& command, GenerationOptions& options) {
  command
      .add_option("--generate", options.texts,
                  "print how the model goes on with the prompts of the first N held-out entries, "
                  "before and after training")
      ->transform(whole_number(1, 1000))
      ->option_text("N");
  command.add_option("--max-new-tokens", options.max_new_tokens, "tokens of each such text")
      ->transform(whole_number(1))
      ->option_text("N=200");
}

void apply_generation_options(const GenerationOptions& options, TrainingJob& job) {
  EvaluationPlan& plan = job.evaluation;
  plan.generated = options.texts.value_or(plan.generated);
  plan.max_new_tokens = options.max_new_tokens.value_or(plan.max_new_tokens);
  if (options.max_new_tokens && plan.generated == 0)
    refuse("--max-new-tokens", "no text is written", "--generate N with it");
  if (plan.generated == 0) return;
  if (!plan.evaluates())
    refuse("--generate", "no entries are held out", "--eval-split X or --eval-data FILE with it");
  if (!job.lora.invocation_string.empty()) {
    refuse("--generate", "activated LoRA acts from its invocation on, which is not followed here",
           "a run without --generate; peft generates with a saved adapter");
  }
}

}  // namespace sftbench
