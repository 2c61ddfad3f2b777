#include "sftbench/launch/run_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "launch/job_of_child.h"
#include "results/schema_check.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr double kAlmost = 1e-12;  // fifths have no exact sum

ChildSpec series_spec(std::vector<std::string> simulate = {}) {
  ChildSpec spec = simulated_spec(5, std::move(simulate));
  spec.job.runs = 5;
  return spec;
}

std::vector<std::string> ends_of(const Measurement& measurement) {
  std::vector<std::string> ends;
  for (const Json& run : measurement.extra["runs"]) ends.push_back(run["end"]);
  return ends;
}

TEST(RunSeriesTest, AJobOfOneRunIsItsChildsResult) {
  ChildSpec spec = simulated_spec(3);
  const auto log = spec.log;
  RunSeries series(std::move(spec));
  EXPECT_EQ(series.wait().measured.size(), 23u);
  EXPECT_EQ(series.result().extra["loss"].size(), 3u);
  EXPECT_EQ(series.progress().done(), 1.0);
  EXPECT_THAT(read_file(log), HasSubstr("step: 3 "));
}

TEST(RunSeriesTest, EachRunCountsInOneFractionAndNoneKeepsTheNextFromStarting) {
  ChildSpec spec = series_spec({"faults=oom_gpu,crash,hang,none,exit"});
  spec.stall_timeout_s = 2;
  RunSeries series(std::move(spec));
  const Measurement& m = series.wait();
  EXPECT_EQ(m.status, Status::kValid);
  EXPECT_FALSE(m.reason.has_value());
  EXPECT_THAT(ends_of(m),
              ElementsAre("gpu_oom", "other_error", "other_error", "no_error", "other_error"));
  EXPECT_EQ(m.measured.size(), 4u);
  EXPECT_DOUBLE_EQ(m.measured["f_gpu_oom"], 0.2);
  EXPECT_DOUBLE_EQ(m.measured["f_other_error"], 0.6);
  EXPECT_DOUBLE_EQ(m.measured["f_no_error"], 0.2);
  EXPECT_EQ(m.measured["is_valid"], 1);
  EXPECT_DOUBLE_EQ(m.extra["f_hang"], 0.2);
  const Json& runs = m.extra["runs"];
  EXPECT_EQ(runs[0]["reason"]["code"], "OOM_GPU");
  EXPECT_EQ(runs[1]["reason"]["message"], "the process crashed with SIGSEGV (Segmentation fault)");
  EXPECT_EQ(runs[2]["reason"]["code"], "HANG");
  EXPECT_EQ(runs[3]["reason"], nullptr);
  EXPECT_EQ(runs[3]["loss"].size(), 5u);
  EXPECT_THAT(runs[4]["reason"]["message"].get<std::string>(),
              StartsWith("the process ended with status 7"));
  for (const Json& run : runs) EXPECT_GT(run["seconds"].get<double>(), 0);

  const std::filesystem::path file = temporary_file("json");
  write_file_atomic(file, to_json(m).dump());
  EXPECT_EQ(schema_violation(file), "");
}

TEST(RunSeriesTest, ATimeLimitIsThatOfEachRunAndCountsAsAHang) {
  ChildSpec spec = series_spec({"faults=none,hang", "sleep_s=0.01"});
  spec.timeout_s = 3;
  RunSeries series(std::move(spec));
  const Measurement& m = series.wait();
  EXPECT_THAT(ends_of(m),
              ElementsAre("no_error", "other_error", "no_error", "no_error", "no_error"));
  EXPECT_EQ(m.extra["runs"][1]["reason"]["code"], "TIMEOUT");
  EXPECT_DOUBLE_EQ(m.extra["f_hang"], 0.2);
  EXPECT_NEAR(m.measured["f_no_error"], 0.8, kAlmost);
}

TEST(RunSeriesTest, TheLogHasASectionForEachRunAndARunIsNotJudgedByTheLogOfAnother) {
  ChildSpec spec = series_spec({"faults=oom_gpu,crash"});
  const auto log = spec.log;
  RunSeries series(std::move(spec));
  const Measurement& m = series.wait();
  // The first run's log ends with "CUDA out of memory": the crash of the second is no such thing.
  EXPECT_EQ(m.extra["runs"][1]["reason"]["code"], "INTERNAL");
  const std::string text = read_file(log);
  EXPECT_THAT(text, HasSubstr("run 1 of 5: gpu_oom: OOM_GPU: the GPU's memory does not suffice\n"));
  EXPECT_THAT(text, HasSubstr("run 2 of 5: other_error: INTERNAL: the process crashed"));
  EXPECT_THAT(text, HasSubstr("run 5 of 5: no_error\n"));
  EXPECT_THAT(text, HasSubstr("simulated crash: Segmentation fault"));
  EXPECT_FALSE(std::filesystem::exists(log_of_run(log)));
}

TEST(RunSeriesTest, WhatNoOtherRunCouldChangeFailsTheMeasurement) {
  RunSeries series(series_spec({"fail=WEIGHTS"}));
  const Measurement& m = series.wait();
  EXPECT_EQ(m.status, Status::kFailed);
  EXPECT_EQ(m.reason->code, ReasonCode::kWeights);
  EXPECT_EQ(m.measured, Json::object());
  EXPECT_EQ(m.extra, Json::object());
  EXPECT_EQ(series.progress().run, 1) << "the others were not started";
}

TEST(RunSeriesTest, EndingItEndsTheRunUnderWayAndStartsNoOther) {
  ChildSpec spec = series_spec({"sleep_s=0.05"});
  RunSeries series(std::move(spec));
  while (series.progress().run < 2) {
    ASSERT_FALSE(series.advance());
    std::vector<pollfd> fds;
    series.add_poll_fds(fds);
    ::poll(fds.data(), fds.size(), 50);
  }
  series.end(ReasonCode::kKilled, "the sweep was ended");
  const Measurement& m = series.wait();
  EXPECT_EQ(m.status, Status::kFailed);
  EXPECT_EQ(m.reason->code, ReasonCode::kKilled);
  EXPECT_EQ(m.reason->message, "the sweep was ended");
  EXPECT_EQ(m.measured, Json::object());
  EXPECT_EQ(series.progress().run, 2);
}

TEST(RunSeriesTest, ProgressIsThatOfAllRuns) {
  SeriesProgress progress;
  progress.run = 3;
  progress.runs = 5;
  EXPECT_DOUBLE_EQ(progress.done(), 0.4);
  progress.heartbeat.step = 1;
  progress.heartbeat.total_steps = 4;
  EXPECT_DOUBLE_EQ(progress.done(), 0.45);
}

TEST(RunSeriesTest, ALogThatCannotBeWrittenIsAnInputError) {
  ChildSpec spec = series_spec();
  spec.log = "/nonexistent/x.growing.log";
  try {
    RunSeries series(std::move(spec));
    FAIL() << "no exception";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "/nonexistent/x.growing.log: cannot write the log: No such file or directory");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
