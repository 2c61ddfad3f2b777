// What is made of the answers of Ray's head, and of those that it should not give.
#include "campaign/ray_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "campaign/fake_ray.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kJob = "/api/jobs/job1";

class RayClientTest : public testing::Test {
 protected:
  // Every request whose path ends so is answered so, or only the first `times` of them.
  void answer(const std::string& ending, ServedReply reply, int times = 1000) {
    ray_.fault = [ending, reply, times, seen = 0](const ServedRequest& request,
                                                  int) mutable -> std::optional<ServedReply> {
      const std::string path = request.path();
      if (!path.ends_with(ending) || seen++ >= times) return std::nullopt;
      return reply;
    };
  }
  RayClient client() {
    return {ray_.url(), [] { return false; }};
  }

  template <typename Call>
  std::string refusal(Call call) {
    RayClient one = client();
    try {
      call(one);
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  FakeRay ray_;
};

std::string refused_address(const std::string& address) {
  try {
    RayClient(address, [] { return false; });
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST_F(RayClientTest, AnAddressIsThatOfAWebServer) {
  EXPECT_EQ(RayClient(ray_.url() + "//", [] { return false; }).version(), "2.60.0");
  EXPECT_EQ(refused_address("https://head:8265"), "nothing was refused");
  EXPECT_EQ(refused_address("http://head:8265/"), "nothing was refused");
  for (const char* nothing : {"", "/", "///"})
    EXPECT_THAT(refused_address(nothing), HasSubstr("--ray-address: is not given"));
  for (const char* other : {"head:8265", "ftp://head", "ray://head:10001", " http://head"})
    EXPECT_THAT(refused_address(other), HasSubstr(std::string("found '") + other));
}

// RFC 9110: the gateways' statuses. 500 and 501 are the server's own.
TEST_F(RayClientTest, AGatewaysStatusMeansThatTheHeadIsAway) {
  for (const int status : {502, 503, 504}) {
    answer("", {status, {}, ""});
    try {
      client().version();
      ADD_FAILURE() << status;
    } catch (const RayAway& away) {
      EXPECT_THAT(away.what(), HasSubstr("answers with status " + std::to_string(status)));
    }
  }
  for (const int status : {500, 501, 505}) {
    answer("", {status, {}, ""});
    EXPECT_THAT(refusal([](RayClient& ray) { ray.version(); }), HasSubstr("that is no Ray"));
  }
}

TEST_F(RayClientTest, AVersionIsAText) {
  answer("", {200, {}, R"({"ray_version": 2.6})"});
  EXPECT_THAT(refusal([](RayClient& ray) { ray.version(); }), HasSubstr("names no ray_version"));
}

TEST_F(RayClientTest, APackageIsUploadedOnce) {
  RayClient ray = client();
  ray.ensure_package("p.zip", "content");
  EXPECT_EQ(ray_.package(), "content");
  ray.ensure_package("p.zip", "content");
  EXPECT_EQ(ray_.count("/api/packages/gcs/p.zip"), 3) << "asked for, uploaded, asked for";
  answer("p.zip", {413, {}, "too large"});
  EXPECT_THAT(refusal([](RayClient& one) { one.ensure_package("p.zip", "content"); }),
              AllOf(HasSubstr("the space's file cannot be uploaded"),
                    HasSubstr("answers with status 413 (too large)")));
}

TEST_F(RayClientTest, AJobIsWhatRayTellsOfIt) {
  RayClient ray = client();
  EXPECT_FALSE(ray.find("job1"));
  const std::pair<const char*, RayStatus> kStatuses[] = {
      {"PENDING", RayStatus::kPending},     {"RUNNING", RayStatus::kRunning},
      {"SUCCEEDED", RayStatus::kSucceeded}, {"FAILED", RayStatus::kFailed},
      {"STOPPED", RayStatus::kStopped},     {"PREPARING", RayStatus::kPending}};
  for (const auto& [name, status] : kStatuses) {
    ray_.add("job1", {{name}, 3, "", "why, last available logs (truncated): many"});
    const std::optional<RayJob> job = ray.find("job1");
    ASSERT_TRUE(job) << name;
    EXPECT_EQ(job->status, status) << name;
    EXPECT_EQ(job->message, "why");
    const std::string state = name;
    EXPECT_EQ(job->ended(), state == "SUCCEEDED" || state == "FAILED" || state == "STOPPED");
    if (!job->ended()) continue;
    EXPECT_EQ(job->exit_code, 3);
  }
}

TEST_F(RayClientTest, WhatRayDoesNotTellOfAJobIsUnknown) {
  for (const char* body : {"{}", R"({"status": 7, "message": null, "driver_exit_code": null})",
                           R"({"driver_exit_code": "3"})"}) {
    answer(kJob, {200, {}, body});
    const std::optional<RayJob> job = client().find("job1");
    ASSERT_TRUE(job) << body;
    EXPECT_EQ(job->status, RayStatus::kPending) << body;
    EXPECT_EQ(job->message, "") << body;
    EXPECT_FALSE(job->exit_code) << body;
  }
  const auto find = [](RayClient& ray) { ray.find("job1"); };
  for (const char* body : {"<html>", "[1]", ""}) {
    answer(kJob, {200, {}, body});
    EXPECT_THAT(refusal(find), HasSubstr("/api/jobs/job1 answers, but not as Ray does")) << body;
  }
  answer(kJob, {500, {}, "Traceback"});
  EXPECT_THAT(refusal(find), AllOf(HasSubstr("ray: job job1: http://127.0.0.1"),
                                   HasSubstr("status 500 (Traceback)")));
  answer(kJob, {500, {}, ""});
  EXPECT_THAT(refusal(find), AllOf(HasSubstr("status 500"), Not(HasSubstr("("))));
}

// The job was there, but Ray had not told of it yet.
TEST_F(RayClientTest, AJobThatIsThereAlreadyIsNotSubmittedAgain) {
  EXPECT_TRUE(client().submit({{"submission_id", "job1"}}));
  EXPECT_FALSE(client().submit({{"submission_id", "job1"}}));
  EXPECT_EQ(ray_.submitted().size(), 1u);
  answer("/api/jobs/", {400, {}, "no entrypoint"});
  EXPECT_THAT(refusal([](RayClient& ray) {
                ray.submit({{"submission_id", "job2"}});
              }),
              AllOf(HasSubstr("job job2 is refused"), HasSubstr("status 400 (no entrypoint)")));
}

TEST_F(RayClientTest, LogsAreTextOrNone) {
  ray_.add("job1", {{"RUNNING"}, {}, "one\ntwo", ""});
  EXPECT_EQ(client().logs("job1"), "one\ntwo");
  EXPECT_EQ(client().logs("job2"), "");
  for (const char* body : {"", "<html>", "[1]", "{}", R"({"logs": null})", R"({"logs": 3})"}) {
    answer("/logs", {200, {}, body});
    EXPECT_EQ(client().logs("job1"), "") << body;
  }
  answer("/logs", {500, {}, R"({"logs": "a page of an error"})"});
  EXPECT_EQ(client().logs("job1"), "");
}

// 400 characters of it.
TEST_F(RayClientTest, AMessageIsOneLineOfWhatItsBeginningSays) {
  const std::string begin(399, 'a');
  for (const char* end : {"", "b", "bc"}) {
    ray_.add("job1", {{"FAILED"}, {}, "", begin + end});
    EXPECT_EQ(client().find("job1")->message,
              begin + std::string(end).substr(0, 1) + (std::string(end) == "bc" ? "..." : ""));
  }
  ray_.add("job1", {{"FAILED"}, {}, "", " \x1b[2J \n"});
  EXPECT_EQ(client().find("job1")->message, "\\x1b[2J");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
