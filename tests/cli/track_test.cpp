// --track of `run` and `sweep`, with the fake engine: what is written, and what a tracker that
// fails does to a measurement.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "cli/program.h"
#include "results/schema_check.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/results/sample_series.h"
#include "trackers/fake_mlflow.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class TrackTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(testing::UnitTest::GetInstance()->current_test_info()->name());
    configure_small_dataset(folder_);
  }

  std::vector<std::string> words(const std::string& command,
                                 const std::vector<std::string>& extra) const {
    std::vector<std::string> all = {command,
                                    "--experiment",
                                    "finetune_full_benchmark-v1.0.0",
                                    "--config",
                                    (folder_ / "config.yaml").string(),
                                    "--weights",
                                    "random",
                                    "--output",
                                    (folder_ / "results").string(),
                                    "--no-progress"};
    for (const char* assignment :
         {"model_name=smollm2-135m", "number_gpus=0", "model_max_length=64", "max_steps=3"}) {
      all.insert(all.end(), {"--set", assignment});
    }
    if (command == "run") all.insert(all.end(), {"--set", "batch_size=2", "--format", "json"});
    all.insert(all.end(), extra.begin(), extra.end());
    return all;
  }

  std::string in_folder(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

std::vector<std::string> tracker_warnings(const Json& measurement) {
  std::vector<std::string> found;
  for (const Json& warning : measurement.at("extra").at("warnings")) {
    const std::string text = warning.get<std::string>();
    if (text.rfind("tracker ", 0) == 0) found.push_back(text);
  }
  return found;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(TrackTest, ARunIsWrittenToAllOfThem) {
  FakeMlflow server;
  const ProgramResult result = run_program(
      words("run", {"--track", "tensorboard=" + in_folder("runs"), "--track",
                    "mlflow=" + server.url(), "--track", "aim-info=" + in_folder("aim.json"),
                    "--track", "jsonl=" + in_folder("log-{key}.jsonl")}));
  ASSERT_EQ(result.status, 0) << result.err;
  const Json measurement = Json::parse(result.out);
  const std::string key = measurement.at("key").get<std::string>();
  EXPECT_THAT(tracker_warnings(measurement), IsEmpty());
  EXPECT_TRUE(fs::exists(in_folder("log-" + key + ".jsonl")));
  EXPECT_EQ(read_json_file(in_folder("aim.json")).at("run_hash"), key);
  EXPECT_THAT(fs::directory_iterator(in_folder("runs"))->path().filename().string(),
              testing::StartsWith(key + "-"));
  const auto runs = server.runs();
  ASSERT_EQ(runs.size(), 1);
  EXPECT_THAT(runs.begin()->second.statuses, ElementsAre("RUNNING", "FINISHED"));
}

// Its word is "hunter2", of the user info and of the query.
TEST_F(TrackTest, AnAddressKeepsItsSecretsToItself) {
  FakeMlflow server;
  const std::string host = server.url().substr(server.url().find("://") + 3);
  const std::string address = "mlflow=http://me:hunter2@" + host + "?token=hunter2";
  for (const std::string command : {"run", "sweep"}) {
    std::vector<std::string> more = {"--track", address, "--track",
                                     "jsonl=" + in_folder("{key}.jsonl")};
    if (command == "sweep") more.insert(more.end(), {"--set", "batch_size=1"});
    const ProgramResult result = run_program(words(command, more));
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("hunter2"))) << command;
  }
  EXPECT_FALSE(server.runs().empty()) << "the address is used as it was given";
  const ProgramResult report = run_program({"report", in_folder("results"), "--format", "json"});
  EXPECT_THAT(report.out, AllOf(HasSubstr("mlflow=http://***@"), Not(HasSubstr("hunter2"))));
  size_t files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_)) {
    if (!entry.is_regular_file()) continue;
    EXPECT_THAT(read_file(entry.path()), Not(HasSubstr("hunter2"))) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 4);
  for (const auto& [id, run] : server.runs()) {
    for (const auto& [name, value] : run.tags)
      EXPECT_THAT(value, Not(HasSubstr("hunter2"))) << name;
  }
}

