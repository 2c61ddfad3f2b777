#include "sftbench/launch/child_measurement.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "launch/job_of_child.h"
#include "results/schema_check.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/file.h"
#include "sftbench/measure/measured_properties.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;
using testing::StartsWith;

Measurement measured_by(ChildSpec spec) {
  ChildMeasurement child(std::move(spec));
  return child.wait();
}

// Zombies are dead: whether somebody waits for an orphan is the machine's business.
bool alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  stat >> number >> name >> state;
  return !state.empty() && state != "Z" && state != "X";
}

bool dies_soon(pid_t pid) {
  const double until_s = steady_seconds() + 5;
  while (alive(pid) && steady_seconds() < until_s) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return !alive(pid);
}

pid_t number_in(const std::filesystem::path& file) {
  const double until_s = steady_seconds() + 10;
  pid_t number = 0;
  while (number == 0 && steady_seconds() < until_s) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::ifstream(file) >> number;
  }
  return number;
}

TEST(ChildMeasurementTest, AChildHandsBackWhatItMeasured) {
  ChildMeasurement child(simulated_spec(5));
  const Measurement& m = child.wait();
  EXPECT_EQ(m.status, Status::kValid);
  EXPECT_FALSE(m.reason.has_value());
  EXPECT_EQ(m.measured.size(), kMeasuredProperties.size());
  EXPECT_EQ(m.extra["loss"].size(), 5u);
  EXPECT_EQ(m.inputs, small_job(5).inputs);
  EXPECT_EQ(m.command, "sftbench run");
  EXPECT_EQ(m.environment["backend"], "simulate");
  EXPECT_EQ(child.heartbeat().phase, "training");
  EXPECT_EQ(child.heartbeat().step, 5);
  EXPECT_EQ(child.heartbeat().total_steps, 5);
  EXPECT_GT(child.heartbeat().tokens_per_s, 0);
  EXPECT_GT(child.heartbeat().memory_bytes, 0);
  EXPECT_THAT(read_file(child.spec().log), HasSubstr("step: 5 "));
  EXPECT_FALSE(alive(child.pid()));

  const std::filesystem::path file = temporary_file("json");
  write_file_atomic(file, to_json(m).dump());
  EXPECT_EQ(schema_violation(file), "");
}

TEST(ChildMeasurementTest, AnyNumberOfChildrenLiveSideBySide) {
  std::vector<ChildMeasurement> children;
  for (int i = 0; i < 8; ++i) {
    ChildSpec spec = simulated_spec(3);
    spec.log += std::to_string(i);
    spec.sample = i + 1;
    children.emplace_back(std::move(spec));
  }
  std::set<double> runtimes;
  for (ChildMeasurement& child : children) {
    runtimes.insert(child.wait().measured["train_runtime"].get<double>());
  }
  EXPECT_EQ(runtimes.size(), children.size());  // each sample has noise of its own
}

struct Ending {
  const char* name;
  std::vector<std::string> simulate;
  Status status;
  ReasonCode code;
  const char* message;
  const char* evidence;
};

void PrintTo(const Ending& ending, std::ostream* out) {
  *out << ending.name;
}

class ChildEndingTest : public testing::TestWithParam<Ending> {};

TEST_P(ChildEndingTest, HasItsCodeMessageAndEvidence) {
  const Measurement m = measured_by(simulated_spec(3, GetParam().simulate));
  EXPECT_EQ(m.status, GetParam().status);
  ASSERT_TRUE(m.reason.has_value());
  EXPECT_EQ(to_string(m.reason->code), to_string(GetParam().code));
  EXPECT_EQ(m.reason->message, GetParam().message);
  EXPECT_EQ(m.reason->evidence, GetParam().evidence);
  EXPECT_EQ(m.reason->log, "results/x.log");
  EXPECT_EQ(m.environment["simulation"], Json(GetParam().simulate));
  EXPECT_EQ(m.extra, Json::object());
}

