// Workers as processes of this machine. A script stands in for sftbench, and writes down what it
// was given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "campaign/campaign_fixture.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/campaign/engines.h"
#include "sftbench/launch/cores.h"
#include "temporary_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class LocalTest : public testing::Test {
 protected:
  LocalTest() {
    fs::create_directories(folder_ / "runs");
    ::setenv("CUDA_VISIBLE_DEVICES", "", 1);  // whatever this machine has
    worker("");
  }
  ~LocalTest() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }

  // Each run makes the first folder of 1, 2, ... that is not there yet, and then does what `script`
  // says.
  void worker(const std::string& script) {
    write_file_atomic(folder_ / "worker", R"(#!/bin/sh
run=1
while ! mkdir "$RUNS/$run" 2>/dev/null; do
  [ -d "$RUNS/$run" ] || exit 9
  run=$((run + 1))
done
printf '%s\n' "$@" >"$RUNS/$run/words"
grep Cpus_allowed_list /proc/self/status >"$RUNS/$run/cores"
printf '<%s>' "${CUDA_VISIBLE_DEVICES-unset}" >"$RUNS/$run/gpus"
cat >"$RUNS/$run/input"
echo "says $run"
)" + script + "\n");
    fs::permissions(folder_ / "worker", fs::perms::owner_all);
  }

  CampaignPlan plan(int64_t workers, const std::vector<CampaignCell>& others = {}) {
    std::vector<CampaignCell> cells(static_cast<size_t>(workers), cpu_cell());
    cells.insert(cells.end(), others.begin(), others.end());
    CampaignPlan all = plan_of(group_cells(cells, {{}, workers}));
    all.program = (folder_ / "worker").string();
    all.output = (folder_ / "results").string();
    all.environment = {{"RUNS", (folder_ / "runs").string()}};
    return all;
  }
  // Cores are for measurements: any number of simulated workers fits a machine.
  CampaignPlan simulated(int64_t workers) {
    CampaignPlan all = plan(workers);
    all.simulated = true;
    return all;
  }

  int run(const CampaignPlan& plan, int interrupt_fd = -1) {
    CampaignLog log;
    log.info = log.warn = [this](const std::string& text) { said_ += text + "\n"; };
    std::ostringstream out;
    const int status = make_local_engine(interrupt_fd, log)->start(plan, out);
    printed_ = out.str();
    return status;
  }
  std::string refusal(const CampaignPlan& plan) {
    try {
      run(plan);
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  int runs() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_ / "runs"), {}));
  }
  std::string of_run(int number, const char* file) const {
    return read_file(folder_ / "runs" / std::to_string(number) / file);
  }
  std::string log(int worker) const {
    return read_file(folder_ / "results" / "workers" / (std::to_string(worker) + ".log"));
  }

  const fs::path folder_ = temporary_file("folder");
  std::string said_, printed_;
};

TEST_F(LocalTest, AWorkerIsTheProgramWithItsWordsItsLogAndNothingToRead) {
  EXPECT_EQ(run(plan(1)), 0);
  EXPECT_EQ(runs(), 1);
  EXPECT_EQ(of_run(1, "words"),
            "sweep\nspaces/my space.yaml\n--set\nnumber_gpus=[1,2]\n--set\nmax_steps=3\n"
            "--max-retries\n2\n--worker\n-o\n" +
                (folder_ / "results").string() + "\n");
  EXPECT_EQ(of_run(1, "input"), "");
  EXPECT_EQ(of_run(1, "gpus"), "<>");
  EXPECT_EQ(log(1), "says 1\n");
  EXPECT_EQ(printed_, "1 worker, logs in " + (folder_ / "results/workers").string() + "\n");
  EXPECT_EQ(said_, "worker 1 has ended with status 0\n");
  EXPECT_EQ(run(plan(1)), 0);
  EXPECT_EQ(log(1), "says 1\nsays 2\n") << "a log goes on";
}

TEST_F(LocalTest, WorkersDivideTheCores) {
  const std::vector<int> before = affinity_cores();
  const auto workers = static_cast<int64_t>(std::min<size_t>(3, before.size()));
  EXPECT_EQ(run(plan(workers)), 0);
  EXPECT_EQ(affinity_cores(), before) << "this process keeps its own";
  ASSERT_EQ(runs(), workers);
  std::vector<int> all;
  for (int worker = 1; worker <= workers; ++worker) {
    std::string list = of_run(worker, "cores");  // "Cpus_allowed_list:\t0-1,4"
    std::istringstream ranges(list.substr(list.find('\t') + 1));
    for (std::string range; std::getline(ranges, range, ',');) {
      const size_t dash = range.find('-');
      const int first = std::stoi(range);
      const int last = dash == std::string::npos ? first : std::stoi(range.substr(dash + 1));
      for (int core = first; core <= last; ++core) all.push_back(core);
    }
  }
  EXPECT_THAT(all, testing::UnorderedElementsAreArray(before)) << "each one has each core once";
}

