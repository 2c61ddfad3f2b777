#include "cli/sweep_cell_command.h"

#include <vector>

#include "sftbench/base/command_text.h"
#include "sftbench/results/table.h"

namespace sftbench {

std::string sweep_cell_command(const SweepArguments& arguments, const Cell& cell) {
  const Selection& selection = arguments.selection;
  std::vector<std::string> words = {"sftbench", "run"};
  if (!selection.space_path.empty()) words.push_back(selection.space_path);
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  for (const std::string& assignment : selection.assignments) add("--set", assignment);
  for (const auto& [option, text] : selection.arguments) {
    words.emplace_back(option->option);
    if (option->type != nullptr) words.push_back(text);
  }
  add("--model", selection.model);
  for (const std::string& path : selection.arguments_paths) add("--arguments", path);
  add("--deepspeed", selection.deepspeed_path);
  const bool by_experiment_alone = selection.space_path.empty();
  add("--experiment", by_experiment_alone ? selection.experiment : cell.request.experiment_id);
  add("--entity", cell.request.entity_id);
  add("--config", selection.config_path);
  add("--ado-ids", selection.ado_ids);
  add("--weights", selection.weights);
  add("--padding", selection.padding);
  if (selection.stop_when_known > 0)
    add("--stop-at-precision", cell_text(selection.stop_when_known));
  if (selection.worst_batch_first) words.emplace_back("--largest-batch-first");
  if (selection.ranks != 1) add("--ranks", std::to_string(selection.ranks));
  if (selection.threads != 0) add("--threads", std::to_string(selection.threads));
  add("--backend", arguments.backend.backend);
  for (const std::string& assignment : arguments.backend.simulate) add("--simulate", assignment);
  return kept_command(words);
}

}  // namespace sftbench
