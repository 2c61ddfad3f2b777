// One folder of results under `run` and `sweep`: what is final, what is locked, what becomes of a
// folder that is taken away. Everything is simulated.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/program.h"
#include "results/schema_check.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/results/key_lock.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr const char* kExperiment = "finetune_full_benchmark-v1.0.0";
constexpr int kBusy = 5;

class SharedFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(testing::UnitTest::GetInstance()->current_test_info()->name());
    write_space("[64]");
  }

  // One cell for each length.
  void write_space(const std::string& lengths) const {
    std::ofstream(folder_ / "space.yaml")
        << "experiments:\n- {experimentIdentifier: " << kExperiment
        << ", actuatorIdentifier: SFTTrainer, parameterization: [{property: "
           "{identifier: max_steps}, value: 3}]}\n"
           "entitySpace:\n"
           "- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n"
           "- {identifier: number_gpus, propertyDomain: {values: [2]}}\n"
           "- {identifier: gpu_model, propertyDomain: {values: [NVIDIA-H100-PCIe]}}\n"
        << "- {identifier: model_max_length, propertyDomain: {values: " << lengths
        << "}}\n- {identifier: batch_size, propertyDomain: {values: [2]}}\n";
  }

  std::vector<std::string> words(const std::string& command,
                                 const std::vector<std::string>& extra = {}) const {
    std::vector<std::string> words = {command,     (folder_ / "space.yaml").string(),
                                      "-o",        results().string(),
                                      "--backend", "simulate"};
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }

  ProgramResult run(const std::vector<std::string>& extra = {}) const {
    return run_program(words("run", extra));
  }
  ProgramResult sweep(const std::vector<std::string>& extra = {}) const {
    return run_program(words("sweep", extra));
  }

  fs::path results() const { return folder_ / "results"; }
  fs::path experiment() const { return results() / kExperiment; }

  // Of the only cell.
  std::string key() const {
    const ProgramResult preview = sweep({"--dry-run", "--format", "json"});
    return parse_json(preview.out, "stdout").at(0).at("key");
  }

  Json result(const std::string& name) const {
    return read_json_file((experiment() / name).string());
  }

  size_t results_on_disk() const {
    const std::vector<std::string> names = file_names_below(results());
    return static_cast<size_t>(std::count_if(names.begin(), names.end(), [](const auto& name) {
      return fs::path(name).extension() == ".json";
    }));
  }

  fs::path folder_;
};

// --- what is final -------------------------------------------------------------------------------

TEST_F(SharedFolderTest, ARunThatFailsGoesAsideOfTheValidResult) {
  ASSERT_EQ(run().status, 0);
  const std::string key = this->key();
  const std::string valid = read_file(experiment() / (key + ".json"));
  const std::string log = read_file(experiment() / (key + ".log"));
  const ProgramResult failing = run({"--simulate", "fail=NCCL"});
  EXPECT_EQ(failing.status, 4) << failing.err;
  EXPECT_EQ(read_file(experiment() / (key + ".json")), valid);
  EXPECT_EQ(read_file(experiment() / (key + ".log")), log);
  EXPECT_THAT(file_names_below(results()),
              ElementsAre(key + ".failed.log", key + ".json", key + ".json.failed", key + ".log"));
  EXPECT_EQ(result(key + ".json.failed").at("reason").at("log"),
            (experiment() / (key + ".failed.log")).string());
  EXPECT_EQ(schema_violation(experiment() / (key + ".json.failed")), "");
  EXPECT_THAT(failing.err, HasSubstr(key + ".json is valid and stays"));
  const ProgramResult again = run({"--simulate", "fail=NCCL"});
  EXPECT_TRUE(fs::exists(experiment() / (key + ".json.failed.2"))) << again.err;
  EXPECT_EQ(result(key + ".json.failed.2").at("reason").at("log"),
            (experiment() / (key + ".failed.2.log")).string());
}

