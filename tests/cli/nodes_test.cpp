// `sftbench run` that starts the ranks of several hosts itself, through an ssh of this test: each
// host is this machine under another name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/program.h"
#include "results/schema_check.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/launch/cores.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Variables = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

constexpr const char* kExperiment = "finetune_full_benchmark-v1.0.0";

constexpr const char* kFakeSsh = R"ssh(#!/bin/bash
echo "$*" >>"$(dirname "$0")/words"
while [[ $1 == -* ]]; do [[ $1 == -o ]] && shift; shift; done
host=$1
shift
case $host in
  gone) printf "ssh: connect to host gone port 22: No route to host\\r\\n" >&2; exit 255 ;;
  bare) exec sh -c "exec /no/such/folder/sftbench node" ;;
  lost) (sleep 1; kill -9 $$) & ;;
esac
exec sh -c "$*"
)ssh";

class NodesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(testing::UnitTest::GetInstance()->current_test_info()->name());
    configure_small_dataset(folder_);
    make_program("ssh", kFakeSsh);
  }

  void make_program(const std::string& name, const std::string& text) const {
    fs::create_directories(folder_ / "bin");
    std::ofstream(folder_ / "bin" / name) << text;
    fs::permissions(folder_ / "bin" / name, fs::perms::owner_all);
  }

  Words arguments(const Words& extra) const {
    Words words = {
        "run",       "--experiment", kExperiment, "--config",         folder_ / "config.yaml",
        "--weights", "random",       "--output",  folder_ / "results"};
    for (const char* setting :
         {"model_name=smollm2-135m", "model_max_length=64", "batch_size=4", "max_steps=3"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }

  Words on_cpus(const Words& extra) const {
    Words words = arguments({"--set", "number_gpus=0", "--ranks", "2"});
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }

  Words on_gpus(const Words& extra) const {
    Words words = arguments({"--set", "number_gpus=2", "--set", "number_nodes=2", "--set",
                             "gpu_model=NVIDIA-H100-80GB-HBM3"});
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }

  Variables variables(Variables more = {}) const {
    more.emplace("PATH", (folder_ / "bin").string() + ":/usr/bin:/bin");
    more["NODES_TEST"] = folder_;
    return more;
  }

  ProgramResult run(const Words& words, const Variables& more = {}) const {
    return run_program(words, variables(more));
  }

  static std::string environment_of(const fs::path& process) {
    std::ifstream file(process / "environ", std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), {});
    text.insert(text.begin(), '\0');
    return text;
  }

  // Environments of the processes that this test's program has started, and that live. Each is read
  // once: a process that becomes another program has none for an instant.
  std::map<pid_t, std::string> environments(const std::string& with = {}) const {
    std::map<pid_t, std::string> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string text = environment_of(entry.path());
      const auto has = [&text](const std::string& variable) {
        return text.find('\0' + variable + '\0') != std::string::npos;
      };
      if (has("NODES_TEST=" + folder_.string()) && (with.empty() || has(with))) {
        found.emplace(std::stoi(name), text);
      }
    }
    return found;
  }

  std::vector<pid_t> processes(const std::string& with = {}) const {
    std::vector<pid_t> found;
    for (const auto& [process, text] : environments(with)) found.push_back(process);
    return found;
  }

  // Empty when it does not come.
  std::string wait_for_environment_of_rank_1() const {
    const double give_up_s = steady_seconds() + 20;
    while (steady_seconds() < give_up_s) {
      const auto found = environments("RANK=1");
      if (!found.empty()) return found.begin()->second;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return {};
  }

  void expect_all_gone() const {
    const double give_up_s = steady_seconds() + 15;
    while (!processes().empty() && steady_seconds() < give_up_s) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_THAT(processes(), testing::IsEmpty());
  }

  Json result() const {
    if (fs::exists(folder_ / "results")) {
      for (const auto& entry : fs::recursive_directory_iterator(folder_ / "results")) {
        if (entry.path().extension() != ".json") continue;
        EXPECT_EQ(schema_violation(entry.path()), "");
        return read_json_file(entry.path());
      }
    }
    return {{"status", "none was written"}};
  }

  fs::path folder_;
};

