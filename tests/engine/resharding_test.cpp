// What several ranks save, other numbers of ranks under other strategies load: the same bits of
// every parameter, and losses that go on as if nothing had happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/serialize.h>

#include <string>
#include <vector>

#include "data/file_size_limit.h"
#include "engine/saving_fixture.h"
#include "parallel/rank_processes.h"
#include "sftbench/base/file.h"
#include "sftbench/base/torch.h"
#include "sftbench/checkpoint/stored_state.h"
#include "sftbench/model/stored_dtype.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

const std::vector<std::string> kTypes = {"FULL_STATE_DICT", "SHARDED_STATE_DICT",
                                         "LOCAL_STATE_DICT"};

// What rank 0 saw, for tests in other processes: losses, and every parameter after the second step,
// which the checkpoint of the fourth does not tell.
void keep(const SavedRun& run, const Values& at_checkpoint, const std::string& path) {
  std::vector<torch::Tensor> tensors = {torch::tensor(run.losses, torch::kFloat64)};
  for (const auto& [name, values] : at_checkpoint) tensors.push_back(values);
  torch::save(tensors, path);
}

struct Kept {
  std::vector<double> losses;
  std::vector<torch::Tensor> values;  // by name
};

Kept kept(const std::string& path) {
  std::vector<torch::Tensor> tensors;
  torch::load(tensors, path);
  const double* losses = tensors[0].data_ptr<double>();
  return {{losses, losses + tensors[0].numel()}, {tensors.begin() + 1, tensors.end()}};
}

class ValuesAfterTwoSteps : public TrainObserver {
 public:
  explicit ValuesAfterTwoSteps(TrainingRun& run) : run_(run) {}
  void on_step_end(const StepEvent& event, TrainControl&) override {
    if (event.step == 2) values = values_of(run_);
  }
  Values values;

 private:
  TrainingRun& run_;
};

void save_on(const TrainingJob& job, RankGroup& group, const std::string& path) {
  TrainingRun run = prepare_run(job, group);
  Recorder recorder;
  ValuesAfterTwoSteps after_two(run);
  train_steps(run, group, {&recorder, &after_two}, [] { return false; });
  SavedRun saved;
  for (const StepEvent& step : recorder.steps) saved.losses.push_back(step.loss);
  if (group.rank() == 0) keep(saved, after_two.values, path);
}

void expect_goes_on(const SavedRun& run, const Kept& expected, double tolerance) {
  ASSERT_EQ(run.at_begin.size(), expected.values.size());
  size_t i = 0;
  for (const auto& [name, values] : run.at_begin) {
    EXPECT_TRUE(torch::equal(values, expected.values[i++])) << name;
  }
  ASSERT_EQ(run.losses.size(), 2);
  for (size_t step = 0; step < 2; ++step) {
    EXPECT_NEAR(run.losses[step], expected.losses[step + 2], tolerance) << "step " << step + 3;
  }
}

// Another number of ranks adds the same numbers in another order.
constexpr double kOrderOfSums = 1e-5;

struct Layout {
  int ranks;
  std::string strategy;
  int nodes = 1;
  int64_t expert_ranks = 1;
  int64_t context_ranks = 1;
};

void expect_loads_under(const std::vector<Layout>& layouts, const Layout& saved_by,
                        const std::function<void(TrainingJob&)>& change,
                        const std::string& model = "llama") {
  const TemporaryFolder folder;
  const auto job_of_layout = [&](const Layout& layout, const std::string& type) {
    TrainingJob job =
        on_ranks(saving_job(folder / type, model), layout.ranks, layout.strategy, type);
    job.device.nodes = layout.nodes;
    job.parallel.expert_ranks = layout.expert_ranks;
    job.parallel.context_ranks = layout.context_ranks;
    job.batches.per_device_batch_size = 6 * layout.context_ranks / layout.ranks;
    change(job);
    return job;
  };
  run_ranks({.ranks = saved_by.ranks, .nodes = saved_by.nodes}, [&](RankGroup& group) {
    for (const std::string& type : kTypes) {
      save_on(job_of_layout(saved_by, type), group, folder / (type + ".kept"));
    }
  });
  for (const Layout& layout : layouts) {
    run_ranks({.ranks = layout.ranks, .nodes = layout.nodes}, [&](RankGroup& group) {
      for (const std::string& type : kTypes) {
        SCOPED_TRACE(type + " by " + std::to_string(saved_by.ranks) + " " + saved_by.strategy +
                     ", loaded by " + std::to_string(layout.ranks) + " " + layout.strategy);
        const bool same = layout.ranks == saved_by.ranks && layout.strategy == saved_by.strategy &&
                          layout.expert_ranks == saved_by.expert_ranks &&
                          layout.context_ranks == saved_by.context_ranks;
        expect_goes_on(run_of(resumed(job_of_layout(layout, type)), group),
                       kept(folder / (type + ".kept")), same ? 0 : kOrderOfSums);
      }
    });
  }
}

