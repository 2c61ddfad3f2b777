// A sweep that measures until the best is known: on made-up merits, against what they are.
#include "sftbench/advise/until_known.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace sftbench {
namespace SFTBENCH_FILE {

PredictedCase case_of(int64_t batch) {
  return {"NVIDIA-A100-SXM4-80GB", "sftbench", "full", "llama3.1-8b", 1, batch, 1024, false};
}

// One contest: cell i is predicted to have this merit.
UntilKnown decision(const std::vector<double>& predicted) {
  std::vector<DecisionCell> cells;
  for (size_t i = 0; i < predicted.size(); ++i) {
    cells.push_back(
        {{static_cast<int64_t>(i), 0}, "contest", predicted[i], case_of(int64_t{1} << i), 0});
  }
  return UntilKnown(std::move(cells), ResidualTable::shipped(), 1);
}

TEST(UntilKnownTest, WhatCannotReachTheBestIsLeftOut) {
  UntilKnown cells = decision({100, 1000, 10});
  ASSERT_EQ(cells.next()->entity, 1) << "what reaches highest comes first";
  cells.tell({1, 0}, 1000);
  EXPECT_FALSE(cells.next());
  const std::vector<LeftOut> left = cells.left_out();
  ASSERT_EQ(left.size(), 2u);
  EXPECT_LT(left[0].most, 1);
  EXPECT_GT(left[0].most, 0.1);
}

TEST(UntilKnownTest, WhatOverlapsIsMeasured) {
  UntilKnown cells = decision({1000, 1020, 990});
  std::vector<int64_t> order;
  while (const auto step = cells.next()) {
    order.push_back(step->entity);
    // All are half as fast as predicted, and the predicted second is the best.
    cells.tell(*step, step->entity == 0 ? 520 : 500);
    if (order.size() > 3) break;
  }
  EXPECT_EQ(order.front(), 1);
  EXPECT_NE(std::find(order.begin(), order.end(), 0), order.end());
}

TEST(UntilKnownTest, WhatCannotBePredictedIsMeasuredAndWhatDiesIsNot) {
  std::vector<DecisionCell> cells = {{{0, 0}, "a", 0, {}, 0},
                                     {{1, 0}, "a", 5000, case_of(1), 0.999},
                                     {{2, 0}, "a", 100, case_of(2), 0}};
  UntilKnown decision(std::move(cells), ResidualTable::shipped(), 1);
  ASSERT_EQ(decision.next()->entity, 0);
  decision.tell({0, 0}, std::nullopt);
  ASSERT_EQ(decision.next()->entity, 2);
  decision.tell({2, 0}, 90);
  EXPECT_FALSE(decision.next());
  ASSERT_EQ(decision.left_out().size(), 1u);
  EXPECT_GT(decision.left_out()[0].dies, kSurelyDies);
}

// Cells of one entity with several experiments: a sweep says how many entities are left.
TEST(UntilKnownTest, EntitiesLeftAreNotCountedOnceForEachExperiment) {
  std::vector<DecisionCell> cells;
  for (int64_t entity = 0; entity < 3; ++entity) {
    for (size_t experiment = 0; experiment < 2; ++experiment) {
      cells.push_back({{entity, experiment}, "a", 0, {}, 0});
    }
  }
  UntilKnown decision(std::move(cells), ResidualTable::shipped(), 1);
  std::vector<int64_t> left;
  do {
    left.push_back(decision.entities_left_at_most());
  } while (decision.next());
  EXPECT_EQ(left, (std::vector<int64_t>{3, 3, 2, 2, 1, 1, 0}));
}

TEST(UntilKnownTest, ContestsAreDecidedApart) {
  std::vector<DecisionCell> cells = {{{0, 0}, "a", 10, case_of(1), 0},
                                     {{1, 0}, "b", 1000, case_of(1), 0}};
  UntilKnown decision(std::move(cells), ResidualTable::shipped(), 1);
  ASSERT_EQ(decision.next()->entity, 0);
  decision.tell({0, 0}, 10);
  ASSERT_TRUE(decision.next());
  EXPECT_FALSE(decision.waits(0));
  EXPECT_TRUE(decision.waits(1)) << "one at a time: results choose the next cell";
}

// Merits that lie around predictions as the shipped residuals do: the best is found nearly always,
// and it takes fewer measurements than all.
TEST(UntilKnownTest, FindsTheBestOfManyOnFewMeasurements) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> offset(0, 0.15), own(0, 0.03);
  int found = 0, measured = 0;
  constexpr int kRounds = 100, kCells = 24;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> predicted, merits;
    const double of_all = offset(random);
    for (int i = 0; i < kCells; ++i) {
      predicted.push_back(1000 * std::pow(1.12, static_cast<double>(random() % kCells)));
      merits.push_back(predicted.back() * std::exp(of_all + own(random)));
    }
    UntilKnown cells = decision(predicted);
    double best = 0;
    while (const auto step = cells.next()) {
      ++measured;
      best = std::max(best, merits[static_cast<size_t>(step->entity)]);
      cells.tell(*step, merits[static_cast<size_t>(step->entity)]);
    }
    found += best >= 0.99 * *std::max_element(merits.begin(), merits.end()) ? 1 : 0;
  }
  EXPECT_GE(found, 95);
  EXPECT_LT(measured, kRounds * kCells / 2);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
