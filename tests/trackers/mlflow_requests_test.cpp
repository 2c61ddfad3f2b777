// The MLflow tracker without its thread: what it asks for, when it asks again, and what it gives up
// at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "trackers/fake_mlflow.h"
#include "trackers/mlflow.h"
#include "trackers/tracked_run.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

ServedReply reply_of(int status, const std::string& body = "{}") {
  ServedReply reply;
  reply.status = status;
  reply.body = body;
  return reply;
}

std::vector<Point> losses(int count) {
  std::vector<Point> points;
  for (int i = 1; i <= count; ++i)
    points.push_back({PointGroup::kTraining, "loss", i, 0, 1700000000.25, 1.0 * i});
  return points;
}

class MlflowRequestsTest : public testing::Test {
 protected:
  MlflowRequestsTest() { limits_.first_wait_s = 0; }

  MlflowTracker& tracker(const std::string& behind = "") {
    tracker_.emplace(server_.url() + behind, run_, limits_, cancelled_);
    tracker_->begin({}, 1700000000);
    return *tracker_;
  }
  void fails_with(int status, const std::string& body = "{}") {
    server_.fault = [=](const std::string&) { return reply_of(status, body); };
  }
  void recovers() {
    server_.fault = [](const std::string&) { return std::nullopt; };
  }
  // What the tracker fails with; "" when it does not.
  template <typename Action>
  static std::string failure(Action action) {
    try {
      action();
      return "";
    } catch (const TrackerFailure& error) {
      return error.what();
    }
  }
  std::string failure_of_flush() {
    return failure([this] { tracker_->flush(); });
  }
  std::string failure_of_end(double deadline_s = kInfinity) {
    const TrackerEnding ending = {std::make_shared<const Measurement>(measurement_of_test()),
                                  1700000009.5, deadline_s};
    return failure([&] { tracker_->end(ending); });
  }
  int lookups() const { return server_.count("experiments/get-by-name"); }
  std::vector<Json> bodies(const std::string& path) const {
    std::vector<Json> found;
    for (const ServedRequest& request : server_.requests()) {
      if (request.path() == "/api/2.0/mlflow/" + path) found.push_back(Json::parse(request.body));
    }
    return found;
  }

  FakeMlflow server_;
  TrackedRun run_ = run_of_test();
  TrackerLimits limits_ = limits_of_test();
  std::atomic<bool> cancelled_ = false;
  std::optional<MlflowTracker> tracker_;
};

TEST_F(MlflowRequestsTest, NothingIsSentBeforeItBegins) {
  MlflowTracker early(server_.url(), run_, limits_, cancelled_);
  early.flush();
  EXPECT_EQ(server_.requests().size(), 0);
}

TEST_F(MlflowRequestsTest, AfterAFailureNothingIsAskedWhileItWaits) {
  limits_.first_wait_s = 3600;
  fails_with(503);
  tracker();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(failure_of_flush(), "");
  EXPECT_EQ(lookups(), 1);
  EXPECT_EQ(tracker_->trouble(), "") << "one failure is none to speak of";
}

TEST_F(MlflowRequestsTest, AServerSaysItselfHowLongToWait) {
  server_.fault = [](const std::string&) {
    ServedReply reply = reply_of(429);
    reply.headers["Retry-After"] = "3600";
    return reply;
  };
  tracker();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(failure_of_flush(), "");
  EXPECT_EQ(lookups(), 1);
}

TEST_F(MlflowRequestsTest, TheThirdFailureInARowIsTrouble) {
  fails_with(500, "down");
  tracker();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(failure_of_flush(), "");
  EXPECT_EQ(tracker_->trouble(), "");
  EXPECT_EQ(failure_of_flush(), "");
  EXPECT_EQ(tracker_->trouble(), "experiments/get-by-name: status 500 (down)");
  recovers();
  EXPECT_EQ(failure_of_flush(), "");
  EXPECT_EQ(tracker_->trouble(), "");
}

// RFC 9110: 408 is a timeout, 5xx are the server's, and RFC 6585: 429 are too many requests. Those
// pass.
TEST_F(MlflowRequestsTest, OnlyWhatPassesIsTriedAgain) {
  for (const int status : {408, 429, 500, 503}) {
    fails_with(status);
    tracker();
    EXPECT_EQ(failure_of_flush(), "") << status;
  }
  for (const int status : {300, 400, 403, 407, 409, 428, 430, 499}) {
    fails_with(status, "no");
    tracker();
    EXPECT_THAT(failure_of_flush(), EndsWith("with status " + std::to_string(status) + ": no"));
  }
  for (const int status : {200, 201, 299}) {
    fails_with(status, "[1]");
    tracker();
    EXPECT_THAT(failure_of_flush(), EndsWith("gave no JSON")) << status;
  }
}