const std::vector<Layout> kOthers = {{3, "FULL_SHARD"}, {2, "FULL_SHARD"},    {1, "DDP"},
                                     {2, "DDP"},        {3, "SHARD_GRAD_OP"}, {3, "SHARD_OPTIM"}};

TEST(Resharding, ThreeShardsLoadEverywhereFromEveryForm) {
  expect_loads_under(kOthers, {3, "FULL_SHARD"}, [](TrainingJob&) {});
}

TEST(Resharding, ShardsOfTheOptimizerAloneLoadEverywhereFromEveryForm) {
  expect_loads_under({{3, "SHARD_OPTIM"}, {2, "SHARD_OPTIM"}, {1, "DDP"}, {2, "FULL_SHARD"}},
                     {3, "SHARD_OPTIM"}, [](TrainingJob&) {});
}

TEST(Resharding, UntiedModelsAndOptionalParts) {
  expect_loads_under(
      {{2, "FULL_SHARD"}, {1, "DDP"}}, {3, "FULL_SHARD"}, [](TrainingJob&) {}, "llama_all");
}

TEST(Resharding, ReplicasOfShardsAreWrittenOnce) {
  expect_loads_under({{2, "DDP"}, {1, "DDP"}, {2, "FULL_SHARD"}}, {6, "HYBRID_SHARD", 2},
                     [](TrainingJob&) {});
}

// Stacked matrices and tensors of each expert, under replicas and under shards.
TEST(Resharding, ExpertsOfSeveralRanks) {
  const std::pair<const char*, const char*> cases[] = {{"granitemoe", "FULL_SHARD"},
                                                       {"mixtral", "DDP"}};
  for (const auto& [model, strategy] : cases) {
    expect_loads_under(
        {{2, strategy, 1, 2}, {2, "FULL_SHARD"}, {1, "DDP"}, {2, "DDP", 1, 2}}, {2, strategy, 1, 2},
        [](TrainingJob&) {}, model);
  }
  expect_loads_under(
      {{3, "FULL_SHARD"}, {2, "SHARD_GRAD_OP", 1, 2}}, {6, "FULL_SHARD", 1, 2}, [](TrainingJob&) {},
      "granitemoe");
}

// What divides rows leaves no trace in a checkpoint, whether it spreads parameters, too, or copies
// them.
TEST(Resharding, RowsOfSeveralRanks) {
  expect_loads_under({{4, "FULL_SHARD", 1, 1, 2},
                      {4, "FULL_SHARD", 1, 1, 4},
                      {3, "SHARD_GRAD_OP", 1, 1, 3},
                      {2, "DDP", 1, 1, 2},
                      {3, "FULL_SHARD"},
                      {1, "DDP"}},
                     {4, "FULL_SHARD", 1, 1, 2}, [](TrainingJob&) {});
  expect_loads_under(
      {{2, "DDP", 1, 1, 2}, {2, "FULL_SHARD", 1, 1, 2}, {2, "DDP"}}, {2, "DDP"},
      [](TrainingJob&) {}, "granitemoehybrid");
}

TEST(Resharding, WhatOneProcessSavedIsCutIntoShards) {
  expect_loads_under({{3, "FULL_SHARD"}, {2, "SHARD_GRAD_OP"}}, {1, "DDP"}, [](TrainingJob&) {});
}

TEST(Resharding, AdaptersBesideFrozenParameters) {
  expect_loads_under(kOthers, {3, "FULL_SHARD"}, [](TrainingJob& job) {
    job.tuning = TuningMethod::kLora;
    job.lora = {.rank = 3, .alpha = 16, .dropout = 0, .target_modules = {"q_proj", "v_proj"}};
  });
}

