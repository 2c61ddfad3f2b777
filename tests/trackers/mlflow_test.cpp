// The MLflow tracker against a server whose faults a test composes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "trackers/fake_mlflow.h"
#include "trackers/tracked_run.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Reports {
 public:
  std::function<void(const std::string&)> sink() {
    return [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      texts_.push_back(text);
      told_.notify_all();
    };
  }
  std::vector<std::string> texts() const {
    const std::lock_guard lock(mutex_);
    return texts_;
  }
  void wait_for_one() {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [this] { return !texts_.empty(); });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable told_;
  std::vector<std::string> texts_;
};

std::vector<TrackerSpec> tracked_by(const std::string& url) {
  return {{TrackerKind::kMlflow, url}};
}

std::vector<double> values_of(const FakeMlflow::Run& run, const std::string& key) {
  std::vector<double> values;
  for (const Json& metric : run.metrics) {
    if (metric.at("key") == key) values.push_back(metric.at("value").get<double>());
  }
  return values;
}

ServedReply refusal(int status, const std::string& body) {
  ServedReply reply;
  reply.status = status;
  reply.body = body;
  return reply;
}

double unix_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

TEST(MlflowTrackerTest, WritesStepsReadingsInputsAndFigures) {
  FakeMlflow server;
  const double before_ms = unix_ms();
  Reports reports;
  Trackers trackers(tracked_by(server.url()), run_of_test(), reports.sink(), limits_of_test());
  tell_steps(trackers);
  EXPECT_THAT(trackers.finish(measurement_of_test()), IsEmpty());
  EXPECT_THAT(reports.texts(), IsEmpty());
  const auto runs = server.runs();
  ASSERT_EQ(runs.size(), 1);
  const FakeMlflow::Run& run = runs.begin()->second;
  EXPECT_THAT(values_of(run, "loss"), ElementsAre(10.5, 9.5, 8.5));
  EXPECT_THAT(values_of(run, "tokens_per_second"), testing::Each(1024 / 1.5));
  EXPECT_THAT(values_of(run, "system/cpu_percent"), ElementsAre(200, 200, 200));
  EXPECT_THAT(values_of(run, "system/gpu0_power_percent"), ElementsAre(75, 75, 75, 75));
  EXPECT_THAT(values_of(run, "train_runtime"), ElementsAre(5.5));
  EXPECT_EQ(run.params.at("learning_rate"), "1e-05");
  EXPECT_EQ(run.params.at("r"), "None");
  EXPECT_EQ(run.tags.at("sftbench.key"), run_of_test().key);
  EXPECT_EQ(run.tags.at("sftbench.status"), "valid");
  EXPECT_THAT(run.statuses, ElementsAre("RUNNING", "FINISHED"));
  // Steps are as far apart as the events say.
  std::vector<int64_t> times;
  for (const Json& metric : run.metrics) {
    if (metric.at("key") == "loss") times.push_back(metric.at("timestamp").get<int64_t>());
  }
  ASSERT_EQ(times.size(), 3);
  EXPECT_NEAR(static_cast<double>(times[2] - times[0]), 4000, 2);
  // The first reading, at 100 s of the run's clock, is now; the first step ended at 103.5 s.
  EXPECT_GE(static_cast<double>(times[0]), before_ms + 3500 - 1);
  EXPECT_LE(static_cast<double>(times[0]), unix_ms() + 3500 + 1);
}

TEST(MlflowTrackerTest, ARepeatedRunGoesOnWithItsOwn) {
  FakeMlflow server;
  for (int time = 0; time < 2; ++time) {
    Trackers trackers(
        tracked_by(server.url()), run_of_test(), [](const auto&) {}, limits_of_test());
    tell_steps(trackers);
    EXPECT_THAT(trackers.finish(measurement_of_test()), IsEmpty());
  }
  ASSERT_EQ(server.runs().size(), 1);
  EXPECT_THAT(server.runs().begin()->second.statuses,
              ElementsAre("RUNNING", "FINISHED", "RUNNING", "FINISHED"));
  TrackedRun repeat = run_of_test();
  repeat.name += ".2";
  Trackers trackers(
      tracked_by(server.url()), repeat, [](const auto&) {}, limits_of_test());
  tell_steps(trackers);
  EXPECT_THAT(trackers.finish(measurement_of_test()), IsEmpty());
  EXPECT_EQ(server.runs().size(), 2) << "another sample of the key is a run of its own";
}

