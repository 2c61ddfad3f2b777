#include "cli/sweep_view.h"

#include <gmock/gmock.h>

#include <sstream>

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Cell cell(const std::string& name) {
  Cell cell;
  cell.request.entity_id = name;
  return cell;
}

std::string name_of(const Cell& cell) {
  return cell.request.entity_id;
}

SweepState some_state() {
  SweepState state;
  state.cells_at_most = 12;
  state.before = {{Status::kValid, 2}};
  state.now = {{{Status::kValid, std::nullopt}, 1},
               {{Status::kInvalid, ReasonCode::kRule1}, 2},
               {{Status::kFailed, ReasonCode::kOomHost}, 1}};
  state.elapsed_s = 65;
  state.seconds_left = 3600;
  return state;
}

class SweepViewTest : public testing::Test {
 protected:
  std::ostringstream out_;
  SweepView live_{out_, true, name_of};
  SweepView lines_{out_, false, name_of};
  Cell first_ = cell("batch_size=1"), second_ = cell("batch_size=2");
};

TEST_F(SweepViewTest, OneLineForTheWholeAndOneForEachRunningMeasurement) {
  SweepState state = some_state();
  Heartbeat starting, training;
  training.phase = "training";
  training.step = 3;
  training.total_steps = 10;
  training.loss = 2.34567;
  training.tokens_per_s = 1234;
  training.memory_bytes = int64_t{3} << 30;
  state.running = {{&first_, &starting, 2}, {&second_, &training, 61}};
  EXPECT_THAT(
      live_.live_lines(state, 200, 20),
      ElementsAre(
          "[############............] 6/12 · 3 valid · 2 invalid · 1 failed · 1:05, 1:00:00 left",
          "  batch_size=1: starting, 0:02",
          "  batch_size=2: step 3/10, loss 2.346, 1.23 k tokens/s, 3.00 GiB, 1:01"));
}

TEST_F(SweepViewTest, RetriesAndCellsOfOtherSweepsAreCountedWhenThereAreAny) {
  SweepState state = some_state();
  state.retries = 2;
  state.busy = 1;
  EXPECT_THAT(live_.live_lines(state, 200, 20).front(),
              HasSubstr("1 failed · 2 to be tried again · 1 in other sweeps"));
}

TEST_F(SweepViewTest, LinesKeepWithinTheTerminal) {
  SweepState state = some_state();
  const Heartbeat heartbeat;
  for (int i = 0; i < 50; ++i) state.running.push_back({&first_, &heartbeat, 1});
  const std::vector<std::string> lines = live_.live_lines(state, 20, 10);
  EXPECT_THAT(lines, SizeIs(10));
  EXPECT_EQ(lines.back(), "  ... and 42 more");
  EXPECT_EQ(lines.front(), "[############.......");
}

TEST_F(SweepViewTest, LiveLinesAreTakenAwayBeforeALineThatStays) {
  const SweepState state = some_state();
  live_.on_begin(state);
  live_.on_tick(state);
  out_.str("");
  live_.on_note("a note");
  EXPECT_EQ(out_.str(), "\x1b[1A\x1b[Ja note\n");
  out_.str("");
  live_.close();
  EXPECT_EQ(out_.str(), "");
}

TEST_F(SweepViewTest, WithoutATerminalNothingIsRenewed) {
  const SweepState state = some_state();
  lines_.on_begin(state);
  lines_.on_tick(state);
  EXPECT_EQ(out_.str(), "sweep of 12 cells\n");
}

TEST_F(SweepViewTest, ALineSaysHowAMeasurementEnded) {
  Measurement valid;
  valid.status = Status::kValid;
  valid.measured["train_tokens_per_second"] = 281.3;
  valid.extra["memory_bytes"] = {{"device_peak_allocated", Json::array()},
                                 {"host_peak_rss", {int64_t{1} << 30, int64_t{2} << 30}}};
  EXPECT_EQ(outcome_line("batch_size=1", {Status::kValid, &valid, 17}),
            "valid    batch_size=1: 281 tokens/s, 2.00 GiB, 0:17");
  valid.extra["run_queue_wait_share"] = 0.384;
  EXPECT_EQ(outcome_line("batch_size=1", {Status::kValid, &valid, 17}),
            "valid    batch_size=1: 281 tokens/s, 2.00 GiB, machine busy (38 % waited), 0:17");
  Measurement failed;
  set_outcome(failed, Status::kFailed, {ReasonCode::kOomHost, "no memory\nand more", {}, {}});
  EXPECT_EQ(outcome_line("batch_size=1", {Status::kFailed, &failed, 3}),
            "failed   batch_size=1: OOM_HOST: no memory, 0:03");
}

TEST_F(SweepViewTest, AWarningNamesItsCell) {
  lines_.on_warning(first_, "memory cannot suffice");
  EXPECT_EQ(out_.str(), "warning  batch_size=1: memory cannot suffice\n");
}

TEST_F(SweepViewTest, AStartNamesTheDevices) {
  lines_.on_start(first_, {{2}, {}});
  lines_.on_start(first_, {{2, 3}, {}});
  lines_.on_start(first_, {{2}, {"GPU-1", "GPU-2"}});
  EXPECT_EQ(out_.str(),
            "start    batch_size=1 on core 2\nstart    batch_size=1 on cores 2, 3\n"
            "start    batch_size=1 on GPU-1, GPU-2\n");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
