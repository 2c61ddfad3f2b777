// `sftbench run` as ranks that were started from outside, with the fake engine: what each of them
// prints, writes and ends with.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/program.h"
#include "ranks/connection.h"
#include "ranks/hello.h"
#include "ranks/tcp_socket.h"
#include "results/schema_check.h"
#include "sftbench/base/build_info.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/results/key_lock.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

using Variables = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

constexpr const char* kExperiment = "finetune_full_benchmark-v1.0.0";

std::string free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length), 0);
  ::close(socket);
  return std::to_string(ntohs(address.sin_port));
}

class LaunchedRunTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(testing::UnitTest::GetInstance()->current_test_info()->name());
    configure_small_dataset(folder_);
    port_ = free_port();
  }

  Words arguments(const Words& extra = {}) const {
    Words words = {
        "run",       "--experiment", kExperiment, "--config",          folder_ / "config.yaml",
        "--weights", "random",       "--output",  folder_ / "results", "--ranks",
        "2"};
    for (const char* setting :
         {"model_name=smollm2-135m", "number_gpus=0", "model_max_length=64", "batch_size=2"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }

  // As one of `world_size` ranks on this machine.
  Program rank(int rank, const Words& words, int world_size = 2, Variables variables = {}) const {
    variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
    variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = std::to_string(world_size);
    variables["MASTER_ADDR"] = "127.0.0.1";
    variables["MASTER_PORT"] = port_;
    return Program(words, variables);
  }

  static std::vector<ProgramResult> finish(std::vector<Program> programs) {
    for (Program& program : programs) program.start();
    std::vector<ProgramResult> results;
    for (Program& program : programs) results.push_back(program.finish());
    return results;
  }

  std::vector<ProgramResult> both(const Words& first, const Words& second,
                                  const Variables& of_second = {}) const {
    return finish({rank(0, first), rank(1, second, 2, of_second)});
  }

  std::vector<ProgramResult> both(const Words& extra = {}) const {
    return both(arguments(extra), arguments(extra));
  }

  // The same under a parent that does what mpirun and srun --kill-on-bad-exit do: when one has
  // ended without success it sends all others SIGTERM, and a second later SIGKILL.
  static std::vector<ProgramResult> finish_under_launcher(std::vector<Program> programs) {
    for (Program& program : programs) program.start();
    const auto send_all = [&programs](int signal) {
      for (const Program& program : programs) ::kill(program.pid(), signal);
    };
    const auto one_has_failed = [&programs] {
      for (const Program& program : programs) {
        siginfo_t end = {};
        ::waitid(P_PID, static_cast<id_t>(program.pid()), &end, WEXITED | WNOHANG | WNOWAIT);
        if (end.si_pid != 0 && (end.si_code != CLD_EXITED || end.si_status != 0)) return true;
      }
      return false;
    };
    const double give_up_s = steady_seconds() + 60;
    while (!one_has_failed() && steady_seconds() < give_up_s) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    send_all(SIGTERM);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    send_all(SIGKILL);  // of processes that are not waited for yet: the numbers are still theirs
    std::vector<ProgramResult> results;
    for (Program& program : programs) results.push_back(program.finish());
    return results;
  }

  Json result() const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "results")) {
      if (entry.path().extension() != ".json") continue;
      EXPECT_EQ(schema_violation(entry.path()), "");
      return read_json_file(entry.path());
    }
    return {{"status", "none was written"}};
  }

  fs::path result_path() const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "results")) {
      if (entry.path().extension() == ".json") return entry.path();
    }
    return {};
  }

  fs::path folder_;
  std::string port_;
};

TEST_F(LaunchedRunTest, RankZeroPrintsAndWritesAndTheOtherIsQuiet) {
  const auto ranks = both({"--format", "json", "--set", "max_steps=3"});
  EXPECT_EQ(ranks[0].status, 0) << ranks[0].err;
  EXPECT_EQ(ranks[1].status, 0);
  EXPECT_EQ(ranks[1].out, "");
  EXPECT_EQ(ranks[1].err, "");
  EXPECT_EQ(Json::parse(ranks[0].out), result());
  EXPECT_THAT(ranks[0].err, HasSubstr("step 3/3"));
  Json json = result();
  EXPECT_EQ(json["status"], "valid");
  EXPECT_EQ(json["inputs"]["cpu_ranks"], 2);
  EXPECT_GE(json["extra"]["system_samples"], 4);  // two by each, at begin and end
  EXPECT_GT(json["measured"]["cpu_memory_utilization"], 0);
}

