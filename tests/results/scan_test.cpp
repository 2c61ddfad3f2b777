// What a directory of results is read as, whatever lies in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "sftbench/base/file.h"
#include "sftbench/results/report.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const std::string kFolder = "finetune_full_benchmark-v1.0.0/";

double number(const Scalar& value) {
  return value.as_number().value_or(-1);
}

std::string text(const Scalar& value) {
  std::string text;
  append_python_str(text, value);
  return text;
}

// What a scan of this one file says about it; empty: nothing.
std::string complaint(const std::string& content) {
  const fs::path directory = fresh_results("complaint");
  put(directory, "e/k.json", content);
  const StoreScan scan = ResultStore(directory).scan();
  fs::remove_all(directory);
  if (!scan.results.empty() || scan.skipped.size() != 1) return {};
  EXPECT_EQ(scan.skipped[0].file, "e/k.json");
  return scan.skipped[0].reason;
}

std::string spoilt(const std::function<void(Json&)>& spoil) {
  Json json = to_json(sample_valid());
  spoil(json);
  return complaint(json.dump());
}

// As versions before 2026-11-28 kept it.
TEST(ScanTest, ACommandWithASecretIsReadWithoutIt) {
  const fs::path directory = fresh_results("secret");
  Measurement measurement = sample_valid();
  measurement.command = "sftbench run 'a b' --track mlflow=http://me:pw@h?t=u";
  put(directory, measurement, "a");
  const StoreScan scan = ResultStore(directory).scan();
  const std::string masked = "sftbench run 'a b' --track 'mlflow=http://***@h?***'";
  ASSERT_THAT(scan.results, SizeIs(1));
  EXPECT_EQ(scan.results[0].command, masked);
  EXPECT_EQ(measurement_from_json(to_json(measurement), "file").command, masked);
  std::string written;
  write_measurements(directory, scan, true, [&](std::string_view piece) { written += piece; });
  measurement.command = masked;
  EXPECT_EQ(Json::parse(written), stored(measurement, "a"));
  fs::remove_all(directory);
}

// Versions before 2026-11-28 kept the name that was given.
TEST(ScanTest, AGpuIsReadAsItsProduct) {
  const fs::path directory = fresh_results("alias");
  Measurement measurement = sample_valid();
  measurement.inputs["gpu_model"] = "A100-80G";
  put(directory, measurement, "a");
  measurement.inputs["gpu_model"] = "NVIDIA A100 SXM4 80GB";
  put(directory, measurement, "b");
  measurement.inputs["gpu_model"] = nullptr;
  put(directory, measurement, "c");
  std::vector<std::string> gpus;
  for (const StoredResult& result : ResultStore(directory).scan().results)
    gpus.push_back(text(result.inputs["gpu_model"]));
  EXPECT_THAT(gpus, ElementsAre("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB", "None"));
}

