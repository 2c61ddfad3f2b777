#include "cli/save_options.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/number_checks.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/checkpoint/saved_folder.h"
#include "sftbench/launch/interrupt.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kStrategies = {"no", "steps", "epoch"};

class Findings {
 public:
  void add(const char* option, std::string message, std::string expected,
           std::string nearest = {}) {
    list_.push_back({{}, 0, option, std::move(message), std::move(expected), std::move(nearest)});
  }
  void add(const InputError& error) {
    list_.insert(list_.end(), error.diagnostics().begin(), error.diagnostics().end());
  }
  void raise_if_any() const {
    if (!list_.empty()) throw InputError(list_);
  }

 private:
  std::vector<Diagnostic> list_;
};

std::string whole_path(const std::string& path) {
  if (path.empty()) return path;
  std::string whole = fs::absolute(path).lexically_normal().string();
  if (whole.size() > 1 && whole.back() == '/') whole.pop_back();
  return whole;
}

// The folder, or where it would be made.
bool can_be_made(fs::path folder) {
  while (!fs::exists(folder) && folder.has_relative_path()) folder = folder.parent_path();
  return fs::is_directory(folder) && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

// False when there is no such strategy.
bool set_strategy(const char* option, const std::string& name, IntervalStrategy& chosen,
                  Findings& findings) {
  if (name.empty()) return true;
  const std::optional<IntervalStrategy> strategy = find_named<IntervalStrategy>(name);
  if (strategy) {
    chosen = *strategy;
    return true;
  }
  findings.add(option, "unknown value '" + name + "'", join(kStrategies, ", "),
               nearest_spelling(name, kStrategies));
  return false;
}

// "True" of a configuration is fms-hf-tuning's spelling.
bool says(const std::string& given, const char* word) {
  return CLI::detail::to_lower(given) == word;
}

// An output folder has the checkpoints, after each epoch where nothing else is said.
void set_output_directory(const SaveOptions& options, SavePlan& plan, Findings& findings) {
  if (!options.output_directory.empty()) {
    plan.output_directory = whole_path(options.output_directory);
    if (options.strategy.empty()) plan.strategy = IntervalStrategy::kEpoch;
    if (!options.checkpoint_directory.empty()) {
      findings.add("--checkpoint-dir", "--output-dir says where checkpoints go", "one of them");
    }
    plan.checkpoint_directory = plan.output_directory;
  }
  if (plan.output_directory.empty()) return;
  const bool saves = plan.strategy != IntervalStrategy::kNo;
  if (!saves && plan.checkpoint_directory == plan.output_directory) plan.checkpoint_directory = {};
  if (saves && plan.checkpoint_directory.empty()) plan.checkpoint_directory = plan.output_directory;
}

void set_logging(const SaveOptions& options, SavePlan& plan, Findings& findings) {
  const bool known =
      set_strategy("--logging-strategy", options.log_strategy, plan.log_strategy, findings);
  if (options.log_steps) plan.log_steps_ratio = 0;
  plan.log_steps = options.log_steps.value_or(plan.log_steps);
  plan.log_steps_ratio = options.log_steps_ratio.value_or(plan.log_steps_ratio);
  const char* option = !options.log_strategy.empty() ? "--logging-strategy"
                       : options.log_steps           ? "--logging-steps"
                                                     : nullptr;
  if (option != nullptr && plan.output_directory.empty()) {
    findings.add(option, "no effect without training_logs.jsonl", "--output-dir DIR with it");
  } else if (known && options.log_steps && plan.log_strategy != IntervalStrategy::kSteps) {
    findings.add("--logging-steps",
                 std::string("no effect with --logging-strategy ") + name_of(plan.log_strategy),
                 "--logging-strategy steps with it");
  }
}

// The checkpoints of an output folder are what a run goes on from, unless it says otherwise.
void set_resumption(const SaveOptions& options, SavePlan& plan, Findings& findings) {
  const bool anew = says(options.resume_from, "false"), asked = says(options.resume_from, "true");
  if (anew) plan.resume_from = {};
  if (!options.resume_from.empty()) plan.from_nothing = anew;
  if (asked && plan.output_directory.empty()) {
    findings.add("--resume-from-checkpoint", "no folder is given whose checkpoints that means",
                 "--output-dir DIR with it, or the folder itself");
  }
  if (!options.resume_from.empty() && !anew && !asked) {
    plan.resume_from = whole_path(options.resume_from);
  }
  if (plan.output_directory.empty() || plan.from_nothing || !plan.resume_from.empty()) return;
  const std::vector<FoundCheckpoint> found = list_checkpoints(plan.output_directory);
  if (found.empty()) return;
  plan.resume_from = found.back().path.string();
  spdlog::info(
      "{} holds checkpoints: this run goes on from {} (--resume-from-checkpoint false trains from "
      "nothing)",
      plan.output_directory, found.back().path.filename().string());
}

void tell_what_is_moved(const SavePlan& plan) {
  const std::string& folder = plan.checkpoint_directory;
  if (!plan.from_nothing || folder.empty() || list_checkpoints(folder).empty()) return;
  spdlog::info("the checkpoints in {} are moved to {} before this run saves its first", folder,
               earlier_path(folder).string());
}

void check_strategy(const SavePlan& plan, Findings& findings) {
  const bool saves = plan.strategy != IntervalStrategy::kNo;
  if (saves && plan.checkpoint_directory.empty()) {
    findings.add("--save-strategy",
                 std::string(name_of(plan.strategy)) + " saves checkpoints, and no folder is given",
                 "--output-dir DIR or --checkpoint-dir DIR with it");
  }
  if (!saves && !plan.checkpoint_directory.empty()) {
    findings.add("--checkpoint-dir", "nothing is saved there",
                 "--save-strategy steps or epoch with it");
  }
}

void check_effect(const SaveOptions& options, const SavePlan& plan, Findings& findings) {
  if (options.steps && plan.strategy != IntervalStrategy::kSteps) {
    findings.add("--save-steps",
                 std::string("no effect with --save-strategy ") + name_of(plan.strategy),
                 "--save-strategy steps with it");
  }
  if (options.total_limit && plan.strategy == IntervalStrategy::kNo) {
    findings.add("--save-total-limit", "no effect without checkpoints",
                 "--save-strategy steps or epoch with it");
  }
}

// The best model is read from its checkpoint.
void check_best_model(const TrainingJob& job, Findings& findings) {
  const SavePlan& plan = job.save;
  if (!plan.best_model) return;
  const auto refuse = [&findings](std::string message, std::string expected) {
    findings.add("--load-best-model-at-end", std::move(message), std::move(expected));
  };
  if (!job.evaluation.evaluates()) {
    return refuse("nothing is evaluated", "--eval-data FILE or --eval-split X with it");
  }
  if (plan.model_directory.empty()) {
    return refuse("no model is kept", "--save-model-dir DIR with it");
  }
  const bool together = plan.strategy == job.evaluation.strategy &&
                        (plan.strategy != IntervalStrategy::kSteps ||
                         (plan.steps_ratio == job.evaluation.steps_ratio &&
                          (plan.steps_ratio > 0 || plan.steps == job.evaluation.steps)));
  if (together) return;
  refuse(std::string("the model of an evaluation is kept only with a checkpoint, and "
                     "--eval-strategy is ") +
             name_of(job.evaluation.strategy) + ", --save-strategy " + name_of(plan.strategy),
         "the same strategy, and as many steps, for both");
}

// The model's files go beside what this very run writes there, and nothing else.
bool is_shared(const fs::path& model, const SavePlan& plan, const std::string& results) {
  return path_below(plan.checkpoint_directory, model) || path_below(plan.output_directory, model) ||
         path_below(results, model);
}

// The first file in the way of a model's own; empty: none.
fs::path in_the_way(const fs::path& model) {
  for (const auto& entry : fs::directory_iterator(model)) {
    if (is_saved_file_name(entry.path().filename().string())) return entry.path();
  }
  return {};
}

// A run that goes on has saved it after the steps that were done then.
bool is_own_earlier_model(const fs::path& model, const SavePlan& plan) {
  if (plan.resume_from.empty()) return false;
  try {
    return holds_model_of(model, read_checkpoint_manifest(find_checkpoint(plan.resume_from)).job);
  } catch (const InputError&) {
    return false;  // said where it is resumed
  }
}

void check_model_folder(const SavePlan& plan, const std::string& results, Findings& findings) {
  const fs::path model = plan.model_directory;
  if (model.empty()) return;
  if (!fs::exists(model)) {
    if (can_be_made(model.parent_path())) return;
    return findings.add("--save-model-dir", "cannot write " + model.string(),
                        "a folder whose parent may be written to");
  }
  const bool shared = is_shared(model, plan, results), own = is_own_earlier_model(model, plan);
  if (!fs::is_directory(model) || (!shared && !own && !ModelFolder::may_go_into(model))) {
    return findings.add("--save-model-dir", model.string() + " is there already",
                        "a new folder, an empty one, or that of this run's checkpoints or results: "
                        "nothing is overwritten");
  }
  if (::access(model.c_str(), W_OK | X_OK) != 0) {
    return findings.add("--save-model-dir", "cannot write " + model.string(),
                        "a folder that may be written to");
  }
  const fs::path there = in_the_way(model);
  if (there.empty()) return;
  if (own) {
    return spdlog::info("the model in {}, which this training saved before, is replaced at its end",
                        model.string());
  }
  findings.add("--save-model-dir", there.string() + " is there already",
               "a folder without a model in it, or that one moved away: nothing is overwritten");
}

// What lies in a checkpoint would go with it, or keep the run from saving there.
void check_outside_of_checkpoints(const SavePlan& plan, const std::string& results,
                                  Findings& findings) {
  const std::pair<const char*, std::string> folders[] = {{"--save-model-dir", plan.model_directory},
                                                         {"--output", results}};
  for (const auto& [option, folder] : folders) {
    const auto around = checkpoint_around(folder, plan.checkpoint_directory);
    if (!around) continue;
    findings.add(
        option, folder + " lies in " + around->string() + ", where a checkpoint goes",
        "a folder that is not, and is not in, a folder checkpoint-STEP of --checkpoint-dir");
  }
}

void check_checkpoint_folder(const SavePlan& plan, Findings& findings) {
  const bool own =
      plan.checkpoint_directory.empty() || plan.checkpoint_directory == plan.output_directory;
  const char* option = own ? "--output-dir" : "--checkpoint-dir";
  const fs::path folder = own ? plan.output_directory : plan.checkpoint_directory;
  if (folder.empty()) return;
  if (!can_be_made(folder)) {
    return findings.add(option, "cannot write " + folder.string(),
                        "a folder that may be written to");
  }
  if (fs::exists(folder / kTrainerStateFile)) {
    return findings.add(option, folder.string() + " is a checkpoint itself",
                        "the folder that holds it, or another");
  }
  if (plan.checkpoint_directory.empty() || plan.from_nothing || !plan.resume_from.empty()) return;
  const std::vector<FoundCheckpoint> found = list_checkpoints(folder);
  if (found.empty()) return;
  findings.add(
      option,
      folder.string() + " holds checkpoints of another run, the newest of step " +
          std::to_string(found.back().step),
      "--resume-from-checkpoint " + folder.string() + " to go on from there, or another folder");
}

void check_sense(const TrainingJob& job, Findings& findings) {
  if (job.backend == kBackendSimulate) {
    findings.add("--backend", "simulate trains nothing that could be saved or resumed",
                 "--backend libtorch with --save-model-dir, --checkpoint-dir and "
                 "--resume-from-checkpoint");
  }
  if (job.runs > 1) {
    findings.add("--experiment",
                 job.experiment + " is " + std::to_string(job.runs) +
                     " runs of the same training, of which none is saved or resumed",
                 "another experiment with --save-model-dir, --checkpoint-dir and "
                 "--resume-from-checkpoint");
  }
}

bool saves_or_resumes(const SavePlan& plan) {
  return plan.strategy != IntervalStrategy::kNo || !plan.model_directory.empty() ||
         !plan.checkpoint_directory.empty() || !plan.resume_from.empty() ||
         !plan.output_directory.empty();
}

void add_output_options(CLI::App& command, SaveOptions& options) {
  command
      .add_option("--output-dir", options.output_directory,
                  "as fms-hf-tuning's: gets training_logs.jsonl and, after each epoch unless "
                  "--save-strategy says otherwise, checkpoints; a run goes on from those that are "
                  "there")
      ->type_name("DIR");
  command
      .add_option("--logging-strategy", options.log_strategy,
                  "when --output-dir's training_logs.jsonl gets the mean of the losses since the "
                  "line before (default: epoch)")
      ->type_name("no|steps|epoch");
  command.add_option("--logging-steps", options.log_steps, "steps from one line to the next")
      ->transform(whole_number(1))
      ->option_text("N=500");
}

}  // namespace

