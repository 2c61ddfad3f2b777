// Trackers that write files: what is in them, and what becomes of a run where they cannot be
// written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sftbench/base/file.h"
#include "temporary_file.h"
#include "trackers/tracked_run.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> tracked(const TrackerSpec& spec, const Measurement& measurement,
                                 std::vector<std::string>* reports = nullptr) {
  std::vector<std::string> told;
  std::vector<std::string> problems;
  {
    Trackers trackers(
        {spec}, run_of_test(), [&told](const std::string& text) { told.push_back(text); },
        limits_of_test());
    tell_steps(trackers);
    problems = trackers.finish(measurement);
  }
  if (reports != nullptr) *reports = told;
  return problems;
}

std::vector<Json> json_lines(const fs::path& path) {
  std::vector<Json> lines;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::vector<double> line_values(const std::vector<Json>& lines, const std::string& name) {
  std::vector<double> values;
  for (const Json& line : lines) {
    if (line.at("name") == name) values.push_back(line.at("data").at("value").get<double>());
  }
  return values;
}

TEST(JsonLinesTrackerTest, HasALineForEachValue) {
  const fs::path file = temporary_file("folder") / "log.jsonl";
  EXPECT_THAT(tracked({TrackerKind::kJsonl, file.string()}, measurement_of_test()), IsEmpty());
  const std::vector<Json> lines = json_lines(file);
  EXPECT_EQ(lines.size(), kValuesOfTest + measurement_of_test().measured.size());
  EXPECT_THAT(line_values(lines, "training_loss"), ElementsAre(10.5, 9.5, 8.5));
  EXPECT_THAT(line_values(lines, "system/gpu0_power_watts"), ElementsAre(300, 300, 300, 300));
  EXPECT_THAT(line_values(lines, "measured/train_runtime"), ElementsAre(5.5));
  const Json& last = lines.back().at("data");
  EXPECT_EQ(last.at("step"), 3);
  EXPECT_EQ(last.at("epoch"), 0.75);
  EXPECT_EQ(last.at("timestamp").get<std::string>().size(), 26);
}

TEST(JsonLinesTrackerTest, AnotherRunAddsToTheFile) {
  const fs::path file = temporary_file("log.jsonl");
  tracked({TrackerKind::kJsonl, file.string()}, measurement_of_test());
  const size_t lines = json_lines(file).size();
  tracked({TrackerKind::kJsonl, file.string()}, measurement_of_test());
  EXPECT_EQ(json_lines(file).size(), 2 * lines);
}

// Its name can be foretold where a key is part of it.
TEST(JsonLinesTrackerTest, WritesThroughNoLinkThatSomebodyPlanted) {
  const fs::path folder = temporary_file("folder"), victim = temporary_file("victim");
  fs::create_directory(folder);
  std::ofstream(victim) << "precious";
  const fs::path link = folder / (run_of_test().name + ".jsonl");
  fs::create_symlink(victim, link);
  EXPECT_THAT(
      tracked({TrackerKind::kJsonl, (folder / "{key}.jsonl").string()}, measurement_of_test()),
      testing::Contains(testing::HasSubstr("a symbolic link stands there; remove it")));
  EXPECT_EQ(read_file(victim), "precious");
}

TEST(FileTrackerTest, PutsTheNameInTheKeysPlace) {
  const fs::path folder = temporary_file("folder");
  tracked({TrackerKind::kJsonl, (folder / "{key}.jsonl").string()}, measurement_of_test());
  EXPECT_TRUE(fs::exists(folder / (run_of_test().name + ".jsonl")));
}

TEST(FileTrackerTest, EndsAtOnceHoweverSeldomItLooks) {
  const fs::path file = temporary_file("log.jsonl");
  TrackerLimits limits = limits_of_test();
  limits.period_s = 3600;
  limits.end_s = 30;
  Trackers trackers(
      {{TrackerKind::kJsonl, file.string()}}, run_of_test(), [](const auto&) {}, limits);
  tell_steps(trackers);
  EXPECT_THAT(trackers.finish(measurement_of_test()), IsEmpty());
  EXPECT_EQ(json_lines(file).size(), kValuesOfTest + measurement_of_test().measured.size());
}

const Json& metric(const Json& info, const std::string& name) {
  for (const Json& each : info.at("metrics")) {
    if (each.at("name") == name) return each;
  }
  throw std::runtime_error("no metric " + name);
}

TEST(AimInfoTrackerTest, IsWhatAdosWrapperWrites) {
  const fs::path file = temporary_file("info.json");
  EXPECT_THAT(tracked({TrackerKind::kAimInfo, file.string()}, measurement_of_test()), IsEmpty());
  const Json info = read_json_file(file.string());
  std::vector<std::string> keys;
  for (const auto& [key, value] : info.items()) keys.push_back(key);
  EXPECT_THAT(keys,
              ElementsAre("run_hash", "metrics", "hostname", "train_time_start", "train_time_stop",
                          "cuda_visible_devices", "world_rank", "world_size", "training_steps",
                          "post_warmup_index_for_stable_properties", "warmup_seconds"));
  EXPECT_EQ(info.at("training_steps"), 3);
  EXPECT_EQ(info.at("world_size"), "1");
  EXPECT_EQ(metric(info, "loss").at("values"), Json({{"avg", 9.5}, {"max", 10.5}, {"min", 8.5}}));
  EXPECT_EQ(metric(info, "__system__cpu").at("values").at("avg"), 200);
  EXPECT_EQ(metric(info, "__system__gpu").at("context"), Json({{"gpu", 0}}));
  EXPECT_EQ(metric(info, "__system__gpu_power_percent").at("values").at("max"), 75);
  EXPECT_EQ(metric(info, "runtime").at("context"), Json({{"subset", "train"}}));
  EXPECT_EQ(metric(info, "tokens_per_second").at("values").at("avg"), 558.5);
  EXPECT_EQ(metric(info, "dataset_tokens").at("values").at("avg"), 2304);
}

TEST(AimInfoTrackerTest, LeavesTheWarmUpOutOfTheReadings) {
  const fs::path file = temporary_file("info.json");
  Measurement measurement = measurement_of_test();
  measurement.extra["warmup_steps"] = 1;  // ends at 103.5, and the readings are at 100, ..., 103
  Trackers trackers(
      {{TrackerKind::kAimInfo, file.string()}}, run_of_test(), [](const auto&) {},
      limits_of_test());
  tell_steps(trackers);
  SystemReading late = reading_of_test(4);
  late.gpus[0].utilization_percent = 10;
  trackers.on_sample(late);
  EXPECT_THAT(trackers.finish(measurement), IsEmpty());
  const Json info = read_json_file(file.string());
  EXPECT_EQ(metric(info, "__system__gpu").at("values").at("avg"), 10);
  EXPECT_EQ(info.at("post_warmup_index_for_stable_properties"), 1);
  EXPECT_EQ(info.at("warmup_seconds"), 1.5);
}

TEST(AimInfoTrackerTest, NamesAnErrorAsTheWrapperDoes) {
  const fs::path file = temporary_file("info.json");
  Measurement failed;
  set_outcome(failed, Status::kInvalid, {ReasonCode::kOomGpu, "CUDA out of memory", {}, {}});
  EXPECT_THAT(tracked({TrackerKind::kAimInfo, file.string()}, failed), IsEmpty());
  EXPECT_EQ(read_json_file(file.string()), Json({{"error", "OutOfGPUMemoryError"},
                                                 {"exception", "CUDA out of memory"},
                                                 {"run_hash", run_of_test().name},
                                                 {"training_steps", 3}}));
}

TEST(FileTrackerTest, SaysThatAFolderCannotBeMade) {
  const fs::path file = temporary_file("file");
  std::ofstream(file) << "x";
  for (const TrackerKind kind :
       {TrackerKind::kTensorboard, TrackerKind::kJsonl, TrackerKind::kAimInfo}) {
    std::vector<std::string> reports;
    const auto problems =
        tracked({kind, (file / "below").string()}, measurement_of_test(), &reports);
    ASSERT_EQ(problems.size(), 1);
    EXPECT_THAT(problems[0],
                HasSubstr("Not a directory; " + std::to_string(kValuesOfTest) + " of " +
                          std::to_string(kValuesOfTest) + " values were not written"));
    EXPECT_EQ(reports.size(), 1);
  }
}

// No file of this process grows beyond `bytes` while this lives, as on a disk that is full there.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

// The records that fit are whole.
TEST(FileTrackerTest, AFullDiskLeavesWholeRecords) {
  const fs::path folder = temporary_file("folder");
  std::vector<std::string> problems;
  {
    const FullDisk disk(4096);
    Trackers trackers(
        {{TrackerKind::kTensorboard, folder.string()}}, run_of_test(), [](const auto&) {},
        limits_of_test());
    tell_steps(trackers, 1000);
    problems = trackers.finish(measurement_of_test());
  }
  ASSERT_EQ(problems.size(), 1);
  EXPECT_THAT(problems[0], testing::AllOf(HasSubstr("cannot write"), HasSubstr("File too large"),
                                          HasSubstr("values were not written")));
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string text = read_file(entry.path());
    size_t at = 0;
    while (at < text.size()) {
      uint64_t length = 0;
      ASSERT_LE(at + 12, text.size());
      std::memcpy(&length, text.data() + at, sizeof length);
      at += 16 + length;
    }
    EXPECT_EQ(at, text.size());
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
