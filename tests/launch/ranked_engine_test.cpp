#include "sftbench/launch/ranked_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>

#include "launch/job_of_child.h"
#include "launch/processes_of_test.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/launch/cores.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// Trains on three ranks and remembers what was told.
class RankedEngineTest : public testing::Test, public TrainObserver {
 protected:
  RankedEngineTest() : job_(small_trained_job(5)) {
    job_.device.ranks = 3;
    job_.parallel.timeout_s = 20;
  }
  // Whatever happened: nobody is left.
  ~RankedEngineTest() override { EXPECT_THAT(processes_.alive(), IsEmpty()); }

  RankedSpec spec(const std::string& mode) {
    RankedSpec spec;
    spec.log = log_ = temporary_file("growing.log");
    spec.final_log = "results/x.log";
    spec.environment = {{"SFTBENCH_ENGINE", SFTBENCH_FAKE_ENGINE},
                        {"FAKE_ENGINE", mode},
                        {"FAKE_ENGINE_FILE", temporary_file("child").string()},
                        processes_.variable()};
    spec.executable = SFTBENCH_EXECUTABLE;
    spec.on_rank_step = [this](int rank, int64_t step) { steps_by_rank_[rank] = step; };
    return spec;
  }

  // What ended it, "CODE: message [evidence]"; "" when it ended well.
  std::string train(const std::string& mode) {
    const double begin_s = steady_seconds();
    std::string ending;
    try {
      RankedEngine engine(job_, spec(mode));
      engine.train_job(job_, *make_single_rank(), {this}, [this] { return interrupted_; });
    } catch (const RunError& error) {
      ending = std::string(to_string(error.code())) + ": " + error.what() +
               (error.evidence().empty() ? "" : " [" + error.evidence() + "]");
    }
    seconds_ = steady_seconds() - begin_s;
    return ending;
  }

  void on_load(const LoadEvent& load) override { loads_.push_back(load_text(load)); }
  void on_train_begin(const TrainBegin& begin) override { begin_ = begin; }
  void on_step_end(const StepEvent& event, TrainControl& control) override {
    steps_.push_back(event.step);
    control.stop = event.step == stop_after_;
    interrupted_ = event.step == interrupt_after_;
  }
  void on_train_end(const TrainEnd& end) override { end_ = end; }

  TrainingJob job_;
  ProcessesOfTest processes_;
  std::filesystem::path log_;
  int64_t stop_after_ = -1;
  int64_t interrupt_after_ = -1;
  bool interrupted_ = false;
  std::vector<std::string> loads_;
  TrainBegin begin_;
  std::vector<int64_t> steps_;
  std::map<int, int64_t> steps_by_rank_;
  TrainEnd end_;
  double seconds_ = 0;
};

TEST_F(RankedEngineTest, WhatRank0TellsIsToldToObserversHere) {
  RankedEngine engine(job_, spec(""));
  EXPECT_EQ(engine.environment()["libtorch"], "0.0-fake");
  EXPECT_EQ(engine.process_ids().size(), 3u);
  engine.train_job(job_, *make_single_rank(), {this}, [] { return false; });
  EXPECT_EQ(begin_.ranks, 3);
  EXPECT_EQ(begin_.total_steps, 5);
  EXPECT_EQ(begin_.weights_seconds, 0.25);
  EXPECT_THAT(loads_, ElementsAre("loading, weights 25 % of 4.00 GiB, 3 of 12 entries tokenized"));
  EXPECT_THAT(steps_, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(end_.steps, 5);
  EXPECT_EQ(end_.host_peak_rss_bytes.size(), 3u);
  EXPECT_EQ(steps_by_rank_, (std::map<int, int64_t>{{1, 5}, {2, 5}}));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(read_file(log_of_rank(log_, rank)), HasSubstr("step: 5 "));
  }
}

TEST_F(RankedEngineTest, AnObserverStopsAllRanksAfterItsStep) {
  stop_after_ = 2;
  EXPECT_EQ(train("slow"), "");
  EXPECT_THAT(steps_, ElementsAre(1, 2));
  EXPECT_EQ(end_.steps, 2);
}

