#include "engine/checkpoints.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include "engine/interval.h"
#include "engine/job_identity.h"
#include "engine/restore_state.h"
#include "engine/save_state.h"
#include "engine/saved_card.h"
#include "engine/saved_files.h"
#include "engine/saved_size.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/checkpoint/model_card.h"
#include "sftbench/checkpoint/saved_folder.h"
#include "sftbench/checkpoint/stored_state.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

class NoCheckpoints : public Checkpoints {
 public:
  double after_step(const TrainingProgress&, bool) override { return 0; }
  const std::vector<SavedFolder>& saved() const override { return saved_; }
  const std::vector<UnsavedFolder>& unsaved() const override { return unsaved_; }

 private:
  std::vector<SavedFolder> saved_;
  std::vector<UnsavedFolder> unsaved_;
};

class NumberSaver : public OptimizerStateVisitor {
 public:
  void parameter(const std::string&) override {}
  void number(const char* name, int64_t& value) override { numbers[name] = value; }
  void number(const char* name, double& value) override { numbers[name] = value; }
  void values(const char*, const torch::Tensor&) override {}
  void quantized(const char*, const ops::QuantizedTensor&) override {}
  void shaped(const char*, const torch::Tensor&) override {}

  Json numbers = Json::object();
};

bool saves_checkpoints(const TrainingJob& job) {
  return job.save.strategy != IntervalStrategy::kNo;
}

[[noreturn]] void cannot_save(const fs::path& target, const std::exception& error) {
  throw RunError(ReasonCode::kWeights, "cannot save " + target.string() + ": " + error.what());
}

// Collective: a file that rank 0 writes is one that every rank reads.
void require_shared(const fs::path& folder, RankGroup& group) {
  const fs::path token =
      folder /
      (".seen-by-all-ranks-" + group.all_gather(std::to_string(group.ranks().front().pid)).front());
  if (group.rank() == 0) write_file_atomic(token, group.place().session);
  group.all_gather({});
  std::error_code error;
  const std::vector<std::string> seen = group.all_gather(fs::exists(token, error) ? "yes" : "no");
  if (group.rank() == 0) fs::remove(token, error);
  for (size_t rank = 0; rank < seen.size(); ++rank) {
    if (seen[rank] == "yes") continue;
    throw RunError(ReasonCode::kUnsupported,
                   "rank " + std::to_string(rank) + " on " + group.ranks()[rank].host +
                       " does not see what rank 0 writes to " + folder.string() +
                       "; all ranks save there, so it has to be on a file system that all nodes "
                       "share");
  }
}

int64_t bytes_of(const fs::path& folder) {
  uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) bytes += entry.file_size();
  return static_cast<int64_t>(bytes);
}

void append_rows(Json& all, const Json& rows) {
  for (const Json& row : rows) all.push_back(row);
}

class Saver : public Checkpoints {
 public:
  Saver(const TrainingJob& job, int64_t total_steps, const TrainedState& state)
      : job_(job),
        total_steps_(total_steps),
        interval_(interval_steps(job.save.steps, job.save.steps_ratio, total_steps)),
        state_(state),
        format_(saved_format(job, state.parameters)) {
    if (state_.leads()) {
      identity_ = identity_of(job_);
      evaluated_data_ = evaluated_data(job_);
    }
    require_room();
    open_folders();
  }

  double after_step(const TrainingProgress& progress, bool last) override {
    double seconds = 0;
    if (saves_checkpoints(job_) &&
        (last || ends_interval(job_.save.strategy, interval_, progress))) {
      seconds += save_checkpoint(progress);
    }
    if (last && !job_.save.model_directory.empty()) seconds += save_model_folder(progress);
    return seconds;
  }

  const std::vector<SavedFolder>& saved() const override { return saved_; }
  const std::vector<UnsavedFolder>& unsaved() const override { return unsaved_; }

 private:
  // Collective: said before the first step, and not after the last.
  void require_room() {
    const SavedSize size = saved_size(state_, job_.model.weights_directory);
    std::string problem;
    if (state_.leads()) problem = lack_of_room(job_, size, total_steps_).value_or("");
    problem = told_by_rank0(problem).string();
    if (!problem.empty()) throw RunError(ReasonCode::kWeights, problem);
  }

  // Checkpoints first: a model may go into the same folder.
  void open_folders() {
    const fs::path checkpoints = job_.save.checkpoint_directory, model = job_.save.model_directory;
    const auto open = [this](const fs::path& folder, auto& opened, const auto&... more) {
      if (folder.empty() || !state_.leads()) return;
      try {
        opened.emplace(folder, more...);
      } catch (const InputError& error) {
        cannot_save(folder, error);
      } catch (const fs::filesystem_error& error) {
        cannot_save(folder, error);
      }
    };
    open(checkpoints, checkpoints_);
    if (checkpoints_ && job_.save.from_nothing) set_aside();
    open(model, model_, job_of_checkpoint());
    if (state_.group.world_size() == 1) return;
    if (!checkpoints.empty()) require_shared(checkpoints, state_.group);
    if (!model.empty()) require_shared(told_by_rank0(pending_model()), state_.group);
  }

