// What a worker leaves to others: by this machine, by memory, by the time that such cells took.
#include "sweep/left_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/sample_measurement.h"
#include "results/temporary_folder.h"
#include "sftbench/base/clock.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;
using testing::SizeIs;

Cell cell_of(const std::string& model, const std::string& key = "key") {
  Cell cell;
  cell.request.experiment = "tuning";
  cell.inputs = {{"model_name", model}};
  cell.key = key;
  return cell;
}

TEST(CellTimesTest, TheLongestOfTheSameModelCountsElseOfTheExperimentElseOfAny) {
  CellTimes times;
  EXPECT_FALSE(times.longest(cell_of("small")));
  times.took(cell_of("small"), 10);
  times.took(cell_of("small"), 5);
  times.took(cell_of("large"), 100);
  EXPECT_EQ(times.longest(cell_of("small")), 10);
  EXPECT_EQ(times.longest(cell_of("other")), 100);
  Cell stability = cell_of("small");
  stability.request.experiment = "stability";
  EXPECT_EQ(times.longest(stability), 100);
}

class ReasonToLeaveTest : public testing::Test {
 protected:
  std::optional<ReasonToLeave> reason() {
    return reason_to_leave(cell_of("small"), plan_, options_, times_);
  }

  CellPlan plan_;
  SweepOptions options_;
  CellTimes times_;
};

TEST_F(ReasonToLeaveTest, WithoutADeadlineAndAProblemThereIsNone) {
  options_.worker = true;
  times_.took(cell_of("small"), 1e6);
  EXPECT_FALSE(reason());
}

TEST_F(ReasonToLeaveTest, ACellThatWouldNotEndInTimeIsLeft) {
  times_.took(cell_of("small"), 1000);
  options_.until_s = steady_seconds() + 900;
  ASSERT_TRUE(reason());
  EXPECT_TRUE(reason()->no_time);
  EXPECT_EQ(reason()->text, "such a cell took 1000 s, and the deadline is nearer");
  options_.until_s = steady_seconds() + 100000;
  EXPECT_FALSE(reason());
}

TEST_F(ReasonToLeaveTest, TheFirstCellIsBegunHoweverLongItMayTake) {
  options_.until_s = steady_seconds() + 100000;
  EXPECT_FALSE(reason());
}

TEST_F(ReasonToLeaveTest, WhatIsKnownToFailIsWrittenDownWhateverTheTime) {
  times_.took(cell_of("small"), 1000);
  options_.until_s = steady_seconds() + 1;
  plan_.settled = ErrorClass{ReasonCode::kRule1, "batch", {}};
  EXPECT_FALSE(reason());
}

TEST_F(ReasonToLeaveTest, OnlyAWorkerLeavesWhatThisMachineCannotMeasure) {
  plan_.settled = ErrorClass{ReasonCode::kUnsupported, "two GPUs", {}};
  plan_.elsewhere = "two GPUs";
  EXPECT_FALSE(reason()) << "a sweep writes it down";
  options_.worker = true;
  EXPECT_EQ(reason()->text, "two GPUs");
}

TEST_F(ReasonToLeaveTest, OnlyAWorkerLeavesWhatMemoryCannotHold) {
  options_.preflight = [](const TrainingJob&, const Share&) { return "405 GiB are needed"; };
  EXPECT_FALSE(reason()) << "a sweep measures what becomes of it";
  options_.worker = true;
  EXPECT_EQ(reason()->kind, "memory");
  EXPECT_EQ(reason()->text, "405 GiB are needed");
}

TEST(LeftCellsTest, WhatOthersHaveSettledMeanwhileIsNotLeft) {
  const TemporaryFolder folder;
  const ResultStore store(folder.path());
  const SweepOptions options;
  StoreView view(store, options);
  Measurement measurement = sample_valid();
  measurement.experiment = "tuning";
  LeftCells left;
  left.add(cell_of("small", "first"), {"gpus", "two GPUs"});
  left.add(cell_of("small", "second"), {"gpus", "four GPUs"});
  left.add(cell_of("large", "third"), {"memory", "405 GiB are needed"});
  store.write(measurement, "second");
  store.write(measurement, "third");
  const std::vector<CellsLeft> remaining = left.remaining(view);
  ASSERT_THAT(remaining, SizeIs(1));
  EXPECT_EQ(remaining[0].reason, "two GPUs");
  EXPECT_EQ(remaining[0].cells, 1);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