TEST_F(SharedFolderTest, ReportNamesWhatWentAsideAndDoesNotCountIt) {
  ASSERT_EQ(run().status, 0);
  ASSERT_EQ(run({"--simulate", "fail=NCCL"}).status, 4);
  const ProgramResult report =
      run_program({"report", results().string(), "--include-simulated", "--format", "jsonl"});
  EXPECT_EQ(report.status, 0);
  EXPECT_EQ(std::count(report.out.begin(), report.out.end(), '\n'), 1);
  EXPECT_EQ(parse_json(report.out, "stdout").at("status"), "valid");
  EXPECT_THAT(report.err, HasSubstr(key() + ".json.failed: "));
  EXPECT_THAT(report.err, HasSubstr("1 valid, 0 invalid, 0 failed"));
}

TEST_F(SharedFolderTest, ARunThatIsInvalidGoesAsideOfTheValidResult) {
  ASSERT_EQ(run().status, 0);
  const std::string key = this->key();
  const std::string valid = read_file(experiment() / (key + ".json"));
  EXPECT_EQ(run({"--simulate", "oom_gpu_above_gib=0.001"}).status, 3);
  EXPECT_EQ(read_file(experiment() / (key + ".json")), valid);
  EXPECT_EQ(result(key + ".json.invalid").at("reason").at("code"), "OOM_GPU");
}

TEST_F(SharedFolderTest, AnInvalidResultGivesWayToAValidOneOnly) {
  ASSERT_EQ(sweep({"--simulate", "oom_gpu_above_gib=0.001"}).status, 0);
  const std::string key = this->key();
  const std::string invalid = read_file(experiment() / (key + ".json"));
  EXPECT_EQ(run({"--simulate", "fail=NCCL"}).status, 4);
  EXPECT_EQ(read_file(experiment() / (key + ".json")), invalid);
  EXPECT_EQ(run().status, 0);
  EXPECT_EQ(result(key + ".json").at("status"), "valid");
  EXPECT_EQ(read_file(experiment() / (key + ".json.invalid")), invalid) << "nothing is lost";
}

TEST_F(SharedFolderTest, AValidRunOfAValidKeyIsARepeat) {
  ASSERT_EQ(sweep().status, 0);
  const std::string key = this->key();
  const std::string first = read_file(experiment() / (key + ".json"));
  const ProgramResult second = run();
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_EQ(read_file(experiment() / (key + ".json")), first);
  EXPECT_THAT(file_names_below(results()),
              ElementsAre(key + ".2.json", key + ".2.log", key + ".json", key + ".log"));
  EXPECT_NE(result(key + ".2.json").at("measured"), result(key + ".json").at("measured"))
      << "a sample is a measurement of its own";
  EXPECT_THAT(second.err, HasSubstr(key + ".2.json"));
  const ProgramResult third = sweep({"--repeats", "3"});
  EXPECT_EQ(third.status, 0);
  EXPECT_EQ(results_on_disk(), 3u) << "run's repeat is one of the three";
}

TEST_F(SharedFolderTest, AFailedResultIsReplaced) {
  ASSERT_EQ(run({"--simulate", "fail=NCCL"}).status, 4);
  ASSERT_EQ(run({"--simulate", "fail=INTERNAL"}).status, 4);
  const std::string key = this->key();
  EXPECT_EQ(result(key + ".json").at("reason").at("code"), "INTERNAL");
  EXPECT_EQ(run().status, 0);
  EXPECT_EQ(result(key + ".json").at("status"), "valid");
  EXPECT_THAT(file_names_below(results()), ElementsAre(key + ".json", key + ".log"));
}

// --- what is locked ------------------------------------------------------------------------------

TEST_F(SharedFolderTest, ARunRefusesAKeyThatSomebodyMeasuresAndNamesHim) {
  const std::string key = this->key();
  fs::create_directories(experiment());
  const auto lock = KeyLock::try_acquire(experiment() / (key + ".lock"));
  ASSERT_TRUE(lock);
  const ProgramResult refused = run();
  EXPECT_EQ(refused.status, kBusy) << refused.err;
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, HasSubstr("process " + std::to_string(::getpid())));
  EXPECT_THAT(refused.err, HasSubstr("nothing was measured"));
  EXPECT_THAT(file_names_below(results()), ElementsAre(key + ".lock")) << "the holder's";
}

