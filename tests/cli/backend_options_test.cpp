#include "cli/backend_options.h"

#include <gtest/gtest.h>

#include <fstream>

#include "cli/program.h"
#include "results/schema_check.h"
#include "sftbench/advise/own_evidence.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

std::string problem(const BackendOptions& options) {
  try {
    check_backend(options);
    return "none";
  } catch (const InputError& error) {
    return error.what();
  }
}

std::vector<std::string> simulated_run(std::vector<std::string> more) {
  std::vector<std::string> words = {"run",
                                    "--experiment",
                                    "finetune_full_benchmark-v1.0.0",
                                    "--set",
                                    "model_name=smollm2-135m",
                                    "--set",
                                    "number_gpus=0",
                                    "--set",
                                    "model_max_length=64",
                                    "--set",
                                    "batch_size=1",
                                    "--set",
                                    "max_steps=3",
                                    "--backend",
                                    "simulate"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(BackendOptionsTest, SayWhatIsWrong) {
  EXPECT_EQ(problem({"", {}}), "none");
  EXPECT_EQ(problem({"simulate", {"noise=0"}}), "none");
  EXPECT_EQ(problem({"simulat", {}}),
            "--backend: unknown value 'simulat'; expected libtorch or simulate; did you mean "
            "'simulate'?");
  EXPECT_EQ(problem({"", {"noise=0"}}),
            "--simulate: nothing is simulated; expected --backend simulate with it");
  EXPECT_EQ(problem({"simulate", {"noise=x"}}),
            "--simulate noise: found 'x'; expected a number from 0 to 1");
}

TEST(BackendOptionsTest, ASimulatedRunNeedsNothingAndSaysWhatItIs) {
  const auto folder = fresh_folder("simulated_run");
  const ProgramResult result =
      run_program(simulated_run({"-o", folder.string(), "--format", "json"}));
  EXPECT_EQ(result.status, 0) << result.err;
  const Json measurement = Json::parse(result.out);
  EXPECT_EQ(measurement["inputs"]["backend"], "simulate");
  EXPECT_EQ(measurement["environment"]["backend"], "simulate");
  EXPECT_NE(result.err.find("simulated: nothing was trained"), std::string::npos);
  std::ofstream(folder / "m.json") << result.out;
  EXPECT_EQ(schema_violation(folder / "m.json"), "");
}

// As a recommendation takes it for energy.
TEST(BackendOptionsTest, AResultTellsTheMeanPowerOfAGpu) {
  const auto folder = fresh_folder("simulated_power");
  const ProgramResult result = run_program({"run",
                                            "--experiment",
                                            "finetune_lora_benchmark-v1.0.0",
                                            "--set",
                                            "model_name=llama3.1-8b",
                                            "--set",
                                            "gpu_model=L40S",
                                            "--set",
                                            "number_gpus=1",
                                            "--set",
                                            "model_max_length=512",
                                            "--set",
                                            "batch_size=1",
                                            "--set",
                                            "max_steps=20",
                                            "--backend",
                                            "simulate",
                                            "--format",
                                            "json",
                                            "-o",
                                            folder.string()});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json measurement = Json::parse(result.out);
  const std::string file = (folder / measurement["experiment"].get<std::string>() /
                            (measurement["key"].get<std::string>() + ".json"))
                               .string();
  EXPECT_DOUBLE_EQ(read_own_measurement(file).gpu_watts.value_or(0), 0.9 * 350);
}

TEST(BackendOptionsTest, ASimulatedFaultHasItsExitStatus) {
  const std::string folder = fresh_folder("simulated_fault").string();
  EXPECT_EQ(
      run_program(simulated_run({"-o", folder, "--simulate", "oom_gpu_probability=1"})).status, 3);
  EXPECT_EQ(run_program(simulated_run({"-o", folder, "--simulate", "fail=NCCL"})).status, 4);
}

TEST(BackendOptionsTest, AJobKeepsTheBackendThatItWasMadeFor) {
  const auto folder = fresh_folder("simulated_job");
  const std::string job = (folder / "job.json").string();
  std::ofstream(job) << run_program(simulated_run({"--dry-run"})).out;
  EXPECT_EQ(run_program({"run", "--job", job, "-o", folder.string()}).status, 0);
  const ProgramResult refused =
      run_program({"run", "--job", job, "--backend", "libtorch", "-o", folder.string()});
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.err, "sftbench: --backend: " + job +
                             " was made for simulate; expected no --backend, or a job that "
                             "--backend libtorch --dry-run printed\n");
}

TEST(BackendOptionsTest, HelpListsTheKeys) {
  const ProgramResult result = run_program({"run", "--backend", "simulate", "--simulate", "help"});
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.out.find("crash_at_step"), std::string::npos);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