TEST(ScanTest, HoldsWhatTheFilesSay) {
  const fs::path directory = fresh_results("holds");
  put(directory, sample_valid(), "b");
  put(directory, sample_failed(), "a");
  const StoreScan scan = ResultStore(directory).scan();
  EXPECT_THAT(scan.skipped, IsEmpty());
  ASSERT_THAT(scan.results, SizeIs(2));

  const StoredResult& failed = scan.results[0];
  EXPECT_EQ(failed.file, kFolder + "a.json");
  EXPECT_EQ(failed.status, Status::kFailed);
  ASSERT_TRUE(failed.reason);
  EXPECT_EQ(failed.reason->code, ReasonCode::kNccl);
  EXPECT_EQ(failed.reason->message, "communication between GPUs failed");
  EXPECT_EQ(failed.reason->evidence, "NCCL Error 2");
  EXPECT_EQ(failed.reason->log, "results/x.log");
  EXPECT_EQ(failed.measured.size(), 0U);
  EXPECT_EQ(failed.steps.count, 0);
  EXPECT_TRUE(failed.figures["loss_last"].is_null());
  EXPECT_EQ(text(failed.figures["host"]), "h");

  const StoredResult& valid = scan.results[1];
  EXPECT_EQ(valid.key, "b");
  EXPECT_EQ(valid.sample, 1);
  EXPECT_EQ(valid.experiment, "finetune_full_benchmark-v1.0.0");
  EXPECT_EQ(valid.experiment_id, "SFTTrainer.finetune_full_benchmark-v1.0.0");
  EXPECT_EQ(valid.entity_id, "model_name.m-number_gpus.0");
  EXPECT_FALSE(valid.reason);
  EXPECT_EQ(text(valid.inputs["model_name"]), "m");
  EXPECT_EQ(number(valid.inputs["model_max_length"]), 512);
  EXPECT_TRUE(valid.inputs["fast_kernels"].is_null());
  EXPECT_TRUE(valid.inputs["no such input"].is_null());
  EXPECT_EQ(number(valid.measured["train_runtime"]), 12.5);
  EXPECT_EQ(text(valid.measured["is_valid"]), "1");
  EXPECT_EQ(valid.started_at, "2026-11-21T07:38:02.123Z");
  EXPECT_EQ(valid.finished_at, "2026-11-21T07:38:22.456Z");
  EXPECT_EQ(valid.command, "sftbench run space.yaml");
  EXPECT_FALSE(valid.simulated());
}

TEST(ScanTest, FiguresSumUpWhatStandsPerRankPerStepAndPerDevice) {
  const fs::path directory = fresh_results("figures");
  Measurement m = sample_valid();
  m.extra["memory_bytes"]["device_peak_allocated"] = {5000000000, 7000000000};
  m.extra["gpu_energy_joules"] = {1.5, 2.0};
  m.extra["loss"] = {3.0, 2.5, 2.25};
  m.extra["mfu"]["value"] = 0.25;
  m.environment["gpus"] = {"H100", "H200", "H100"};
  put(directory, m, "k");
  m.extra["gpu_energy_joules"] = {1.5, nullptr};  // one GPU has no counter
  m.extra["memory_bytes"]["device_peak_allocated"] = Json::array();
  put(directory, m, "without");
  const StoreScan scan = ResultStore(directory).scan();
  ASSERT_THAT(scan.results, SizeIs(2));
  const Record& figures = scan.results[0].figures;
  EXPECT_EQ(text(figures["device_peak_allocated_bytes"]), "7000000000");
  EXPECT_EQ(text(figures["host_peak_rss_bytes"]), "1000");
  EXPECT_EQ(text(figures["gpu_energy_joules"]), "3.5");
  EXPECT_EQ(text(figures["loss_first"]), "3.0");
  EXPECT_EQ(text(figures["loss_last"]), "2.25");
  EXPECT_EQ(text(figures["steps"]), "2");
  EXPECT_EQ(text(figures["mfu"]), "0.25");
  EXPECT_EQ(text(figures["gpus"]), "H100 x 2, H200");
  EXPECT_EQ(text(figures["padded_tokens_per_second"]), "1024.0");
  EXPECT_EQ(text(figures["libtorch"]), "1.13.1");
  EXPECT_TRUE(scan.results[1].figures["gpu_energy_joules"].is_null());
  EXPECT_TRUE(scan.results[1].figures["device_peak_allocated_bytes"].is_null());
}

TEST(ScanTest, SeveralRanksHaveFiguresOfTheirOwnAndOneRankHasNone) {
  const fs::path directory = fresh_results("ranks");
  put(directory, sample_of_ranks(), "a");
  put(directory, sample_valid(), "b");
  const StoreScan scan = ResultStore(directory).scan();
  ASSERT_THAT(scan.results, SizeIs(2));
  const auto& figures = scan.results[0].figures;
  EXPECT_EQ(text(figures["strategy"]), "FULL_SHARD");
  EXPECT_EQ(number(figures["ranks"]), 2);
  EXPECT_EQ(number(figures["optimizer_state_bytes_per_rank"]), 20);
  EXPECT_DOUBLE_EQ(number(figures["wait_fraction"]), 0.06);
  EXPECT_EQ(number(figures["sent_bytes_per_step"]), 30);
  EXPECT_EQ(number(figures["stragglers"]), 1);
  for (const char* name : {"strategy", "ranks", "wait_fraction", "stragglers"}) {
    EXPECT_TRUE(scan.results[1].figures[name].is_null()) << name;
  }
}

