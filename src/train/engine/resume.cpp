#include "engine/resume.h"

#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "engine/job_identity.h"
#include "engine/restore_state.h"
#include "engine/schedule_of.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/checkpoint/saved_folder.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostRanks = 1'000'000;

double finite(const Json& json, const char* key, const fs::path& path) {
  const double value = json.at(key).get<double>();
  if (std::isfinite(value)) return value;
  throw InputError({finding(path, key, "is not finite", "a number")});
}

struct TrainerState {
  TrainingProgress progress;
  int64_t total_steps = 0;  // of the run that saved it, had it gone on
  int64_t forward_passes = 0;
  Json loss_scaling, optimizer, job;
  SavedLayout layout;
  std::optional<std::string> best_data;  // that progress.best is of; checkpoints of before lack it
};

// A checksum proves that nothing was damaged, not that nobody has written what no run can save.
TrainerState read_trainer_state(const fs::path& folder) {
  const fs::path path = folder / kTrainerStateFile;
  const Json json = read_json_file(path.string());
  const int64_t step = read_checkpoint_manifest(folder).step;
  const auto whole = [&](const char* key, int64_t least, int64_t most) {
    return whole_number_at(json, key, least, most, path.string());
  };
  TrainerState state;
  try {
    state.progress.steps = whole("global_step", step, step);
    state.progress.updates = whole("updates", 0, step);
    state.progress.epoch = finite(json, "epoch", path);
    if (json.contains("best_global_step")) {
      state.progress.best = {whole("best_global_step", 0, step), finite(json, "best_metric", path)};
      if (json.contains("best_evaluation_data"))
        state.best_data = json.at("best_evaluation_data").get<std::string>();
    }
    state.total_steps = whole("total_steps", step, kMostStepsOfFile);
    state.forward_passes = whole("forward_passes", 0, kMostStepsOfFile);
    json.at("format").get_to(state.layout.format);
    json.at("strategy").get_to(state.layout.strategy);
    state.layout.ranks = static_cast<int>(whole("ranks", 1, kMostRanks));
    state.loss_scaling = json.at("loss_scaling");
    state.optimizer = json.at("optimizer");
    state.job = json.at("job");
  } catch (const Json::exception& error) {
    throw InputError({{path.string(),
                       0,
                       {},
                       "not the state of a run: " + json_problem(error),
                       "what this program has written there",
                       {}}});
  }
  return state;
}

// Collective. No rank reads what another one has found to be damaged.
void verify(const fs::path& folder, RankGroup& group) {
  verify_files(folder, read_checkpoint_manifest(folder), static_cast<size_t>(group.rank()),
               static_cast<size_t>(group.world_size()));
  group.all_gather({});
}

// "; before it stands /out/checkpoint-2", or nothing.
std::string checkpoint_before(const fs::path& folder) {
  std::string before;
  for (const FoundCheckpoint& found : list_checkpoints(folder.parent_path())) {
    if (found.path == folder) break;
    before = "; before it stands " + found.path.string();
  }
  return before;
}

[[noreturn]] void cannot_resume(const fs::path& folder, const std::exception& error) {
  throw RunError(ReasonCode::kWeights, "cannot resume from " + folder.string() + ": " +
                                           error.what() + checkpoint_before(folder));
}

// Nobody may have asked for what an output folder makes a run do.
std::string way_out(const SavePlan& plan) {
  if (plan.output_directory.empty()) return {};
  return "; another --output-dir, or --resume-from-checkpoint false, trains from nothing";
}

// Collective: one rank reads the files of the job, and the others learn what it has found.
void require_same_job(const TrainerState& saved, const TrainingJob& job, RankGroup& group) {
  std::string found;
  if (group.rank() == 0) found = join(differences(saved.job, identity_of(job)), "; ");
  found = group.all_gather(found).front();
  if (found.empty()) return;
  throw RunError(ReasonCode::kUnsupported, "cannot resume from " + job.save.resume_from +
                                               ", the checkpoint of another job: " + found +
                                               way_out(job.save));
}

// Collective. Losses of different data do not compare: the best of before counts no more.
void forget_other_best(TrainerState& saved, const TrainingJob& job, RankGroup& group,
                       std::vector<std::string>& notes) {
  if (!saved.best_data || !job.evaluation.evaluates()) return;
  std::string now;
  if (group.rank() == 0) now = evaluated_data(job);
  if (group.all_gather(now).front() == *saved.best_data) return;
  notes.push_back("the least evaluation loss so far, of step " +
                  std::to_string(saved.progress.best.step) +
                  ", is one of other evaluation data: the comparison starts anew from step " +
                  std::to_string(saved.progress.steps));
  saved.progress.best = {};
}

void require_steps_left(const TrainerState& saved, int64_t total_steps, const SavePlan& plan) {
  if (saved.progress.steps < total_steps) return;
  throw RunError(ReasonCode::kUnsupported,
                 "nothing is left to train: " + plan.resume_from + " has done " +
                     counted(saved.progress.steps, "step") + ", and this run has " +
                     std::to_string(total_steps) +
                     "; a larger max_steps or num_train_epochs goes on from there" + way_out(plan));
}

// As under Hugging Face's Trainer, rates are those of this run's length from here on. Trainer does
// not say so.
std::vector<std::string> notes_on_rates(const TrainerState& saved, const OptimizerPlan& plan,
                                        int64_t total_steps) {
  if (!rates_differ(plan, total_steps, saved.total_steps)) return {};
  return {"the learning rate followed " + plan.schedule + " over " +
          counted(saved.total_steps, "step") + " up to step " +
          std::to_string(saved.progress.steps) + ", and follows it over " +
          counted(total_steps, "step") + " from there: not as in one run of " +
          counted(total_steps, "step")};
}

}  // namespace

Resumed resume(const TrainingJob& job, int64_t total_steps, TrainedState& state) {
  const fs::path folder = job.save.resume_from;
  try {
    verify(folder, state.group);
    TrainerState saved = read_trainer_state(folder);
    require_same_job(saved, job, state.group);
    require_steps_left(saved, total_steps, job.save);

    restore_parameters(folder, saved.layout, state);
    Resumed resumed{
        saved.progress,
        restore_optimizer(folder, saved.layout, {saved.optimizer, saved.forward_passes}, state)};
    for (std::string& note : notes_on_rates(saved, job.optimizer, total_steps)) {
      resumed.notes.push_back(std::move(note));
    }
    forget_other_best(saved, job, state.group, resumed.notes);
    resumed.progress.best = saved.progress.best;
    restore_loss_scaling(folder, {saved.loss_scaling, saved.forward_passes}, state);
    state.model.resume_at_pass(saved.forward_passes);
    return resumed;
  } catch (const InputError& error) {
    cannot_resume(folder, error);
  } catch (const fs::filesystem_error& error) {
    cannot_resume(folder, error);
  }
}

}  // namespace sftbench
