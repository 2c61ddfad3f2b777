// What the trackers of files write of points and times that a test gives them, without their
// thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "sftbench/base/file.h"
#include "temporary_file.h"
#include "trackers/aim_info.h"
#include "trackers/json_lines.h"
#include "trackers/tracked_run.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;

// A variable of the environment while this lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
    ::tzset();
  }
  ~Variable() {
    before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_);
    ::tzset();
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

Point training(const std::string& name, double wall_s, double value) {
  return {PointGroup::kTraining, name, 1, 0, wall_s, value};
}

Point system(const std::string& name, double wall_s, double value) {
  return {PointGroup::kSystem, name, 1, 0, wall_s, value};
}

// 1700000000 is 2023-11-14 22:13:20 UTC.
Json aim_info(const std::vector<Point>& points, const Measurement& measurement,
              int64_t* written = nullptr) {
  const fs::path file = temporary_file("info.json");
  const TrackedRun run = run_of_test();
  AimInfoTracker tracker(file.string(), run);
  tracker.begin({}, 1700000000.75);
  tracker.add(points);
  tracker.end({std::make_shared<const Measurement>(measurement), 1700000100, 0});
  if (written != nullptr) *written = tracker.written();
  return read_json_file(file.string());
}

Json metric_values(const Json& info, const std::string& name) {
  for (const Json& each : info.at("metrics")) {
    if (each.at("name") == name) return each.at("values");
  }
  return "none";
}

Measurement warmed_up(int64_t steps) {
  Measurement measurement = measurement_of_test();
  measurement.extra["warmup_steps"] = steps;
  return measurement;
}

TEST(AimInfoFormTest, TimesAreDayMonthYearAndDevicesAreNumbersOrNames) {
  const Variable zone("TZ", "UTC"), devices("CUDA_VISIBLE_DEVICES", "0,,12,MIG-1,3x,");
  const Json info = aim_info({}, measurement_of_test());
  EXPECT_EQ(info.at("train_time_start"), "141123-221320");
  EXPECT_EQ(info.at("train_time_stop"), "141123-221500");
  EXPECT_EQ(info.at("cuda_visible_devices"), Json::parse(R"([0, 12, "MIG-1", "3x"])"));
  const Variable none("CUDA_VISIBLE_DEVICES", "");
  EXPECT_EQ(aim_info({}, measurement_of_test()).at("cuda_visible_devices"), Json::array());
}

TEST(AimInfoFormTest, AReadingAsTheWarmUpEndsCounts) {
  const std::vector<Point> points = {
      training("step_seconds", 10, 2),   training("step_seconds", 13, 3),
      system("cpu_percent", 9.875, 100), system("cpu_percent", 10, 50),
      system("cpu_percent", 20, 70),     system("memory_percent", 9, 1)};
  int64_t written = 0;
  Json info = aim_info(points, warmed_up(1), &written);
  EXPECT_EQ(written, 6);
  EXPECT_EQ(metric_values(info, "__system__cpu"), Json({{"avg", 60}, {"max", 70}, {"min", 50}}));
  EXPECT_EQ(metric_values(info, "__system__p_memory_percent"),
            Json({{"avg", nullptr}, {"max", nullptr}, {"min", nullptr}}));
  EXPECT_EQ(metric_values(info, "optimization_step_duration"),
            Json({{"avg", 2.5}, {"max", 3}, {"min", 2}}));
  EXPECT_EQ(info.at("warmup_seconds"), 2);
  info = aim_info(points, warmed_up(5));
  EXPECT_EQ(metric_values(info, "__system__cpu").at("avg"), 70) << "all of two steps warmed up";
  EXPECT_EQ(info.at("post_warmup_index_for_stable_properties"), 2);
  EXPECT_EQ(info.at("warmup_seconds"), 5);
  info = aim_info(points, warmed_up(0));
  EXPECT_DOUBLE_EQ(metric_values(info, "__system__cpu").at("avg").get<double>(), 220.0 / 3);
  EXPECT_EQ(info.at("post_warmup_index_for_stable_properties"), nullptr);
  EXPECT_EQ(info.at("warmup_seconds"), nullptr);
}

