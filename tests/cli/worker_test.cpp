// sftbench sweep --worker, leases, and sftbench status, as users run them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/program.h"
#include "sftbench/base/json.h"
#include "sftbench/results/claim.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kExperiment = "finetune_full_benchmark-v1.0.0";

class WorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(testing::UnitTest::GetInstance()->current_test_info()->name());
    write_space("[0, 2]", "[64, 128, 256]");
  }

  // gpus: 0 runs here with the fake engine, 2 nowhere without the fake driver.
  void write_space(const std::string& gpus, const std::string& lengths) {
    std::ofstream(space())
        << "experiments:\n- {experimentIdentifier: " << kExperiment
        << ", actuatorIdentifier: SFTTrainer, parameterization: [{property: "
           "{identifier: max_steps}, value: 3}]}\nweights: random\n"
           "entitySpace:\n"
           "- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n"
           "- {identifier: gpu_model, propertyDomain: {values: [NVIDIA-H100-PCIe]}}\n"
           "- {identifier: batch_size, propertyDomain: {values: [2]}}\n"
        << "- {identifier: number_gpus, propertyDomain: {values: " << gpus << "}}\n"
        << "- {identifier: model_max_length, propertyDomain: {values: " << lengths << "}}\n";
  }

  std::vector<std::string> arguments(const std::vector<std::string>& extra) const {
    std::vector<std::string> words = {"sweep",    space(),    "-o", results().string(),
                                      "--worker", "--format", "csv"};
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }

  ProgramResult simulate(std::vector<std::string> extra = {}) const {
    extra.insert(extra.end(), {"--backend", "simulate"});
    return run_program(arguments(extra));
  }

  Json status(std::vector<std::string> words = {}) const {
    words.insert(words.begin(), {"status", results().string()});
    words.insert(words.end(), {"--format", "json"});
    const ProgramResult result = run_program(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return parse_json(result.out, "stdout");
  }

  std::string key_of_first() const {
    const ProgramResult preview =
        run_program({"sweep", space(), "--backend", "simulate", "--dry-run", "--format", "json"});
    return parse_json(preview.out, "stdout")[0].at("key");
  }

  std::string space() const { return (folder_ / "space.yaml").string(); }
  fs::path results() const { return folder_ / "results"; }

  fs::path folder_;
};

TEST_F(WorkerTest, LeavesToOthersWhatItsMachineCannotMeasure) {
  configure_small_dataset(folder_);
  const ProgramResult worker =
      run_program(arguments({"--config", (folder_ / "config.yaml").string()}));
  EXPECT_EQ(worker.status, 6) << worker.err;
  EXPECT_THAT(worker.out, AllOf(HasSubstr("valid,,3,0"), Not(HasSubstr("failed"))));
  EXPECT_THAT(worker.err, HasSubstr("3 cells left to others: number_gpus asks for 2 GPUs on this "
                                    "machine, which has no NVIDIA driver"));
  EXPECT_THAT(worker.err, HasSubstr("3 of 6 cells are settled"));
}

TEST_F(WorkerTest, TriesAgainWhatHadFailedAndWhatIsDamaged) {
  write_space("[2]", "[64, 72, 80, 88, 96]");
  EXPECT_EQ(
      simulate({"--simulate", "crash_probability=1", "--set", "model_max_length=[64,72]"}).status,
      4);
  EXPECT_EQ(simulate({"--set", "model_max_length=[80,88]"}).status, 0);
  const std::string key = key_of_first();
  std::ofstream(results() / kExperiment / (key + ".json")) << "{";
  const ProgramResult worker = simulate();
  EXPECT_EQ(worker.status, 0) << worker.err;
  EXPECT_THAT(worker.out, AllOf(HasSubstr("valid,,3,0"), HasSubstr("valid,,0,2")));
  EXPECT_THAT(worker.err, AllOf(HasSubstr("5 of 5 cells are settled"), HasSubstr("kept aside")));
}

TEST_F(WorkerTest, APlainSweepWritesTheSameCellsDown) {
  configure_small_dataset(folder_);
  const ProgramResult sweep = run_program({"sweep", space(), "-o", results().string(), "--config",
                                           (folder_ / "config.yaml").string(), "--format", "csv"});
  EXPECT_EQ(sweep.status, 4);
  EXPECT_THAT(sweep.out, HasSubstr("failed,UNSUPPORTED,3,0"));
}

TEST_F(WorkerTest, ADryRunSaysWhatIsLeft) {
  configure_small_dataset(folder_);
  const ProgramResult preview =
      run_program(arguments({"--dry-run", "--config", (folder_ / "config.yaml").string()}));
  EXPECT_EQ(preview.status, 0) << preview.err;
  EXPECT_THAT(preview.out, HasSubstr("leave to others,\"number_gpus asks for 2 GPUs"));
}