TEST_F(RankedEngineTest, AfterAFailureTheNextRunWorks) {
  EXPECT_THAT(train("rank 1: kill"), StartsWith("KILLED: rank 1: "));
  steps_.clear();
  EXPECT_EQ(train(""), "");
  EXPECT_EQ(steps_.size(), 5u);
}

struct Fault {
  const char* name;
  const char* mode;
  const char* ending;
  double timeout_s = 20;  // of communication
  // Those that are noticed by themselves take milliseconds, and a second or two on a busy machine.
  double within_s = 8;
};

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

class RankedEngineFaultTest : public RankedEngineTest, public testing::WithParamInterface<Fault> {};

TEST_P(RankedEngineFaultTest, EndsAllRanksAndNamesTheOneThatFailed) {
  job_.parallel.timeout_s = GetParam().timeout_s;
  EXPECT_THAT(train(GetParam().mode), StartsWith(GetParam().ending));
  EXPECT_LT(seconds_, GetParam().within_s);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, RankedEngineFaultTest,
    testing::Values(
        Fault{"KilledInAStep", "rank 1: kill",
              "KILLED: rank 1: the process was ended from outside by SIGKILL; its log: "
              "results/x.rank1.log"},
        Fault{"Rank0KilledInAStep", "rank 0: kill",
              "KILLED: rank 0: the process was ended from outside by SIGKILL"},
        Fault{"KilledBeforeTraining", "rank 2: kill-at-start",
              "KILLED: rank 2: the process was ended from outside by SIGKILL"},
        Fault{"KilledWhileEnding", "rank 1: kill-at-end",
              "KILLED: rank 1: the process was ended from outside by SIGKILL"},
        Fault{"Crash", "rank 2: crash",
              "INTERNAL: rank 2: the process crashed with SIGSEGV (Segmentation fault); its log: "
              "results/x.rank2.log [about to read what is not there; last seen: "},
        Fault{"Throws", "rank 2: internal",
              "INTERNAL: rank 2: the run ended with an unexpected error; its log: "
              "results/x.rank2.log [shapes do not match]"},
        Fault{"ThrowsSomethingElse", "rank 0: not-an-exception",
              "INTERNAL: rank 0: the run ended with an exception of unknown type"},
        Fault{"HostMemory", "rank 1: bad-alloc",
              "OOM_HOST: rank 1: the host's memory does not suffice"},
        Fault{"GpuMemoryAfterALostPeer", "rank 0: lost; rank 2: late-oom",
              "OOM_GPU: rank 2: the GPU's memory does not suffice"},
        Fault{"CrashThatOthersNoticeFirst", "rank 0: lost; rank 1: kill", "KILLED: rank 1: "},
        Fault{"Stalls", "rank 1: stall",
              "NCCL: rank 1: it did not join the other ranks within 0.6 s", 0.6, 0.6 + 10},
        Fault{"Stopped", "rank 2: stop", "NCCL: rank 2: ", 0.6, 0.6 + 10}),
    [](const auto& fault) { return fault.param.name; });

TEST_F(RankedEngineTest, AnEngineThatCannotBeLoadedEndsAll) {
  RankedSpec without = spec("");
  without.environment[0].second = "/nowhere/engine.so";
  RankedEngine engine(job_, without);
  EXPECT_EQ(engine.environment(), Json::object());
  try {
    engine.train_job(job_, *make_single_rank(), {this}, [] { return false; });
    FAIL() << "it trained";
  } catch (const RunError& error) {
    EXPECT_EQ(to_string(error.code()), "UNSUPPORTED");
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/engine.so"));
  }
}

TEST_F(RankedEngineTest, TheUserEndsItAtTheNextStep) {
  interrupt_after_ = 3;
  EXPECT_EQ(train("slow"), "KILLED: interrupted");
  EXPECT_GE(steps_.size(), 3u);
  EXPECT_LT(seconds_, 8);
}

