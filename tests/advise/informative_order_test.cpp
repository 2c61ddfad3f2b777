// A sweep that measures first what tells most: its beliefs against the process that they stand for,
// and the order of made-up cells.
#include "sftbench/advise/informative_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "advise/case_beliefs.h"

namespace sftbench {
namespace SFTBENCH_FILE {

constexpr double kGiB = 1 << 30;

PredictedCase case_of(const std::string& model, int64_t batch) {
  return {"NVIDIA-A100-SXM4-80GB", "sftbench", "full", model, 1, batch, 1024, false};
}

std::vector<PredictedCase> some_cases() {
  std::vector<PredictedCase> cases;
  for (const char* model : {"a", "b", "c"}) {
    for (const int64_t batch : {1, 2, 8, 64}) cases.push_back(case_of(model, batch));
  }
  cases[3].method = "lora";
  cases[5].checkpointing = true;
  cases[7].length = 8192;
  return cases;
}

// Cell i of this model, batch and time of a step; ten steps.
InformativeCell cell_of(int64_t i, const PredictedCase& at, double step_s) {
  InformativeCell cell;
  cell.step = {i, 0};
  cell.predicted = true;
  cell.at = at;
  cell.step_s = step_s;
  cell.steps = 10;
  return cell;
}

InformativeOrder order_of(std::vector<InformativeCell> cells, int64_t jobs = 1,
                          const std::vector<size_t>& stood = {}) {
  return {std::move(cells), stood, ResidualTable::shipped(), jobs};
}

// Cells that need from 60 to 100 of 80 GiB, by prediction.
std::vector<InformativeCell> cells_beside_the_edge() {
  std::vector<InformativeCell> cells;
  for (int64_t i = 0; i < 9; ++i) {
    cells.push_back(cell_of(i, case_of("a", 8 + i), 5));
    cells.back().tensor_bytes = (60 + 5 * static_cast<double>(i)) * kGiB;
    cells.back().room_bytes = 80 * kGiB;
  }
  return cells;
}

class CaseBeliefsTest : public testing::Test {
 protected:
  CaseBeliefsTest() {
    for (const PredictedCase& at : cases_) places_.emplace_back(at);
  }

  void expect_as_the_process(const CaseBeliefs& beliefs, const std::vector<Residual>& rows) const {
    const ResidualProcess process(rows, spread_);
    for (size_t i = 0; i < cases_.size(); ++i) {
      const ResidualProcess::Guess guess = process.at(cases_[i]);
      EXPECT_NEAR(beliefs.mean(i), guess.mean, 1e-5) << i;
      EXPECT_NEAR(beliefs.variance(i) + spread_.noise, guess.deviation * guess.deviation, 1e-5)
          << i;
    }
  }

