#include "sweep/cell_queue.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sftbench/catalog/catalog.h"
#include "sftbench/sweep/machine.h"
#include "sftbench/sweep/sweep.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// A walk of so many steps that waits while measurements are under way, where it is told to.
class FakeWalk : public WalkSource {
 public:
  std::optional<WalkStep> next() override {
    if (left == 0) return std::nullopt;
    --left;
    return WalkStep{};
  }
  int64_t entities_left_at_most() const override { return left; }
  bool waits(int64_t under_way) const override { return patient && under_way > 0; }

  int64_t left = 0;
  bool patient = false;
};

Space one_entity() {
  SpaceOptions options;
  options.experiment = "finetune_full_benchmark-v1.0.0";
  options.assignments = {"model_name=smollm2-135m", "number_gpus=0", "model_max_length=512",
                         "batch_size=1"};
  return space_from_assignments(Catalog::shipped(), options);
}

class CellQueueTest : public testing::Test {
 protected:
  static Cell cell(const std::string& key, int attempt = 1) {
    Cell cell;
    cell.key = key;
    cell.attempt = attempt;
    cell.request.experiment = "tuning";
    return cell;
  }
  // The key of what comes, "none", and an ending for what was left unread.
  std::string next(double now_s = 0, int64_t under_way = 0) {
    const auto next = queue_.next(now_s, under_way);
    if (!next) return "none";
    return next->cell.key.size() == 1 ? next->cell.key + (next->unread ? "?" : "") : "walk";
  }

  const Space space_ = one_entity();
  const ActuatorSettings settings_;
  const ResolveOptions options_;
  const Machine machine_{{0}, {}, Catalog::shipped().gpus, 1};
  const CellPlanner planner_{
      {space_, settings_, options_, Catalog::shipped(), machine_, nullptr, {}}};
  FakeWalk walk_;
  CellQueue queue_{walk_, planner_};
};

TEST_F(CellQueueTest, TheWalkComesFirstThenWhatIsUnreadThenRetriesThenWhatOthersMeasure) {
  walk_.left = 2;
  queue_.put_off(cell("b"), 0, 0);
  queue_.retry(cell("r"));
  queue_.leave_unread(cell("u"));
  EXPECT_EQ(queue_.unread(), 1u);
  EXPECT_EQ(queue_.retries(), 1u);
  EXPECT_EQ(queue_.put_off_count(), 1u);
  EXPECT_EQ(queue_.next_at_s(5, 0), 5);
  for (const char* expected : {"walk", "walk", "u?", "r", "b", "none"}) EXPECT_EQ(next(), expected);
  EXPECT_EQ(queue_.next_at_s(5, 0), INFINITY);
}

TEST_F(CellQueueTest, AWalkThatWaitsForResultsGoesOnWhenTheyAreThere) {
  walk_.left = 1;
  walk_.patient = true;
  EXPECT_EQ(next(0, 1), "none");
  EXPECT_EQ(queue_.next_at_s(5, 1), INFINITY);
  EXPECT_EQ(queue_.next_at_s(5, 0), 5);
  queue_.retry(cell("r"));
  EXPECT_EQ(next(0, 1), "r");
  EXPECT_EQ(next(0, 0), "walk");
}

TEST_F(CellQueueTest, WhatAnotherSweepMeasuresIsLookedAtLaterAndLaterAgain) {
  Cell busy = cell("b");
  for (const double wait_s : {0.5, 1.0, 2.0, 3.0, 3.0}) {
    queue_.put_off(busy, 100, 3);
    EXPECT_EQ(next(100), "none") << "the walk has ended";
    EXPECT_EQ(queue_.next_at_s(100, 0), 100 + wait_s);
    EXPECT_EQ(next(99.9 + wait_s), "none");
    busy = queue_.next(100 + wait_s, 0).value().cell;
  }
  EXPECT_EQ(busy.looks, 5);
}

TEST_F(CellQueueTest, TheOneToLookAtFirstIsInFront) {
  Cell late = cell("l");
  late.looks = 3;
  queue_.put_off(late, 0, 100);
  queue_.put_off(cell("a"), 0, 100);
  queue_.put_off(cell("b"), 0, 100);
  for (const char* expected : {"a", "b", "l", "none"}) EXPECT_EQ(next(100), expected);
}

TEST_F(CellQueueTest, OfWhatWasBegunRetriesAreKept) {
  walk_.left = 3;
  queue_.leave_unread(cell("u"));
  queue_.retry(cell("r", 2));
  queue_.put_off(cell("a", 1), 0, 0);
  queue_.put_off(cell("b", 2), 0, 0);
  queue_.keep_only_retries();
  for (const char* expected : {"r", "b", "none"}) EXPECT_EQ(next(), expected);
}

// 70 s for 3 cells and a half; what the store held took none.
TEST(SweepStateTest, TheTimeThatIsLeftIsThatOfTheCellsBeforeIt) {
  SweepState state;
  state.cells_at_most = 20;
  state.before[Status::kValid] = 4;
  state.unread = 2;
  state.elapsed_s = 70;
  state.estimate(0);
  EXPECT_EQ(state.seconds_left, std::nullopt) << "nothing was measured";
  state.now[{Status::kValid, std::nullopt}] = 2;
  state.now[{Status::kFailed, ReasonCode::kOomGpu}] = 1;
  state.estimate(0.5);
  EXPECT_EQ(state.settled(), 9);
  EXPECT_EQ(state.settled(Status::kValid), 6);
  EXPECT_EQ(state.settled(Status::kInvalid), 0);
  EXPECT_DOUBLE_EQ(state.seconds_left.value(), 70 / 3.5 * 10.5);
  state.cells_at_most = 9;
  state.estimate(0.5);
  EXPECT_EQ(state.seconds_left, 0);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