TEST_F(SharedFolderTest, ASweepPassesOverWhatARunMeasures) {
  Program slow(words("run", {"--simulate", "sleep_s=0.5"}));
  slow.start();
  slow.read_err_until("measuring ");
  const ProgramResult refused = run();
  EXPECT_EQ(refused.status, kBusy) << refused.err;
  const ProgramResult beside = sweep();
  EXPECT_EQ(beside.status, 0);
  EXPECT_THAT(beside.err, HasSubstr("process " + std::to_string(slow.pid()) + "; looked at again"));
  EXPECT_THAT(beside.err, Not(HasSubstr("start ")));
  EXPECT_EQ(slow.finish().status, 0);
  EXPECT_EQ(results_on_disk(), 1u);
}

TEST_F(SharedFolderTest, AnInterruptedRunGivesTheLockBack) {
  Program slow(words("run", {"--simulate", "sleep_s=5"}));
  slow.start();
  slow.read_err_until("measuring ");
  ::kill(slow.pid(), SIGINT);
  slow.read_err_until("once more");
  ::kill(slow.pid(), SIGINT);
  EXPECT_EQ(slow.finish().status, 130);
  EXPECT_FALSE(fs::exists(results()));
  EXPECT_EQ(run().status, 0);
}

TEST_F(SharedFolderTest, AKilledRunLeavesWhatTheNextOneCleansUp) {
  ASSERT_EQ(run().status, 0);
  const std::string key = this->key();
  for (const int sample : {1, 2}) {
    if (sample == 2) fs::remove(experiment() / (key + ".json"));
    Program slow(words("run", {"--simulate", "sleep_s=5"}));
    slow.start();
    slow.read_err_until("measuring ");
    ::kill(slow.pid(), SIGKILL);
    slow.finish();
    EXPECT_TRUE(fs::exists(experiment() / (key + ".lock")));
  }
  EXPECT_EQ(run().status, 0);
  EXPECT_THAT(file_names_below(results()), ElementsAre(key + ".json", key + ".log"));
}

// --- what was planted ----------------------------------------------------------------------------

TEST_F(SharedFolderTest, APlantedLockIsNotFollowed) {
  const std::string key = this->key();
  fs::create_directories(experiment());
  std::ofstream(folder_ / "victim") << "precious";
  fs::create_symlink(folder_ / "victim", experiment() / (key + ".lock"));
  const ProgramResult of_run = run();
  EXPECT_EQ(of_run.status, 2) << of_run.err;
  EXPECT_THAT(of_run.err, HasSubstr(key + ".lock: cannot make the lock: a symbolic link"));
  const ProgramResult of_sweep = sweep();
  EXPECT_EQ(of_sweep.status, 6) << "the other cells were to be measured";
  EXPECT_THAT(of_sweep.err, HasSubstr(key + ".lock: cannot make the lock: a symbolic link"));
  EXPECT_EQ(read_file(folder_ / "victim"), "precious");
}

TEST_F(SharedFolderTest, PlantedLogsAreNotFollowed) {
  const std::string key = this->key();
  fs::create_directories(experiment());
  std::ofstream(folder_ / "victim") << "precious";
  for (const std::string command : {"run", "sweep"}) {
    fs::create_symlink(folder_ / "victim", experiment() / (key + ".growing.log"));
    EXPECT_EQ(run_program(words(command)).status, 0);
    EXPECT_EQ(read_file(folder_ / "victim"), "precious") << command;
    EXPECT_FALSE(fs::is_symlink(experiment() / (key + ".log")));
    fs::remove(experiment() / (key + ".json"));
  }
}

// --- what other hosts have dated -----------------------------------------------------------------