TEST_F(MlflowRequestsTest, OnlyAMissingExperimentIsMade) {
  for (const auto& [status, body] : std::vector<std::pair<int, std::string>>{
           {404, "nothing here"}, {400, R"({"error_code":"RESOURCE_DOES_NOT_EXIST"})"}}) {
    fails_with(status, body);
    tracker();
    EXPECT_THAT(failure_of_flush(), HasSubstr("refuses experiments/get-by-name")) << status;
  }
  fails_with(200, R"({"experiment": {"experiment_id": "7", "lifecycle_stage": "deleted"}})");
  tracker();
  EXPECT_THAT(failure_of_flush(), HasSubstr("is deleted there"));
  EXPECT_EQ(server_.count("experiments/create"), 0);
}

TEST_F(MlflowRequestsTest, AnExperimentThatAnotherMadeMeanwhileIsTaken) {
  std::atomic<bool> made = false;
  server_.fault = [&](const std::string& path) -> std::optional<ServedReply> {
    if (path == "experiments/get-by-name" && made)
      return reply_of(200, R"({"experiment": {"experiment_id": "9"}})");
    if (path != "experiments/create") return std::nullopt;
    made = true;
    return reply_of(400, R"({"error_code":"RESOURCE_ALREADY_EXISTS"})");
  };
  tracker();
  EXPECT_EQ(failure_of_flush(), "");
  EXPECT_EQ(bodies("runs/create").at(0).at("experiment_id"), "9");
}

TEST_F(MlflowRequestsTest, WhatTheServerSaysIsShownOnOneLine) {
  const auto shown = [this](const std::string& body) {
    fails_with(403, body);
    tracker();
    const std::string text = failure_of_flush();
    return text.substr(text.find("403: ") + 5);
  };
  EXPECT_EQ(shown(R"({"message": "not\nyou\u001f\u007f!"})"), "not you  !");
  EXPECT_EQ(shown(R"({"message": 5})"), R"({"message": 5})");
  EXPECT_EQ(shown(R"({"error": 1})"), R"({"error": 1})");
  EXPECT_EQ(shown("[5]"), "[5]");
  EXPECT_EQ(shown(std::string(300, 'x')), std::string(300, 'x'));
  EXPECT_EQ(shown(std::string(301, 'x')), std::string(297, 'x') + "...");
  EXPECT_EQ(shown(std::string(296, 'x') + "\xC3\xA9" + std::string(9, 'x')),
            std::string(296, 'x') + "...")
      << "no character is cut";
}

// MLflow's limits: 500 bytes of a parameter, 100 of them and 1000 metrics in a request.
TEST_F(MlflowRequestsTest, ParametersAreCutAndSentAHundredAtOnce) {
  run_.inputs = {{"exact", std::string(500, 'x')},
                 {"long", std::string(501, 'x')},
                 {"list", Json::array({1, 2})}};
  for (int i = 0; i < 197; ++i) run_.inputs["input" + std::to_string(i)] = i;
  tracker();
  EXPECT_EQ(failure_of_flush(), "");
  EXPECT_EQ(failure_of_flush(), "") << "they are sent once";
  std::vector<size_t> sizes;
  for (const Json& body : bodies("runs/log-batch")) sizes.push_back(body.at("params").size());
  EXPECT_THAT(sizes, ElementsAre(100, 100));
  const auto params = server_.runs().at("run0").params;
  EXPECT_EQ(params.size(), 200);
  EXPECT_EQ(params.at("exact"), std::string(500, 'x'));
  EXPECT_EQ(params.at("long"), std::string(497, 'x') + "...");
  EXPECT_EQ(params.at("list"), "[1,2]");
  EXPECT_EQ(bodies("runs/create").at(0).at("start_time"), 1700000000000);
}

TEST_F(MlflowRequestsTest, MetricsAreSentAThousandAtOnceUpToABound) {
  std::vector<size_t> sizes;
  server_.fault = [&](const std::string& path) -> std::optional<ServedReply> {
    if (path == "runs/log-batch") return reply_of(200);
    return std::nullopt;
  };
  run_.inputs = Json::object();
  tracker().add(losses(50001));
  EXPECT_EQ(failure_of_flush(), "");
  for (const Json& body : bodies("runs/log-batch")) sizes.push_back(body.at("metrics").size());
  EXPECT_EQ(sizes, std::vector<size_t>(50, 1000));
  EXPECT_EQ(tracker_->written(), 50000) << "more are not kept while the server is down";
}