void add_save_options(CLI::App& command, SaveOptions& options) {
  add_output_options(command, options);
  command
      .add_option("--save-model-dir", options.model_directory,
                  "keep what was trained: a model that transformers loads, or peft's adapter")
      ->type_name("DIR");
  command
      .add_option("--checkpoint-dir", options.checkpoint_directory,
                  "where training checkpoints go, each in a folder checkpoint-STEP")
      ->type_name("DIR");
  command
      .add_option(
          "--save-strategy", options.strategy,
          "when checkpoints are saved: never, after every --save-steps steps, or after each "
          "epoch; and, unless never, at the end")
      ->type_name("no|steps|epoch");
  command.add_option("--save-steps", options.steps, "steps from one checkpoint to the next")
      ->transform(whole_number(1))
      ->option_text("N=500");
  command
      .add_option("--save-total-limit", options.total_limit,
                  "checkpoints that are kept: the newest ones")
      ->transform(whole_number(1))
      ->option_text("N");
  command
      .add_option(
          "--resume-from-checkpoint", options.resume_from,
          "go on from a checkpoint, or from the newest in a folder of them, with any number "
          "of ranks; false: train from nothing, and move checkpoints that are there aside")
      ->type_name("DIR|true|false");
  command.add_flag("--load-best-model-at-end", options.best_model,
                   "the model that is kept is that of the least evaluation loss; evaluations and "
                   "checkpoints come together then");
}

