#include "launch/child_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>

#include "sftbench/base/file.h"
#include "sftbench/launch/child_reply.h"
#include "sftbench/launch/child_request.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;

// As waitpid() reports the end by a signal.
int ended_by(int signal) {
  return signal;
}

ErrorClass classify(int wait_status, int64_t oom_kills, const std::string& log_tail) {
  return classify_end({wait_status, oom_kills, log_tail, {}});
}

TEST(ChildEndTest, SigkillIsOomHostWhenTheKernelKilledForMemoryMeanwhile) {
  EXPECT_EQ(classify(ended_by(SIGKILL), 1, "step: 3\n").code, ReasonCode::kOomHost);
  EXPECT_EQ(classify(ended_by(SIGKILL), 0, "step: 3\n").code, ReasonCode::kKilled);
  EXPECT_EQ(classify(ended_by(SIGTERM), 1, "step: 3\n").code, ReasonCode::kKilled);
  EXPECT_EQ(classify(ended_by(SIGSEGV), 1, "step: 3\n").code, ReasonCode::kInternal);
}

TEST(ChildEndTest, ACrashThatItsLogExplainsHasThatReason) {
  const std::string log =
      "begin: 3 steps\nterminate called after throwing an instance of 'std::bad_alloc'\n"
      "  what():  std::bad_alloc\nframe #0\n";
  const ErrorClass error = classify(ended_by(SIGABRT), 0, log);
  EXPECT_EQ(error.code, ReasonCode::kOomHost);
  EXPECT_EQ(error.evidence, "terminate called after throwing an instance of 'std::bad_alloc'");
  EXPECT_EQ(classify(1 << 8, 0, "CUDA error: an illegal memory access was encountered\n").code,
            ReasonCode::kOomGpu);
  EXPECT_EQ(classify(ended_by(SIGABRT), 0, "NCCL error in: x.cpp:12\n").code, ReasonCode::kNccl);
}

TEST(ChildEndTest, ACrashThatNothingExplainsNamesItsSignalAndTheLastLine) {
  const ErrorClass error = classify(ended_by(SIGBUS), 0, "step: 1\nstep: 2\n\n");
  EXPECT_EQ(error.code, ReasonCode::kInternal);
  EXPECT_EQ(error.message, "the process crashed with SIGBUS (Bus error)");
  EXPECT_EQ(error.evidence, "step: 2");
}

TEST(ChildEndTest, WhatTheParentAskedForOutranksHowTheProcessEnded) {
  const ErrorClass error = classify_end(
      {ended_by(SIGKILL), 1, "step: 2\n", ErrorClass{ReasonCode::kHang, "no sign", {}}});
  EXPECT_EQ(error.code, ReasonCode::kHang);
  EXPECT_EQ(error.evidence, "step: 2");
}

TEST(ChildEndTest, ATailBeginsWithAWholeLine) {
  const fs::path file = fs::path(testing::TempDir()) / "child_end_test.log";
  write_file_atomic(file, "first line\nsecond line\nthird line\n");
  EXPECT_EQ(tail_of_file(file), "first line\nsecond line\nthird line\n");
  EXPECT_EQ(tail_of_file(file, 15), "third line\n");
  EXPECT_EQ(tail_of_file(file, 3), "");
  EXPECT_EQ(tail_of_file("/nonexistent"), "");
  fs::remove(file);
}

TEST(ChildEndTest, TheLastLineIsTheLastThatSaysSomething) {
  EXPECT_EQ(last_line("a\nb\n \n\n"), "b");
  EXPECT_EQ(last_line("a"), "a");
  EXPECT_EQ(last_line("\n \n"), "");
}

// A folder with what the kernel would show.
class OomKillsTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(root_); }
  void file(const std::string& path, const std::string& text) {
    write_file_atomic(root_ / path, text);
  }
  fs::path root_ = fs::path(testing::TempDir()) / ("oom_kills_" + std::to_string(getpid()));
};

TEST_F(OomKillsTest, AreThoseOfTheProcessesOwnGroup) {
  file("proc/self/cgroup", "0::/user.slice/job\n");
  file("sys/fs/cgroup/user.slice/job/memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\n");
  file("proc/vmstat", "nr_free_pages 5\noom_kill 99\n");
  EXPECT_EQ(count_oom_kills(root_), 3);
}

TEST_F(OomKillsTest, AreFoundInAContainerWhoseGroupIsMountedAsTheRoot) {
  file("proc/self/cgroup", "0::/../../host/path\n");
  file("sys/fs/cgroup/memory.events", "oom 1\noom_kill 1\n");
  EXPECT_EQ(count_oom_kills(root_), 1);
}