TEST_F(TrackTest, WorkersGetTheSecretsOfAnAddressInTheirEnvironment) {
  std::ofstream(folder_ / "program") << "#!/bin/sh\necho \"$@\" >'" + in_folder("words") +
                                            "'\nexec '" + SFTBENCH_EXECUTABLE + "' \"$@\"\n";
  fs::permissions(folder_ / "program", fs::perms::owner_all);
  for (const std::string of : {"this program", "another"}) {
    const FakeMlflow server;
    const std::string host = server.url().substr(server.url().find("://") + 3);
    std::vector<std::string> more = {
        "--track", "mlflow=http://me:hunter2@" + host, "--set", "batch_size=1", "--on", "local"};
    fs::remove_all(in_folder("results"));
    if (of == "another") more.insert(more.end(), {"--program", in_folder("program")});
    const ProgramResult result = run_program(words("sweep", more));
    ASSERT_EQ(result.status, 0) << result.err;
    const std::vector<ServedRequest> requests = server.requests();
    ASSERT_FALSE(requests.empty()) << of;
    for (const ServedRequest& request : requests)
      EXPECT_EQ(request.header("authorization"), "Basic bWU6aHVudGVyMg==") << of;
    if (of == "another") {
      EXPECT_THAT(read_file(in_folder("words")),
                  AllOf(HasSubstr("--track mlflow=http://***@" + host), Not(HasSubstr("hunter2"))));
    }
  }
}

TEST_F(TrackTest, TheSamplesStandBesideTheResult) {
  const ProgramResult result = run_program(words("run", {}));
  ASSERT_EQ(result.status, 0) << result.err;
  const Json measurement = Json::parse(result.out);
  const fs::path results = fs::path(in_folder("results")) / "finetune_full_benchmark-v1.0.0";
  const fs::path file = results / (measurement.at("key").get<std::string>() + ".json");
  EXPECT_EQ(read_json_file(file.string()).at("extra"), measurement.at("extra"))
      << "what is printed is what is kept";
  EXPECT_EQ(schema_violation(file), "");
  const Json& described = measurement.at("extra").at("series");
  const Json series =
      read_sample_series(results / described.at("file").get<std::string>(), described);
  EXPECT_EQ(series.at("steps").at("end_s").size(), 3);
  EXPECT_EQ(series.at("processes").size(), 1);
}

