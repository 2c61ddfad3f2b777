// Runs that keep states and activations on the host: the same losses and parameters as without, and
// less memory of the device. On CPUs offload is nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "engine/train_steps.h"
#include "engine/training_fixture.h"
#include "engine/training_run.h"
#include "parallel/rank_processes.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

struct Outcome {
  std::vector<double> losses, norms;
  std::map<std::string, torch::Tensor> values;
  int64_t state_bytes = 0;
  int64_t held_bytes = 0;  // between steps
};

Outcome outcome_of(const TrainingJob& job, RankGroup& group) {
  TrainingRun run = prepare_run(job, group);
  Recorder recorder;
  train_steps(run, group, {&recorder}, [] { return false; });
  Outcome outcome;
  outcome.losses = recorder.losses();
  outcome.norms = recorder.norms();
  run.parameters->visit_whole([&](const std::string& name, const torch::Tensor& values) {
    outcome.values[name] = values.detach().cpu().clone();
  });
  outcome.state_bytes = run.optimizer->state_bytes();
  outcome.held_bytes = run.device->allocated_bytes();
  return outcome;
}

TrainingJob small_job(const std::string& optimizer = "adamw_torch") {
  TrainingJob job = job_of(golden_run("llama-float32"));
  job.batches = BatchPlan();
  job.batches.max_steps = 3;
  job.batches.gradient_accumulation_steps = 2;
  job.optimizer.kind = named<OptimizerKind>(optimizer);
  job.activations.gradient_checkpointing = true;
  job.device.threads = 1;
  // Layers enough that some inputs leave, and that states outweigh what libtorch's allocator counts
  // too much: it does not split a block of which less than 1 MiB would remain.
  job.model.weights_directory.clear();
  job.model.hf_config.update({{"hidden_size", 256},
                              {"intermediate_size", 512},
                              {"num_attention_heads", 4},
                              {"num_key_value_heads", 4},
                              {"head_dim", 64},
                              {"num_hidden_layers", 7},
                              {"vocab_size", 1024}});
  return job;
}

TrainingJob offloaded(TrainingJob job) {
  job.optimizer.offload_state = true;
  job.activations.offload = true;
  return job;
}

void expect_same(const Outcome& found, const Outcome& expected) {
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.norms, expected.norms);
  EXPECT_EQ(found.state_bytes, expected.state_bytes);
  ASSERT_EQ(found.values.size(), expected.values.size());
  for (const auto& [name, values] : expected.values) {
    EXPECT_TRUE(torch::equal(found.values.at(name), values)) << name;
  }
}

// The host's norm is summed in another order than the device's, and the clip factor follows it:
// float32's rounding.
void expect_close(const Outcome& found, const Outcome& expected) {
  EXPECT_EQ(found.state_bytes, expected.state_bytes);
  ASSERT_EQ(found.losses.size(), expected.losses.size());
  ASSERT_EQ(found.norms.size(), expected.norms.size());
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(found.losses[step], expected.losses[step], 1e-6 * expected.losses[step]);
    EXPECT_NEAR(found.norms[step], expected.norms[step], 1e-5 * expected.norms[step]);
  }
  ASSERT_EQ(found.values.size(), expected.values.size());
  for (const auto& [name, values] : expected.values) {
    EXPECT_TRUE(torch::allclose(found.values.at(name), values, 1e-6, 3e-6)) << name;
  }
}

TEST(Offload, TrainsToTheSameBits) {
  for (const char* optimizer : {"adamw_torch", "adamw_bnb_8bit", "schedule_free_adamw"}) {
    SCOPED_TRACE(optimizer);
    expect_same(outcome_of(offloaded(small_job(optimizer)), alone()),
                outcome_of(small_job(optimizer), alone()));
  }
}

TEST(Offload, OfSeveralRanksAndAdaptersTrainsToTheSameBits) {
  for (const char* strategy : {"DDP", "FULL_SHARD", "SHARD_OPTIM"}) {
    SCOPED_TRACE(strategy);
    run_ranks({.ranks = 2}, [&](RankGroup& group) {
      TrainingJob job = small_job();
      job.device.ranks = 2;
      job.parallel.strategy = named<Strategy>(strategy);
      expect_same(outcome_of(offloaded(job), group), outcome_of(job, group));
      job.tuning = TuningMethod::kLora;
      job.lora = {.rank = 3, .alpha = 16, .dropout = 0, .target_modules = {"q_proj", "v_proj"}};
      expect_same(outcome_of(offloaded(job), group), outcome_of(job, group));
    });
  }
}

TEST(Offload, BesideDividedRowsTrainsToTheSameBits) {
  run_ranks({.ranks = 2}, [&](RankGroup& group) {
    TrainingJob job = small_job();
    job.device.ranks = job.parallel.context_ranks = 2;
    job.parallel.strategy = Strategy::kFullShard;
    expect_same(outcome_of(offloaded(job), group), outcome_of(job, group));
  });
}

// One rank is a shard group of one.
TEST(Offload, OfParametersTrainsToTheSameValues) {
  for (const int ranks : {2, 1}) {  // a process that has trained on a GPU cannot be forked
    for (const char* strategy : {"FULL_SHARD", "SHARD_GRAD_OP"}) {
      SCOPED_TRACE(std::string(strategy) + " on " + std::to_string(ranks));
      run_ranks({.ranks = ranks}, [&](RankGroup& group) {
        TrainingJob job = small_job();
        job.device.ranks = ranks;
        job.parallel.strategy = named<Strategy>(strategy);
        job.parallel.distribute_one_rank = ranks == 1;
        TrainingJob on_host = job;
        on_host.parallel.offload = true;
        const Outcome without = outcome_of(job, group), with = outcome_of(on_host, group);
        (job.device.kind == "cuda" ? expect_close : expect_same)(with, without);
        const auto kept = static_cast<double>(without.state_bytes) * 3 / 2;  // and parameters
        if (job.device.kind != "cuda") return;
        EXPECT_NEAR(static_cast<double>(without.held_bytes - with.held_bytes), kept, 0.02 * kept);
      });
    }
  }
}

TEST(Offload, LeavesTheDeviceWithoutStates) {
  if (small_job().device.kind != "cuda") GTEST_SKIP() << "a CPU has no other memory";
  const Outcome with = outcome_of(offloaded(small_job()), alone());
  const Outcome without = outcome_of(small_job(), alone());
  const auto less = static_cast<double>(without.held_bytes - with.held_bytes);
  const auto states = static_cast<double>(without.state_bytes);
  EXPECT_NEAR(less, states, 0.02 * states);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