  // Of the one that the run goes on from. Empty: none.
  std::string job_of_checkpoint() const {
    const std::string& folder = job_.save.resume_from;
    return folder.empty() || !state_.leads() ? "" : read_checkpoint_manifest(folder).job;
  }

  // Rank 0's. What an earlier training has left stays, and is in nobody's way.
  void set_aside() {
    try {
      checkpoints_->set_aside();
    } catch (const InputError& error) {
      cannot_save(job_.save.checkpoint_directory, error);
    }
  }

  // Rank 0's.
  fs::path pending_model() { return model_ ? model_->pending().path() : fs::path(); }

  // Collective.
  fs::path told_by_rank0(const fs::path& path) {
    return state_.group.all_gather(path.string()).front();
  }

  double save_checkpoint(const TrainingProgress& progress) {
    const fs::path target = checkpoint_path(job_.save.checkpoint_directory, progress.steps);
    std::unique_ptr<PendingFolder> pending;
    const auto start = [&] {
      if (checkpoints_) pending = checkpoints_->start(progress.steps);
      return pending ? pending->path() : fs::path();
    };
    return save(target, progress, /*resumable=*/true, start, [&] {
      checkpoints_->commit(*pending, progress.steps);
      if (job_.save.total_limit > 0) {
        checkpoints_->keep_newest(job_.save.total_limit, progress.steps,
                                  job_.save.best_model ? progress.best.step : kNoStep);
      }
    });
  }

  // Behind the last step: the parameters may become those of another.
  double save_model_folder(const TrainingProgress& progress) {
    TrainingProgress kept = progress;
    if (job_.save.best_model && progress.best.step >= 0) {
      kept.steps = progress.best.step;
      kept.last = progress.best;
    }
    const double begin_s = steady_seconds();
    if (kept.steps != progress.steps) {
      if (const auto problem = restore(kept.steps)) {
        unsaved_.push_back({job_.save.model_directory, kept.steps, *problem});
        return steady_seconds() - begin_s;
      }
      kept.loss.reset();
    }
    save(
        job_.save.model_directory, kept, /*resumable=*/false, [this] { return pending_model(); },
        [this] { model_->commit(); });
    return steady_seconds() - begin_s;
  }

  // Collective: parameters of a checkpoint that this run, or the one that it goes on from, has
  // saved. What went wrong, if anything did.
  std::optional<std::string> restore(int64_t step) {
    const fs::path folder = checkpoint_path(job_.save.checkpoint_directory, step);
    const auto problem = first_problem([&] {
      restore_parameters(folder, {format_, name_of(job_.parallel.strategy), job_.device.ranks},
                         state_);
    });
    if (!problem) return {};
    return "cannot read the best model, " + folder.string() + ": " + *problem;
  }

  // Collective: what the first rank that cannot do its part says of it.
  std::optional<std::string> first_problem(const std::function<void()>& part) {
    std::string own;
    try {
      part();
    } catch (const InputError& error) {
      own = error.what();
    } catch (const fs::filesystem_error& error) {
      own = error.what();
    }
    if (!own.empty() && state_.group.world_size() > 1) {
      own = "rank " + std::to_string(state_.group.rank()) + ": " + own;
    }
    for (std::string& told : state_.group.all_gather(own)) {
      if (!told.empty()) return std::move(told);
    }
    return {};
  }

  // Collective. Rank 0 starts with the folder for all files, and gives it its place when it is
  // complete. All ranks go on together, whatever one of them cannot do. Seconds that it took.
  double save(const fs::path& target, const TrainingProgress& progress, bool resumable,
              const std::function<fs::path()>& start, const std::function<void()>& commit) {
    const double begin_s = steady_seconds();
    int64_t bytes = 0;
    fs::path folder;
    SavedPieces own;
    std::vector<SavedPieces> pieces;
    std::optional<std::string> problem = first_problem([&] { folder = start(); });
    if (!problem) {
      folder = told_by_rank0(folder);
      problem = first_problem([&] { write_own(folder, resumable, own); });
    }
    if (!problem) {
      pieces = pieces_of_all(own);
      problem = first_problem([&] {
        if (!state_.leads()) return;
        complete(folder, pieces, progress, resumable);
        bytes = bytes_of(folder);
        commit();
      });
    }
    const double seconds = steady_seconds() - begin_s;
    if (problem) {
      unsaved_.push_back({target.string(), progress.steps, *problem});
    } else {
      saved_.push_back({.path = target.string(),
                        .format = format_,
                        .step = progress.steps,
                        .bytes = bytes,
                        .seconds = seconds});
    }
    return seconds;
  }

