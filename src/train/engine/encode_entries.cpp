#include "engine/encode_entries.h"

#include <optional>
#include <set>

#include "sftbench/base/error.h"
#include "sftbench/data/invocation.h"
#include "sftbench/data/text_dataset.h"
#include "sftbench/plan/job_steps.h"

namespace sftbench {

StepPlan plan_steps(const TrainingJob& job, int64_t units) {
  return StepPlan(step_plan_options(job, units));
}

std::vector<int64_t> units_to_encode(const TrainingJob& job, StepPlan& plan, int64_t rank) {
  if (!job.data.worst_batch_first) return plan.entries_used(rank, plan.total_steps());
  std::set<int64_t> units;
  for (int64_t any = 0; any < data_ranks(job); ++any) {
    for (const int64_t unit : plan.entries_used(any, plan.total_steps())) units.insert(unit);
  }
  return {units.begin(), units.end()};
}

int64_t pad_id_of(const Tokenizer& tokenizer) {
  const std::optional<int32_t> id = tokenizer.token_id(tokenizer.special_tokens().pad);
  check(id.has_value(), "a completed tokenizer has a pad token");
  return *id;
}

std::vector<int32_t> invocation_of(const TrainingJob& job, const Tokenizer& tokenizer) {
  const bool activated = row_of(job.tuning).adds_adapters && !job.lora.invocation_string.empty();
  return activated ? invocation_ids(tokenizer, job.lora.invocation_string) : std::vector<int32_t>();
}

std::string counted_text(const DataSource& data) {
  return counted_text(TextDatasetOptions{.conversation_field = data.conversation_field,
                                         .chat_template = {data.chat_template, {}},
                                         .entry_template = data.entry_template,
                                         .input_field = data.input_field,
                                         .output_field = data.output_field,
                                         .text_field = data.text_field});
}

}  // namespace sftbench