INSTANTIATE_TEST_SUITE_P(
    Endings, ChildEndingTest,
    testing::Values(Ending{"Segv",
                           {"crash_at_step=2"},
                           Status::kFailed,
                           ReasonCode::kInternal,
                           "the process crashed with SIGSEGV (Segmentation fault)",
                           "simulated crash: Segmentation fault"},
                    Ending{"Abrt",
                           {"crash_at_step=2", "crash_signal=ABRT"},
                           Status::kFailed,
                           ReasonCode::kInternal,
                           "the process crashed with SIGABRT (Aborted)",
                           "simulated crash: Aborted"},
                    Ending{"Bus",
                           {"crash_at_step=2", "crash_signal=BUS"},
                           Status::kFailed,
                           ReasonCode::kInternal,
                           "the process crashed with SIGBUS (Bus error)",
                           "simulated crash: Bus error"},
                    Ending{"Fpe",
                           {"crash_at_step=2", "crash_signal=FPE"},
                           Status::kFailed,
                           ReasonCode::kInternal,
                           "the process crashed with SIGFPE (Floating point exception)",
                           "simulated crash: Floating point exception"},
                    Ending{"Ill",
                           {"crash_at_step=2", "crash_signal=ILL"},
                           Status::kFailed,
                           ReasonCode::kInternal,
                           "the process crashed with SIGILL (Illegal instruction)",
                           "simulated crash: Illegal instruction"},
                    Ending{"Kill",
                           {"crash_at_step=2", "crash_signal=KILL"},
                           Status::kFailed,
                           ReasonCode::kKilled,
                           "the process was ended from outside by SIGKILL",
                           "simulated crash: Killed"},
                    Ending{"OomGpu",
                           {"oom_gpu_probability=1"},
                           Status::kInvalid,
                           ReasonCode::kOomGpu,
                           "the GPU's memory does not suffice",
                           "CUDA out of memory. Tried to allocate 0.00 GiB (simulated)"},
                    Ending{"OomHost",
                           {"oom_host_above_gib=0.5"},
                           Status::kFailed,
                           ReasonCode::kOomHost,
                           "the host's memory does not suffice",
                           "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1.00 "
                           "GiB (simulated)"},
                    Ending{"Nccl",
                           {"fail=NCCL"},
                           Status::kFailed,
                           ReasonCode::kNccl,
                           "a simulated failure",
                           "--simulate fail=NCCL"},
                    Ending{"Weights",
                           {"fail=WEIGHTS"},
                           Status::kFailed,
                           ReasonCode::kWeights,
                           "a simulated failure",
                           "--simulate fail=WEIGHTS"}),
    [](const auto& test) { return test.param.name; });

TEST(ChildMeasurementTest, AStatusWithoutAResultIsAFailureWithTheLogsLastLine) {
  const Measurement m = measured_by(simulated_spec(3, {"exit_at_step=2"}));
  EXPECT_EQ(m.reason->code, ReasonCode::kInternal);
  EXPECT_EQ(m.reason->message, "the process ended with status 7 and without a result");
  EXPECT_THAT(m.reason->evidence, HasSubstr("step: 2 "));
}

TEST(ChildMeasurementTest, WhatTakesTooLongIsTimeoutAndSaysHowFarItCame) {
  ChildSpec spec = simulated_spec(1000, {"sleep_s=0.05"});
  spec.timeout_s = 1.5;
  const Measurement m = measured_by(std::move(spec));
  EXPECT_EQ(m.reason->code, ReasonCode::kTimeout);
  EXPECT_THAT(m.reason->message,
              testing::MatchesRegex("it did not end within 1.5 s: rank 0 had done "
                                    "[0-9]+ of 1000 steps"));
  EXPECT_THAT(m.reason->evidence, HasSubstr("step: "));
}

TEST(ChildMeasurementTest, WhatShowsNoProgressIsHangAndNamesTheLastStep) {
  ChildSpec spec = simulated_spec(10, {"hang_at_step=3"});
  spec.stall_timeout_s = 1.5;
  const Measurement m = measured_by(std::move(spec));
  EXPECT_EQ(m.reason->code, ReasonCode::kHang);
  EXPECT_EQ(m.reason->message, "no sign of progress for 1.5 s: rank 0 had done 3 of 10 steps");
}

TEST(ChildMeasurementTest, AHangBeforeTrainingNamesThePhase) {
  ChildSpec spec = simulated_spec(10, {"startup_s=60"});
  spec.stall_timeout_s = 1.5;
  const Measurement m = measured_by(std::move(spec));
  EXPECT_EQ(m.reason->message,
            "no sign of progress for 1.5 s: it was still in its phase preparing");
}