TEST_F(TrackTest, ASimulationHasNoSamples) {
  const ProgramResult result = run_program(words("run", {"--backend", "simulate"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_FALSE(Json::parse(result.out).at("extra").contains("series"));
}

TEST_F(TrackTest, ATrackerThatIsDownIsAWarningAndNoMore) {
  std::string gone;
  {
    FakeMlflow server;
    gone = server.url();
  }
  const ProgramResult result = run_program(words("run", {"--track", "mlflow=" + gone}));
  ASSERT_EQ(result.status, 0) << result.err;
  const auto warnings = tracker_warnings(Json::parse(result.out));
  ASSERT_EQ(warnings.size(), 1);
  EXPECT_THAT(warnings[0],
              testing::AllOf(HasSubstr("nothing answers at"), HasSubstr("were not written")));
  EXPECT_EQ(count_of(result.err, "nothing answers at"), 1) << result.err;
}

TEST_F(TrackTest, ADeviceIsNoFile) {
  const ProgramResult result = run_program(words("run", {"--track", "jsonl=/dev/full"}));
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--track: cannot write /dev/full"));
}

TEST_F(TrackTest, WhatIsWrongWithATrackerIsSaidBeforeAnythingIsMeasured) {
  const ProgramResult result = run_program(
      words("run", {"--track", "wandb=project", "--track", "tensorboad=" + in_folder("runs")}));
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("this program does not write to 'wandb'"));
  EXPECT_THAT(result.err, HasSubstr("did you mean 'tensorboard'?"));
  EXPECT_FALSE(fs::exists(in_folder("results")));
}

TEST_F(TrackTest, ASweepTracksEachMeasurementByItself) {
  FakeMlflow server;
  const ProgramResult result = run_program(
      words("sweep",
            {"--set", "batch_size=[1,2]", "--track", "tensorboard=" + in_folder("runs"), "--track",
             "mlflow=" + server.url(), "--track", "jsonl=" + in_folder("logs/{key}.jsonl")}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(file_names_below(in_folder("logs")).size(), 2);
  EXPECT_EQ(file_names_below(in_folder("runs")).size(), 2);
  EXPECT_EQ(server.runs().size(), 2);
  std::set<std::string> names;
  for (const std::string& name : file_names_below(in_folder("results"))) {
    if (name.find(".series.json.gz") != std::string::npos) names.insert(name);
  }
  EXPECT_EQ(names.size(), 2);
}

TEST_F(TrackTest, ASweepSaysOnceWhatATrackerLacks) {
  std::string gone;
  {
    FakeMlflow server;
    gone = server.url();
  }
  const ProgramResult result =
      run_program(words("sweep", {"--set", "batch_size=[1,2]", "--track", "mlflow=" + gone}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(count_of(result.err, "nothing answers at"), 1) << result.err;
}

TEST_F(TrackTest, ASweepWantsAFileForEachMeasurement) {
  const ProgramResult result = run_program(
      words("sweep", {"--set", "batch_size=[1,2]", "--track", "aim-info=" + in_folder("a.json")}));
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("expected a name with {key}"));
}

TEST_F(TrackTest, AnActuatorConfigurationNamesTrackersToo) {
  std::ofstream(in_folder("config.yaml"))
      << "parameters:\n  data_directory: " << in_folder("data")
      << "\n  trackers:\n    - jsonl=" << in_folder("log.jsonl") << "\n";
  const ProgramResult result = run_program(words("run", {}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(fs::exists(in_folder("log.jsonl")));
  std::ofstream(in_folder("config.yaml"), std::ios::app) << "    - wandb=project\n";
  const ProgramResult refused = run_program(words("run", {}));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("parameters.trackers: this program does not write to 'wandb'"));
}

TEST_F(TrackTest, AnArgumentsFilesReportToIsATracker) {
  const auto run_with = [this](const std::string& text) {
    std::ofstream(in_folder("arguments.yaml")) << text;
    return run_program(words("run", {"--arguments", in_folder("arguments.yaml")}));
  };
  const ProgramResult tracked =
      run_with("report_to: tensorboard\nlogging_dir: " + in_folder("runs") + "\n");
  EXPECT_EQ(tracked.status, 0) << tracked.err;
  EXPECT_EQ(file_names_below(in_folder("runs")).size(), 1);
  const ProgramResult other = run_with("learning_rate: 1e-5\nreport_to: wandb\n");
  EXPECT_EQ(other.status, 0);
  EXPECT_THAT(other.err, HasSubstr("arguments.yaml:2: report_to 'wandb' has no effect: --track "
                                   "tensorboard=DIR, which `wandb sync DIR` takes"));
  EXPECT_THAT(run_with("report_to: tensorboard\n").err,
              HasSubstr("expected logging_dir or output_dir beside it"));
}

TEST_F(TrackTest, AFailedMeasurementIsTrackedAsOne) {
  FakeMlflow server;
  const ProgramResult result = run_program(words("run", {"--track", "mlflow=" + server.url()}),
                                           {{"FAKE_ENGINE", "internal"}});
  EXPECT_EQ(result.status, 4);
  ASSERT_EQ(server.runs().size(), 1);
  EXPECT_EQ(server.runs().begin()->second.statuses.back(), "FAILED");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