TEST_F(WorkerTest, SeveralShareAFolderAndEachCellIsMeasuredOnce) {
  write_space("[2]", "[64, 72, 80, 88, 96, 104, 112, 120, 128, 136]");
  std::vector<Program> workers;
  for (int i = 0; i < 3; ++i) {
    workers.emplace_back(
        arguments({"--backend", "simulate", "--simulate", "sleep_s=0.02", "--locking", "leases"}));
  }
  for (Program& worker : workers) worker.start();
  int measured = 0;
  for (Program& worker : workers) {
    const ProgramResult result = worker.finish();
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("sweep of 10 cells, claimed by leases ("));
    for (size_t at = result.err.find("start "); at != std::string::npos;
         at = result.err.find("start ", at + 1)) {
      ++measured;
    }
  }
  EXPECT_EQ(measured, 10);
  EXPECT_TRUE(fs::is_empty(results() / ".leases"));
}

TEST_F(WorkerTest, AtTheDeadlineItLetsGoAndKeepsNothingHalf) {
  const ProgramResult worker = simulate({"--until", "1s", "--simulate", "sleep_s=60"});
  EXPECT_EQ(worker.status, 6) << worker.err;
  EXPECT_LT(worker.wall_s, 60);
  EXPECT_THAT(worker.err, HasSubstr("0 of 6 cells are settled"));
  EXPECT_THAT(worker.err, HasSubstr("the time is over; the same command goes on from there"));
  EXPECT_EQ(status({}).at("ended"), 0);
}

TEST_F(WorkerTest, TheLaunchersEndOfTheJobIsTheDeadline) {
  write_space("[2]", "[64]");
  const ProgramResult worker =
      run_program(arguments({"--backend", "simulate"}), {{"SLURM_JOB_END_TIME", "1000000000"}});
  EXPECT_EQ(worker.status, 6) << worker.err;
  EXPECT_THAT(worker.err, HasSubstr("SLURM_JOB_END_TIME leaves 0:00"));
}

TEST_F(WorkerTest, SigtermLetsGoOfTheCell) {
  Program worker(arguments({"--backend", "simulate", "--simulate", "sleep_s=60"}));
  worker.start();
  worker.read_err_until("start ");
  ::kill(worker.pid(), SIGTERM);
  const ProgramResult result = worker.finish();
  EXPECT_EQ(result.status, 130);
  EXPECT_THAT(result.err, HasSubstr("the same command goes on from there"));
  EXPECT_EQ(status({}).at("claims").size(), 0u);
}

TEST_F(WorkerTest, OptionsThatCannotBeAreRefused) {
  const ProgramResult until = simulate({"--until", "soon"});
  EXPECT_EQ(until.status, 2);
  EXPECT_THAT(until.err, HasSubstr("--until: found 'soon'; expected a duration"));
  const ProgramResult over = simulate({"--until", "2020-01-01T00:00Z"});
  EXPECT_EQ(over.status, 2);
  EXPECT_THAT(over.err, HasSubstr("which is over"));
  const ProgramResult claims = simulate({"--locking", "lease"});
  EXPECT_EQ(claims.status, 2);
  EXPECT_THAT(claims.err, HasSubstr("did you mean 'leases'?"));
  EXPECT_EQ(simulate({"--lease", "0"}).status, 2);
}

TEST_F(WorkerTest, WhereNoLeaseCanBeMadeThatIsSaid) {
  fs::create_directories(results());
  std::ofstream(results() / ".leases") << "in the way";
  const ProgramResult worker = simulate();
  EXPECT_EQ(worker.status, 2);
  EXPECT_THAT(worker.err, HasSubstr(".leases: cannot make the folder of leases"));
}

TEST_F(WorkerTest, LocksAreRefusedWhereOthersUseLeases) {
  EXPECT_EQ(simulate({"--locking", "leases"}).status, 0);
  const ProgramResult locks = simulate({"--locking", "locks"});
  EXPECT_EQ(locks.status, 2);
  EXPECT_THAT(locks.err, HasSubstr("says that others work there with leases"));
}

TEST_F(WorkerTest, ARunKeepsOffALeasedKey) {
  write_space("[2]", "[64]");
  fs::create_directories(results());
  const auto claims = make_claims(results(), ClaimKind::kLeases);
  const auto claim = claims->try_acquire(kExperiment, key_of_first());
  ASSERT_TRUE(claim);
  const ProgramResult run =
      run_program({"run", space(), "-o", results().string(), "--backend", "simulate"});
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr("process " + std::to_string(::getpid())));
}

TEST_F(WorkerTest, DoctorSaysHowAFolderIsClaimed) {
  const auto claims_of = [](const std::string& folder) {
    const ProgramResult doctor = run_program({"doctor", folder, "--format", "json"});
    for (const Json& finding : parse_json(doctor.out, "stdout")) {
      if (finding.at("subject") == "claims") return finding.at("found").get<std::string>();
    }
    return std::string();
  };
  EXPECT_EQ(claims_of("/dev/shm"), "locks (tmpfs): a local disk, locks work");
  fs::create_directories(results() / ".leases");
  EXPECT_THAT(claims_of(results().string()), HasSubstr(": others have begun with leases"));
}

// --- status --------------------------------------------------------------------------------------

