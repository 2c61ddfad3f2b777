#include "predict/peak_memory.h"

#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

// Layers keep 100 and 10, gradients inside one are 20, a value of the residual stream is 4.
PeakInput input() {
  return {.waiting = 100,
          .layer = 10,
          .backward = 20,
          .logits = 50,
          .hidden = 4,
          .gradients = 30,
          .gradients_of_loss = 8};
}

void expect_peak(const PeakInput& input, const PeakParts& expected) {
  const PeakParts peak = peak_parts(input);
  EXPECT_EQ(peak.activations, expected.activations);
  EXPECT_EQ(peak.logits, expected.logits);
  EXPECT_EQ(peak.freed_gradients, expected.freed_gradients);
}

TEST(PeakMemoryTest, IsTheLossOrTheLastLayer) {
  expect_peak(input(), {100 + 10 + 3 * 4, 50, 0});
  PeakInput small = input();
  small.logits = 7;  // 129 against 130
  expect_peak(small, {100 + 10 + 20, 0, 0});
}

TEST(PeakMemoryTest, GradientsThatComeLateAreNotThereYet) {
  PeakInput late = input();
  late.gradients_come_late = true;
  expect_peak(late, {100 + 10 + 3 * 4, 50, 30 - 8});
  late.gradients_of_loss = 40;
  expect_peak(late, {100 + 10 + 3 * 4, 50, 0});
  // The first layer's backward pass has all gradients, and nothing else waits: 34 against 172 -
  // 139.
  late.gradients_of_loss = 0;
  late.gradients = 139;
  expect_peak(late, {10 + 20 + 4, 0, 0});
  late.gradients = 137;
  expect_peak(late, {100 + 10 + 3 * 4, 50, 137});
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
