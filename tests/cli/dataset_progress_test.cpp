#include "cli/dataset_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <sstream>

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

class DatasetProgressTest : public testing::Test {
 protected:
  // What is shown when `steps` updates, `step_s` apart, count up to `total`.
  std::string shown(bool terminal, int64_t total, int steps, double step_s, int64_t already = 0) {
    std::ostringstream out;
    double now_s = 100;
    {
      DatasetProgress progress(out, terminal, "entries written", total, already,
                               [&now_s] { return now_s; });
      for (int step = 1; step <= steps; ++step) {
        now_s += step_s;
        progress.update(already + (total - already) * step / steps);
      }
    }
    return out.str();
  }
};

TEST_F(DatasetProgressTest, LinesComeEveryFewSeconds) {
  EXPECT_EQ(shown(false, 4000, 8, 1),
            "1500 of 4000 entries written, 500/s, 0:05 left\n"
            "3000 of 4000 entries written, 500/s, 0:02 left\n");
}

TEST_F(DatasetProgressTest, WorkThatIsDoneAtOnceShowsNothing) {
  EXPECT_EQ(shown(false, 4000, 8, 0.1), "");
  EXPECT_EQ(shown(true, 4000, 8, 0.01), "");
}

TEST_F(DatasetProgressTest, ATerminalGetsABarThatRenewsItselfAndEndsFull) {
  EXPECT_EQ(shown(true, 40, 4, 1),
            "\r[######..................] 10 of 40 entries written, 10/s, 0:03 left\x1b[K"
            "\r[############............] 20 of 40 entries written, 10/s, 0:02 left\x1b[K"
            "\r[##################......] 30 of 40 entries written, 10/s, 0:01 left\x1b[K"
            "\r[########################] 40 of 40 entries written, 10/s, 0:00 left\x1b[K\n");
}

TEST_F(DatasetProgressTest, WhatWasDoneBeforeCountsAsDoneButNotAsFast) {
  EXPECT_THAT(shown(false, 1000, 1, 10, 900), HasSubstr("1000 of 1000 entries written, 10/s, "));
}

TEST(InterruptNoteTest, ASignalIsNotedOnceAndThenForgotten) {
  {
    const InterruptNote interrupts;
    EXPECT_NO_THROW(interrupts.throw_if_interrupted());
    std::raise(SIGINT);
    EXPECT_THROW(interrupts.throw_if_interrupted(), DatasetInterrupted);
  }
  const InterruptNote another;
  EXPECT_NO_THROW(another.throw_if_interrupted());
  std::raise(SIGTERM);
  EXPECT_THROW(another.throw_if_interrupted(), DatasetInterrupted);
}

TEST(InterruptNoteTest, ASecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const InterruptNote interrupts;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
