// Until when a worker works: durations, times, and what launchers say.
#include "cli/deadline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

// date -u -d 2026-11-24T10:00:00Z +%s
constexpr double kTenOClock = 1795514400;

double left_s(const std::string& text) {
  return parse_until(text, kTenOClock).left_s;
}

std::string error_of(const std::string& text) {
  try {
    parse_until(text, kTenOClock);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(DeadlineTest, ADurationCountsFromNow) {
  EXPECT_EQ(left_s("90"), 90);
  EXPECT_EQ(left_s("90s"), 90);
  EXPECT_EQ(left_s("30m"), 1800);
  EXPECT_EQ(left_s("2h"), 7200);
  EXPECT_EQ(left_s("1d"), 86400);
  EXPECT_EQ(left_s("1h30m"), 5400);
  EXPECT_EQ(left_s("0.5h"), 1800);
}

TEST(DeadlineTest, ATimeHasItsZone) {
  EXPECT_EQ(left_s("2026-11-24T12:00Z"), 7200);
  EXPECT_EQ(left_s("2026-11-24T12:00:30Z"), 7230);
  EXPECT_EQ(left_s("2026-11-24T12:00+01:00"), 3600);
  EXPECT_EQ(left_s("2026-11-24T05:30:00-0530"), 3600);
}

TEST(DeadlineTest, ATimeWithoutAZoneIsThatOfThisHost) {
  ::setenv("TZ", "UTC-3", 1);  // POSIX's sign: three hours east
  ::tzset();
  EXPECT_EQ(left_s("2026-11-24T14:00"), 3600);
  ::unsetenv("TZ");
  ::tzset();
}

TEST(DeadlineTest, WhatIsNeitherIsRefused) {
  for (const char* text : {"soon", "2w", "h", "-5m", "2h!", "1h30", "nan", "inf", "2026-11-24",
                           "2026-11-24T12:00X", "2026-11-24T12:00+1", "12:00"}) {
    EXPECT_THAT(error_of(text), HasSubstr("--until: found '" + std::string(text) + "'")) << text;
    EXPECT_THAT(error_of(text), HasSubstr("expected a duration (90s, 30m, 2h")) << text;
  }
}

TEST(DeadlineTest, ATimeThatIsOverIsRefused) {
  EXPECT_THAT(error_of("2026-11-24T09:59Z"), HasSubstr("which is over"));
  EXPECT_THAT(error_of("0s"), HasSubstr("which is no time"));
}

TEST(DeadlineTest, SlurmsEndOfTheJobLeavesHalfAMinute) {
  const Environment slurm = {{"SLURM_JOB_END_TIME", "1795518000"}};
  const auto deadline = launcher_deadline(slurm, kTenOClock);
  ASSERT_TRUE(deadline);
  EXPECT_EQ(deadline->left_s, 3570);
  EXPECT_EQ(deadline->source, "SLURM_JOB_END_TIME");
}

TEST(DeadlineTest, OurOwnVariableGoesFirst) {
  const Environment both = {{"SLURM_JOB_END_TIME", "1795518000"}, {"SFTBENCH_UNTIL", "10m"}};
  EXPECT_EQ(launcher_deadline(both, kTenOClock)->left_s, 600);
  EXPECT_THROW(launcher_deadline({{"SFTBENCH_UNTIL", "later"}}, kTenOClock), InputError);
}

TEST(DeadlineTest, WithoutALauncherThereIsNone) {
  EXPECT_FALSE(launcher_deadline({}, kTenOClock));
  EXPECT_FALSE(launcher_deadline({{"SLURM_JOB_END_TIME", "Unknown"}}, kTenOClock));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