// Parameters are kept in float32 while bfloat16 is gathered: the checkpoint has what is kept.
TEST(Resharding, Float32ParametersOfMixedPrecisionAreKeptExactly) {
  const auto mixed = [](TrainingJob& job) { job.precision.autocast = Autocast::kBf16; };
  expect_loads_under({{3, "FULL_SHARD"}}, {3, "FULL_SHARD"}, mixed);
}

TEST(Resharding, Bfloat16Parameters) {
  const auto half = [](TrainingJob& job) { job.precision.torch_dtype = ParameterDtype::kBfloat16; };
  expect_loads_under({{3, "FULL_SHARD"}}, {3, "FULL_SHARD"}, half);
}

// --- states that have not one value for each element ---------------------------------------------

void many_elements(TrainingJob& job) {
  job.model.weights_directory.clear();
  job.model.hf_config["intermediate_size"] = 640;
}

// Blocks of 256 elements begin elsewhere, so that codes are rounded anew: parameters are the same,
// and the following update is, within the 8 bits of its moments.
TEST(Resharding, QuantizedStatesAreRoundedAnewAndSaid) {
  const TemporaryFolder folder;
  const auto job_on = [&](int ranks, const std::string& strategy) {
    TrainingJob job = on_ranks(saving_job(folder / "checkpoints"), ranks, strategy);
    job.optimizer.kind = OptimizerKind::kAdamwBnb8bit;
    many_elements(job);
    return job;
  };
  run_ranks({.ranks = 2},
            [&](RankGroup& group) { save_on(job_on(2, "FULL_SHARD"), group, folder / "kept"); });
  run_ranks({.ranks = 2}, [&](RankGroup& group) {
    const SavedRun again = run_of(resumed(job_on(2, "FULL_SHARD")), group);
    expect_goes_on(again, kept(folder / "kept"), 0);
    EXPECT_THAT(again.begin.warnings, ::testing::Not(::testing::Contains(HasSubstr("rounded"))));
  });
  run_ranks({.ranks = 1}, [&](RankGroup& group) {
    const SavedRun again = run_of(resumed(job_on(1, "DDP")), group);
    EXPECT_THAT(again.begin.warnings,
                ::testing::Contains(HasSubstr("another layout than FULL_SHARD on 2 ranks, which "
                                              "saved it: quantized states")));
    expect_goes_on(again, kept(folder / "kept"), 1e-3);
  });
}