TEST(ScanTest, StepTimesLeaveOutTheWarmUp) {
  const fs::path directory = fresh_results("steps");
  Measurement m = sample_valid();
  m.extra["warmup_steps"] = 2;
  m.extra["step_seconds"] = {9.0, 8.0, 1.0, 2.0, 3.0, 4.0};
  put(directory, m, "k");
  m.extra["warmup_steps"] = 5;
  put(directory, m, "l");
  m.extra["warmup_steps"] = 99;  // more than there are
  put(directory, m, "m");
  const StoreScan scan = ResultStore(directory).scan();
  ASSERT_THAT(scan.results, SizeIs(3));
  const StepTimes& steps = scan.results[0].steps;
  EXPECT_EQ(steps.count, 4);
  EXPECT_DOUBLE_EQ(steps.mean_s, 2.5);
  EXPECT_DOUBLE_EQ(steps.deviation_s, 1.2909944487358056);  // sqrt(5 / 3)
  EXPECT_DOUBLE_EQ(steps.autocorrelation, 0.25);            // (0.75 - 0.25 + 0.75) / 5
  EXPECT_EQ(scan.results[1].steps.count, 1);
  EXPECT_EQ(scan.results[1].steps.deviation_s, 0);
  EXPECT_EQ(scan.results[2].steps.count, 0);
}

TEST(ScanTest, ManyFilesComeByExperimentKeyAndSample) {
  const fs::path directory = fresh_results("order");
  Measurement m = sample_invalid();
  for (int key = 0; key < 300; ++key) put(directory, m, std::to_string(1000 + key));
  put(directory, m, "1150", 10);
  put(directory, m, "1150", 2);
  m.experiment = "a";
  put(directory, m, "9999");
  const StoreScan scan = ResultStore(directory).scan();
  ASSERT_THAT(scan.results, SizeIs(303));
  EXPECT_EQ(scan.results[0].file, "a/9999.json");
  EXPECT_EQ(scan.results[1].key, "1000");
  for (const auto& [index, sample] : {std::pair{151, 1}, {152, 2}, {153, 10}}) {
    EXPECT_EQ(scan.results[static_cast<size_t>(index)].key, "1150");
    EXPECT_EQ(scan.results[static_cast<size_t>(index)].sample, sample);
  }
  EXPECT_EQ(scan.results[302].key, "1299");
}

TEST(ScanTest, ACopyOfAFileIsNoRepeat) {
  const fs::path directory = fresh_results("copy");
  Measurement m = sample_valid();
  put(directory, m, "a");
  put(directory, m, "a", 2);
  m.measured["train_runtime"] = 7;
  put(directory, m, "a", 3);
  const StoreScan scan = ResultStore(directory).scan();
  ASSERT_THAT(scan.results, SizeIs(2));
  EXPECT_EQ(scan.results[1].sample, 3);
  ASSERT_THAT(scan.skipped, SizeIs(1));
  EXPECT_EQ(scan.skipped[0].file, m.experiment + "/a.2.json");
  EXPECT_EQ(scan.skipped[0].reason,
            "a copy of " + m.experiment + "/a.json: the same times and values");
}

TEST(ScanTest, ListsAreWrittenAsPythonDoes) {
  const fs::path directory = fresh_results("lists");
  Measurement m = sample_valid();
  m.inputs["fast_kernels"] = {"True", "False", "True"};
  put(directory, m, "k");
  const StoreScan scan = ResultStore(directory).scan();
  ASSERT_THAT(scan.results, SizeIs(1));
  EXPECT_EQ(text(scan.results[0].inputs["fast_kernels"]), "['True', 'False', 'True']");
}