TEST(MlflowTrackerTest, SendsAtMostAThousandMetricsAtOnce) {
  FakeMlflow server;
  Trackers trackers(
      tracked_by(server.url()), run_of_test(), [](const auto&) {}, limits_of_test());
  tell_steps(trackers, 700);
  EXPECT_THAT(trackers.finish(measurement_of_test()), IsEmpty());
  EXPECT_EQ(values_of(server.runs().begin()->second, "loss").size(), 700);
  EXPECT_GE(server.count("runs/log-batch"), 9);
}

TEST(MlflowTrackerTest, TriesAgainUntilTheServerIsBack) {
  FakeMlflow server;
  std::atomic<int> faults = 5;
  server.fault = [&](const std::string&) -> std::optional<ServedReply> {
    if (faults-- > 0) return refusal(503, "starting");
    return std::nullopt;
  };
  Reports reports;
  Trackers trackers(tracked_by(server.url()), run_of_test(), reports.sink(), limits_of_test());
  tell_steps(trackers);
  reports.wait_for_one();
  EXPECT_THAT(reports.texts(), ElementsAre(AllOf(HasSubstr("status 503 (starting)"),
                                                 HasSubstr("the run goes on without it"))));
  while (server.count("runs/log-batch") == 0) std::this_thread::yield();
  EXPECT_THAT(trackers.finish(measurement_of_test()), IsEmpty()) << "nothing was lost";
  EXPECT_EQ(values_of(server.runs().begin()->second, "loss").size(), 3);
}

// A request that was served though its answer was lost is sent again, and counts once.
TEST(MlflowTrackerTest, WhatIsSentTwiceIsThereOnce) {
  FakeMlflow server;
  std::atomic<int> batches = 0;
  server.fault = [&](const std::string& path) -> std::optional<ServedReply> {
    if (path == "runs/log-batch" && ++batches == 2) return refusal(502, "the answer was lost");
    return std::nullopt;
  };
  Trackers trackers(
      tracked_by(server.url()), run_of_test(), [](const auto&) {}, limits_of_test());
  tell_steps(trackers);
  EXPECT_THAT(trackers.finish(measurement_of_test()), IsEmpty());
  const auto runs = server.runs();
  ASSERT_EQ(runs.size(), 1);
  EXPECT_EQ(values_of(runs.begin()->second, "loss").size(), 3);
}

TEST(MlflowTrackerTest, SaysOnceThatNothingAnswers) {
  std::string gone;
  {
    FakeMlflow server;
    gone = server.url();
  }
  Reports reports;
  Trackers trackers(tracked_by(gone), run_of_test(), reports.sink(), limits_of_test());
  tell_steps(trackers);
  reports.wait_for_one();
  const auto problems = trackers.finish(measurement_of_test());
  ASSERT_EQ(problems.size(), 1);
  EXPECT_THAT(problems[0],
              AllOf(HasSubstr("tracker mlflow=" + gone + ": nothing answers at"),
                    HasSubstr(std::to_string(kValuesOfTest) + " of " +
                              std::to_string(kValuesOfTest) + " values were not written")));
  EXPECT_EQ(reports.texts().size(), 1);
}

TEST(MlflowTrackerTest, SaysWhyTheServerRefuses) {
  FakeMlflow server;
  server.fault = [](const std::string&) {
    return refusal(403, R"({"error_code":"PERMISSION_DENIED","message":"not you"})");
  };
  Reports reports;
  Trackers trackers(tracked_by(server.url()), run_of_test(), reports.sink(), limits_of_test());
  tell_steps(trackers);
  const auto problems = trackers.finish(measurement_of_test());
  EXPECT_THAT(reports.texts(),
              ElementsAre(HasSubstr("the server refuses experiments/get-by-name with status 403: "
                                    "not you")));
  ASSERT_EQ(problems.size(), 1);
  EXPECT_THAT(problems[0], HasSubstr("values were not written"));
  EXPECT_EQ(server.count("experiments/get-by-name"), 1) << "a refusal is not tried again";
}

