// The schema accepts what the program writes, and nothing that contradicts cli.md's contract.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <functional>

#include "results/sample_measurement.h"
#include "results/schema_check.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

std::string violation_of(const Json& json) {
  // Tests run side by side, each in a process of its own.
  const std::string path =
      testing::TempDir() + "/schema_test_" + std::to_string(::getpid()) + ".json";
  write_file_atomic(path, json.dump());
  std::string violation = schema_violation(path);
  std::filesystem::remove(path);
  return violation;
}

TEST(SchemaTest, AcceptsEveryOutcome) {
  EXPECT_EQ(violation_of(to_json(sample_valid())), "");
  EXPECT_EQ(violation_of(to_json(sample_of_ranks())), "");
  EXPECT_EQ(violation_of(to_json(sample_of_mixture())), "");
  EXPECT_EQ(violation_of(to_json(sample_stability())), "");
  EXPECT_EQ(violation_of(to_json(sample_invalid())), "");
  EXPECT_EQ(violation_of(to_json(sample_failed())), "");
}

struct Defect {
  const char* name;
  std::function<Measurement()> from;
  std::function<void(Json&)> make;
  const char* words;  // of the validator
};

class SchemaDefectTest : public testing::TestWithParam<Defect> {};

TEST_P(SchemaDefectTest, IsRefused) {
  Json json = to_json(GetParam().from());
  GetParam().make(json);
  EXPECT_THAT(violation_of(json), testing::HasSubstr(GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    Defects, SchemaDefectTest,
    testing::Values(
        Defect{"UnknownField", sample_valid, [](Json& j) { j["surprise"] = 1; }, "surprise"},
        Defect{"UnknownProperty", sample_valid, [](Json& j) { j["measured"]["speed"] = 1; },
               "speed"},
        Defect{"ValidWithReason", sample_valid,
               [](Json& j) { j["reason"] = to_json(sample_failed())["reason"]; }, "null"},
        Defect{"ValidWithoutRuntime", sample_valid,
               [](Json& j) { j["measured"].erase("train_runtime"); }, "train_runtime"},
        Defect{"SeveralRunsWithoutAFraction", sample_stability,
               [](Json& j) { j["measured"].erase("f_gpu_oom"); }, "f_gpu_oom"},
        Defect{"SeveralRunsWithARate", sample_stability,
               [](Json& j) { j["measured"]["train_runtime"] = 1.0; }, "train_runtime"},
        Defect{"RunWithoutEnd", sample_stability,
               [](Json& j) { j["extra"]["runs"][0].erase("end"); }, "end"},
        Defect{"RanksWithoutWhatTheySent", sample_of_ranks,
               [](Json& j) { j["extra"].erase("communication"); }, "communication"},
        Defect{"ARankWithoutItsMemory", sample_of_ranks,
               [](Json& j) { j["extra"]["ranks"][1].erase("memory_bytes"); }, "memory_bytes"},
        Defect{"WaitingForMoreThanTheStep", sample_of_ranks,
               [](Json& j) { j["extra"]["communication"]["wait_fraction"]["max"] = 1.5; }, "1.5"},
        Defect{"AStrategyThatDoesNotExist", sample_of_ranks,
               [](Json& j) { j["extra"]["sharding"]["strategy"] = "SHARDED"; }, "SHARDED"},
        Defect{"AnExpertWithLessThanNothing", sample_of_mixture,
               [](Json& j) { j["extra"]["experts"]["tokens_by_layer"][0][1] = -1; }, "-1"},
        Defect{"ABusiestExpertBelowTheMean", sample_of_mixture,
               [](Json& j) { j["extra"]["experts"]["imbalance"][0] = 0.5; }, "0.5"},
        Defect{"ValidWithoutExtra", sample_valid, [](Json& j) { j["extra"] = Json::object(); },
               "tokens"},
        Defect{"InvalidWithProperties", sample_invalid,
               [](Json& j) { j["measured"]["train_runtime"] = 1.0; }, "is_valid"},
        Defect{"InvalidForTheReasonOfAFailure", sample_invalid,
               [](Json& j) { j["reason"]["code"] = "NCCL"; }, "NCCL"},
        Defect{"FailedWithIsValid", sample_failed, [](Json& j) { j["measured"]["is_valid"] = 0; },
               "is_valid"},
        Defect{"FailedForTheReasonOfAnInvalid", sample_failed,
               [](Json& j) { j["reason"]["code"] = "OOM_GPU"; }, "OOM_GPU"},
        Defect{"FailedWithoutReason", sample_failed, [](Json& j) { j["reason"] = nullptr; },
               "None"},
        Defect{"MfuWithoutValueOrReason", sample_valid,
               [](Json& j) { j["extra"]["mfu"]["reason"] = nullptr; }, "None"},
        Defect{"TextForANumber", sample_valid,
               [](Json& j) { j["measured"]["train_runtime"] = "12 s"; }, "12 s"},
        Defect{"PercentAboveHundred", sample_valid,
               [](Json& j) { j["measured"]["gpu_memory_utilization_peak"] = 100.5; }, "100.5"},
        Defect{"LocalTime", sample_valid, [](Json& j) { j["started_at"] = "2026-11-21 07:38"; },
               "2026-11-21 07:38"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