TEST_F(LocalTest, AWorkerHasACoreAtLeast) {
  const auto cores = static_cast<int64_t>(affinity_cores().size());
  EXPECT_EQ(run(plan(cores)), 0);
  EXPECT_EQ(refusal(plan(cores + 1)), "--workers: found " + std::to_string(cores + 1) +
                                          "; expected at most " + std::to_string(cores) +
                                          ", as many as this process has cores");
  EXPECT_EQ(runs(), cores);
  EXPECT_EQ(run(simulated(cores + 1)), 0) << "a simulation needs none for itself";
  EXPECT_EQ(runs(), 2 * cores + 1);
}

TEST_F(LocalTest, CellsForDevicesThatAreNotHereStayOpen) {
  const CampaignCell gpu = gpu_cell(1, 1, "L40S");
  CampaignCell nodes = cpu_cell();
  nodes.need->nodes = 2;
  EXPECT_EQ(run(plan(1, {gpu, nodes})), 0);
  EXPECT_THAT(said_,
              AllOf(HasSubstr("1 cell needs 1 node with 1 L40S, and a worker here has 1 node "
                              "with 0 GPUs: it stays open\n"),
                    HasSubstr("1 cell needs 2 nodes without GPUs, and"),
                    Not(HasSubstr("needs 1 node without"))));
  CampaignPlan none = plan(1, {gpu, nodes});
  none.groups.erase(
      std::remove_if(none.groups.begin(), none.groups.end(),
                     [](const WorkerGroup& group) { return group.need == DeviceNeed{}; }),
      none.groups.end());
  ASSERT_EQ(none.groups.size(), 2u);
  EXPECT_THAT(refusal(none), HasSubstr("--workers: no cell can be measured by 1 on this machine, "
                                       "which has 0 GPUs; expected another engine"));
  EXPECT_EQ(runs(), 1);
}

// Interrupted before a wrong command line, that before a failure, that before cells that remain.
TEST_F(LocalTest, TheWorstOfTheWorkersStatusesIsThatOfTheCampaign) {
  const struct {
    int first, second, expected;
  } kStatuses[] = {{0, 0, 0},     {0, 6, 6},     {6, 0, 6},     {6, 6, 6},  {4, 6, 4}, {6, 4, 4},
                   {0, 1, 4},     {3, 0, 4},     {1, 6, 4},     {2, 4, 2},  {6, 2, 2}, {0, 2, 2},
                   {130, 2, 130}, {2, 130, 130}, {4, 130, 130}, {128, 0, 4}};
  for (const auto& [first, second, expected] : kStatuses) {
    fs::remove_all(folder_ / "runs");
    fs::create_directories(folder_ / "runs");
    worker("[ $run = 1 ] || exit " + std::to_string(second) + "; exit " + std::to_string(first));
    EXPECT_EQ(run(simulated(2)), expected) << first << " and " << second;
    EXPECT_EQ(runs(), 2) << first << " and " << second;
  }
}

TEST_F(LocalTest, AWorkerThatASignalEndsStartsAgain) {
  worker("[ $run -gt 2 ] || kill -KILL $$");
  EXPECT_EQ(run(simulated(1)), 0);
  EXPECT_EQ(runs(), 3);
  EXPECT_EQ(said_,
            "worker 1 was lost (status 137), and starts again\n"
            "worker 1 was lost (status 137), and starts again\n"
            "worker 1 has ended with status 0\n");
  EXPECT_EQ(log(1), "says 1\nsays 2\nsays 3\n");
}

TEST_F(LocalTest, AWorkerThatIsLostEachTimeIsGivenUpAfterThreeRestarts) {
  worker("kill -KILL $$");
  EXPECT_EQ(run(simulated(1)), 4);
  EXPECT_EQ(runs(), 1 + 3);
  EXPECT_THAT(said_, testing::EndsWith("worker 1 has ended with status 137\n"));
}

// 128 + SIGTERM. Without the interruption it would start again.
TEST_F(LocalTest, AnInterruptionEndsTheWorkers) {
  const int interrupt_fd = ::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
  worker("exec sleep 1000");
  EXPECT_EQ(run(simulated(2), interrupt_fd), 130);
  ::close(interrupt_fd);
  EXPECT_THAT(said_, AllOf(HasSubstr("worker 1 has ended with status 143\n"),
                           HasSubstr("worker 2 has ended with status 143\n"),
                           Not(HasSubstr("starts again"))));
}

TEST_F(LocalTest, IsTheProgramThatRunsAndWaits) {
  const auto engine = make_local_engine(-1, {});
  EXPECT_EQ(engine->default_program(), fs::canonical("/proc/self/exe").string());
  EXPECT_TRUE(engine->waits_for_workers());
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
