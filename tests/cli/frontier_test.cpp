// frontier on the simulated backend: child processes as on a real one, memory from the cost model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "program.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

ProgramResult frontier(const std::filesystem::path& folder, std::vector<std::string> further) {
  std::vector<std::string> arguments = {"frontier",
                                        "--experiment",
                                        "finetune_lora_benchmark-v1.0.0",
                                        "--set",
                                        "model_name=llama3.1-8b",
                                        "--set",
                                        "number_gpus=1",
                                        "--set",
                                        "model_max_length=4096",
                                        "--weights",
                                        "random",
                                        "--backend",
                                        "simulate",
                                        "-o",
                                        (folder / "results").string(),
                                        "--format",
                                        "json"};
  arguments.insert(arguments.end(), further.begin(), further.end());
  return run_program(arguments);
}

const std::vector<std::string> kOnA100 = {"--set", "gpu_model=NVIDIA-A100-SXM4-80GB", "--to", "64"};

std::vector<std::string> on_a100(std::vector<std::string> further) {
  further.insert(further.begin(), kOnA100.begin(), kOnA100.end());
  return further;
}

TEST(FrontierTest, TheEdgeIsTheSameFromThePredictionAndByBisectionAlone) {
  const std::filesystem::path folder = fresh_folder("frontier");
  const ProgramResult warm = frontier(folder / "warm", on_a100({}));
  ASSERT_EQ(warm.status, 0) << warm.err;
  const Json found = Json::parse(warm.out);
  const auto edge = found["edge"].get<int64_t>();
  EXPECT_EQ(found["predicted"], edge) << "the simulation takes memory from the cost model";
  EXPECT_EQ(found["flaky"], false);
  EXPECT_LE(found["trials"].size(), 8u);
  EXPECT_THAT(found["command"].get<std::string>(),
              HasSubstr("--set batch_size=" + std::to_string(edge)));
  const Json cold = Json::parse(frontier(folder / "cold", on_a100({"--no-guess"})).out);
  EXPECT_EQ(cold["edge"], edge);
  EXPECT_EQ(cold["predicted"], nullptr);
  EXPECT_LE(cold["trials"].size(), 8u);
  const std::vector<std::string> on_h100 = {"--set", "gpu_model=NVIDIA-H200", "--to", "128"};
  EXPECT_GT(Json::parse(frontier(folder / "h200", on_h100).out)["edge"], edge)
      << "a GPU with more memory has another edge";
}

TEST(FrontierTest, NoiseMovesTheEdgeByOneAtMost) {
  const std::filesystem::path folder = fresh_folder("frontier-noise");
  const auto edge = Json::parse(frontier(folder / "0", on_a100({})).out)["edge"].get<int64_t>();
  for (const char* seed : {"1", "2", "3", "4", "5", "6"}) {
    const ProgramResult noisy = frontier(
        folder / seed,
        on_a100({"--simulate", "memory_noise=0.008", "--simulate", std::string("seed=") + seed}));
    ASSERT_EQ(noisy.status, 0) << noisy.err;
    const Json found = Json::parse(noisy.out);
    EXPECT_LE(std::abs(found["edge"].get<int64_t>() - edge), 1) << seed;
    EXPECT_LE(found["trials"].size(), 8u);
  }
}

// SmolLM2-135M's config.json has 8192 positions.
TEST(FrontierTest, SaysOnceThatALengthIsBeyondTheModelsPositions) {
  const std::filesystem::path folder = fresh_folder("positions");
  const auto said = [&folder](const char* to) {
    const ProgramResult result = run_program({"frontier",
                                              "--method",
                                              "lora",
                                              "--set",
                                              "model_name=smollm2-135m",
                                              "--set",
                                              "number_gpus=1",
                                              "--set",
                                              "gpu_model=NVIDIA-A100-SXM4-80GB",
                                              "--set",
                                              "batch_size=1",
                                              "--over",
                                              "model_max_length",
                                              "--step",
                                              "4096",
                                              "--to",
                                              to,
                                              "--weights",
                                              "random",
                                              "--backend",
                                              "simulate",
                                              "-o",
                                              (folder / "results").string()});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err;
  };
  EXPECT_THAT(said("8192"), Not(HasSubstr("positions")));
  const std::string beyond = said("16384"), note = "is beyond the 8192 positions";
  EXPECT_THAT(beyond, HasSubstr(note + " (max_position_embeddings) of model_name smollm2-135m"));
  EXPECT_EQ(beyond.find(note), beyond.rfind(note));
}

TEST(FrontierTest, WhatIsWrongIsNamed) {
  const std::filesystem::path folder = fresh_folder("frontier-wrong");
  const auto error = [&](std::vector<std::string> further) {
    const ProgramResult result = frontier(folder, on_a100(std::move(further)));
    return std::to_string(result.status) + " " + result.err;
  };
  EXPECT_THAT(error({"--over", "batch"}), AllOf(StartsWith("2 "), HasSubstr("'batch_size'")));
  EXPECT_THAT(error({"--from", "80"}), HasSubstr("--to: found 64"));
  EXPECT_THAT(error({"--simulate", "fail=NCCL"}), AllOf(StartsWith("4 "), HasSubstr("NCCL")));
  EXPECT_THAT(error({"--simulate", "oom_gpu_above_gib=1"}), StartsWith("3 "));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