TEST_F(OomKillsTest, AreFoundInTheFirstVersionOfControlGroups) {
  file("proc/self/cgroup", "9:name=systemd:/\n4:memory:/a/b\n0::/\n");
  file("sys/fs/cgroup/memory/a/b/memory.oom_control",
       "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  EXPECT_EQ(count_oom_kills(root_), 4);
}

TEST_F(OomKillsTest, AreThoseOfTheMachineWhenNoGroupTells) {
  file("proc/self/cgroup", "0::/\n");
  file("proc/vmstat", "nr_free_pages 5\noom_kill 6\n");
  EXPECT_EQ(count_oom_kills(root_), 6);
}

TEST_F(OomKillsTest, AreUnknownWhereNothingTells) {
  EXPECT_EQ(count_oom_kills(root_), std::nullopt);
}

TEST(HeartbeatTest, AreTakenLineByLine) {
  Heartbeat heartbeat;
  std::string text = R"({"phase":"training","rank":0,"step":0,"total_steps":9}
{"rank":1,"step":4,"loss":2.5,"tokens_per_s":100.0,"memory_bytes":77}
not a heartbeat
{"rank":0,"step":3,"loss":null}
{"rank":0,"st)";
  take_heartbeats(text, heartbeat);
  EXPECT_EQ(text, R"({"rank":0,"st)");
  EXPECT_EQ(heartbeat.phase, "training");
  EXPECT_EQ(heartbeat.total_steps, 9);
  EXPECT_EQ(heartbeat.step, 3);  // of the slowest rank
  EXPECT_EQ(heartbeat.loss, 2.5);
  EXPECT_EQ(heartbeat.memory_bytes, 77);
  EXPECT_EQ(progress_text(heartbeat), "rank 0 had done 3 of 9 steps, rank 1 had done 4 of 9 steps");
}

TEST(HeartbeatTest, BeforeTrainingThePhaseSaysHowFarItHasLoaded) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  HeartbeatSender sender(ends[1]);
  sender.on_load({"loading", int64_t{1} << 30, int64_t{4} << 30, 3, 12});
  std::string text(4096, '\0');
  text.resize(static_cast<size_t>(read(ends[0], text.data(), text.size())));
  Heartbeat heartbeat;
  take_heartbeats(text, heartbeat);
  EXPECT_EQ(heartbeat.phase, "loading, weights 25 % of 4.00 GiB, 3 of 12 entries tokenized");
  EXPECT_THAT(progress_text(heartbeat), testing::HasSubstr(heartbeat.phase));
  close(ends[0]);
  close(ends[1]);
}

TEST(HeartbeatTest, AFullPipeNeverHoldsTheTrainingUp) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  HeartbeatSender sender(ends[1]);
  TrainControl control;
  StepEvent event;
  event.loss = std::nan("");
  for (event.step = 1; event.step <= 10000; ++event.step) sender.on_step_end(event, control);
  std::string text(1 << 20, '\0');
  text.resize(static_cast<size_t>(read(ends[0], text.data(), text.size())));
  EXPECT_EQ(text.back(), '\n');  // what does not fit is left out as a whole
  Heartbeat heartbeat;
  take_heartbeats(text, heartbeat);
  EXPECT_GT(heartbeat.step, 100);
  close(ends[0]);
  close(ends[1]);
}

TEST(ChildRequestTest, WhatIsNoRequestIsAnInputErrorThatSaysWhy) {
  ChildRequest request;
  request.job.model.hf_config = Json::object();
  request.job.inputs = Json::object();
  request.job.data.model_max_length = 8;
  request.job.batches.per_device_batch_size = 1;
  request.cpus = {3, 5};
  Json json = to_json(request);
  EXPECT_EQ(to_json(child_request_from_json(json, "x")), json);
  json.erase("result_fd");
  try {
    child_request_from_json(json, "standard input");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "standard input: not a request for a measurement: key 'result_fd' not found");
  }
}

TEST(ChildReplyTest, ALineThatWasCutOffCountsForNothing) {
  Measurement begun;
  begun.experiment = "e";
  const std::string first = Json{{"begun", to_json(begun)}}.dump() + "\n";
  const std::string second = Json{{"result", to_json(begun)}}.dump() + "\n";
  EXPECT_TRUE(parse_reply(first + second).result.has_value());
  for (size_t cut = 1; cut < second.size(); cut += 7) {
    const ChildReply reply = parse_reply(first + second.substr(0, second.size() - cut));
    EXPECT_FALSE(reply.result.has_value());
    EXPECT_TRUE(reply.begun.has_value());
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