  const std::vector<PredictedCase> cases_ = some_cases();
  const Spread spread_ = {0.02, 0.01, 0.03, 2, 0.001, 1};
  std::vector<CasePlace> places_;
};

TEST_F(CaseBeliefsTest, AreThoseOfTheProcessForAnyMeasurements) {
  CaseBeliefs beliefs(places_, spread_);
  std::vector<Residual> rows;
  for (const auto& [measured, log_ratio] :
       {std::pair<size_t, double>{1, 0.3}, {7, -0.2}, {1, 0.25}, {11, 0.05}}) {
    beliefs.condition(measured, spread_.noise);
    beliefs.learn(log_ratio);
    rows.push_back({cases_[measured], Figure::kTime, false, false, log_ratio});
    expect_as_the_process(beliefs, rows);
  }
  beliefs.condition(4, spread_.noise);
  beliefs.undo();
  expect_as_the_process(beliefs, rows);
  beliefs.undo();
  rows.pop_back();
  expect_as_the_process(beliefs, rows);
}

TEST_F(CaseBeliefsTest, TellsBeforeHowMuchVarianceAMeasurementTakesOff) {
  CaseBeliefs beliefs(places_, spread_);
  beliefs.condition(2, spread_.noise);
  std::vector<size_t> all;
  for (size_t i = 0; i < cases_.size(); ++i) all.push_back(i);
  beliefs.watch(all);
  std::vector<float> weights(all.size(), 1);
  weights[5] = 3;  // that of case 9 is told apart
  double before = 0, after = 0;
  for (const size_t i : all) before += static_cast<double>(weights[i]) * beliefs.variance(i);
  const double gain = beliefs.gain(9, weights, 1, spread_.noise);
  beliefs.condition(9, spread_.noise);
  for (const size_t i : all) after += static_cast<double>(weights[i]) * beliefs.variance(i);
  EXPECT_GT(gain, 0.01);
  EXPECT_NEAR(gain, before - after, 1e-5);
  beliefs.undo();
  beliefs.watch({1, 9, 3});
  EXPECT_DOUBLE_EQ(beliefs.gain(9, {0, 100, 0}, 0, spread_.noise), 0)
      << "what stands for others counts for itself once";
  EXPECT_GT(beliefs.gain(9, {0, 0, 0}, 1, spread_.noise), 0);
}

TEST(InformativeOrderTest, WhatTellsAsMuchInLessTimeComesFirst) {
  InformativeOrder order =
      order_of({cell_of(0, case_of("a", 4), 90), cell_of(1, case_of("a", 4), 3),
                cell_of(2, case_of("a", 4), 90)});
  EXPECT_EQ(order.next()->entity, 1);
}

TEST(InformativeOrderTest, ACellThatStandsForManyComesBeforeALoneOne) {
  std::vector<InformativeCell> cells = {cell_of(0, case_of("lone", 4), 5)};
  for (int64_t i = 1; i <= 6; ++i) cells.push_back(cell_of(i, case_of("many", 1 << i), 5));
  InformativeOrder order = order_of(std::move(cells));
  const int64_t first = order.next()->entity;
  EXPECT_TRUE(first == 3 || first == 4) << "in the middle of them, not " << first;
}

TEST(InformativeOrderTest, CellsUnderWayCountAsMeasured) {
  std::vector<InformativeCell> cells;
  for (int64_t i = 0; i < 8; ++i) cells.push_back(cell_of(i, case_of(i < 4 ? "a" : "b", 4), 5));
  InformativeOrder order = order_of(std::move(cells), 2);
  const bool first = order.next()->entity < 4;
  EXPECT_FALSE(order.waits(1));
  EXPECT_TRUE(order.waits(2));
  EXPECT_NE(order.next()->entity < 4, first);
}

TEST(InformativeOrderTest, EachCellComesOnceAndWhatStoodComesFirst) {
  std::vector<InformativeCell> cells;
  for (int64_t i = 0; i < 5; ++i) cells.push_back(cell_of(i, case_of("a", 1 << i), 5));
  cells[1].predicted = false;
  InformativeOrder order = order_of(std::move(cells), 1, {3});
  EXPECT_EQ(order.entities_left_at_most(), 5);
  std::vector<int64_t> came;
  while (const auto step = order.next()) {
    came.push_back(step->entity);
    order.tell(*step, {1.1, {}, false, {}});
  }
  EXPECT_EQ(came.size(), 5u);
  EXPECT_EQ(std::set<int64_t>(came.begin(), came.end()).size(), 5u);
  EXPECT_EQ(came.front(), 3);
  EXPECT_EQ(came.back(), 1) << "what cannot be predicted";
  EXPECT_EQ(order.entities_left_at_most(), 0);
}

TEST(InformativeOrderTest, ResultsMakeOpenCellsKnown) {
  std::vector<InformativeCell> cells;
  for (int64_t i = 0; i < 20; ++i) cells.push_back(cell_of(i, case_of("a", 1 << (i % 8)), 5));
  InformativeOrder order = order_of(std::move(cells));
  const double before = order.knowledge().factor;
  EXPECT_EQ(order.knowledge().open, 20);
  const WalkStep step = *order.next();
  order.tell(step, {6.0, {}, false, {}});
  EXPECT_EQ(order.knowledge().open, 19);
  EXPECT_LT(order.knowledge().factor, 0.9 * before);
}

// A crash says nothing: what is known is what was known before it was asked for.
TEST(InformativeOrderTest, AFailureThatSaysNothingTeachesNothing) {
  std::vector<InformativeCell> cells;
  for (int64_t i = 0; i < 9; ++i) cells.push_back(cell_of(i, case_of("a", 4), 5));
  InformativeOrder order = order_of(cells, 3);
  const double before = order.knowledge().factor;
  const WalkStep first = *order.next(), second = *order.next();
  EXPECT_EQ(order.knowledge().open, 9) << "nothing is known of what is under way";
  EXPECT_NEAR(order.knowledge().factor, before, 1e-5);
  order.tell(first, {});
  order.tell(second, {});
  EXPECT_EQ(order.knowledge().open, 7);
  EXPECT_NEAR(order.knowledge().factor, before, 1e-5);
  const WalkStep third = *order.next(), fourth = *order.next();
  order.tell(fourth, {});
  order.tell(third, {5.0, {}, false, {}});
  InformativeOrder other = order_of(std::move(cells));
  other.tell(*other.next(), {5.0, {}, false, {}});
  EXPECT_NEAR(order.knowledge().factor, other.knowledge().factor, 1e-5) << "all cells are alike";
  EXPECT_LT(order.knowledge().factor, before);
}

// Whatever the order in which results come, the same is known in the end.
TEST(InformativeOrderTest, ResultsMayComeInAnyOrder) {
  const auto known_after = [](const std::vector<int64_t>& results) {
    std::vector<InformativeCell> cells = cells_beside_the_edge();
    InformativeOrder order = order_of(std::move(cells), 4, {2, 7});
    std::set<int64_t> asked;
    while (asked.size() < 4) asked.insert(order.next()->entity);
    for (const int64_t result : results) {
      auto cell = asked.begin();
      std::advance(cell, result);
      order.tell({*cell, 0}, {4.0 + static_cast<double>(*cell), 70 * kGiB, false, {}});
    }
    const OpenKnowledge knowledge = order.knowledge();
    return std::pair(knowledge.factor, order.next()->entity);
  };
  const auto in_order = known_after({0, 1, 2, 3});
  for (const std::vector<int64_t>& other :
       {std::vector<int64_t>{3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}}) {
    EXPECT_NEAR(known_after(other).first, in_order.first, 1e-5);
    EXPECT_EQ(known_after(other).second, in_order.second);
  }
}

TEST(InformativeOrderTest, ACellThatRanOutOfMemoryTellsOfTheOthers) {
  InformativeOrder order = order_of(cells_beside_the_edge());
  const int64_t before = order.knowledge().undecided;
  const int64_t first = order.next()->entity;
  EXPECT_TRUE(first >= 3 && first <= 5) << "what may die or not tells most, not " << first;
  // It was predicted to fit, or nearly so, and died: all that need more die, too.
  order.tell({first, 0}, {{}, {}, true, {}});
  EXPECT_LT(order.knowledge().undecided, before);
  std::vector<int64_t> came;
  while (const auto step = order.next()) {
    came.push_back(step->entity);
    order.tell(*step, {{}, {}, step->entity > 1, {}});
    if (order.knowledge().undecided == 0) break;
  }
  ASSERT_FALSE(came.empty());
  EXPECT_LT(came.front(), first) << "what needs less is what is not known";
  EXPECT_LT(came.size(), 6u) << "the rest follows";
}

TEST(InformativeOrderTest, AMeasuredPeakTellsOfMemory) {
  InformativeOrder order = order_of(cells_beside_the_edge());
  const int64_t before = order.knowledge().undecided;
  const WalkStep step = *order.next();
  const double peak = (60 + 5 * static_cast<double>(step.entity)) * kGiB;
  order.tell(step, {5.0, 0.8 * peak, false, {}});
  EXPECT_LT(order.knowledge().undecided, before);
}

// What a measurement takes before its first step counts: where that is long, long runs cost little
// more than short ones.
TEST(InformativeOrderTest, LearnsWhatAMeasurementTakesBesideItsSteps) {
  const auto second = [](double start_s) {
    std::vector<InformativeCell> cells = {cell_of(0, case_of("x", 4), 0.01)};
    cells.push_back(cell_of(1, case_of("lone", 4), 0.1));
    for (int64_t i = 2; i < 8; ++i) cells.push_back(cell_of(i, case_of("many", 4), 3));
    InformativeOrder order = order_of(std::move(cells), 1, {0});
    order.tell(*order.next(), {0.01, {}, false, start_s});
    return order.next()->entity;
  };
  EXPECT_EQ(second(0), 1);
  EXPECT_GT(second(1000), 1);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