  void write_own(const fs::path& folder, bool resumable, SavedPieces& own) {
    save_model(state_, job_.model.weights_directory, format_, folder, own);
    if (resumable) save_optimizer(state_, folder, own);
  }

  // Collective.
  std::vector<SavedPieces> pieces_of_all(const SavedPieces& own) {
    const Json told = {{"model", own.model},
                       {"optimizer", own.optimizer},
                       {"numbers", own.numbers},
                       {"files", to_json(own.files)}};
    std::vector<SavedPieces> pieces;
    for (const std::string& text : state_.group.all_gather(json_text(told))) {
      const Json json = parse_json(text, "what a rank has saved");
      pieces.push_back({json.at("model"), json.at("optimizer"), json.at("numbers"),
                        sums_from_json(json.at("files"))});
    }
    return pieces;
  }

  // Rank 0: what tells of all ranks' files. The manifest is the last.
  void complete(const fs::path& folder, const std::vector<SavedPieces>& pieces,
                const TrainingProgress& progress, bool resumable) {
    SavedPieces all;
    if (beside_.empty()) beside_ = saved_files(job_, state_.saved_rows());
    all.files = save_description(state_, job_, beside_, folder);
    all.files.push_back(
        write_summed(folder, kModelCardFile, saved_card_text(job_, state_.peft_config, progress)));
    for (const SavedPieces& rank : pieces) {
      append_rows(all.model, rank.model);
      append_rows(all.optimizer, rank.optimizer);
      all.numbers.update(rank.numbers);
      all.files.insert(all.files.end(), rank.files.begin(), rank.files.end());
    }
    if (format_ != "FULL") all.files.push_back(write_pieces(folder, "model", all.model));
    if (resumable) {
      all.files.push_back(write_pieces(folder, "optimizer", all.optimizer));
      all.files.push_back(write_trainer_state(folder, all.numbers, progress));
    }
    write_manifest(folder, {.kind = resumable ? "checkpoint" : "model",
                            .step = progress.steps,
                            .job = digest_of(identity_),
                            .format = format_,
                            .files = std::move(all.files)});
  }

  FileSum write_trainer_state(const fs::path& folder, const Json& optimizer_numbers,
                              const TrainingProgress& progress) {
    NumberSaver scaling;
    state_.loss_scaler.visit_state(scaling);
    Json trainer_state = {{"global_step", progress.steps},
                          {"updates", progress.updates},
                          {"epoch", progress.epoch},
                          {"forward_passes", state_.model.pass().number},
                          {"loss_scaling", scaling.numbers},
                          {"optimizer", optimizer_numbers},
                          {"format", format_},
                          {"strategy", name_of(job_.parallel.strategy)},
                          {"ranks", job_.device.ranks},
                          {"total_steps", total_steps_},
                          {"job", identity_}};
    if (progress.best.step >= 0) {
      trainer_state["best_global_step"] = progress.best.step;
      trainer_state["best_metric"] = progress.best.loss;
      trainer_state["best_evaluation_data"] = evaluated_data_;
    }
    return write_summed(folder, kTrainerStateFile, json_text(trainer_state, 2) + "\n");
  }

  TrainingJob job_;
  int64_t total_steps_;
  int64_t interval_;  // of checkpoints, in steps
  TrainedState state_;
  std::string format_;
  // Rank 0's:
  std::optional<CheckpointFolder> checkpoints_;
  std::optional<ModelFolder> model_;
  Json identity_;  // the job's
  std::string evaluated_data_;
  std::vector<TokenizerFile> beside_;  // the weights

  std::vector<SavedFolder> saved_;
  std::vector<UnsavedFolder> unsaved_;
};

}  // namespace

std::unique_ptr<Checkpoints> make_checkpoints(const TrainingJob& job, int64_t total_steps,
                                              const TrainedState& state) {
  if (!saves_checkpoints(job) && job.save.model_directory.empty()) {
    return std::make_unique<NoCheckpoints>();
  }
  return std::make_unique<Saver>(job, total_steps, state);
}

std::vector<std::string> notes_on_saving(const TrainingJob& job, const TrainedState& state) {
  const bool saves = saves_checkpoints(job) || !job.save.model_directory.empty();
  if (!saves || !state.parameters.whole() || job.parallel.state_dict_type == StateDictType::kFull) {
    return {};
  }
  return {
      std::string("fsdp_state_dict_type ") + name_of(job.parallel.state_dict_type) +
      " has no effect: every rank has the whole parameters, which are saved as FULL_STATE_DICT"};
}

}  // namespace sftbench