TEST_F(LaunchedRunTest, WhatFollowsAValidResultLeavesItAndItsLogs) {
  ASSERT_EQ(both({"--set", "max_steps=3"})[0].status, 0);
  std::vector<std::string> names = file_names_below(folder_ / "results");
  ASSERT_EQ(names.size(), 4u) << "the result, its series, and a log of each rank";
  const std::string key = fs::path(names[0]).stem();
  const fs::path folder = folder_ / "results" / kExperiment;
  const auto rank_log = [&] { return read_file(folder / (key + ".rank1.log")); };
  const std::string of_first = rank_log();
  ASSERT_EQ(both({"--set", "max_steps=3"})[0].status, 0);
  const Words words = arguments({"--set", "max_steps=3"});
  ASSERT_EQ(both(words, words, {{"FAKE_ENGINE", "internal"}})[0].status, 4);
  EXPECT_EQ(rank_log(), of_first);
  EXPECT_THAT(file_names_below(folder_ / "results"),
              testing::ElementsAre(key + ".2.json", key + ".2.log", key + ".2.rank1.log",
                                   key + ".2.series.json.gz", key + ".failed.log",
                                   key + ".failed.rank1.log", key + ".json", key + ".json.failed",
                                   key + ".log", key + ".rank1.log", key + ".series.json.gz"));
  EXPECT_THAT(read_file(folder / (key + ".failed.rank1.log")), HasSubstr("shapes do not match"));
}

TEST_F(LaunchedRunTest, AKeyThatSomebodyMeasuresIsRefusedByAllRanks) {
  ASSERT_EQ(both()[0].status, 0);
  const std::string key = fs::path(file_names_below(folder_ / "results")[0]).stem();
  const auto lock = KeyLock::try_acquire(folder_ / "results" / kExperiment / (key + ".lock"));
  const auto ranks = both();
  EXPECT_EQ(ranks[0].status, 5) << ranks[0].err;
  EXPECT_THAT(ranks[0].err, HasSubstr("process " + std::to_string(::getpid())));
  EXPECT_EQ(ranks[1].status, 2);
  EXPECT_EQ(ranks[1].err, "");
}

TEST_F(LaunchedRunTest, ADryRunIsPrintedOnce) {
  const auto ranks = both({"--dry-run"});
  EXPECT_EQ(ranks[0].status, 0) << ranks[0].err;
  EXPECT_EQ(Json::parse(ranks[0].out)["device"]["ranks"], 2);
  EXPECT_EQ(ranks[1].status, 0);
  EXPECT_EQ(ranks[1].out, "");
}

TEST_F(LaunchedRunTest, AnotherNumberOfRanksThanTheJobsIsRefusedNamingBoth) {
  const auto ranks =
      finish({rank(0, arguments(), 3), rank(1, arguments(), 3), rank(2, arguments(), 3)});
  for (const ProgramResult& rank : ranks) EXPECT_EQ(rank.status, 2);
  EXPECT_THAT(ranks[0].err, HasSubstr("the job has 2 ranks (--ranks), and WORLD_SIZE says 3"));
  EXPECT_EQ(ranks[1].err + ranks[2].err, "");
}

TEST_F(LaunchedRunTest, WhatARankStumblesOverRankZeroTells) {
  Words words = arguments();
  std::replace(words.begin(), words.end(), (folder_ / "config.yaml").string(),
               (folder_ / "nowhere.yaml").string());
  const auto ranks = both(arguments(), words);
  EXPECT_EQ(ranks[0].status, 2);
  EXPECT_THAT(ranks[0].err, HasSubstr("rank 1 on "));
  EXPECT_THAT(ranks[0].err, HasSubstr("nowhere.yaml"));
  EXPECT_EQ(ranks[1].status, 2);
  EXPECT_EQ(ranks[1].err, "");
}

// Whoever is started wrongly ends all in seconds, though the rendezvous may take ten minutes.
TEST_F(LaunchedRunTest, AnUnknownOptionOnOneRankEndsAll) {
  const auto ranks = both(arguments(), arguments({"--sead", "1"}));
  EXPECT_EQ(ranks[0].status, 2);
  EXPECT_THAT(ranks[0].err,
              testing::ContainsRegex("rank 1 on host .*: run: unknown option '--sead'"));
  EXPECT_EQ(ranks[1].status, 2);
  EXPECT_EQ(ranks[1].err, "");
  EXPECT_THAT(file_names_below(folder_ / "results"), testing::IsEmpty());
}

