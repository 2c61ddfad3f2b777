#include "sftbench/measure/stop_rules.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// Runs steps that end at the given times (the first begins at 100) until one stops the run; returns
// the number of steps that ran, or -1 when none stopped it.
int steps_until_stop(StopRules& rules, const std::vector<double>& ends_s) {
  double begin_s = 100;
  for (size_t i = 0; i < ends_s.size(); ++i) {
    StepEvent event;
    event.step = static_cast<int64_t>(i) + 1;
    event.begin_s = begin_s;
    event.end_s = begin_s = 100 + ends_s[i];
    TrainControl control;
    rules.on_step_end(event, control);
    if (control.stop) return static_cast<int>(i) + 1;
  }
  return -1;
}

std::vector<double> every(double seconds, int count) {
  std::vector<double> ends_s;
  for (int i = 1; i <= count; ++i) ends_s.push_back(i * seconds);
  return ends_s;
}

TEST(StopRulesTest, WithoutRulesNothingStops) {
  StopRules rules(-1, "");
  EXPECT_EQ(steps_until_stop(rules, every(100, 1000)), -1);
  EXPECT_EQ(rules.warmup_steps(), 0);
}

TEST(StopRulesTest, StopAfterSecondsStopsAtTheFirstStepThatReachesIt) {
  StopRules exact(30, "");
  EXPECT_EQ(steps_until_stop(exact, {10, 20, 30, 40}), 3);
  StopRules late(30, "");
  EXPECT_EQ(steps_until_stop(late, {10, 29.999, 30.001, 40}), 3);
  StopRules one_step(30, "");
  EXPECT_EQ(steps_until_stop(one_step, {31}), 1);
}

// Steps of 100 tokens whose seconds alternate around 1 by `off`.
int steps_until_known(StopRules& rules, double off, int count, int64_t tokens_of_odd = 100) {
  double at_s = 100;
  for (int i = 1; i <= count; ++i) {
    StepEvent event;
    event.step = i;
    event.begin_s = at_s;
    event.end_s = at_s += i == 1 ? 5 : 1 + (i % 2 == 0 ? off : -off);
    event.tokens.dataset = i % 2 == 0 ? 100 : tokens_of_odd;
    TrainControl control;
    rules.on_step_end(event, control);
    if (control.stop) return i;
  }
  return -1;
}

TEST(StopRulesTest, ARateThatIsKnownStopsBehindAWarmUpStepAndEightMore) {
  StopRules rules(-1, "", {}, 1);
  EXPECT_EQ(steps_until_known(rules, 0, 100), 9);
  EXPECT_EQ(rules.warmup_steps(), 1);
  ASSERT_TRUE(rules.known_rate());
  EXPECT_EQ(rules.known_rate()->steps, 8);
  EXPECT_DOUBLE_EQ(rules.known_rate()->within_percent, 0);
}

// Half of the interval that holds the rate, after eight steps of 100 tokens behind the first.
double percent_after(const std::vector<double>& seconds, double known_percent = 100) {
  StopRules rules(-1, "", {}, known_percent);
  StepEvent event;
  event.tokens.dataset = 100;
  event.end_s = 5;
  TrainControl control;
  rules.on_step_end(event, control);
  for (const double step_s : seconds) {
    EXPECT_FALSE(control.stop);
    event.begin_s = event.end_s;
    event.end_s += step_s;
    rules.on_step_end(event, control);
  }
  return control.stop ? rules.known_rate()->within_percent : -1;
}

// Steps of 0.95 s and 1.05 s around their mean of 1 s deviate by sqrt(8 * 0.05^2 / 7). Their
// interval is t * deviation / sqrt(n) of it, with t by Abramowitz and Stegun 26.7.5 as the tables
// of Student's t have it within 1 %: 2.35646 of 7 degrees (2.3646 in tables).
TEST(StopRulesTest, TheIntervalOfARateIsStudentsOfItsIndependentSteps) {
  const double deviation = std::sqrt(8 * 0.05 * 0.05 / 7);
  const double s = 0.95, l = 1.05;
  // Each differs from the one before: as independent as eight.
  EXPECT_NEAR(percent_after({s, l, s, l, s, l, s, l}), 100 * 2.35646 * deviation / std::sqrt(8),
              1e-4);
  // In pairs: the products of neighbors are +-+-+-+, one of eight squares. n (1 - 1/8) / (1 + 1/8)
  // is 56 / 9 steps, and t of 47 / 9 degrees is 2.51772.
  EXPECT_NEAR(percent_after({s, s, l, l, s, s, l, l}),
              100 * 2.51772 * deviation / std::sqrt(56 / 9.0), 1e-4);
  // A drift: five of eight, 8 * 3 / 13 steps, which count as two. t of 2 degrees is 3.85172.
  EXPECT_NEAR(percent_after({s, s, s, s, l, l, l, l}), 100 * 3.85172 * deviation / std::sqrt(2),
              1e-4);
}

TEST(StopRulesTest, ARateIsKnownAtExactlyThePercentThatIsAskedFor) {
  const std::vector<double> steps = {0.95, 1.05, 0.95, 1.05, 0.95, 1.05, 0.95, 1.05};
  const double within = percent_after(steps);
  ASSERT_GT(within, 0);
  EXPECT_EQ(percent_after(steps, within), within);
  EXPECT_EQ(percent_after(steps, std::nextafter(within, 0)), -1);
}