TEST(ChildMeasurementTest, StepsThatKeepComingAreNoHang) {
  ChildSpec spec = simulated_spec(40, {"sleep_s=0.05"});
  spec.stall_timeout_s = 1.5;
  EXPECT_EQ(measured_by(std::move(spec)).status, Status::kValid);
}

TEST(ChildMeasurementTest, MemoryBeyondTheLimitIsOomHost) {
  ChildSpec spec = simulated_spec(3, {"allocate_gib=1"});
  spec.host_memory_bytes = int64_t{256} << 20;
  const Measurement m = measured_by(std::move(spec));
  EXPECT_EQ(m.status, Status::kFailed);
  EXPECT_EQ(m.reason->code, ReasonCode::kOomHost);
  EXPECT_EQ(m.reason->evidence, "std::bad_alloc");
}

TEST(ChildMeasurementTest, MemoryBelowTheLimitIsNot) {
  ChildSpec spec = simulated_spec(3, {"allocate_gib=0.125"});
  spec.host_memory_bytes = int64_t{256} << 20;
  EXPECT_EQ(measured_by(std::move(spec)).status, Status::kValid);
}

TEST(ChildMeasurementTest, AHangAtTheMemoryLimitIsOomHost) {
  ChildSpec spec = simulated_spec(3, {"allocate_gib=0.125", "hang_at_step=1"});
  spec.host_memory_bytes = int64_t{256} << 20;
  spec.stall_timeout_s = 2;
  const Measurement m = measured_by(std::move(spec));
  EXPECT_EQ(m.reason->code, ReasonCode::kOomHost);
  EXPECT_EQ(m.reason->message,
            "no sign of progress for 2 s at the memory limit: rank 0 had done 1 of 3 steps");
}

TEST(ChildMeasurementTest, AHangFarFromTheMemoryLimitIsAHang) {
  ChildSpec spec = simulated_spec(3, {"hang_at_step=1"});
  spec.host_memory_bytes = int64_t{4} << 30;
  spec.stall_timeout_s = 1.5;
  EXPECT_EQ(measured_by(std::move(spec)).reason->code, ReasonCode::kHang);
}

TEST(ChildMeasurementTest, AChildKeepsToItsCores) {
  ChildSpec spec = simulated_spec(1);
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof usable, &usable), 0);
  int core = 0;
  while (!CPU_ISSET(core, &usable)) ++core;
  spec.cpus = {core};
  EXPECT_EQ(measured_by(std::move(spec)).environment["cores"], 1);
}

TEST(ChildMeasurementTest, TheParentsOwnEndIsTheReason) {
  ChildMeasurement child(simulated_spec(10, {"hang_at_step=1"}));
  while (child.heartbeat().step == 0 && !child.advance()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  child.end(ReasonCode::kKilled, "the sweep was ended");
  const Measurement& m = child.wait();
  EXPECT_EQ(m.reason->code, ReasonCode::kKilled);
  EXPECT_EQ(m.reason->message, "the sweep was ended");
  EXPECT_EQ(child.deadline_s(), std::numeric_limits<double>::infinity());
}

TEST(ChildMeasurementTest, NothingOfAGroupSurvivesItsWatchdog) {
  const std::filesystem::path file = temporary_file("pid");
  ChildSpec spec = fake_engine_spec("family", file);  // leader and grandchild ignore SIGTERM
  spec.timeout_s = 3;
  ChildMeasurement child(std::move(spec));
  const pid_t grandchild = number_in(file);
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(alive(grandchild));
  const Measurement& m = child.wait();
  EXPECT_EQ(m.reason->code, ReasonCode::kTimeout);
  EXPECT_FALSE(alive(child.pid()));
  EXPECT_FALSE(alive(grandchild));
  EXPECT_GE(child.elapsed_s(), 3.2);  // SIGKILL came after the grace period
}

TEST(ChildMeasurementTest, NothingOfAGroupSurvivesAGoodEnd) {
  const std::filesystem::path file = temporary_file("pid");
  EXPECT_EQ(measured_by(fake_engine_spec("orphan", file)).status, Status::kValid);
  EXPECT_FALSE(alive(number_in(file)));
}

TEST(ChildMeasurementTest, NothingOfAGroupSurvivesItsParent) {
  const std::filesystem::path file = temporary_file("pid");
  const pid_t parent = fork();
  if (parent == 0) {
    ChildMeasurement child(fake_engine_spec("family", file));
    std::ofstream(file.string() + ".child") << child.pid() << std::endl;
    for (;;) pause();
  }
  const pid_t child = number_in(file.string() + ".child");
  const pid_t grandchild = number_in(file);
  EXPECT_TRUE(alive(child));
  EXPECT_TRUE(alive(grandchild));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  EXPECT_TRUE(dies_soon(child));
  EXPECT_TRUE(dies_soon(grandchild));
  std::filesystem::remove(file.string() + ".child");
}

TEST(ChildMeasurementTest, WhatIsLeftOfAGroupEndsWithItsOwner) {
  pid_t pid = -1;
  {
    const ChildMeasurement child(simulated_spec(10, {"hang_at_step=1"}));
    pid = child.pid();
    EXPECT_TRUE(alive(pid));
  }
  EXPECT_FALSE(alive(pid));
}

TEST(ChildMeasurementTest, AnInheritedDescriptorIsOpenAsLongAsTheChildLives) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ChildSpec spec = simulated_spec(1, {"hang_at_step=1"});
  spec.inherited_fds = {ends[1]};
  ChildMeasurement child(std::move(spec));
  close(ends[1]);
  pollfd pipe = {ends[0], POLLIN, 0};
  EXPECT_EQ(poll(&pipe, 1, 100), 0);  // somebody could still write
  child.end(ReasonCode::kKilled, "enough");
  child.wait();
  EXPECT_EQ(poll(&pipe, 1, 1000), 1);
  EXPECT_EQ(pipe.revents, POLLHUP);
  close(ends[0]);
}