TEST_F(NodesTest, OneCommandTrainsOnTwoHosts) {
  const ProgramResult program =
      run(on_cpus({"--hosts", "127.0.0.1,localhost", "--format", "json"}));
  EXPECT_EQ(program.status, 0) << program.err;
  EXPECT_EQ(Json::parse(program.out), result());
  EXPECT_EQ(result()["status"], "valid");
  EXPECT_EQ(result()["inputs"]["cpu_ranks"], 2);
  EXPECT_THAT(program.err, AllOf(HasSubstr("step 3/3"), Not(HasSubstr("sftbench node")),
                                 Not(HasSubstr("share no secret"))));
  expect_all_gone();
}

TEST_F(NodesTest, TheSecretStandsInNoCommandLineAndInNoFile) {
  const std::string password = "hunter2";
  Program program(on_cpus({"--hosts", "127.0.0.1,localhost", "--track",
                           "mlflow=http://me:" + password + "@127.0.0.1:9"}),
                  variables({{"FAKE_ENGINE", "busy"}}));
  program.start();
  const std::string environment = wait_for_environment_of_rank_1();
  const std::string name = "SFTBENCH_JOB_SECRET=";
  const size_t begin = environment.find(name);
  ASSERT_NE(begin, std::string::npos);
  const std::string secret =
      environment.substr(begin + name.size(), environment.find('\0', begin) - begin - name.size());
  EXPECT_EQ(secret.size(), 64U);
  for (const pid_t process : processes()) {
    const std::string line = read_file("/proc/" + std::to_string(process) + "/cmdline");
    EXPECT_THAT(line, Not(HasSubstr(secret)));
    if (process == program.pid()) continue;  // its user has typed it
    EXPECT_THAT(line, Not(HasSubstr(password)));
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    if (!entry.is_regular_file()) continue;
    EXPECT_THAT(read_file(entry.path()), AllOf(Not(HasSubstr(secret)), Not(HasSubstr(password))))
        << entry.path();
  }
  ::kill(program.pid(), SIGTERM);
  EXPECT_EQ(program.finish().status, 130);
  EXPECT_EQ(result()["status"], "none was written");
  expect_all_gone();
}

TEST_F(NodesTest, RanksEndWithAProgramThatIsKilled) {
  Program program(on_cpus({"--hosts", "127.0.0.1,localhost"}),
                  variables({{"FAKE_ENGINE", "busy"}}));
  program.start();
  ASSERT_FALSE(wait_for_environment_of_rank_1().empty());
  ::kill(program.pid(), SIGKILL);
  EXPECT_EQ(program.finish().status, -SIGKILL);
  expect_all_gone();
}

TEST_F(NodesTest, ARankThatIsKilledIsTheOutcomesCause) {
  const ProgramResult program =
      run(on_cpus({"--hosts", "127.0.0.1,localhost"}), {{"FAKE_ENGINE", "rank 1: kill"}});
  EXPECT_EQ(program.status, 4) << program.err;
  EXPECT_THAT(program.err, HasSubstr("sftbench: rank 1 on "));
  EXPECT_THAT(program.err, HasSubstr("was ended by signal 9 (Killed)"));
  EXPECT_EQ(result()["reason"]["code"], "KILLED");
  EXPECT_THAT(result()["reason"]["message"].get<std::string>(), HasSubstr("rank 1"));
  expect_all_gone();
}

TEST_F(NodesTest, AHostThatCannotBeReachedEndsTheOthersAtOnce) {
  const ProgramResult program = run(on_cpus({"--hosts", "127.0.0.1,gone"}));
  EXPECT_EQ(program.status, 4) << program.err;
  EXPECT_LT(program.wall_s, 15);
  EXPECT_THAT(program.err, HasSubstr("sftbench: gone cannot be reached by ssh, or lets nobody in "
                                     "without a password: ssh: connect to host gone"));
  EXPECT_THAT(program.err, testing::Not(HasSubstr("\\x0d"))) << "ssh ends its lines with it";
  EXPECT_EQ(result()["status"], "none was written");
  expect_all_gone();
}

TEST_F(NodesTest, AHostWithoutTheProgramIsNamed) {
  const ProgramResult program = run(on_cpus({"--hosts", "127.0.0.1,bare"}));
  EXPECT_EQ(program.status, 4) << program.err;
  EXPECT_LT(program.wall_s, 15);
  EXPECT_THAT(program.err,
              AllOf(HasSubstr("is missing on bare: all hosts need it at the same path"),
                    HasSubstr("sftbench: the program /")));
  expect_all_gone();
}