TEST(AimInfoFormTest, ValuesThatAreNotFiniteDoNotCount) {
  const Json info = aim_info({training("loss", 1, NAN),
                              training("loss", 2, -3),
                              training("loss", 3, INFINITY),
                              training("loss", 4, -5),
                              training("grad_norm", 1, NAN),
                              {PointGroup::kEvaluation, "loss", 1, 0, 5, 100}},
                             measurement_of_test());
  EXPECT_EQ(metric_values(info, "loss"), Json({{"avg", -4}, {"max", -3}, {"min", -5}}));
  EXPECT_EQ(metric_values(info, "grad_norm"),
            Json({{"avg", nullptr}, {"max", nullptr}, {"min", nullptr}}));
  EXPECT_EQ(metric_values(info, "learning_rate"), "none");
}

TEST(AimInfoFormTest, AGpuHasItsNumberAndOtherReadingsAreLeftOut) {
  const Json info =
      aim_info({system("gpu12_power_watts", 1, 300), system("gpu0_power_watts", 1, 200),
                system("gpu0_other", 1, 1), system("gpu", 1, 1), system("other_power_watts", 1, 1),
                system("other", 1, 1)},
               measurement_of_test());
  Json gpus = Json::array();
  for (const Json& metric : info.at("metrics")) {
    const std::string name = metric.at("name").get<std::string>();
    if (name.rfind("__system__", 0) == 0) gpus.push_back({name, metric.at("context").at("gpu")});
  }
  EXPECT_EQ(gpus, Json::parse(R"([["__system__gpu_power_watts", 0],
                                  ["__system__gpu_power_watts", 12]])"));
}

TEST(AimInfoFormTest, AnErrorHasTheWrappersNameWhereItHasOne) {
  for (const auto& [code, name] :
       std::vector<std::pair<ReasonCode, std::string>>{{ReasonCode::kOomGpu, "OutOfGPUMemoryError"},
                                                       {ReasonCode::kNccl, "NCCLError"},
                                                       {ReasonCode::kData, "Unhandled(DATA)"}}) {
    Measurement failed;
    set_outcome(failed, Status::kFailed, {code, "it broke", {}, {}});
    EXPECT_EQ(aim_info({}, failed).at("error"), name);
  }
}

// fms-hf-tuning's training_logs.jsonl; times are local.
TEST(JsonLinesFormTest, ALineHasEpochStepTimeAndValue) {
  const Variable zone("TZ", "UTC");
  const fs::path file = temporary_file("log.jsonl");
  JsonLinesTracker tracker(file.string());
  TrainBegin begin;
  begin.resumed_step = 5;
  tracker.begin(begin, 1);
  tracker.flush();
  tracker.add({{PointGroup::kSystem, "cpu_percent", 90, 0, 1700000000.25, 50}});
  tracker.add({{PointGroup::kEvaluation, "loss", 7, 0.5, 1700000001, 2},
               {PointGroup::kSystem, "cpu_percent", 91, 0, 1700000002, 60}});
  EXPECT_EQ(tracker.written(), 0);
  tracker.flush();
  EXPECT_EQ(tracker.written(), 3);
  tracker.add({{PointGroup::kTraining, "loss", 8, 0.75, 1700000003, 3}});
  auto measurement = std::make_shared<Measurement>();
  measurement->measured = {{"train_runtime", 5.5}};
  tracker.end({measurement, 1700000004, 0});
  EXPECT_EQ(tracker.written(), 4);
  const auto line = [](const char* name, const char* epoch, int step, const char* time,
                       const char* value) {
    return std::string(R"({"data":{"epoch":)") + epoch + R"(,"step":)" + std::to_string(step) +
           R"(,"timestamp":"2023-11-14T22:13:)" + time + R"(","value":)" + value + R"(},"name":")" +
           name + "\"}\n";
  };
  EXPECT_EQ(read_file(file), line("system/cpu_percent", "0.0", 5, "20.250000", "50.0") +
                                 line("validation_loss", "0.5", 7, "21.000000", "2.0") +
                                 line("system/cpu_percent", "0.5", 7, "22.000000", "60.0") +
                                 line("training_loss", "0.75", 8, "23.000000", "3.0") +
                                 line("measured/train_runtime", "0.75", 8, "24.000000", "5.5"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