TEST_F(SharedFolderTest, WhatFailedIsTriedAgainWhateverItsDate) {
  const std::string key = this->key();
  for (const int years : {-30, -1, 1, 30}) {
    fs::remove_all(results());
    ASSERT_EQ(sweep({"--simulate", "fail=NCCL"}).status, 4);
    const auto now = fs::file_time_type::clock::now();
    fs::last_write_time(experiment() / (key + ".json"), now + std::chrono::hours(8766 * years));
    const ProgramResult again = sweep();
    EXPECT_EQ(again.status, 0) << years << " years: " << again.err;
    EXPECT_EQ(result(key + ".json").at("status"), "valid");
  }
}

// --- what is taken away --------------------------------------------------------------------------

class VanishingFolderTest : public SharedFolderTest {
 protected:
  void SetUp() override {
    SharedFolderTest::SetUp();
    write_space("[64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416]");
  }

  // A sweep, and `take_away` in the middle of the fourth cell.
  template <typename TakeAway>
  ProgramResult sweep_while(TakeAway take_away) const {
    Program program(words("sweep", {"--simulate", "sleep_s=0.1"}));
    program.start();
    program.read_err_until("[3/12] valid");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    take_away();
    return program.finish();
  }

  // Ended as such, claims what is there, and the same command completes it.
  void expect_noticed(const ProgramResult& result) const {
    EXPECT_EQ(result.status, 4) << result.err;
    EXPECT_THAT(result.err,
                HasSubstr("; " + std::to_string(results_on_disk()) + " of 12 cells are settled"));
    EXPECT_THAT(result.err, HasSubstr("the same command goes on from there"));
    const ProgramResult again = sweep();
    EXPECT_EQ(again.status, 0) << again.err;
    EXPECT_EQ(results_on_disk(), 12u);
  }
};

TEST_F(VanishingFolderTest, ASweepNoticesThatItsFolderWasRemoved) {
  const ProgramResult result = sweep_while([this] { fs::remove_all(results()); });
  EXPECT_THAT(result.err, HasSubstr(experiment().string() + " was removed"));
  expect_noticed(result);
}

TEST_F(VanishingFolderTest, ASweepNoticesThatItsFolderWasReplaced) {
  fs::create_directories(folder_ / "elsewhere" / experiment().filename());
  // In one step: between two, the sweep would find no folder and rightly call it removed.
  const ProgramResult result = sweep_while([this] {
    ASSERT_EQ(::renameat2(AT_FDCWD, results().c_str(), AT_FDCWD, (folder_ / "elsewhere").c_str(),
                          RENAME_EXCHANGE),
              0);
  });
  EXPECT_THAT(result.err, HasSubstr(experiment().string() + " was replaced"));
  EXPECT_GE(file_names_below(folder_ / "elsewhere").size(), 6u) << "three results and their logs";
  expect_noticed(result);
}

TEST_F(VanishingFolderTest, ASweepNoticesThatResultsWereRemoved) {
  const ProgramResult result = sweep_while([this] {
    for (const auto& entry : fs::directory_iterator(experiment())) {
      if (entry.path().extension() == ".json") fs::remove(entry.path());
    }
  });
  EXPECT_THAT(result.err, HasSubstr("are gone"));
  expect_noticed(result);
}

TEST_F(SharedFolderTest, ARunNoticesThatItsFolderWasTakenAway) {
  for (const bool replaced : {false, true}) {
    fs::remove_all(results());
    Program slow(words("run", {"--simulate", "sleep_s=0.3"}));
    slow.start();
    slow.read_err_until("measuring ");
    fs::remove_all(results());
    if (replaced) fs::create_directories(experiment());
    const ProgramResult result = slow.finish();
    EXPECT_EQ(result.status, 4) << result.err;
    EXPECT_THAT(result.err,
                HasSubstr(experiment().string() + (replaced ? " was replaced" : " was removed")));
    EXPECT_THAT(result.out, HasSubstr("status      valid"));
    EXPECT_EQ(results_on_disk(), 1u) << "what was measured is kept";
    EXPECT_EQ(this->result(key() + ".json").at("status"), "valid");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
