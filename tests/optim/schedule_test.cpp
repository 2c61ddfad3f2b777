// Schedules against transformers.get_scheduler at every step (tests/reference/schedules.py).
#include "sftbench/optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

const Json& golden() {
  static const Json kGolden =
      read_json_file(std::string(SFTBENCH_TEST_DATA) + "/optim/schedules.json");
  return kGolden;
}

SchedulePlan plan_of(const std::string& name, const Json& options) {
  return {.name = name,
          .total_steps = 30,
          .warmup_steps = 6,
          .learning_rate = 2e-3,
          .options = parse_schedule_options(name, options)};
}

std::string refusal(const std::string& name, const Json& options) {
  try {
    make_schedule(plan_of(name, options));
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
    return error.what();
  }
  return "no error";
}

TEST(Schedule, IsTransformersAtEveryStep) {
  std::vector<std::string> seen;
  for (const Json& row : golden()["schedules"]) {
    const auto name = row["name"].get<std::string>();
    seen.push_back(name);
    const Schedule schedule =
        make_schedule({.name = name,
                       .total_steps = row["total_steps"],
                       .warmup_steps = row["warmup_steps"],
                       .learning_rate = golden()["learning_rate"],
                       .options = parse_schedule_options(name, row["options"])});
    int64_t step = 0;
    for (const Json& factor : row["factors"]) {
      // The same operations in the same order: what is left is the last bit of cos and pow.
      EXPECT_NEAR(schedule(step), factor.get<double>(), 1e-15) << row.dump() << " step " << step;
      ++step;
    }
  }
  for (const std::string& name : schedule_names()) EXPECT_THAT(seen, testing::Contains(name));
}

TEST(Schedule, WarmUpIsCountedAsTrainerCountsIt) {
  for (const Json& row : golden()["warmups"]) {
    const auto warmup = row["warmup"].get<double>();
    const auto steps = warmup >= 1 ? static_cast<int64_t>(warmup) : 0;
    EXPECT_EQ(count_warmup_steps(row["total_steps"], steps, steps > 0 ? 0.5 : warmup),
              row["steps"].get<int64_t>())
        << row.dump();
  }
}

TEST(Schedule, PolynomialWithoutStepsAfterTheWarmUpEndsWhereItShould) {
  SchedulePlan plan = plan_of("polynomial", {{"lr_end", 1e-3}});
  plan.warmup_steps = plan.total_steps;  // transformers divides by zero here
  EXPECT_DOUBLE_EQ(make_schedule(plan)(30), 0.5);
}

TEST(Schedule, UnknownNameOffersTheNearest) {
  EXPECT_EQ(refusal("cosin", Json::object()),
            "learning-rate schedule 'cosin' is not implemented; there are constant, "
            "constant_with_warmup, cosine, cosine_warmup_with_min_lr, cosine_with_min_lr, "
            "cosine_with_restarts, inverse_sqrt, linear, polynomial, warmup_stable_decay; did you "
            "mean 'cosine'?");
  EXPECT_EQ(refusal("reduce_lr_on_plateau", Json::object()),
            "learning-rate schedule reduce_lr_on_plateau follows evaluations, and a benchmark has "
            "none; cosine works");
}

TEST(Schedule, RefusesOptionsThatItDoesNotHave) {
  EXPECT_EQ(refusal("polynomial", {{"powr", 2}}),
            "learning-rate schedule polynomial: no option 'powr'; there are lr_end, power; did you "
            "mean 'power'?");
  EXPECT_EQ(refusal("linear", {{"num_cycles", 2}}),
            "learning-rate schedule linear: no option 'num_cycles'; it has none");
}

TEST(Schedule, RefusesOptionsOfAnotherType) {
  EXPECT_EQ(refusal("polynomial", {{"power", "2"}}),
            "learning-rate schedule polynomial: option power: found \"2\"; expected a number");
  EXPECT_EQ(refusal("warmup_stable_decay", {{"num_decay_steps", 2.5}}),
            "learning-rate schedule warmup_stable_decay: option num_decay_steps: found 2.5; "
            "expected a number of steps");
  EXPECT_EQ(refusal("warmup_stable_decay", {{"num_decay_steps", 5}, {"decay_type", 1}}),
            "learning-rate schedule warmup_stable_decay: option decay_type: found 1; expected a "
            "text");
}

TEST(Schedule, RefusesOptionsThatContradictOrAreMissing) {
  EXPECT_EQ(refusal("cosine_with_min_lr", Json::object()),
            "learning-rate schedule cosine_with_min_lr: neither min_lr nor min_lr_rate is set; "
            "expected one of them");
  EXPECT_EQ(refusal("cosine_with_min_lr", {{"min_lr", 1e-4}, {"min_lr_rate", 0.1}}),
            "learning-rate schedule cosine_with_min_lr: min_lr and min_lr_rate are both set; "
            "expected one of them");
  EXPECT_EQ(refusal("warmup_stable_decay", Json::object()),
            "learning-rate schedule warmup_stable_decay: num_decay_steps is not set; expected a "
            "number of steps");
}

TEST(Schedule, RefusesValuesThatTheFormulaIsNotMadeFor) {
  EXPECT_EQ(refusal("polynomial", {{"lr_end", 2e-3}}),
            "learning-rate schedule polynomial: lr_end 0.002 is not below the learning rate 0.002");
  EXPECT_EQ(refusal("inverse_sqrt", {{"timescale", 0}}),
            "learning-rate schedule inverse_sqrt: timescale must be at least 1 step");
  EXPECT_EQ(refusal("warmup_stable_decay", {{"num_decay_steps", 25}}),
            "learning-rate schedule warmup_stable_decay: warm-up, num_stable_steps and "
            "num_decay_steps are 6, -1 and 25 of 30 steps; expected none below 0");
  EXPECT_EQ(refusal("warmup_stable_decay", {{"num_decay_steps", 5}, {"warmup_type", "sqrt"}}),
            "learning-rate schedule warmup_stable_decay: warmup_type 'sqrt' is none of linear, "
            "cosine, 1-sqrt");
}

TEST(Schedule, WhatDependsOnTheNumberOfStepsIsCheckedWhereItIsKnown) {
  SchedulePlan plan = plan_of("warmup_stable_decay", {{"num_decay_steps", 25}});
  plan.total_steps = -1;
  EXPECT_NO_THROW(check_schedule(plan));
  plan.total_steps = 30;
  EXPECT_THROW(check_schedule(plan), RunError);
  plan.total_steps = -1;
  plan.options.num_stable_steps = -2;
  try {
    check_schedule(plan);
    ADD_FAILURE() << "no error";
  } catch (const RunError& error) {
    EXPECT_STREQ(error.what(),
                 "learning-rate schedule warmup_stable_decay: num_stable_steps and num_decay_steps "
                 "are -2 and 25; expected none below 0");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