TEST_F(RankedEngineTest, RanksThatDoNotListenToTheUserAreKilled) {
  interrupt_after_ = 1;
  EXPECT_EQ(train("stuck"), "KILLED: interrupted");
  EXPECT_LT(seconds_, 3 + 8);
}

TEST_F(RankedEngineTest, AnObserverThatThrowsEndsTheRanks) {
  struct : TrainObserver {
    void on_step_end(const StepEvent&, TrainControl&) override { throw InputError("disk full"); }
  } observer;
  EXPECT_THROW(RankedEngine(job_, spec("slow"))
                   .train_job(job_, *make_single_rank(), {&observer}, [] { return false; }),
               InputError);
}

// No rank outlives its parent, neither one that trains nor one that is stopped.
TEST_F(RankedEngineTest, RanksDieWithTheirParent) {
  for (const std::string mode : {"stuck", "rank 2: stop"}) {
    const RankedSpec of_child = spec(mode);
    const pid_t parent = ::fork();
    if (parent == 0) {
      RankedEngine engine(job_, of_child);
      engine.train_job(job_, *make_single_rank(), {}, [] { return false; });
      ::_exit(0);
    }
    EXPECT_TRUE(processes_.become(3, 10)) << mode;
    const double until_s = steady_seconds() + 10;  // until rank 2 is where it stays
    while (steady_seconds() < until_s &&
           read_file(log_of_rank(of_child.log, 2)).find("step: 1") == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    EXPECT_TRUE(processes_.become(0, 5)) << mode;
  }
}

// --- as a sweep starts it ----------------------------------------------------------------------

TEST_F(RankedEngineTest, AChildThatMeasuresHasRanks) {
  ChildSpec child_spec = fake_engine_spec("", temporary_file("file"));
  child_spec.environment.push_back(processes_.variable());
  child_spec.job = job_;
  ChildMeasurement child(child_spec);
  const Measurement& m = child.wait();
  ASSERT_EQ(m.status, Status::kValid) << (m.reason ? m.reason->message : "");
  EXPECT_EQ(m.environment["libtorch"], "0.0-fake");
  EXPECT_EQ(m.extra["loss"].size(), 5u);
  EXPECT_EQ(child.heartbeat().steps_by_rank, (std::map<int, int64_t>{{0, 5}, {1, 5}, {2, 5}}));
}

TEST_F(RankedEngineTest, AWatchdogNamesWhereEachRankWas) {
  ChildSpec child_spec = fake_engine_spec("rank 1: stall", temporary_file("file"));
  child_spec.environment.push_back(processes_.variable());
  child_spec.job = job_;
  child_spec.stall_timeout_s = 4;  // ranks say once a second where they are
  const Measurement m = ChildMeasurement(child_spec).wait();
  ASSERT_TRUE(m.reason);
  EXPECT_EQ(to_string(m.reason->code), "HANG");
  EXPECT_EQ(m.reason->message,
            "no sign of progress for 4 s: rank 0 had done 1 of 5 steps, rank 1 had done 1 of 5 "
            "steps, rank 2 had done 1 of 5 steps; last seen: rank 1 where it stalls; ranks 0 and 2 "
            "before step 2");
  EXPECT_TRUE(processes_.become(0, 5));
}

TEST_F(RankedEngineTest, AChildThatIsKilledTakesItsRanksWithIt) {
  ChildSpec child_spec = fake_engine_spec("stuck", temporary_file("file"));
  child_spec.environment.push_back(processes_.variable());
  child_spec.job = job_;
  ChildMeasurement child(child_spec);
  EXPECT_TRUE(processes_.become(4, 10));
  ::kill(child.pid(), SIGKILL);
  const Measurement& m = child.wait();
  EXPECT_EQ(to_string(m.reason->code), "KILLED");
  // The end of the child is that of all who hold its pipe.
  EXPECT_THAT(processes_.alive(), IsEmpty());
}

// --- cores -------------------------------------------------------------------------------------

std::vector<std::vector<int>> cores_of(const std::vector<CoreShare>& shares) {
  std::vector<std::vector<int>> cores;
  for (const CoreShare& share : shares) cores.push_back(share.cores);
  return cores;
}

TEST(CoresTest, AreDividedEvenlyWhereThereAreEnough) {
  const auto two = divide_cores({0, 1, 2, 3, 4}, 2, 0);
  EXPECT_THAT(cores_of(two), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_EQ(two[1].threads, 2);
  const auto few_threads = divide_cores({0, 1, 2, 3}, 2, 1);
  EXPECT_THAT(cores_of(few_threads), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_EQ(few_threads[0].threads, 1);
}

TEST(CoresTest, AreSharedByAllWhereThereAreTooFew) {
  const auto three = divide_cores({0, 1}, 3, 0);
  EXPECT_THAT(cores_of(three), ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
  EXPECT_EQ(three[2].threads, 1);
  const auto many_threads = divide_cores({0, 1, 2, 3}, 2, 3);
  EXPECT_THAT(cores_of(many_threads), ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_EQ(many_threads[0].threads, 3);
}

TEST(CoresTest, HyperthreadsOfACoreAndCoresOfASocketStandTogether) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "cores_of_test";
  std::filesystem::remove_all(root);
  const auto put = [&root](int core, int socket, int physical) {
    const auto folder =
        root / "sys/devices/system/cpu" / ("cpu" + std::to_string(core)) / "topology";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "physical_package_id") << socket << "\n";
    std::ofstream(folder / "core_id") << physical << "\n";
  };
  // As two sockets of two cores are numbered: 4 and more are the second threads.
  for (int core = 0; core < 8; ++core) put(core, core % 2, core % 4 / 2);
  EXPECT_THAT(by_neighborhood({0, 1, 2, 3, 4, 5, 6, 7}, root), ElementsAre(0, 4, 2, 6, 1, 5, 3, 7));
  EXPECT_THAT(by_neighborhood({3, 1, 2}, "/nowhere"), ElementsAre(1, 2, 3));
}

TEST(CoresTest, NearAGpuAreThoseThatThePciTreeNames) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "gpus_of_test";
  std::filesystem::remove_all(root);
  const auto put = [&root](const std::string& address, const std::string& uuid,
                           const std::string& cores) {
    const auto driver = root / "proc/driver/nvidia/gpus" / address;
    const auto device = root / "sys/bus/pci/devices" / address;
    std::filesystem::create_directories(driver);
    std::filesystem::create_directories(device);
    std::ofstream(driver / "information")
        << "Model: \t\t NVIDIA H100\nIRQ:   \t\t 16\nGPU UUID: \t " << uuid << "\n";
    std::ofstream(device / "local_cpulist") << cores << "\n";
  };
  put("0000:1b:00.0", "GPU-aaaa", "0-2,8");
  put("0000:9b:00.0", "GPU-bbbb", "4");
  EXPECT_THAT(cores_near_gpu("GPU-aaaa", root), ElementsAre(0, 1, 2, 8));
  EXPECT_THAT(cores_near_gpu("GPU-bbbb", root), ElementsAre(4));
  EXPECT_THAT(cores_near_gpu("GPU-cccc", root), IsEmpty());
  EXPECT_THAT(cores_near_gpu("GPU-aaaa", "/nowhere"), IsEmpty());
}

TEST(CoresTest, RanksNearTheSameCoresDivideThem) {
  const std::vector<int> left = {0, 1, 2, 3}, right = {4, 5, 6, 7};
  const auto shares = divide_cores_near({left, right, left, {}}, {0, 1, 2, 3, 4, 5, 6}, 0);
  EXPECT_THAT(cores_of(shares),
              ElementsAre(ElementsAre(0, 1), ElementsAre(4, 5, 6), ElementsAre(2, 3), IsEmpty()));
  EXPECT_EQ(shares[0].threads, 2);
  EXPECT_EQ(shares[1].threads, 3);
  EXPECT_EQ(shares[3].threads, 1);  // its part of all
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
