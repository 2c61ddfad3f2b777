#include "sftbench/advise/odds.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sftbench {
namespace SFTBENCH_FILE {

// 60 bytes of tensors and 7 that the process takes beside them, on a GPU that leaves them as many
// as given.
Prediction prediction(double usable_bytes = 67) {
  Prediction p;
  p.job.device.kind = "cuda";
  p.cost.memory.parameters = 60;
  p.cost.step_s = 2;
  p.machine.stack.context_bytes = 7;
  p.machine.stack.communicator_bytes = 1000;  // of several ranks
  p.machine.memory_bytes = usable_bytes / kUsableMemory;
  p.at.machine = "CPU";  // whose residuals are normal
  p.at.stack = "sftbench";
  p.at.run_variance = 1e-4;
  return p;
}

const Uncertainty& uncertainty() {
  static const Uncertainty kUncertainty(ResidualTable::shipped());
  return kUncertainty;
}

// What stands beside tensors is known, so it leaves the device before the rest is compared.
TEST(OddsTest, AreEvenWhereThePredictionIsAllThatIsLeftToTensors) {
  const Odds odds = odds_of(prediction(), uncertainty()).value();
  EXPECT_NEAR(odds.dies, 0.5, 1e-9);
  const double factor = (67 * kThrashingMemory / kUsableMemory - 7) / 60;
  EXPECT_NEAR(odds.thrashes + odds.dies,
              uncertainty().chance_above(Figure::kMemory, prediction().at, factor), 1e-9);
  EXPECT_GT(odds.thrashes, 0.1);
  EXPECT_NEAR(odds.fits + odds.thrashes + odds.dies, 1, 1e-12);
}

TEST(OddsTest, FollowTheDevice) {
  EXPECT_GT(odds_of(prediction(100), uncertainty())->fits, 0.999);
  EXPECT_GT(odds_of(prediction(40), uncertainty())->dies, 0.999);
  EXPECT_FALSE(odds_of(prediction(0), uncertainty())) << "its memory is not known";
}

TEST(OddsTest, RangesAreInTheUnitsOfThePredictionAndOnlyTensorsAreUncertain) {
  const Prediction p = prediction();
  const Interval time = uncertainty().interval(Figure::kTime, p.at);
  const Interval memory = uncertainty().interval(Figure::kMemory, p.at);
  const Range seconds = step_range(p, uncertainty());
  EXPECT_DOUBLE_EQ(seconds.low, 2 * time.low);
  EXPECT_DOUBLE_EQ(seconds.expected, 2 * time.center);
  EXPECT_DOUBLE_EQ(seconds.high, 2 * time.high);
  const Range bytes = memory_range(p, uncertainty());
  EXPECT_DOUBLE_EQ(bytes.low, 7 + 60 * memory.low);
  EXPECT_DOUBLE_EQ(bytes.expected, 7 + 60 * memory.center);
  EXPECT_DOUBLE_EQ(bytes.high, 7 + 60 * memory.high);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