TEST(ScanTest, SimulatedResultsAreKnownByInputOrEnvironment) {
  const fs::path directory = fresh_results("simulated");
  Measurement m = sample_valid();
  m.inputs["backend"] = "simulate";
  put(directory, m, "a");
  m = sample_valid();
  m.environment["backend"] = "simulate";
  put(directory, m, "b");
  m.environment["backend"] = "libtorch";
  put(directory, m, "c");
  const StoreScan scan = ResultStore(directory).scan();
  ASSERT_THAT(scan.results, SizeIs(3));
  EXPECT_TRUE(scan.results[0].simulated());
  EXPECT_TRUE(scan.results[1].simulated());
  EXPECT_FALSE(scan.results[2].simulated());
}

TEST(ScanTest, AFileThatIsCutOffAnywhereIsSkipped) {
  const fs::path directory = fresh_results("cut");
  const std::string whole = to_json(sample_valid()).dump(2);
  size_t files = 0;
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7, ++files) {
    put(directory, "e/" + std::to_string(bytes) + ".json", whole.substr(0, bytes));
  }
  const StoreScan scan = ResultStore(directory).scan();
  EXPECT_THAT(scan.results, IsEmpty());
  EXPECT_THAT(scan.skipped, SizeIs(files));
  EXPECT_EQ(complaint(whole.substr(0, 100)), "cut off after 100 bytes");
  EXPECT_EQ(complaint(""), "empty");
}

TEST(ScanTest, ForeignFilesAreNamedWithWhatIsWrong) {
  EXPECT_EQ(complaint("[1, 2]"), "no measurement of sftbench: not an object");
  EXPECT_EQ(complaint("{}"), "no measurement of sftbench: it names no schema");
  EXPECT_EQ(complaint(R"({"schema": "hf.trainer/3"})"),
            "no measurement of sftbench: schema 'hf.trainer/3'");
  EXPECT_EQ(complaint(R"({"schema": "sftbench.measurement/2", "all": "new"})"),
            "written by a newer sftbench: schema 'sftbench.measurement/2', this one reads "
            "'sftbench.measurement/1'");
  EXPECT_THAT(complaint("{'schema': 1}"), testing::StartsWith("not JSON: "));
  EXPECT_THAT(complaint("{\"schema\": \"\xff\"}"), testing::StartsWith("not JSON: "));
  EXPECT_THAT(complaint(std::string(1 << 20, '[')), testing::StartsWith("not JSON: "));
}

TEST(ScanTest, MeasurementsThatLackSomethingAreNamedWithTheKey) {
  EXPECT_EQ(spoilt([](Json& j) { j.erase("entity_id"); }), "the key entity_id is missing");
  EXPECT_EQ(spoilt([](Json& j) { j["command"] = 1; }), "command: not a text");
  EXPECT_EQ(spoilt([](Json& j) { j["inputs"] = Json::array(); }), "inputs: not an object");
  EXPECT_EQ(spoilt([](Json& j) { j["status"] = "good"; }), "status: unknown value 'good'");
  EXPECT_EQ(spoilt([](Json& j) { j.erase("reason"); }), "the key reason is missing");
  EXPECT_EQ(spoilt([](Json& j) { j["reason"] = "OOM"; }), "reason: not an object");
  EXPECT_EQ(spoilt([](Json& j) {
              j["reason"] = {{"code", "OOPS"}, {"message", ""}};
            }),
            "reason.code: unknown code 'OOPS'");
  EXPECT_EQ(spoilt([](Json& j) { j["measured"]["train_runtime"] = "fast"; }),
            "measured.train_runtime: not a number");
}