TEST(ChildMeasurementTest, AChildThatCannotBeStartedIsAFailedMeasurement) {
  ChildSpec spec = simulated_spec(1);
  spec.executable = "/nonexistent/sftbench";
  const Measurement m = measured_by(std::move(spec));
  EXPECT_EQ(m.status, Status::kFailed);
  EXPECT_EQ(m.reason->message, "the child process cannot be started");
  EXPECT_EQ(m.reason->evidence, "/nonexistent/sftbench: No such file or directory");
  EXPECT_EQ(m.environment["backend"], "simulate");
}

TEST(ChildMeasurementTest, ALogThatCannotBeWrittenIsAnInputError) {
  ChildSpec spec = simulated_spec(1);
  spec.log = "/nonexistent/folder/x.log";
  try {
    ChildMeasurement child(std::move(spec));
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "/nonexistent/folder/x.log: cannot write the log: No such file or directory");
  }
}

TEST(MeasureCommandTest, WithoutAParentItSaysWhatItIsFor) {
  FILE* pipe = popen(SFTBENCH_EXECUTABLE " measure </dev/null 2>&1", "r");
  char words[200] = {};
  ASSERT_NE(std::fgets(words, sizeof words, pipe), nullptr);
  EXPECT_EQ(WEXITSTATUS(pclose(pipe)), 2);
  EXPECT_THAT(words, StartsWith("sftbench measure is what a sweep starts for each measurement: "));
}

// A real one: a memory cgroup with room for the program, not for what it takes then.
TEST(ChildMeasurementTest, TheKernelsOutOfMemoryKillerIsOomHost) {
  const std::filesystem::path group =
      "/sys/fs/cgroup/memory/sftbench_test_" + std::to_string(getpid());
  std::error_code error;
  if (!std::filesystem::create_directory(group, error)) {
    GTEST_SKIP() << "no memory cgroup of version 1 can be made here: " << error.message();
  }
  std::ofstream(group / "memory.limit_in_bytes") << (128 << 20) << std::endl;
  const pid_t parent = fork();
  if (parent == 0) {
    std::ofstream(group / "cgroup.procs") << getpid() << std::endl;
    const Measurement m = measured_by(simulated_spec(3, {"allocate_gib=1"}));
    const bool as_it_should = m.reason && m.reason->code == ReasonCode::kOomHost &&
                              m.reason->evidence == "oom_kill rose by 1 while it ran";
    if (!as_it_should) std::fputs((to_json(m).dump(2) + "\n").c_str(), stderr);
    _exit(as_it_should ? 0 : 1);
  }
  int status = -1;
  waitpid(parent, &status, 0);
  EXPECT_EQ(status, 0);
  std::filesystem::remove(group, error);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
