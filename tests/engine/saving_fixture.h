// A job that saves, and a run of it that keeps what tests compare: losses, and every parameter at
// its beginning and its end.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/train_steps.h"
#include "engine/training_fixture.h"
#include "engine/training_run.h"
#include "sftbench/base/torch.h"

namespace sftbench {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = ::testing::TempDir() + "saving.XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

using Values = std::map<std::string, torch::Tensor>;

struct SavedRun {
  std::vector<double> losses;
  std::vector<EvaluationEvent> evaluations;
  Values at_begin, at_end;
  TrainBegin begin;
  TrainEnd end;
};

inline Values values_of(TrainingRun& run) {
  Values values;
  run.parameters->visit_whole([&](const std::string& name, const torch::Tensor& tensor) {
    values[name] = tensor.detach().clone();
  });
  return values;
}

inline SavedRun run_of(const TrainingJob& job, RankGroup& group) {
  TrainingRun run = prepare_run(job, group);
  SavedRun saved;
  saved.at_begin = values_of(run);
  Recorder recorder;
  train_steps(run, group, {&recorder}, [] { return false; });
  for (const StepEvent& step : recorder.steps) saved.losses.push_back(step.loss);
  saved.evaluations = recorder.evaluations;
  saved.at_end = values_of(run);
  saved.begin = recorder.begin;
  saved.end = recorder.ends.at(0);
  return saved;
}

// Four steps of six entries, by any number of ranks from 1 to 3, with a checkpoint after the second
// and the fourth. They lie within one epoch, whose entries any number of ranks takes in the same
// order.
inline TrainingJob saving_job(const std::string& checkpoints, const std::string& model = "llama") {
  TrainingJob job = job_of(golden_run(model + "-float32"));
  job.batches = BatchPlan();
  job.batches.max_steps = 4;
  job.batches.per_device_batch_size = 6;
  // Adam divides by |g|: without this, rounding would decide where a gradient is nearly zero.
  job.optimizer.epsilon = 1e-5;
  job.optimizer.learning_rate = 1e-3;
  job.optimizer.weight_decay = 0.1;
  job.activations.gradient_checkpointing = false;
  job.device.threads = 1;
  job.save.checkpoint_directory = checkpoints;
  job.save.strategy = IntervalStrategy::kSteps;
  job.save.steps = 2;
  return job;
}

inline TrainingJob on_ranks(TrainingJob job, int ranks, const std::string& strategy,
                            const std::string& state_dict_type = "FULL_STATE_DICT") {
  job.batches.per_device_batch_size = 6 / ranks;
  job.device.ranks = ranks;
  job.parallel.strategy = named<Strategy>(strategy);
  job.parallel.state_dict_type = named<StateDictType>(state_dict_type);
  return job;
}

// From the checkpoint after the second step, with nothing saved anew.
inline TrainingJob resumed(TrainingJob job, const std::string& checkpoint = "") {
  job.save.resume_from =
      checkpoint.empty() ? job.save.checkpoint_directory + "/checkpoint-2" : checkpoint;
  job.save.checkpoint_directory.clear();
  job.save.strategy = IntervalStrategy::kNo;
  return job;
}

inline std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

// What ends the run, with this code.
inline std::string problem_of(const TrainingJob& job, ReasonCode code) {
  try {
    run_of(job, alone());
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no problem";
}

inline void expect_same_bits(const Values& values, const Values& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    const auto found = values.find(name);
    ASSERT_NE(found, values.end()) << name;
    EXPECT_TRUE(torch::equal(found->second, tensor)) << name;
  }
}

}  // namespace sftbench