// The JSON mapping of protocol buffers (protobuf.dev, "ProtoJSON Format").
TEST_F(MlflowRequestsTest, NumbersThatJsonHasNotHaveNames) {
  std::vector<Point> points = losses(5);
  points[0].value = std::nan("");
  points[1].value = kInfinity;
  points[2].value = -kInfinity;
  points[3].group = PointGroup::kEvaluation;
  points[4].group = PointGroup::kSystem;
  tracker().add(points);
  EXPECT_EQ(failure_of_flush(), "");
  std::vector<Json> values, names;
  const FakeMlflow::Run run = server_.runs().at("run0");
  for (const Json& metric : run.metrics) {
    values.push_back(metric.at("value"));
    names.push_back(metric.at("key"));
    EXPECT_EQ(metric.at("timestamp"), 1700000000250);
  }
  EXPECT_THAT(values, ElementsAre("NaN", "Infinity", "-Infinity", 4, 5));
  EXPECT_THAT(names, ElementsAre("loss", "loss", "loss", "eval_loss", "system/loss"));
}

TEST_F(MlflowRequestsTest, FiguresStandAtTheLastStepAndWereNotGiven) {
  std::vector<Point> points = losses(3);
  points.push_back({PointGroup::kSystem, "cpu_percent", 90, 0, 1700000000.25, 1});
  tracker().add(points);
  EXPECT_EQ(failure_of_end(), "");
  EXPECT_EQ(tracker_->written(), 4);
  int figures = 0;
  const FakeMlflow::Run run = server_.runs().at("run0");
  for (const Json& metric : run.metrics) {
    if (metric.at("key") != "train_runtime") continue;
    ++figures;
    EXPECT_EQ(metric.at("step"), 3);
  }
  EXPECT_EQ(figures, 1);
  EXPECT_EQ(bodies("runs/update").back().at("end_time"), 1700000009500);
}

TEST_F(MlflowRequestsTest, AnAddressMayHaveAQueryAndSlashes) {
  tracker("//?tenant=a").flush();
  for (const ServedRequest& request : server_.requests()) {
    EXPECT_EQ(request.target.rfind("/api/2.0/mlflow/", 0), 0) << request.target;
    EXPECT_THAT(request.target, HasSubstr("?tenant=a"));
  }
  EXPECT_THAT(server_.requests().at(0).target,
              EndsWith("get-by-name?tenant=a&experiment_name=finetune_full_benchmark-v1.0.0"));
  tracker().flush();
  EXPECT_EQ(server_.requests().back().target.find('?'), std::string::npos);
}

TEST_F(MlflowRequestsTest, AServerThatNeverAnsweredIsAskedThreeTimesAtTheEnd) {
  fails_with(503, "down");
  tracker();
  EXPECT_EQ(failure_of_end(), "experiments/get-by-name: status 503 (down)");
  EXPECT_EQ(lookups(), 3);
}

TEST_F(MlflowRequestsTest, AServerThatWasDownBeforeIsAskedOnceMore) {
  tracker();
  EXPECT_EQ(failure_of_flush(), "");
  const size_t before = server_.requests().size();
  fails_with(503, "down");
  tracker_->add(losses(1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(failure_of_flush(), "");
  EXPECT_EQ(server_.requests().size(), before + 3);
  EXPECT_EQ(failure_of_end(), "runs/log-batch: status 503 (down)");
  EXPECT_EQ(server_.requests().size(), before + 4);
}

TEST_F(MlflowRequestsTest, AServerThatAnsweredBeforeHasUntilTheTimeIsOver) {
  std::atomic<int> faults = 5;
  tracker();
  EXPECT_EQ(failure_of_flush(), "");
  server_.fault = [&](const std::string&) -> std::optional<ServedReply> {
    if (faults-- > 0) return reply_of(503);
    return std::nullopt;
  };
  EXPECT_EQ(failure_of_end(), "");
  EXPECT_THAT(server_.runs().at("run0").statuses, ElementsAre("RUNNING", "FINISHED"));
}

TEST_F(MlflowRequestsTest, ItWaitsBeforeItAsksAgainAtTheEnd) {
  limits_.first_wait_s = 0.001;
  std::atomic<int> faults = 1;
  server_.fault = [&](const std::string&) -> std::optional<ServedReply> {
    if (faults-- > 0) return reply_of(503);
    return std::nullopt;
  };
  tracker();
  EXPECT_EQ(failure_of_end(), "");
  EXPECT_EQ(lookups(), 2);
}

TEST_F(MlflowRequestsTest, BehindItsDeadlineOrCancelledItAsksOnce) {
  fails_with(503, "down");
  tracker();
  EXPECT_EQ(failure_of_end(0), "experiments/get-by-name: status 503 (down)");
  EXPECT_EQ(lookups(), 1);
  cancelled_ = true;
  tracker();
  EXPECT_NE(failure_of_end(), "");
  EXPECT_LE(lookups(), 2);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
