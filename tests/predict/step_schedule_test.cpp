#include "predict/step_schedule.h"

#include <gtest/gtest.h>

#include "sftbench/predict/cost_model.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(StepScheduleTest, GathersHideBehindTheLayerBeforeAndTheFirstOneDoesNot) {
  ScheduleInput input;
  input.layers = 4;
  input.sharded = true;
  input.reshard_after_forward = true;
  input.root = {.gather_s = 3, .forward_s = 5, .backward_s = 5};
  input.layer = {.gather_s = 1, .forward_s = 2, .backward_s = 4};
  const ScheduleResult fast = schedule_step(input, {});
  EXPECT_DOUBLE_EQ(fast.compute_s, 10 + 4 * 6);
  EXPECT_DOUBLE_EQ(fast.step_s, 34 + 3 + 1) << "the root's gather and the first layer's show";
  EXPECT_EQ(fast.layer_gathers, 8);

  input.layer.gather_s = 3;  // longer than a forward pass, shorter than a backward pass
  EXPECT_DOUBLE_EQ(schedule_step(input, {}).step_s, 34 + 3 + 3 + 3 * 1);

  input.layer = {.gather_s = 1, .reduce_s = 6, .forward_s = 2, .backward_s = 4};
  // Reductions and gathers share the communicator: 7 s a layer against 4 s of computing. The last
  // reduction shows whole, the one before it in part.
  const ScheduleResult slow = schedule_step(input, {});
  EXPECT_GT(slow.step_s, 34 + 3 + 1 + 6);
  EXPECT_LE(slow.step_s, 34 + 3 + 1 + 6 + 4 * 3);
}

TEST(StepScheduleTest, WithoutOverlapEveryOperationShows) {
  ScheduleInput input;
  input.layers = 4;
  input.overlaps = false;
  input.sharded = true;
  input.reshard_after_forward = true;
  input.root = {.gather_s = 3, .reduce_s = 3, .forward_s = 5, .backward_s = 5};
  input.layer = {.gather_s = 1, .reduce_s = 2, .forward_s = 2, .backward_s = 4};
  EXPECT_DOUBLE_EQ(schedule_step(input, {}).step_s, 34 + 3 + 8 * 1 + 4 * 2 + 3);
}

TEST(StepScheduleTest, ReplicatedGradientsAreSummedBesideTheBackwardPass) {
  ScheduleInput input;
  input.layers = 4;
  input.layer = {.reduce_s = 1, .forward_s = 2, .backward_s = 4};
  input.root = {.reduce_s = 2, .forward_s = 1, .backward_s = 1};
  EXPECT_DOUBLE_EQ(schedule_step(input, {}).step_s, 4 * 6 + 2 + 1 + 2)
      << "the first layer's and the root's sums have nothing to hide behind";
}

// Rings of 8 ranks: 7 hops of 1 us for each call, twice as many for an all-reduce, and 100 GB/s.
// Where transfers take the core that computes, nothing hides them.
TEST(StepScheduleTest, ACollectiveTakesItsHopsAndItsBytesAndShowsWholeWithoutOverlap) {
  TrainingJob job;
  job.model.name = "small";
  job.model.hf_config = {{"model_type", "llama"},     {"vocab_size", 1000},
                         {"hidden_size", 512},        {"num_hidden_layers", 4},
                         {"num_attention_heads", 8},  {"num_key_value_heads", 4},
                         {"intermediate_size", 1024}, {"max_position_embeddings", 64}};
  job.data.model_max_length = 32;
  job.device.ranks = 8;
  MachineModel machine{1e12, 1e12, 80e9, {1e-6, 100e9}, {1e-5, 10e9}, true};
  machine.overlaps = false;
  for (const char* strategy : {"FULL_SHARD", "SHARD_GRAD_OP", "SHARD_OPTIM", "DDP"}) {
    job.parallel.strategy = named<Strategy>(strategy);
    for (const int64_t micro_batches : {1, 2}) {
      job.batches.gradient_accumulation_steps = micro_batches;
      const StepCost cost = predict_step(job, machine);
      double sum = 0;
      for (const CollectiveCost& c : cost.collectives) {
        const int hops = c.operation == "all_reduce" ? 14 : 7;
        EXPECT_NEAR(c.seconds, c.sent_bytes / 100e9 + static_cast<double>(c.calls) * hops * 1e-6,
                    1e-9)
            << strategy << " " << c.operation;
        sum += c.seconds;
      }
      EXPECT_GT(sum, 0) << strategy;
      EXPECT_NEAR(cost.communication_s, sum, 1e-9) << strategy;
      EXPECT_NEAR(cost.exposed_s, sum, 1e-9) << strategy;
      EXPECT_NEAR(cost.step_s, cost.compute_s + sum + cost.optimizer_s, 1e-9) << strategy;
    }
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
