#include "cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "sftbench/measure/stop_rules.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Steps of `step_s` seconds with 1000 tokens each; the model needs 6e9 FLOPs per token.
class ProgressTest : public testing::Test {
 protected:
  std::string shown(bool terminal, int steps, int total, double step_s,
                    DevicePeak peak = {{}, "unknown"}) {
    std::ostringstream out;
    Progress progress(out, terminal, job_, [peak](const std::string&) { return peak; });
    TrainBegin begin;
    begin.total_steps = total;
    begin.parameters_total = begin.parameters_trainable = 1'000'000'000;
    progress.on_train_begin(begin);
    for (int i = 1; i <= steps; ++i) {
      StepEvent event;
      event.step = i;
      event.begin_s = 100 + (i - 1) * step_s;
      event.end_s = 100 + i * step_s;
      event.loss = 2.5;
      event.tokens.padded = 1000;
      event.device_allocated_bytes = int64_t{3} << 30;
      TrainControl control;
      progress.on_step_end(event, control);
    }
    progress.on_train_end({});
    return out.str();
  }

  TrainingJob job_;
};

TEST_F(ProgressTest, ALineTellsLossRateMemoryAndTimeLeft) {
  EXPECT_EQ(shown(false, 1, 4, 10),
            "step 1/4, loss 2.5, 100 tokens/s, 600 GFLOP/s per device, 3.00 GiB, 0:30 left\n");
}

TEST_F(ProgressTest, AKnownPeakGivesMfu) {
  EXPECT_THAT(shown(false, 1, 4, 10, {1.2e12, {}}), HasSubstr(", MFU 50.0 %, "));
}

TEST_F(ProgressTest, LinesComeEveryFewSecondsAndAtTheEnd) {
  const std::string text = shown(false, 20, 20, 1);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);  // steps 1, 6, 11, 16 and 20
  EXPECT_THAT(text, HasSubstr("step 20/20, "));
  EXPECT_THAT(text, Not(HasSubstr("step 2/20, ")));
}

TEST_F(ProgressTest, ATerminalGetsOneLineThatRenewsItself) {
  const std::string text = shown(true, 2, 4, 10);
  EXPECT_THAT(text, StartsWith("\rtraining step 1 of 4, 0:00\x1b[K"
                               "\r[######..................] step 1/4, "));
  EXPECT_THAT(text, HasSubstr("\r[############............] step 2/4, "));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST_F(ProgressTest, ATerminalSaysWhatIsWaitedForBeforeTheFirstStep) {
  std::ostringstream out;
  {
    Progress progress(out, true, job_, [](const std::string&) { return DevicePeak{}; });
    ClearsProgress clears(progress);
    progress.phase("starting the engine");
    progress.on_load({"loading", int64_t{3} << 28, int64_t{3} << 30, 100, 4096});
    clears.on_train_begin({});
    out << "a warning\n";
    TrainBegin begin;
    begin.total_steps = 7;
    begin.resumed_step = 3;
    progress.on_train_begin(begin);
  }
  EXPECT_EQ(out.str(),
            "\rstarting the engine, 0:00\x1b[K"
            "\rloading, weights 25 % of 3.00 GiB, 100 of 4096 entries tokenized, 0:00\x1b[K"
            "\r\x1b[Ka warning\n"
            "\rtraining step 4 of 7, 0:00\x1b[K"
            "\r\x1b[K")
      << "nothing is left of it when the run ends there";
}

TEST_F(ProgressTest, WhatFollowsARunThatFailsBetweenStepsBeginsItsOwnLine) {
  std::ostringstream out;
  {
    Progress progress(out, true, job_, [](const std::string&) { return DevicePeak{}; });
    progress.on_train_begin({});
    StepEvent event;
    event.step = 1;
    TrainControl control;
    progress.on_step_end(event, control);
  }
  EXPECT_THAT(out.str(), testing::EndsWith("\x1b[K\n"));
}

TEST_F(ProgressTest, WithoutATerminalWhatTakesLessThanSecondsIsNotSaid) {
  std::ostringstream out;
  Progress progress(out, false, job_, [](const std::string&) { return DevicePeak{}; });
  progress.phase("starting the engine");
  progress.on_load({"loading", 1, 2, 0, 0});
  EXPECT_EQ(out.str(), "");
}

TEST_F(ProgressTest, WhatIsLoadedIsAFractionWhereTheWholeIsKnown) {
  EXPECT_EQ(load_text({"reading the tokenizer", 0, 0, 0, 0}), "reading the tokenizer");
  EXPECT_EQ(load_text({"loading", 0, int64_t{1} << 30, 0, 0}), "loading, weights 0 % of 1.00 GiB");
  EXPECT_EQ(load_text({"loading", int64_t{2} << 30, int64_t{1} << 30, 5, 5}),
            "loading, weights 100 % of 1.00 GiB, 5 of 5 entries tokenized");
}

TEST_F(ProgressTest, StopRulesShortenTheTimeLeft) {
  job_.batches.stop_after_seconds = 15;
  EXPECT_THAT(shown(false, 1, 1000, 10), HasSubstr(", 0:05 left"));
  job_.batches.stop_after_seconds = -1;
  job_.batches.auto_stop_method = kAutoStopMethod;
  EXPECT_THAT(shown(false, 1, 1000, 10), HasSubstr(", 2:50 left"));
}

TEST(TextTest, DurationsBytesAndQuantitiesAreShort) {
  EXPECT_EQ(duration_text(7.4), "0:07");
  EXPECT_EQ(duration_text(754), "12:34");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(-1), "0:00");
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(12.5 * 1024 * 1024 * 1024), "12.5 GiB");
  EXPECT_EQ(quantity_text(950), "950");
  EXPECT_EQ(quantity_text(12345), "12.3 k");
  EXPECT_EQ(quantity_text(4.56e12), "4.56 T");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