std::string problem_of(const TrainingJob& job, RankGroup& group) {
  try {
    make_engine()->train_job(job, group, {}, [] { return false; });
    return "no problem";
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(Resharding, StatesOfWholeMatricesAreRefusedForPartsOfThem) {
  for (const char* optimizer : {"adafactor", "galore_adamw"}) {
    SCOPED_TRACE(optimizer);
    const TemporaryFolder folder;
    run_ranks({.ranks = 2}, [&](RankGroup& group) {
      TrainingJob job = on_ranks(saving_job(folder / "checkpoints"), 2, "DDP");
      job.optimizer.kind = named<OptimizerKind>(optimizer);
      run_of(job, group);
      TrainingJob sharded = resumed(job);
      sharded.parallel.strategy = Strategy::kFullShard;
      const std::string problem = problem_of(sharded, group);
      if (job.optimizer.kind == OptimizerKind::kAdafactor) {
        EXPECT_THAT(problem, HasSubstr("exp_avg_sq was not saved: optimizers that keep states of "
                                       "whole matrices"));
        EXPECT_THAT(problem, HasSubstr("They resume with parameters cut as they were, under DDP on "
                                       "2 ranks"));
      } else {
        EXPECT_THAT(problem, HasSubstr("none of these is trained"));  // says so before it resumes
      }
    });
  }
}

// --- what is written -----------------------------------------------------------------------------

TEST(RankFiles, AreOnesOfTheFirstReplicaAndHoldEveryElementOnce) {
  const TemporaryFolder folder;
  run_ranks({.ranks = 4, .nodes = 2}, [&](RankGroup& group) {
    TrainingJob job =
        on_ranks(saving_job(folder / "checkpoints"), 4, "HYBRID_SHARD", "SHARDED_STATE_DICT");
    job.batches.per_device_batch_size = 1;
    job.device.nodes = 2;
    run_of(job, group);
  });
  const fs::path checkpoint = folder / "checkpoints/checkpoint-2";
  EXPECT_TRUE(fs::exists(checkpoint / "model-rank-00001-of-00004.safetensors"));
  EXPECT_FALSE(fs::exists(checkpoint / "model-rank-00002-of-00004.safetensors"));
  EXPECT_FALSE(fs::exists(checkpoint / "model.safetensors"));
  std::map<std::string, int64_t> elements, expected;
  const Json index = read_json_file(checkpoint / "model_pieces.json");
  for (const Json& row : index["pieces"]) {
    elements[row["value"]] += row["end"].get<int64_t>() - row["begin"].get<int64_t>();
  }
  const std::string model = training_folder() + "/llama";
  for (const CheckpointShard& file : open_checkpoint(model)) {
    for (const StoredTensor& tensor : file.tensors) expected[tensor.name] = tensor.numel();
  }
  EXPECT_EQ(elements, expected);
}

TEST(RankFiles, OfWholeParametersHaveOneForm) {
  const TemporaryFolder folder;
  run_ranks({.ranks = 2}, [&](RankGroup& group) {
    const SavedRun run =
        run_of(on_ranks(saving_job(folder / "checkpoints"), 2, "DDP", "LOCAL_STATE_DICT"), group);
    EXPECT_EQ(run.end.saved.at(0).format, "FULL");
    EXPECT_THAT(run.begin.warnings,
                ::testing::Contains(HasSubstr("fsdp_state_dict_type LOCAL_STATE_DICT has no "
                                              "effect: every rank has the whole parameters")));
  });
}

// --- what goes wrong -----------------------------------------------------------------------------

TEST(SavingFaults, ARankThatDoesNotSeeTheOthersFilesIsNamed) {
  const TemporaryFolder folder;
  run_ranks({.ranks = 2, .nodes = 2}, [&](RankGroup& group) {
    TrainingJob job =
        on_ranks(saving_job(folder / ("of rank " + std::to_string(group.rank()))), 2, "FULL_SHARD");
    job.device.nodes = 2;
    EXPECT_THAT(problem_of(job, group), HasSubstr("rank 1 on " + group.ranks()[1].host +
                                                  " does not see what rank 0 writes"));
  });
}

// The second rank ends, or cannot write, while both save: the checkpoint before stays, and the next
// run goes on from it. Whoever cannot write trains on.
void expect_survives(const std::string& problem, bool killed) {
  const TemporaryFolder folder;
  const TrainingJob job =
      on_ranks(saving_job(folder / "checkpoints"), 2, "FULL_SHARD", "SHARDED_STATE_DICT");
  run_ranks({.ranks = 2}, [&](RankGroup& group) {
    TrainingJob two_steps = job;
    two_steps.batches.max_steps = 2;
    run_of(two_steps, group);
  });
  TrainingJob next = job;
  next.save.resume_from = folder / "checkpoints/checkpoint-2";
  run_ranks({.ranks = 2, .may_die = killed ? std::set<int>{1} : std::set<int>{}},
            [&](RankGroup& group) {
              std::optional<FileSizeLimit> limit;
              if (group.rank() == 1) limit.emplace(20'000);
              // As the kernel does by default with who writes beyond its limit: nothing is said or
              // tidied.
              if (group.rank() == 1 && killed) ::signal(SIGXFSZ, SIG_DFL);
              if (killed) {
                EXPECT_THAT(problem_of(next, group), HasSubstr(problem));
                return;
              }
              const SavedRun run = run_of(next, group);
              EXPECT_EQ(run.losses.size(), 2);
              ASSERT_EQ(run.end.unsaved.size(), 1);
              EXPECT_THAT(run.end.unsaved[0].problem, HasSubstr(problem));
            });
  EXPECT_FALSE(fs::exists(folder / "checkpoints/checkpoint-4"));
  run_ranks({.ranks = 2},
            [&](RankGroup& group) { EXPECT_EQ(run_of(next, group).begin.resumed_step, 2); });
  EXPECT_TRUE(fs::exists(folder / "checkpoints/checkpoint-4/trainer_state.json"));
  EXPECT_FALSE(fs::exists(folder / "checkpoints/.checkpoint-4.saving"));
}

TEST(SavingFaults, ARankThatIsKilledWhileItSavesLeavesTheCheckpointBefore) {
  expect_survives("rank 1: was ended by signal", true);
}

TEST(SavingFaults, ARankWhoseDiskIsFullIsNamedAndLeavesTheCheckpointBefore) {
  expect_survives("rank 1: ", false);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