TEST_F(NodesTest, AConnectionThatIsLostIsNamed) {
  const ProgramResult program =
      run(on_cpus({"--hosts", "127.0.0.1,lost"}), {{"FAKE_ENGINE", "busy"}});
  EXPECT_EQ(program.status, 4) << program.err;
  EXPECT_THAT(program.err, HasSubstr("a rank on lost ended with status 137"));
  expect_all_gone();
}

class NodesSweepTest : public NodesTest {
 protected:
  Words sweep(const std::string& experiment, const Words& extra, size_t ranks = 2) const {
    Words words = {"sweep",
                   "--experiment",
                   experiment,
                   "--config",
                   folder_ / "config.yaml",
                   "--weights",
                   "random",
                   "--output",
                   folder_ / "results",
                   "--format",
                   "csv",
                   "--ranks",
                   std::to_string(ranks)};
    for (const char* setting : {"model_name=smollm2-135m", "model_max_length=[64,128]",
                                "batch_size=4", "max_steps=3", "number_gpus=0"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }
};

TEST_F(NodesSweepTest, EachCellIsMeasuredOnBothHosts) {
  const ProgramResult program = run(sweep(kExperiment, {"--hosts", "127.0.0.1,localhost"}));
  EXPECT_EQ(program.status, 0) << program.err << program.out;
  EXPECT_THAT(program.out, HasSubstr("valid,,2,0"));
  const std::string words = read_file(folder_ / "bin" / "words");
  EXPECT_EQ(std::count(words.begin(), words.end(), '\n'), 4) << "each cell on each host";
  EXPECT_THAT(result()["command"].get<std::string>(), testing::StartsWith("sftbench run"));
  size_t logs = 0, series = 0;
  for (const std::string& name : file_names_below(folder_ / "results")) {
    logs += name.find(".log") != std::string::npos;
    series += name.find(".series.json.gz") != std::string::npos;
    EXPECT_THAT(name, Not(HasSubstr("nodes")));
  }
  EXPECT_EQ(logs, 4U) << "of each cell one for each rank";
  EXPECT_EQ(series, 2U);
  expect_all_gone();
}

TEST_F(NodesSweepTest, RanksTakeCoresOfTheirOwnHost) {
  const size_t ranks = 2 * affinity_cores().size();
  const ProgramResult two = run(
      sweep(kExperiment, {"--threads", "1", "--dry-run", "--hosts", "127.0.0.1,localhost"}, ranks));
  EXPECT_EQ(two.status, 0) << two.err;
  EXPECT_THAT(two.out, AllOf(HasSubstr("measure,"), Not(HasSubstr("record as"))));
  const ProgramResult one = run(sweep(kExperiment, {"--threads", "1", "--dry-run"}, ranks));
  EXPECT_EQ(one.status, 2);
  EXPECT_THAT(one.err, HasSubstr("--threads: found 1 for each of " + std::to_string(ranks) +
                                 " ranks; expected no more than"));
}

TEST_F(NodesSweepTest, RanksThatCannotBeDividedAmongHostsAreRefused) {
  const ProgramResult program =
      run(sweep(kExperiment, {"--dry-run", "--hosts", "127.0.0.1,localhost"}, 3));
  EXPECT_EQ(program.status, 2) << program.out;
  EXPECT_THAT(program.err, HasSubstr("--ranks: 3 ranks cannot be divided among 2 nodes; expected "
                                     "as many on each"));
}

TEST_F(NodesSweepTest, ARankThatIsKilledCostsItsCell) {
  const ProgramResult program =
      run(sweep(kExperiment, {"--hosts", "127.0.0.1,localhost", "--limit", "1"}),
          {{"FAKE_ENGINE", "rank 1: kill"}});
  EXPECT_EQ(program.status, 4) << program.err;
  EXPECT_EQ(result()["reason"]["code"], "KILLED");
  EXPECT_THAT(result()["reason"]["message"].get<std::string>(),
              AllOf(HasSubstr("rank 1"), Not(HasSubstr(".nodes"))));
  expect_all_gone();
}

TEST_F(NodesSweepTest, AHostThatIsGoneIsTheReason) {
  const ProgramResult program =
      run(sweep(kExperiment, {"--hosts", "127.0.0.1,gone", "--limit", "1"}));
  EXPECT_EQ(program.status, 4) << program.err;
  EXPECT_THAT(result()["reason"]["message"].get<std::string>(),
              HasSubstr("no rank came to a result: gone cannot be reached by ssh"));
  expect_all_gone();
}

TEST_F(NodesSweepTest, AnInterruptedSweepLeavesNoRank) {
  Program program(sweep(kExperiment, {"--hosts", "127.0.0.1,localhost"}),
                  variables({{"FAKE_ENGINE", "busy"}}));
  program.start();
  ASSERT_FALSE(wait_for_environment_of_rank_1().empty());
  ::kill(program.pid(), SIGTERM);
  EXPECT_EQ(program.finish().status, 130);
  EXPECT_EQ(result()["status"], "none was written");
  expect_all_gone();
}

TEST_F(NodesSweepTest, HostsAndAnEngineContradictEachOther) {
  const ProgramResult program = run(sweep(kExperiment, {"--hosts", "a,b", "--on", "slurm"}));
  EXPECT_EQ(program.status, 2);
  EXPECT_THAT(program.err, HasSubstr("--on: stands beside --launcher, --hosts or --hostfile"));
}

TEST_F(NodesTest, FewerHostsThanNodesAreRefused) {
  const ProgramResult program = run(on_gpus({"--hosts", "a"}));
  EXPECT_EQ(program.status, 2);
  EXPECT_THAT(program.err,
              HasSubstr("number_nodes: asks for 2 nodes, and 1 host is named; expected as many"));
}

TEST_F(NodesTest, FewerNodesInAnAllocationThanAskedForAreRefused) {
  make_program("srun", "#!/bin/sh\nexit 1\n");
  const ProgramResult program =
      run(on_gpus({}), {{"SLURM_JOB_ID", "5"}, {"SLURM_JOB_NUM_NODES", "1"}});
  EXPECT_EQ(program.status, 2);
  EXPECT_THAT(program.err, HasSubstr("asks for 2 nodes, and the allocation of Slurm has 1 "
                                     "(SLURM_JOB_NUM_NODES); expected sbatch --nodes=2"));
}

TEST_F(NodesTest, AnAllocationWithoutSrunIsRefused) {
  const ProgramResult program =
      run(on_gpus({}), {{"SLURM_JOB_ID", "5"}, {"SLURM_JOB_NUM_NODES", "2"}, {"PATH", folder_}});
  EXPECT_EQ(program.status, 2);
  EXPECT_THAT(program.err, HasSubstr("this is an allocation of Slurm (SLURM_JOB_ID=5), and there "
                                     "is no srun on the PATH"));
}

TEST_F(NodesTest, WhatStandsInPlaceOfSshNeedsNoSsh) {
  const std::vector<std::string> words = on_gpus({"--hosts", "a,b"});
  const ProgramResult without = run(words, {{"PATH", folder_}});
  EXPECT_EQ(without.status, 2);
  EXPECT_THAT(without.err, HasSubstr("there is no ssh on the PATH"));
  const ProgramResult other = run(words, {{"PATH", folder_}, {"SFTBENCH_SSH", "/bin/false"}});
  EXPECT_EQ(other.status, 4) << other.err;
  EXPECT_THAT(other.err, testing::Not(HasSubstr("on the PATH")));
}

TEST_F(NodesTest, SrunGetsTheCommandAndTheSecretAndItsStatusIsKept) {
  make_program("srun",
               "#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho \"$@\" >words\n"
               "echo \"${#SFTBENCH_JOB_SECRET}\" >length\necho ranks are at work >&2\nexit 3\n");
  const ProgramResult program =
      run(on_gpus({"--timeout", "0"}), {{"SLURM_JOB_ID", "5"}, {"SLURM_JOB_NUM_NODES", "2"}});
  EXPECT_EQ(program.status, 3) << program.err;
  EXPECT_EQ(program.err, "ranks are at work\n");
  EXPECT_EQ(read_file(folder_ / "bin" / "length"), "64\n");
  EXPECT_THAT(read_file(folder_ / "bin" / "words"),
              AllOf(testing::StartsWith("--nodes=2 --ntasks-per-node=1 --kill-on-bad-exit=1 "
                                        "--input=none --gpu-bind=none /"),
                    HasSubstr("sftbench run --experiment finetune_full"),
                    testing::EndsWith("--timeout 0\n")));
}

// Slurm keeps the words of srun, and ps shows those of all processes.
TEST_F(NodesTest, SecretsOfAddressesTravelInTheEnvironment) {
  for (const std::string launcher : {"srun", "mpirun"}) {
    make_program(launcher,
                 "#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho \"$@\" >words\nenv >variables\n");
    std::vector<std::string> words = {"--track", "mlflow=http://me:hunter2@h", "--launcher",
                                      launcher};
    if (launcher == "mpirun") words.insert(words.end(), {"--hosts", "a,b"});
    const ProgramResult program =
        run(on_gpus(words), {{"SLURM_JOB_ID", "5"}, {"SLURM_JOB_NUM_NODES", "2"}});
    EXPECT_EQ(program.status, 0) << program.err;
    EXPECT_THAT(read_file(folder_ / "bin" / "words"),
                AllOf(HasSubstr(" --track mlflow=http://***@h "), Not(HasSubstr("hunter2"))));
    EXPECT_THAT(
        read_file(folder_ / "bin" / "variables"),
        testing::ContainsRegex("\nSFTBENCH_HIDDEN_WORD_[0-9]+=mlflow=http://me:hunter2@h\n"));
  }
}

TEST_F(NodesTest, AProgramThatSrunDoesNotFindIsNamed) {
  make_program("srun",
               "#!/bin/sh\necho 'slurmstepd: error: execve(): /x/sftbench: No such file or "
               "directory' >&2\nexit 2\n");
  const ProgramResult program =
      run(on_gpus({}), {{"SLURM_JOB_ID", "5"}, {"SLURM_JOB_NUM_NODES", "2"}});
  EXPECT_EQ(program.status, 2);
  EXPECT_THAT(program.err, HasSubstr("is missing on a node: all hosts need it at the same path"));
}

TEST_F(NodesTest, MpirunGetsHostsAndNamesOfVariables) {
  make_program("mpirun", "#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho \"$@\" >words\n");
  std::ofstream(folder_ / "hosts") << "# two\nn1 slots=1\nn2 slots=1\n";
  const ProgramResult program = run(
      on_cpus({"--launcher", "mpirun", "--hostfile", folder_ / "hosts"}), {{"NCCL_DEBUG", "WARN"}});
  EXPECT_EQ(program.status, 0) << program.err;
  EXPECT_THAT(
      read_file(folder_ / "bin" / "words"),
      AllOf(testing::StartsWith("-np 2 --host n1:1,n2:1 --map-by ppr:1:node --bind-to none"),
            HasSubstr("-x NCCL_DEBUG "), HasSubstr("-x SFTBENCH_JOB_SECRET "),
            HasSubstr("-x MASTER_ADDR=n1 /")));
}

TEST_F(NodesTest, WhatCannotBeHostsIsRefused) {
  const auto err = [this](const Words& extra) {
    const ProgramResult program = run(on_cpus(extra));
    EXPECT_EQ(program.status, 2);
    return program.err;
  };
  EXPECT_THAT(err({"--hosts", "n1,-oProxyCommand=x"}), HasSubstr("'-oProxyCommand=x' is no host"));
  EXPECT_THAT(err({"--hosts", "n1,n 2"}), HasSubstr("'n 2' is no host"));
  EXPECT_THAT(err({"--hosts", "n1,n1"}), HasSubstr("names n1 twice"));
  EXPECT_THAT(err({"--hosts", "a,b,c"}),
              HasSubstr("--ranks: 2 ranks cannot be divided among 3 nodes"));
  EXPECT_THAT(err({"--launcher", "srum"}), HasSubstr("did you mean 'srun'?"));
  EXPECT_THAT(err({"--launcher", "ssh"}), HasSubstr("nothing says on which hosts"));
  EXPECT_THAT(err({"--launcher", "srun"}), HasSubstr("SLURM_JOB_ID is not set"));
  EXPECT_THAT(err({"--hosts", "a", "--hostfile", "b"}), HasSubstr("stands beside --hosts"));
  std::ofstream(folder_ / "none") << "# nobody\n";
  EXPECT_THAT(err({"--hostfile", folder_ / "none"}), HasSubstr("names no host"));
}

TEST_F(NodesTest, HostsOfAJobOfOneNodeHaveNoEffectAndItSaysSo) {
  const ProgramResult program = run(arguments(
      {"--set", "number_gpus=1", "--set", "gpu_model=NVIDIA-H100-80GB-HBM3", "--hosts", "gone"}));
  EXPECT_THAT(program.err, HasSubstr("--launcher and --hosts have no effect: the job is one "
                                     "node's (number_nodes)"));
  EXPECT_FALSE(fs::exists(folder_ / "bin" / "words"));
}

TEST_F(NodesTest, ANodeIsNothingToStartByHand) {
  const ProgramResult program = run_program({"node"});
  EXPECT_EQ(program.status, 2);
  EXPECT_THAT(program.err, HasSubstr("sftbench node is what this program starts on each host: "));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