TEST_F(LaunchedRunTest, AnUnknownOptionOnRankZeroEndsAll) {
  const auto ranks = both(arguments({"--sead", "1"}), arguments());
  EXPECT_EQ(ranks[0].status, 2);
  EXPECT_THAT(ranks[0].err, HasSubstr("run: unknown option '--sead'"));
  EXPECT_EQ(ranks[1].status, 2);
  EXPECT_LT(std::max(ranks[0].wall_s, ranks[1].wall_s), 20);
}

TEST_F(LaunchedRunTest, AFormatThatIsNoneIsToldOnce) {
  const auto ranks = both({"--format", "pdf"});
  EXPECT_THAT(ranks[0].err, HasSubstr("pdf"));
  EXPECT_EQ(ranks[1].err, "");
  EXPECT_EQ(ranks[0].status + ranks[1].status, 4);
}

TEST_F(LaunchedRunTest, ARankOfAnotherVersionIsNamed) {
  const auto ranks = both(arguments(), arguments(), {{"FAKE_ENGINE_VERSION", "9.9.9"}});
  EXPECT_EQ(ranks[0].status, 4);
  EXPECT_EQ(ranks[1].status, 4);
  EXPECT_EQ(result()["reason"]["code"], "UNSUPPORTED");
  EXPECT_THAT(result()["reason"]["message"].get<std::string>(),
              testing::AllOf(testing::StartsWith("rank 1: "), HasSubstr("9.9.9")));
}

struct LauncherFault {
  const char* name;
  const char* rank0;
  const char* rank1;
  const char* code;
  const char* message;
};

class UnderLauncherTest : public LaunchedRunTest,
                          public testing::WithParamInterface<LauncherFault> {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(std::string("under_launcher_") + GetParam().name);
    configure_small_dataset(folder_);
    port_ = free_port();
  }
};

// A launcher that ends all ranks when one has ended does not keep rank 0 from telling why.
TEST_P(UnderLauncherTest, RankZeroTellsWhatEndedTheJob) {
  const LauncherFault& fault = GetParam();
  const auto ranks = finish_under_launcher(
      {rank(0, arguments({"--format", "json"}), 2, {{"FAKE_ENGINE", fault.rank0}}),
       rank(1, arguments(), 2, {{"FAKE_ENGINE", fault.rank1}})});
  EXPECT_EQ(ranks[0].status, 4) << ranks[0].err;
  EXPECT_EQ(Json::parse(ranks[0].out), result());
  EXPECT_EQ(result()["reason"]["code"], fault.code);
  EXPECT_THAT(result()["reason"]["message"].get<std::string>(), testing::StartsWith(fault.message));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, UnderLauncherTest,
    testing::Values(LauncherFault{"Throws", "", "internal", "INTERNAL", "rank 1: the run ended"},
                    LauncherFault{"IsKilled", "", "rank 1: kill", "KILLED",
                                  "rank 1: the process ended"},
                    LauncherFault{"IsKilledBeforeTraining", "", "kill-at-start", "KILLED",
                                  "rank 1: the process ended"},
                    // Nothing that rank 0 computes can be stopped before SIGKILL comes.
                    LauncherFault{"IsKilledWhileRankZeroComputes", "rank 0: busy", "rank 1: kill",
                                  "KILLED", "rank 1: the process ended"}),
    [](const auto& fault) { return fault.param.name; });

TEST_F(LaunchedRunTest, ARankWithAnotherJobIsNamed) {
  const auto ranks = both(arguments({"--set", "max_steps=3"}), arguments({"--set", "max_steps=4"}));
  EXPECT_EQ(ranks[0].status, 2);
  EXPECT_THAT(ranks[0].err, testing::ContainsRegex("rank 1 on .*: another job than rank 0's"));
  EXPECT_EQ(ranks[1].status, 2);
  EXPECT_THAT(file_names_below(folder_ / "results"), testing::IsEmpty());
}

TEST_F(LaunchedRunTest, AnEndingThatAllForeseeIsRankZerosMeasurement) {
  Words words = arguments();
  std::replace(words.begin(), words.end(), std::string("random"), std::string("auto"));
  const auto ranks = both(words, words);
  EXPECT_EQ(ranks[0].status, 4);
  EXPECT_EQ(ranks[1].status, 4);
  EXPECT_EQ(ranks[1].err, "");
  EXPECT_EQ(result()["reason"]["code"], "WEIGHTS");
  EXPECT_THAT(result()["reason"]["message"].get<std::string>(), Not(HasSubstr("rank 0")));
}