TEST(MlflowTrackerTest, KnowsWhatIsNoMlflowServer) {
  FakeMlflow server;
  server.fault = [](const std::string&) { return refusal(200, "<html>hello</html>"); };
  Reports reports;
  Trackers trackers(tracked_by(server.url()), run_of_test(), reports.sink(), limits_of_test());
  tell_steps(trackers);
  trackers.finish(measurement_of_test());
  EXPECT_THAT(reports.texts(), ElementsAre(HasSubstr("what answers is no MLflow server")));
}

// The server takes a connection and never answers: events that find the queue full are dropped,
// nobody waits, and the end does not wait beyond its limit.
TEST(MlflowTrackerTest, ASlowServerHoldsNobodyUp) {
  FakeMlflow server;
  std::mutex hold;
  std::unique_lock held(hold);
  server.fault = [&](const std::string&) -> std::optional<ServedReply> {
    const std::lock_guard wait(hold);
    return refusal(503, "late");
  };
  TrackerLimits limits = limits_of_test();
  limits.queue_events = 64;
  limits.request_s = 600;
  limits.end_s = 0.1;
  std::vector<std::string> problems;
  {
    Trackers trackers(
        tracked_by(server.url()), run_of_test(), [](const auto&) {}, limits);
    tell_steps(trackers, 10000);
    problems = trackers.finish(measurement_of_test());
  }
  held.unlock();
  ASSERT_EQ(problems.size(), 1);
  EXPECT_THAT(problems[0], HasSubstr("events were dropped, as it was too slow"));
}

TEST(MlflowTrackerTest, OnlyEventsThatFindTheQueueFullAreDropped) {
  for (const int more : {0, 1, 2}) {
    FakeMlflow server;
    std::mutex hold;
    std::unique_lock held(hold);
    server.fault = [&](const std::string&) -> std::optional<ServedReply> {
      const std::lock_guard wait(hold);
      return std::nullopt;
    };
    TrackerLimits limits = limits_of_test();
    limits.queue_events = 8;
    limits.request_s = 600;
    Reports reports;
    Trackers trackers(tracked_by(server.url()), run_of_test(), reports.sink(), limits);
    trackers.on_sample(reading_of_test(0));
    while (server.requests().empty()) std::this_thread::yield();  // its thread waits for an answer
    TrainControl control;
    for (int step = 1; step <= 8 + more; ++step) trackers.on_step_end(step_of_test(step), control);
    held.unlock();
    const std::vector<std::string> problems = trackers.finish(measurement_of_test());
    EXPECT_EQ(values_of(server.runs().at("run0"), "loss").size(), 8);
    const std::string begin = "tracker mlflow=" + server.url() + ": ";
    const std::vector<std::string> dropped[] = {
        {},
        {begin + "1 event was dropped, as it was too slow"},
        {begin + "2 events were dropped, as it was too slow"}};
    EXPECT_EQ(problems, dropped[more]);
    EXPECT_EQ(reports.texts(), problems);
  }
}

TEST(MlflowTrackerTest, ARunThatFailedOrWasInterruptedSaysSo) {
  FakeMlflow server;
  {
    Trackers trackers(
        tracked_by(server.url()), run_of_test(), [](const auto&) {}, limits_of_test());
    tell_steps(trackers);
    Measurement failed;
    set_outcome(failed, Status::kFailed, {ReasonCode::kData, "no data", {}, {}});
    EXPECT_THAT(trackers.finish(failed), IsEmpty());
  }
  EXPECT_EQ(server.runs().at("run0").statuses.back(), "FAILED");
  EXPECT_EQ(server.runs().at("run0").tags.at("sftbench.reason"), "DATA");
  {
    TrackerLimits limits = limits_of_test();
    limits.interrupted_end_s = 60;
    Trackers trackers(
        tracked_by(server.url()), run_of_test(), [](const auto&) {}, limits);
    tell_steps(trackers);
  }
  EXPECT_EQ(server.runs().at("run0").statuses.back(), "KILLED");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