SaveOptions with_file(SaveOptions save, const ArgumentFile& file) {
  const auto fill = [](auto& option, const auto& given) {
    if (option == std::decay_t<decltype(option)>()) option = given;
  };
  fill(save.model_directory, file.model_directory);
  fill(save.resume_from, file.resume_from);
  save.best_model = save.best_model || file.best_model;
  if (save.checkpoint_directory.empty()) fill(save.output_directory, file.output_directory);
  if (!save.output_directory.empty()) {
    fill(save.log_strategy, file.log_strategy);
    if (save.log_strategy == "steps" && !save.log_steps) {
      save.log_steps = file.log_steps;
      save.log_steps_ratio = file.log_steps_ratio;
    }
  }
  if (save.output_directory.empty() && save.checkpoint_directory.empty()) return save;
  fill(save.strategy, file.save_strategy);
  if (saves_files(file)) fill(save.strategy, std::string("epoch"));
  if (save.strategy == "no") return save;
  if (save.strategy == "steps" && !save.steps) {
    save.steps = file.save_steps;
    save.steps_ratio = file.save_steps_ratio;
  }
  fill(save.total_limit, file.save_total_limit);
  return save;
}

void apply_save_options(const SaveOptions& options, const std::string& results, TrainingJob& job) {
  SavePlan& plan = job.save;
  if (!options.model_directory.empty()) plan.model_directory = whole_path(options.model_directory);
  if (!options.checkpoint_directory.empty()) {
    plan.checkpoint_directory = whole_path(options.checkpoint_directory);
  }
  if (options.steps) plan.steps_ratio = 0;
  plan.steps = options.steps.value_or(plan.steps);
  plan.steps_ratio = options.steps_ratio.value_or(plan.steps_ratio);
  plan.total_limit = options.total_limit.value_or(plan.total_limit);

  Findings findings;
  const bool known = set_strategy("--save-strategy", options.strategy, plan.strategy, findings);
  set_output_directory(options, plan, findings);
  if (known) {
    check_strategy(plan, findings);
    check_effect(options, plan, findings);
  }
  set_logging(options, plan, findings);
  plan.best_model = plan.best_model || options.best_model;
  check_best_model(job, findings);
  set_resumption(options, plan, findings);
  if (saves_or_resumes(plan)) check_sense(job, findings);
  check_model_folder(plan, whole_path(results), findings);
  check_outside_of_checkpoints(plan, whole_path(results), findings);
  check_checkpoint_folder(plan, findings);
  try {
    if (!plan.resume_from.empty()) plan.resume_from = find_checkpoint(plan.resume_from).string();
  } catch (const InputError& error) {
    findings.add(error);
  }
  findings.raise_if_any();
  if (!plan.model_directory.empty() && job.parallel.state_dict_type != StateDictType::kFull &&
      job.device.ranks > 1) {
    spdlog::warn(
        "--save-model-dir: fsdp_state_dict_type {} leaves a file for each rank, which transformers "
        "and peft do not load; FULL_STATE_DICT leaves a whole model",
        name_of(job.parallel.state_dict_type));
  }
  tell_what_is_moved(plan);
}

std::string interrupted_text(const SavePlan& plan) {
  const std::vector<FoundCheckpoint> checkpoints =
      plan.checkpoint_directory.empty() ? std::vector<FoundCheckpoint>()
                                        : list_checkpoints(plan.checkpoint_directory);
  if (!checkpoints.empty()) {
    return "interrupted; no result was kept. " + checkpoints.back().path.string() +
           " stays, and --resume-from-checkpoint " + shell_quoted(plan.checkpoint_directory) +
           " goes on from there";
  }
  std::error_code error;
  const fs::path log = fs::path(plan.output_directory) / kTrainingLogsFile;
  if (plan.output_directory.empty() || !fs::exists(log, error)) return kNothingKept;
  return "interrupted; no result was kept. " + log.string() + " stays";
}

}  // namespace sftbench
