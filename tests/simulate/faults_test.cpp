#include "simulate/faults.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

namespace sftbench {
namespace SFTBENCH_FILE {

constexpr double kGib = 1 << 30;

JobCost cost_of_gib(double device, double host, int64_t steps = 4) {
  JobCost cost;
  cost.device_bytes = device * kGib;
  cost.host_bytes = host * kGib;
  cost.begin.total_steps = steps;
  return cost;
}

// What the first step would be refused with; "" when it begins.
std::string refusal(const SimulationSettings& settings, const JobCost& cost, bool on_gpu,
                    uint64_t seed = 1) {
  std::mt19937_64 generator(seed);
  try {
    Faults(settings, cost, on_gpu, generator).before_first_step();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

// The C++ standard, [rand.predef]: the 10000th draw of mt19937_64 is 9981545732273789042, which is
// 0.5411 of 2^64.
TEST(SimulatedChancesTest, AUniformDrawIsAShareOfTheGeneratorsRange) {
  std::mt19937_64 generator;
  generator.discard(9999);
  EXPECT_DOUBLE_EQ(uniform(generator), 9981545732273789042.0 / 18446744073709551616.0);
}

// Of the normal distribution: 68.27 % lie within one deviation, 4.55 % beyond two, half below the
// mean.
TEST(SimulatedChancesTest, GaussianDrawsHaveTheNormalDistribution) {
  constexpr int kDraws = 100000;
  std::mt19937_64 generator(3);
  double sum = 0, squares = 0;
  int within_one = 0, beyond_two = 0, below = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = gaussian(generator);
    sum += value;
    squares += value * value;
    within_one += std::abs(value) < 1 ? 1 : 0;
    beyond_two += std::abs(value) > 2 ? 1 : 0;
    below += value < 0 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.013);  // four standard deviations, here and below
  EXPECT_NEAR(squares / kDraws, 1, 0.018);
  EXPECT_NEAR(within_one, 0.6827 * kDraws, 590);
  EXPECT_NEAR(beyond_two, 0.0455 * kDraws, 264);
  EXPECT_NEAR(below, 0.5 * kDraws, 633);
}

// A generator whose state is zero draws 0 for ever.
TEST(SimulatedChancesTest, WhatHasNoChanceDoesNotComeTrueWhateverIsDrawn) {
  std::string state;
  for (size_t i = 0; i < std::mt19937_64::state_size; ++i) state += "0 ";
  std::istringstream zeros(state + std::to_string(std::mt19937_64::state_size));
  std::mt19937_64 generator;
  zeros >> generator;
  ASSERT_EQ(uniform(generator), 0);
  SimulationSettings harmless;
  harmless.crash_signal = SIGURG;  // which does nothing
  const Faults faults(harmless, cost_of_gib(1, 1), true, generator);
  EXPECT_NO_THROW(faults.before_first_step());
  testing::internal::CaptureStderr();
  for (int64_t step = 1; step <= 4; ++step) faults.after_step(step);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// A crash with SIGURG says that it comes and does nothing.
TEST(SimulatedChancesTest, ACrashComesAfterEachStepEquallyOften) {
  SimulationSettings settings;
  settings.crash_probability = 1;
  settings.crash_signal = SIGURG;
  std::mt19937_64 generator(5);
  std::map<int64_t, int> crashes;
  for (int i = 0; i < 400; ++i) {
    const Faults faults(settings, cost_of_gib(1, 1), false, generator);
    for (int64_t step = 1; step <= 5; ++step) {
      testing::internal::CaptureStderr();
      faults.after_step(step);
      if (!testing::internal::GetCapturedStderr().empty()) ++crashes[step];
    }
  }
  ASSERT_EQ(crashes.size(), 4u);
  for (int64_t step = 1; step <= 4; ++step) EXPECT_NEAR(crashes[step], 100, 35) << step;
}

TEST(SimulatedFaultsTest, MemoryIsRefusedAboveItsLimitNotAtIt) {
  SimulationSettings settings;
  settings.oom_gpu_above_gib = 2;
  EXPECT_EQ(refusal(settings, cost_of_gib(2, 1), true), "");
  EXPECT_EQ(refusal(settings, cost_of_gib(2.125, 1), true),
            "CUDA out of memory. Tried to allocate 2.12 GiB (simulated)");
  EXPECT_EQ(refusal(settings, cost_of_gib(2.125, 1), false), "");
  settings.oom_gpu_above_gib = 0;
  EXPECT_NE(refusal(settings, cost_of_gib(0.125, 1), true), "") << "0 is a limit, too";
  settings.oom_gpu_above_gib.reset();
  EXPECT_EQ(refusal(settings, cost_of_gib(1000, 1), true), "");
  settings.oom_host_above_gib = 3;
  EXPECT_EQ(refusal(settings, cost_of_gib(1, 3), false), "");
  EXPECT_EQ(refusal(settings, cost_of_gib(1, 3.5), false),
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 3.50 GiB "
            "(simulated)");
  JobCost cost = cost_of_gib(2, 1);
  cost.device_limit_bytes = 2 * kGib;
  settings.oom_host_above_gib.reset();
  EXPECT_EQ(refusal(settings, cost, true), "");
  cost.device_limit_bytes -= 1;
  EXPECT_NE(refusal(settings, cost, true), "");
}

// 15.87 % of normal draws lie above one deviation, 2.28 % above two.
TEST(SimulatedFaultsTest, MemoryNoiseIsADeviationOfWhatADeviceNeeds) {
  SimulationSettings settings;
  settings.memory_noise = 0.25;
  const auto refused = [&settings](double limit_gib) {
    settings.oom_gpu_above_gib = limit_gib;
    int count = 0;
    for (uint64_t seed = 1; seed <= 2000; ++seed)
      count += refusal(settings, cost_of_gib(2, 1), true, seed).empty() ? 0 : 1;
    return count;
  };
  EXPECT_NEAR(refused(2.5), 317, 65);  // four standard deviations
  EXPECT_NEAR(refused(3), 46, 27);
}

TEST(SimulatedFaultsTest, AFailureHasItsCodeWithAndWithoutAChance) {
  const auto code = [](SimulationSettings settings) -> std::optional<ReasonCode> {
    std::mt19937_64 generator(1);
    try {
      Faults(settings, cost_of_gib(1, 1), false, generator).before_first_step();
      return std::nullopt;
    } catch (const RunError& error) {
      return error.code();
    }
  };
  SimulationSettings settings;
  settings.fail = ReasonCode::kNccl;
  EXPECT_EQ(code(settings), ReasonCode::kNccl);
  settings.fail_probability = 1;
  EXPECT_EQ(code(settings), ReasonCode::kNccl);
  settings.fail.reset();
  EXPECT_EQ(code(settings), ReasonCode::kInternal);
  settings.fail = ReasonCode::kNccl;
  settings.fail_probability = 1e-9;
  EXPECT_EQ(code(settings), std::nullopt) << "the chance decides, not the code";
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
