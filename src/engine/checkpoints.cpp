#include "engine/checkpoints.h"

#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "engine/job_identity.h"
#include "engine/save_state.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/checkpoint/saved_folder.h"
#include "sftbench/checkpoint/stored_state.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

class NoCheckpoints : public Checkpoints {
 public:
  double after_step(const TrainingProgress&, bool) override { return 0; }
  const std::vector<SavedFolder>& saved() const override { return saved_; }

 private:
  std::vector<SavedFolder> saved_;
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

// When a checkpoint is due.
using Due = bool (*)(const SavePlan& plan, const TrainingProgress& progress);

bool never(const SavePlan&, const TrainingProgress&) {
  return false;
}
bool after_some_steps(const SavePlan& plan, const TrainingProgress& progress) {
  return progress.steps % plan.steps == 0;
}
bool after_an_epoch(const SavePlan&, const TrainingProgress& progress) {
  return progress.epoch == std::floor(progress.epoch);
}

Due choose_due(const SavePlan& plan) {
  if (plan.strategy == "no") return never;
  if (plan.strategy == "steps") return after_some_steps;
  if (plan.strategy == "epoch") return after_an_epoch;
  throw unsupported_choice("save_strategy", plan.strategy, {"epoch", "no", "steps"});
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
        state_(state),
        format_(saved_format(job, state.parameters)),
        due_(choose_due(job.save)) {
    if (!job.save.checkpoint_directory.empty()) open_checkpoints();
    if (!job.save.model_directory.empty()) {
      require_all_see(fs::absolute(job.save.model_directory).parent_path());
    }
  }

  double after_step(const TrainingProgress& progress, bool last) override {
    double seconds = 0;
    if (job_.save.strategy != "no" && (last || due_(job_.save, progress))) {
      seconds += save(checkpoint_path(job_.save.checkpoint_directory, progress.steps), progress,
                      /*resumable=*/true);
    }
    if (last && !job_.save.model_directory.empty()) {
      seconds += save(job_.save.model_directory, progress, /*resumable=*/false);
    }
    return seconds;
  }

  const std::vector<SavedFolder>& saved() const override { return saved_; }

 private:
  void open_checkpoints() {
    const fs::path folder = job_.save.checkpoint_directory;
    try {
      if (state_.leads()) {
        folder_.emplace(folder);
        identity_ = identity_of(job_);
      }
    } catch (const InputError& error) {
      cannot_save(folder, error);
    }
    require_all_see(folder);
  }

  void require_all_see(const fs::path& folder) {
    if (state_.group.world_size() == 1) return;
    require_shared(folder, state_.group);
  }

  // Collective. A rank that cannot go on throws, which ends the others where they wait for it.
  // Seconds that it took.
  double save(const fs::path& target, const TrainingProgress& progress, bool resumable) {
    const double begin_s = steady_seconds();
    int64_t bytes = 0;
    try {
      std::optional<PendingFolder> pending;
      if (state_.leads()) pending.emplace(target);
      state_.group.all_gather({});  // the folder is there
      const std::vector<SavedPieces> pieces = write_own(pending_path(target), resumable);
      if (pending) {
        complete(pending_path(target), pieces, progress, resumable);
        bytes = bytes_of(pending_path(target));
        pending->commit();
        if (resumable && job_.save.total_limit > 0) {
          folder_->keep_newest(job_.save.total_limit, progress.steps);
        }
      }
    } catch (const InputError& error) {
      cannot_save(target, error);
    } catch (const fs::filesystem_error& error) {
      cannot_save(target, error);
    }
    state_.group.all_gather({});  // it has its name
    saved_.push_back({.path = target.string(),
                      .format = format_,
                      .step = progress.steps,
                      .bytes = bytes,
                      .seconds = steady_seconds() - begin_s});
    return saved_.back().seconds;
  }

  // Of all ranks, once all have written.
  std::vector<SavedPieces> write_own(const fs::path& folder, bool resumable) {
    SavedPieces own;
    save_model(state_, format_, folder, own);
    if (resumable) save_optimizer(state_, folder, own);
    const Json told = {
        {"model", own.model}, {"optimizer", own.optimizer}, {"numbers", own.numbers}};
    std::vector<SavedPieces> pieces;
    for (const std::string& text : state_.group.all_gather(told.dump())) {
      const Json json = parse_json(text, "what a rank has saved");
      pieces.push_back({json.at("model"), json.at("optimizer"), json.at("numbers")});
    }
    return pieces;
  }

  // Rank 0: what tells of all ranks' files.
  void complete(const fs::path& folder, const std::vector<SavedPieces>& pieces,
                const TrainingProgress& progress, bool resumable) {
    SavedPieces all;
    for (const SavedPieces& rank : pieces) {
      append_rows(all.model, rank.model);
      append_rows(all.optimizer, rank.optimizer);
      all.numbers.update(rank.numbers);
    }
    save_description(state_, job_, folder);
    if (format_ != "FULL") write_pieces(folder, "model", all.model);
    if (!resumable) return;
    write_pieces(folder, "optimizer", all.optimizer);
    NumberSaver scaling;
    state_.loss_scaler.visit_state(scaling);
    const Json trainer_state = {{"global_step", progress.steps},
                                {"updates", progress.updates},
                                {"epoch", progress.epoch},
                                {"forward_passes", state_.model.pass().number},
                                {"loss_scaling", scaling.numbers},
                                {"optimizer", all.numbers},
                                {"format", format_},
                                {"strategy", job_.parallel.strategy},
                                {"ranks", job_.device.ranks},
                                {"total_steps", total_steps_},
                                {"job", identity_}};
    write_file_atomic(folder / kTrainerStateFile, trainer_state.dump(2) + "\n");
  }

  TrainingJob job_;
  int64_t total_steps_;
  TrainedState state_;
  std::string format_;
  Due due_;
  std::optional<CheckpointFolder> folder_;  // rank 0's
  Json identity_;                           // rank 0's: the job's
  std::vector<SavedFolder> saved_;
};

}  // namespace

std::unique_ptr<Checkpoints> make_checkpoints(const TrainingJob& job, int64_t total_steps,
                                              const TrainedState& state) {
  choose_due(job.save);
  if (job.save.strategy == "no" && job.save.model_directory.empty()) {
    return std::make_unique<NoCheckpoints>();
  }
  return std::make_unique<Saver>(job, total_steps, state);
}

std::vector<std::string> notes_on_saving(const TrainingJob& job, const TrainedState& state) {
  const bool saves = job.save.strategy != "no" || !job.save.model_directory.empty();
  if (!saves || !state.parameters.whole() || job.parallel.state_dict_type == "FULL_STATE_DICT") {
    return {};
  }
  return {
      "fsdp_state_dict_type " + job.parallel.state_dict_type +
      " has no effect: every rank has the whole parameters, which are saved as FULL_STATE_DICT"};
}

}  // namespace sftbench
