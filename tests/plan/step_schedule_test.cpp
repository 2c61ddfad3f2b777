#include "plan/step_schedule.h"

#include <gtest/gtest.h>

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

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