TEST_F(LaunchedRunTest, ARankThatFailsEndsAllWithItsOwnReason) {
  const auto ranks = both(arguments(), arguments(), {{"FAKE_ENGINE", "internal"}});
  EXPECT_EQ(ranks[0].status, 4);
  EXPECT_EQ(ranks[1].status, 4);
  EXPECT_EQ(ranks[1].err, "");
  Json json = result();
  EXPECT_EQ(json["reason"]["code"], "INTERNAL");
  EXPECT_THAT(json["reason"]["message"].get<std::string>(), testing::StartsWith("rank 1: "));
  EXPECT_EQ(json["reason"]["evidence"], "shapes do not match");
  const std::string log = json["reason"]["log"];
  const fs::path of_rank = fs::path(log).replace_extension(".rank1.log");
  EXPECT_THAT(read_file(of_rank), HasSubstr("evidence: shapes do not match"));
}

TEST_F(LaunchedRunTest, OutOfMemoryOnOneRankIsInvalidOnAll) {
  const auto ranks = both(arguments(), arguments(), {{"FAKE_ENGINE", "cuda-oom"}});
  EXPECT_EQ(ranks[0].status, 3);
  EXPECT_EQ(ranks[1].status, 3);
  EXPECT_EQ(result()["reason"]["code"], "OOM_GPU");
}

TEST_F(LaunchedRunTest, ARankThatDoesNotComeIsNamedInTheMeasurement) {
  const auto ranks = finish({rank(0, arguments({"--communication-timeout", "1"}))});
  EXPECT_EQ(ranks[0].status, 4) << ranks[0].err;
  EXPECT_EQ(result()["reason"]["code"], "NCCL");
  EXPECT_THAT(result()["reason"]["message"].get<std::string>(), HasSubstr("rank 1"));
}

// Only rank 0 can know: the others may have come before it, and look for it until their deadline.
TEST_F(LaunchedRunTest,
       APortThatIsTakenIsToldAtOnceByRankZeroAndTheOthersLookForItUntilTheDeadline) {
  const int taken = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(port_)));
  ASSERT_EQ(::bind(taken, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(taken, 8), 0);
  constexpr double kDeadlineSeconds = 2;
  const auto ranks = both({"--communication-timeout", "2"});
  EXPECT_EQ(ranks[0].status, 4);
  EXPECT_EQ(result()["reason"]["code"], "NCCL");
  EXPECT_EQ(result()["reason"]["message"],
            "port " + port_ + ", where ranks are to meet, is taken by another process of this " +
                "machine; choose another one");
  EXPECT_EQ(ranks[1].status, 4);
  EXPECT_THAT(ranks[1].err, HasSubstr("rank 1 did not find rank 0 at 127.0.0.1:" + port_));
  EXPECT_GE(ranks[1].wall_s, kDeadlineSeconds);
  EXPECT_LT(ranks[1].wall_s, kDeadlineSeconds + 10);
  ::close(taken);
}

// Who knows all of a job but its secret: says that it is rank 1 of it, again and again, until told
// to stop.
class Forger {
 public:
  explicit Forger(const std::string& port)
      : port_(std::stoi(port)),
        hello_{.version = version_and_commit(),
               .session = "none:127.0.0.1." + port,
               .world_size = 2,
               .info = {.rank = 1, .host = "elsewhere"},
               .problem = "\x1b]0;mine\x07"},
        thread_([this] { run(); }) {}
  int stop() {
    ended_ = true;
    thread_.join();
    return count_;
  }

 private:
  void run() {
    while (!ended_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      std::string why;
      OwnedFd socket = connect_to("127.0.0.1", port_, 1, why);
      if (!socket) continue;
      Connection connection(std::move(socket));
      connection.send(to_message(hello_));
      connection.flush();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++count_;
    }
  }

  int port_;
  Hello hello_;
  std::atomic<bool> ended_ = false;
  std::atomic<int> count_ = 0;
  std::thread thread_;
};