TEST(ScanTest, WhatIsNoRegularFileIsSkippedAndNothingBlocks) {
  const fs::path directory = fresh_results("kinds");
  fs::create_directories(directory / "e/folder.json");
  ASSERT_EQ(::mkfifo((directory / "e/pipe.json").c_str(), 0600), 0);
  fs::create_symlink("nowhere", directory / "e/lost.json");
  fs::create_symlink("..", directory / "e/loop");
  put(directory, "e/k.log", "steps");
  put(directory, "e/k.growing.log", "steps");
  put(directory, "e/.k.json.7.tmp", "{");
  put(directory, "stray.json", "{}");
  put(directory, "notes.txt", "mine");
  const StoreScan scan = ResultStore(directory).scan();
  EXPECT_THAT(scan.results, IsEmpty());
  std::vector<std::string> lines;
  for (const SkippedFile& file : scan.skipped) lines.push_back(file.file + ": " + file.reason);
  EXPECT_THAT(lines, testing::UnorderedElementsAre("stray.json: not in the folder of an experiment",
                                                   "e/folder.json: not a regular file",
                                                   "e/pipe.json: not a regular file"));
}

TEST(ScanTest, ADirectoryThatCannotBeListedIsAnInputError) {
  const fs::path directory = fresh_results("absent");
  try {
    ResultStore(directory).scan();
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), directory.string() +
                                ": cannot list: No such file or directory; expected a directory of "
                                "results");
  }
}

TEST(StatusTest, IsThatOfTheFileAndNothingWithoutOne) {
  const fs::path directory = fresh_results("status");
  const ResultStore store(directory);
  const std::string experiment = sample_valid().experiment;
  EXPECT_EQ(store.status_of(experiment, "k"), std::nullopt);
  put(directory, sample_valid(), "k");
  put(directory, sample_invalid(), "k", 2);
  put(directory, sample_failed(), "k", 3);
  EXPECT_EQ(store.status_of(experiment, "k"), Status::kValid);
  EXPECT_EQ(store.status_of(experiment, "k", 2), Status::kInvalid);
  EXPECT_EQ(store.status_of(experiment, "k", 3), Status::kFailed);
  EXPECT_EQ(store.status_of(experiment, "k", 4), std::nullopt);
}

TEST(StatusTest, AFileThatIsNoMeasurementIsAnInputErrorWithItsPath) {
  const fs::path directory = fresh_results("status_bad");
  const ResultStore store(directory);
  put(directory, "e/k.json", R"({"schema": "sftbench.measurement/9"})");
  try {
    store.status_of("e", "k");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), store.result_path("e", "k").string() +
                                ": written by a newer sftbench: schema 'sftbench.measurement/9', "
                                "this one reads 'sftbench.measurement/1'");
  }
}

TEST(SampleTest, FurtherSamplesHaveTheirNumberInTheName) {
  const ResultStore store("d");
  EXPECT_EQ(store.result_path("e", "k", 3), fs::path("d/e/k.3.json"));
  EXPECT_EQ(store.log_path("e", "k", 3), fs::path("d/e/k.3.log"));
  EXPECT_EQ(store.growing_log_path("e", "k", 3), fs::path("d/e/k.3.growing.log"));
  EXPECT_EQ(store.result_path("e", "k", 1), fs::path("d/e/k.json"));
  EXPECT_THROW(store.result_path("e", "k", 0), std::logic_error);
}

TEST(SampleTest, WritingKeepsWhatIsNoMeasurementAside) {
  const fs::path directory = fresh_results("aside");
  const ResultStore store(directory);
  const Measurement m = sample_valid();
  const std::string file = m.experiment + "/k.2.json";
  put(directory, file, "mine");
  store.write(m, "k", 2);
  put(directory, file, R"({"schema": "sftbench.measurement/2"})");
  store.write(m, "k", 2);
  Measurement later = m;
  later.finished_at = "2026-11-30T00:00:00Z";
  store.write(later, "k", 2);  // becomes a repeat
  EXPECT_EQ(store.status_of(m.experiment, "k", 2), Status::kValid);
  EXPECT_EQ(read_file(directory / (file + ".aside")), "mine");
  EXPECT_EQ(read_file(directory / (file + ".aside.2")), R"({"schema": "sftbench.measurement/2"})");
  EXPECT_FALSE(fs::exists(directory / (file + ".aside.3")));
  const StoreScan scan = store.scan();
  EXPECT_THAT(scan.results, SizeIs(2));
  EXPECT_THAT(scan.skipped, IsEmpty());
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
