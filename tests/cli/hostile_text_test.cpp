// Text that would command a terminal, on every way through the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/log_format.h"
#include "cli/program.h"
#include "cli/sweep_view.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;
using testing::Not;

const std::string kClear = "\x1b[2J";

MATCHER(CommandsNoTerminal, "") {
  return arg.find_first_of("\x1b\x07\x7f\r") == std::string::npos;
}

TEST(HostileTextTest, MessagesOfALogCommandNoTerminal) {
  std::ostringstream out;
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger.set_formatter(log_format("%l: %v"));
  logger.warn("skipped {}: {}", "a" + kClear, "b\nc");
  EXPECT_EQ(out.str(), "warning: skipped a\\x1b[2J: b\nc\n");
}

TEST(HostileTextTest, NamesOfASweepCommandNoTerminal) {
  std::ostringstream out;
  SweepView view(out, true, [](const Cell&) { return "m" + kClear + "\nx"; });
  Heartbeat heartbeat;
  heartbeat.phase = "load" + kClear;
  const Cell cell;
  SweepState state;
  state.running = {{&cell, &heartbeat, 2}};
  EXPECT_EQ(view.live_lines(state, 200, 20).at(1), "  m\\x1b[2J\\nx: load\\x1b[2J, 0:02");
  view.on_retry(cell, {});
  EXPECT_THAT(out.str(), CommandsNoTerminal());
}

TEST(HostileTextTest, WhatTheUserTypedOrNamedComesBackHarmless) {
  const auto folder = fresh_folder("hostile_words");
  std::ofstream(folder / ("s" + kClear + ".yaml")) << "entitySpace: 7\n";
  std::ofstream(folder / "space.yaml") << "a\x1b: \x1b\n";
  std::ofstream(folder / "keys.yaml") << "\"a\\x9b31m\": \"\\e[2J\"\n";
  const std::vector<std::vector<std::string>> commands = {
      {"run", "s" + kClear + ".yaml"},
      {"expand", "s" + kClear + ".yaml"},
      {"expand", "space.yaml"},
      {"expand", "keys.yaml"},
      {"expand", "none" + kClear},
      {"run", "--" + kClear},
      {"models", kClear},
      {"report", "no" + kClear},
      {"report", ".", "--format", kClear},
      {"run", "--experiment", kClear, "--set", "model_name=" + kClear},
      {"run", "--job", "none" + kClear},
      {"weights", "fetch", kClear},
      {kClear},
  };
  for (const std::vector<std::string>& words : commands) {
    const ProgramResult result = run_program(words, {}, folder);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_THAT(result.out + result.err, CommandsNoTerminal());
    EXPECT_THAT(result.err, Not(HasSubstr("\xc2\x9b")));
    EXPECT_THAT(result.err, Not(HasSubstr("a bug")));
  }
}

TEST(HostileTextTest, WhatAGeneratorPrintsOfItsPathIsHarmless) {
  const auto folder = fresh_folder("hostile_path");
  const ProgramResult result =
      run_program({"dataset", "text", "-o", "made" + kClear + ".jsonl", "--num-max-gpus", "1",
                   "--num-max-batch-size", "1", "--num-gradient-accumulation-steps", "1"},
                  {}, folder);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "made\\x1b[2J.jsonl\n");
  EXPECT_THAT(result.err, CommandsNoTerminal());
}

TEST(HostileTextTest, BoundsOfNumbersAreSaidInWords) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"expand", "s.yaml", "--limit", "0"},
       "--limit: found '0'; expected a whole number from 1 to 10000"},
      {{"expand", "s.yaml", "--limit", "1e400"},
       "--limit: found '1e400'; expected a whole number from 1"},
      {{"sweep", "s.yaml", "--limit", "-1"}, "--limit: found '-1'; expected a whole number from 0"},
      {{"sweep", "s.yaml", "--timeout", "nan"},
       "--timeout: found 'nan'; expected a duration from 0 to 1000000000 s"},
      {{"sweep", "s.yaml", "--stall-timeout", "inf"}, "--stall-timeout: found 'inf'; expected"},
      {{"sweep", "s.yaml", "--quick-failure", "x"}, "--quick-failure: found 'x'; expected"},
      {{"run", "s.yaml", "--save-steps", "0"},
       "--save-steps: found '0'; expected a whole number from 1"},
      {{"predict", "s.yaml", "--flops-per-s", "0"}, "--flops-per-s: found '0'; expected"}};
  for (const auto& [words, message] : cases) {
    const ProgramResult result = run_program(words, {}, fresh_folder("bounds"));
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_LT(result.err.size(), 200U) << result.err;
  }
}

TEST(HostileTextTest, AResultFileCommandsNoTerminal) {
  const auto folder = fresh_folder("hostile_result");
  ASSERT_EQ(run_program({"run", "--backend", "simulate", "--experiment",
                         "finetune_full_benchmark-v1.0.0", "--set", "model_name=smollm2-135m",
                         "--set", "number_gpus=1", "--set", "gpu_model=NVIDIA-A100-SXM4-80GB",
                         "--set", "model_max_length=512", "--set", "batch_size=1"},
                        {}, folder)
                .status,
            0);
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "results"))
    if (entry.path().extension() == ".json") file = entry.path();
  std::stringstream content;
  content << std::ifstream(file).rdbuf();
  std::string text = content.str();
  const size_t model = text.find("\"smollm2-135m\"", text.find("\"inputs\""));
  ASSERT_NE(model, std::string::npos);
  std::ofstream(file) << text.replace(model + 1, 3, "=\\u001b[2J\\u009b|<b>");
  for (const char* format : {"table", "csv", "md"}) {
    const ProgramResult result = run_program(
        {"report", "results", "--include-simulated", "--wide", "--format", format}, {}, folder);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out + result.err, CommandsNoTerminal());
    EXPECT_THAT(result.out, Not(HasSubstr("\xc2\x9b")));
  }
}

TEST(HostileTextTest, NumbersThatAreNoneEndBeforeAnythingRuns) {
  const auto folder = fresh_folder("hostile_numbers");
  std::ofstream(folder / "space.yaml")
      << "sampleStoreIdentifier: s\n"
         "experiments: [{experimentIdentifier: finetune_full_benchmark-v1.0.0,"
         " actuatorIdentifier: SFTTrainer}]\nentitySpace:\n"
         "- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n"
         "- {identifier: number_gpus, propertyDomain: {values: [0]}}\n"
         "- {identifier: model_max_length, propertyDomain: {values: [64]}}\n"
         "- {identifier: batch_size, propertyDomain: {values: [1]}}\n";
  for (const char* option : {"--ranks=99999999999999999999999", "--communication-timeout=nan",
                             "--threads=99999999", "--no-retry-failed=99999999999999999999999"}) {
    const ProgramResult result =
        run_program({"sweep", "space.yaml", "--backend", "simulate", "--weights", "random", option},
                    {}, folder);
    EXPECT_EQ(result.status, 2) << option << ": " << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("a bug")));
    EXPECT_FALSE(std::filesystem::exists(folder / "results")) << option;
  }
  const ProgramResult run = run_program(
      {"run", "space.yaml", "--backend", "simulate", "--weights", "random", "--sample-period=nan"},
      {}, folder);
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("--sample-period: found 'nan'"));
  const ProgramResult result =
      run_program({"dataset", "count", std::string(5000, 'x')}, {}, folder);
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("a bug")));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
