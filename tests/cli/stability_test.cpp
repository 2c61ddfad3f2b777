// finetune_full_stability-v1.0.0 through the program: run and sweep, in simulated child processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/program.h"
#include "cli/series_view.h"
#include "results/schema_check.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kStability = "finetune_full_stability-v1.0.0";

std::vector<std::string> stability(const std::string& command, const fs::path& folder,
                                   std::vector<std::string> more) {
  std::vector<std::string> words = {command, "--experiment", kStability};
  for (const char* assignment :
       {"model_name=smollm2-135m", "number_gpus=0", "model_max_length=64", "batch_size=1"}) {
    words.insert(words.end(), {"--set", assignment});
  }
  words.insert(words.end(), {"--backend", "simulate", "-o", folder.string()});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

fs::path only_file(const fs::path& folder, const std::string& extension) {
  fs::path found;
  for (const auto& entry : fs::directory_iterator(folder / kStability)) {
    if (entry.path().extension() != extension) continue;
    EXPECT_TRUE(found.empty()) << found << " and " << entry.path();
    found = entry.path();
  }
  return found;
}

TEST(StabilityTest, RunMeasuresFiveRunsAndShowsTheirFractions) {
  const fs::path folder = fresh_folder("stability_run");
  const ProgramResult result = run_program(stability(
      "run", folder, {"--simulate", "faults=none,oom_gpu,crash,hang", "--stall-timeout", "1"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("f_gpu_oom        0.2\nf_other_error    0.4\nf_no_error       0.4\n"));
  EXPECT_THAT(result.err,
              HasSubstr("run 2/5: gpu_oom: OOM_GPU: the GPU's memory does not suffice\n"));
  EXPECT_THAT(result.err, HasSubstr("run 5/5: no_error\n"));
  const fs::path file = only_file(folder, ".json");
  EXPECT_EQ(schema_violation(file), "");
  EXPECT_DOUBLE_EQ(read_json_file(file.string())["extra"]["f_hang"], 0.2);
  EXPECT_THAT(read_file(only_file(folder, ".log")), HasSubstr("run 3 of 5: other_error"));
}

TEST(StabilityTest, CsvHasThePropertiesThatTheExperimentMeasures) {
  const fs::path folder = fresh_folder("stability_csv");
  const ProgramResult result = run_program(stability("run", folder, {"--format", "csv"}));
  EXPECT_THAT(result.out, HasSubstr("experiment_id,entity_id,status,reason,f_gpu_oom,f_other_error,"
                                    "f_no_error,is_valid\n"));
  EXPECT_THAT(result.out, HasSubstr(",valid,,0.0,0.0,1.0,1\n"));
}

TEST(StabilityTest, AStaticRuleMakesItInvalidWithoutARun) {
  const fs::path folder = fresh_folder("stability_rule");
  auto words = stability("run", folder, {"--set", "gpu_model=NVIDIA-H100-PCIe"});
  std::replace(words.begin(), words.end(), std::string("number_gpus=0"),
               std::string("number_gpus=2"));
  const ProgramResult result = run_program(words);
  EXPECT_EQ(result.status, 3) << result.err;
  EXPECT_THAT(result.out, HasSubstr("invalid: RULE_1"));
  EXPECT_EQ(read_json_file(only_file(folder, ".json").string())["measured"],
            Json({{"is_valid", 0}}));
}

TEST(StabilityTest, SweepMeasuresItLikeAnyOtherCell) {
  const fs::path folder = fresh_folder("stability_sweep");
  const auto words =
      stability("sweep", folder, {"--simulate", "faults=oom_gpu,oom_gpu,exit", "--format", "csv"});
  const ProgramResult first = run_program(words);
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.err,
              HasSubstr("40 % ended well, 40 % out of GPU memory, 20 % with another error"));
  EXPECT_EQ(schema_violation(only_file(folder, ".json")), "");
  EXPECT_THAT(read_file(only_file(folder, ".log")), HasSubstr("run 5 of 5: no_error"));
  const ProgramResult again = run_program(words);
  EXPECT_EQ(again.out, "status,reason,measured_now,measured_before\nvalid,,0,1\n");
}

TEST(StabilityTest, CtrlCKeepsNothing) {
  const fs::path folder = fresh_folder("stability_interrupted");
  Program program(stability("run", folder, {"--simulate", "sleep_s=0.1"}));
  program.start();
  program.read_err_until("run 1/5: no_error");
  ::kill(program.pid(), SIGINT);
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.status, 130) << result.err;
  EXPECT_LT(result.wall_s, 10);
  EXPECT_THAT(file_names_below(folder), IsEmpty());
}

TEST(StabilityTest, TimeLimitsOfASingleRunAreSaidToHaveNoEffect) {
  const fs::path folder = fresh_folder("stability_no_effect");
  auto words = stability("run", folder, {"--timeout", "9", "--set", "max_steps=2"});
  words[2] = "finetune_full_benchmark-v1.0.0";
  const ProgramResult result = run_program(words);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--timeout and --stall-timeout have no effect: "
                                    "finetune_full_benchmark-v1.0.0 is one run, in this process"));
}

TEST(SeriesLineTest, SaysWhichRunAndStepItIs) {
  SeriesProgress progress;
  progress.run = 2;
  progress.runs = 5;
  progress.heartbeat.phase = "engine";
  EXPECT_EQ(series_line(progress, 3), "run 2/5, engine, 0:03");
  progress.heartbeat.total_steps = 5;
  progress.heartbeat.step = 4;
  progress.heartbeat.loss = 2.5;
  progress.heartbeat.tokens_per_s = 1234;
  EXPECT_EQ(series_line(progress, 7), "run 2/5, step 4/5, loss 2.5, 1.23 k tokens/s, 0:07");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