TEST(StopRulesTest, WithoutTokensOrTimeThereIsNoRateToKnow) {
  StopRules no_tokens(-1, "", {}, 100);
  EXPECT_EQ(steps_until_stop(no_tokens, every(1, 20)), -1);
  EXPECT_EQ(percent_after(std::vector<double>(20, 0.0)), -1);
}

TEST(StopRulesTest, ARunThatAnotherRuleEndsHasNoKnownRate) {
  StopRules both(5 + 8, "", {}, 1);  // its rate would be known at that step
  EXPECT_EQ(steps_until_known(both, 0, 100), 9);
  EXPECT_FALSE(both.known_rate());
  // 56 steps last 60 s. That the rate is known then is not asked for.
  StopRules automatic(-1, kAutoStopMethod);
  EXPECT_EQ(steps_until_known(automatic, 0, 1000), 56 + 120);
  EXPECT_FALSE(automatic.known_rate());
}

// t * 0.05 / sqrt(n) <= 0.01 with the deviation of steps that lie 5 % off: t of 99 degrees
// is 1.984, so that about 100 steps are needed, and fewer for 2 %.
TEST(StopRulesTest, NoisyStepsTakeAsManyAsTheirNoiseAsksFor) {
  StopRules one(-1, "", {}, 1);
  EXPECT_NEAR(steps_until_known(one, 0.05, 1000), 101, 3);
  EXPECT_LE(one.known_rate()->within_percent, 1);
  StopRules two(-1, "", {}, 2);
  EXPECT_NEAR(steps_until_known(two, 0.05, 1000), 30, 3);
  StopRules never(-1, "", {}, 1);
  EXPECT_EQ(steps_until_known(never, 0.05, 50), -1);
  EXPECT_FALSE(never.known_rate());
  EXPECT_EQ(never.warmup_steps(), 1) << "the first step asks for memory, whatever ended the run";
}

// Batches of other sizes take other times, which is no noise of the rate.
TEST(StopRulesTest, TokensThatTakeTheirTimeAreNoNoise) {
  StopRules rules(-1, "", {}, 1);
  EXPECT_EQ(steps_until_known(rules, 0.2, 100, 100 * 0.8 / 1.2 + 0.5), 9);
}

TEST(StopRulesTest, ZeroSecondsMeansNever) {
  StopRules rules(0, "");
  EXPECT_EQ(steps_until_stop(rules, every(1, 10)), -1);
}

TEST(StopRulesTest, ShortStepsStopAfter60And120Seconds) {
  int stable_begins = 0;
  StopRules rules(-1, kAutoStopMethod, [&] { ++stable_begins; });
  EXPECT_EQ(steps_until_stop(rules, every(1, 1000)), 180);
  EXPECT_EQ(rules.warmup_steps(), 60);
  EXPECT_EQ(stable_begins, 1);
}

TEST(StopRulesTest, LongStepsStopAfterTenStableSteps) {
  StopRules rules(-1, kAutoStopMethod);
  EXPECT_EQ(steps_until_stop(rules, every(45, 1000)), 12);  // warm-up: 2 steps, 90 s
  EXPECT_EQ(rules.warmup_steps(), 2);
}

TEST(StopRulesTest, TheBoundariesBelongToTheEarlierPhase) {
  // 59.999 s is not yet a warm-up; 60 s is.
  StopRules rules(-1, kAutoStopMethod);
  std::vector<double> ends_s = {59.999, 60.0};
  for (int i = 1; i <= 12; ++i) ends_s.push_back(60.0 + i * 10.0);
  EXPECT_EQ(steps_until_stop(rules, ends_s), 14);  // stable: 12 steps of 10 s are exactly 120 s
  EXPECT_EQ(rules.warmup_steps(), 2);
}

TEST(StopRulesTest, NineStableStepsAreNotEnoughHoweverLong) {
  StopRules rules(-1, kAutoStopMethod);
  std::vector<double> ends_s = {60};
  for (int i = 1; i <= 9; ++i) ends_s.push_back(60 + i * 1000.0);
  EXPECT_EQ(steps_until_stop(rules, ends_s), -1);
  EXPECT_EQ(rules.warmup_steps(), 1);
}

TEST(StopRulesTest, ARunThatEndsInItsWarmupIsMeasuredWhole) {
  StopRules rules(-1, kAutoStopMethod);
  EXPECT_EQ(steps_until_stop(rules, {20, 40}), -1);
  EXPECT_EQ(rules.warmup_steps(), 0);
  StopRules ends_with_it(-1, kAutoStopMethod);
  EXPECT_EQ(steps_until_stop(ends_with_it, {20, 60}), -1);
  EXPECT_EQ(ends_with_it.warmup_steps(), 0);
}

TEST(StopRulesTest, BothRulesMayStopARun) {
  StopRules rules(70, kAutoStopMethod);
  EXPECT_EQ(steps_until_stop(rules, every(1, 1000)), 70);
  EXPECT_EQ(rules.warmup_steps(), 60);
}

TEST(StopRulesTest, AnUnknownMethodIsNamed) {
  try {
    StopRules rules(-1, "WARMUP_60S_STABLE_120S_OR_10_STEP");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "auto_stop_method: unknown method 'WARMUP_60S_STABLE_120S_OR_10_STEP'; expected "
                 "WARMUP_60S_STABLE_120S_OR_10_STEPS or none; did you mean "
                 "'WARMUP_60S_STABLE_120S_OR_10_STEPS'?");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