TEST_F(WorkerTest, StatusCountsStatesAndReasons) {
  EXPECT_EQ(simulate({"--limit", "2"}).status, 6);
  simulate({"--limit", "1", "--simulate", "fail=NCCL"});
  const Json without = status();
  EXPECT_EQ(without.at("valid"), 2);
  EXPECT_EQ(without.at("failed"), 1);
  EXPECT_TRUE(without.at("cells").is_null());
  const Json with = status({space(), "--backend", "simulate"});
  EXPECT_EQ(with.at("cells"), 6);
  EXPECT_EQ(with.at("ended"), 3);
  EXPECT_EQ(with.at("waiting"), 3);
  EXPECT_EQ(with.at("by_reason")[1], parse_json(R"({"status": "failed", "reason": "NCCL",
                                                    "cells": 1})",
                                                "expected"));
  const Json elsewhere = status({space()});
  EXPECT_EQ(elsewhere.at("ended"), 0) << "simulated cells have keys of their own";
  EXPECT_EQ(elsewhere.at("waiting"), 6);
}

TEST_F(WorkerTest, StatusOfASpaceThatIsTooLargeToNameSaysSo) {
  simulate({"--limit", "1"});
  const ProgramResult result =
      run_program({"status", results().string(), space(), "--set", "batch_size=[1,2,4,8]", "--set",
                   "max_steps=[" +
                       [] {
                         std::string list = "1";
                         for (int i = 2; i <= 1000; ++i) list += "," + std::to_string(i);
                         return list;
                       }() +
                       "]",
                   "--set",
                   "seed=[" +
                       [] {
                         std::string list = "1";
                         for (int i = 2; i <= 1000; ++i) list += "," + std::to_string(i);
                         return list;
                       }() +
                       "]"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err,
              testing::ContainsRegex(
                  "entitySpace: has [0-9]+ entities under 1 experiment; expected at most "
                  "2000000 cells: --set narrows it"));
  EXPECT_LT(result.wall_s, 20);
}

TEST_F(WorkerTest, StatusNamesWhoMeasuresWhat) {
  for (const char* kind : {"locks", "leases"}) {
    fs::remove_all(results());
    Program worker(
        arguments({"--backend", "simulate", "--simulate", "sleep_s=60", "--locking", kind}));
    worker.start();
    worker.read_err_until("start ");
    const Json seen = status({space(), "--backend", "simulate"});
    EXPECT_EQ(seen.at("measuring"), 1);
    EXPECT_EQ(seen.at("waiting"), 5);
    const Json& claim = seen.at("claims")[0];
    EXPECT_EQ(claim.at("process"), worker.pid());
    EXPECT_THAT(claim.at("cell").get<std::string>(), HasSubstr("model_max_length="));
    EXPECT_EQ(claim.at("claim"), std::string(kind).substr(0, std::string(kind).size() - 1));
    ::kill(worker.pid(), SIGTERM);
    worker.finish();
  }
}

TEST_F(WorkerTest, StatusHasATableForPeopleAndRowsForPrograms) {
  simulate();
  const ProgramResult table = run_program({"status", results().string()});
  EXPECT_THAT(table.out, HasSubstr("6 cells have ended (6 valid, 0 invalid, 0 failed) · 0 measured "
                                   "now\n\n"));
  const ProgramResult rows = run_program({"status", results().string(), "--format", "csv"});
  EXPECT_EQ(rows.out,
            "state,reason,cells,experiment,key,cell,host,process,seconds,silent_seconds\n"
            "valid,,6,,,,,,,\n");
}

TEST_F(WorkerTest, WatchingEndsWithTheSpaceAndRepeatsLinesWithoutATerminal) {
  Program worker(arguments({"--backend", "simulate", "--simulate", "sleep_s=0.05"}));
  worker.start();
  worker.read_err_until("sweep of");
  const ProgramResult watch = run_program({"status", results().string(), space(), "--backend",
                                           "simulate", "--watch", "--interval", "0.05"});
  EXPECT_EQ(watch.status, 0) << watch.err;
  EXPECT_THAT(watch.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(watch.out, testing::EndsWith(
                             "6 of 6 cells have ended (6 valid, 0 invalid, 0 failed) · 0 measured "
                             "now\n"));
  EXPECT_EQ(worker.finish().status, 0);
}

TEST_F(WorkerTest, StatusOfWhatIsNoFolderOfResultsIsRefused) {
  const ProgramResult absent = run_program({"status", (folder_ / "absent").string()});
  EXPECT_EQ(absent.status, 2);
  EXPECT_THAT(absent.err, HasSubstr("absent: cannot list: No such file or directory; expected a "
                                    "folder of results"));
  const ProgramResult other = run_program({"status", folder_.string()});
  EXPECT_EQ(other.status, 2) << other.out;
  EXPECT_THAT(other.err, HasSubstr("holds no results"));
  EXPECT_EQ(run_program({"status"}).status, 2);
}

TEST_F(WorkerTest, ADamagedResultIsCountedAsUnreadable) {
  simulate();
  const fs::path file = results() / kExperiment / (key_of_first() + ".json");
  std::ofstream(file, std::ios::app) << "more";
  EXPECT_EQ(status().at("unreadable"), 1);
  EXPECT_EQ(status().at("valid"), 5);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