TEST_F(LaunchedRunTest, WhoSaysThatItIsARankAndHasNoSecretChangesNothing) {
  const Variables secret = {{"SFTBENCH_JOB_SECRET", "0123456789abcdef0123456789abcdef"}};
  Forger forger(port_);
  Program rank1 = rank(1, arguments(), 2, secret);
  Program rank0 = rank(0, arguments({"--format", "json"}), 2, secret);
  rank0.start();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  rank1.start();
  const ProgramResult result0 = rank0.finish();
  EXPECT_EQ(rank1.finish().status, 0);
  EXPECT_GT(forger.stop(), 10);
  EXPECT_EQ(result0.status, 0) << result0.err;
  EXPECT_THAT(result0.err, Not(HasSubstr("mine")));
  EXPECT_EQ(result()["status"], "valid");
  EXPECT_THAT(read_file(result_path()), Not(HasSubstr("0123456789abcdef0123456789abcdef")));
}

TEST_F(LaunchedRunTest, RanksWithDifferentSecretsDoNotMeetAndSayWhy) {
  const auto ranks = finish({rank(0, arguments({"--communication-timeout", "2"}), 2,
                                  {{"SFTBENCH_JOB_SECRET", "0123456789abcdef"}}),
                             rank(1, arguments({"--communication-timeout", "2"}), 2,
                                  {{"SFTBENCH_JOB_SECRET", "another secret of 16"}})});
  EXPECT_EQ(ranks[0].status, 4);
  EXPECT_THAT(result()["reason"]["message"].get<std::string>(),
              testing::ContainsRegex("rank 1 of 2 did not come to .* turned away: [0-9]+ "
                                     "connections? without this job's secret"));
  EXPECT_EQ(ranks[1].status, 4);
  EXPECT_THAT(ranks[1].err, HasSubstr("rank 1 did not find rank 0"));
}

TEST_F(LaunchedRunTest, ASecretThatOthersMayReadIsRefused) {
  const fs::path file = folder_ / "secret";
  std::ofstream(file) << "0123456789abcdef0123456789abcdef\n";
  fs::permissions(file, fs::perms(0644));
  const auto ranks = finish({rank(0, arguments(), 2, {{"SFTBENCH_JOB_SECRET_FILE", file}})});
  EXPECT_EQ(ranks[0].status, 2);
  EXPECT_THAT(ranks[0].err, HasSubstr("others may read or write it; expected chmod 600"));
}

// Two ranks that say that each has a node of its own.
TEST_F(LaunchedRunTest, SeveralNodesWithoutASecretAreWarnedOf) {
  const Variables apart = {{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}};
  std::vector<Program> programs;
  for (int number = 0; number < 2; ++number) {
    Variables variables = {{"RANK", std::to_string(number)},
                           {"WORLD_SIZE", "2"},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", port_}};
    variables.insert(apart.begin(), apart.end());
    programs.emplace_back(arguments(), variables);
  }
  const auto ranks = finish(std::move(programs));
  EXPECT_EQ(ranks[0].status, 0) << ranks[0].err;
  EXPECT_THAT(ranks[0].err, HasSubstr("the ranks of this job share no secret"));
  EXPECT_EQ(ranks[1].err, "");
  EXPECT_THAT(result()["extra"]["warnings"].dump(), HasSubstr("SFTBENCH_JOB_SECRET"));
}

TEST_F(LaunchedRunTest, ASeriesOfRunsIsRefused) {
  Words words = arguments();
  words[2] = "finetune_full_stability-v1.0.0";
  const auto ranks = both(words, words);
  EXPECT_EQ(ranks[0].status, 2);
  EXPECT_THAT(ranks[0].err, HasSubstr("start it once, on one node"));
}

TEST_F(LaunchedRunTest, ASweepIsStartedOnceOnANode) {
  std::ofstream(folder_ / "space.yaml") << "experiments: []\n";
  const Words words = {"sweep", (folder_ / "space.yaml").string()};
  const ProgramResult several = finish({rank(1, words)})[0];
  EXPECT_EQ(several.status, 2);
  EXPECT_THAT(several.err,
              HasSubstr("sweep: was started 2 times on this node; expected once on a node"));
  // On two nodes, once on each: that is not what it stumbles over.
  const ProgramResult one = run_program(
      words, {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "n1"}, {"MASTER_PORT", port_}});
  EXPECT_THAT(one.err, Not(HasSubstr("was started")));
}

TEST_F(LaunchedRunTest, VariablesThatDoNotFitTogetherAreRefused) {
  const ProgramResult run = run_program(arguments(), {{"RANK", "2"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("RANK and WORLD_SIZE: rank 2 of 2; found RANK=2 WORLD_SIZE=2"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
