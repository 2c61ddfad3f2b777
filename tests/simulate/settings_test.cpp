#include "sftbench/simulate/settings.h"

#include <gtest/gtest.h>

#include <sstream>

namespace sftbench {
namespace SFTBENCH_FILE {

std::string problem(const std::vector<std::string>& assignments) {
  try {
    parse_simulation(assignments);
    return "none";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(SimulationSettingsTest, EveryKindOfValueIsRead) {
  const SimulationSettings settings =
      parse_simulation({"steps=12", "step_s=0.25", "noise=0", "fail=OOM_HOST", "crash_at_step=3",
                        "crash_signal=ABRT", "oom_gpu_above_gib=1.5", "crash_probability=1"});
  EXPECT_EQ(settings.steps, 12);
  EXPECT_EQ(settings.step_s, 0.25);
  EXPECT_EQ(settings.noise, 0);
  EXPECT_EQ(settings.fail, ReasonCode::kOomHost);
  EXPECT_EQ(settings.crash_at_step, 3);
  EXPECT_EQ(settings.crash_signal, SIGABRT);
  EXPECT_EQ(settings.oom_gpu_above_gib, 1.5);
  EXPECT_EQ(settings.crash_probability, 1);
  EXPECT_FALSE(settings.oom_host_above_gib.has_value());
}

TEST(SimulationSettingsTest, EveryWrongAssignmentIsNamed) {
  const std::string all = problem({"nois=1", "noise=2", "steps=1.5"});
  EXPECT_NE(all.find("--simulate: unknown setting 'nois'"), std::string::npos) << all;
  EXPECT_NE(all.find("did you mean 'noise'?"), std::string::npos) << all;
  EXPECT_NE(all.find("--simulate noise: found '2'; expected a number from 0 to 1"),
            std::string::npos)
      << all;
  EXPECT_NE(all.find("--simulate steps: found '1.5'; expected an integer of at least 0"),
            std::string::npos)
      << all;
}

TEST(SimulationSettingsTest, EachMessageSaysWhatWouldBeRight) {
  EXPECT_EQ(problem({"seed"}), "--simulate: 'seed' has no value; expected seed=VALUE");
  EXPECT_EQ(problem({"step_s=0"}), "--simulate step_s: found '0'; expected a number above 0");
  EXPECT_EQ(problem({"sleep_s=nan"}),
            "--simulate sleep_s: found 'nan'; expected a number of at least 0");
  EXPECT_EQ(problem({"crash_signal=FOO"}),
            "--simulate crash_signal: found 'FOO'; expected one of SEGV, ABRT, BUS, FPE, ILL, "
            "KILL, TERM");
  EXPECT_EQ(problem({"fail=OOM"}),
            "--simulate fail: found 'OOM'; expected one of OOM_GPU, OOM_HOST, HANG, NCCL, RULE_1, "
            "RULE_2, "
            "RULE_3, RULE_4, RULE_5, RULE_6, RULE_7, DATA, WEIGHTS, UNSUPPORTED, TIMEOUT, KILLED, "
            "INTERNAL");
}

TEST(SimulationSettingsTest, FaultsAreThoseOfEachAttemptInTurn) {
  const SimulationSettings settings =
      parse_simulation({"faults=oom_gpu,none,fail,hang,crash,exit", "fail=NCCL"});
  const auto attempt = [&](int number) { return settings_of_attempt(settings, number); };
  EXPECT_EQ(attempt(1).oom_gpu_probability, 1);
  EXPECT_EQ(attempt(1).fail, std::nullopt) << "a code for the attempt that fails, not for all";
  EXPECT_EQ(attempt(2).oom_gpu_probability, 0);
  EXPECT_EQ(attempt(3).fail, ReasonCode::kNccl);
  EXPECT_EQ(attempt(4).hang_at_step, 1);
  EXPECT_EQ(attempt(5).crash_at_step, 1);
  EXPECT_EQ(attempt(6).exit_at_step, 1);
  EXPECT_EQ(attempt(7).exit_at_step, 0) << "those behind the list have none";
  for (const char* empty : {"faults=none,", "faults=,none", "faults=none,,none"})
    EXPECT_NE(problem({empty}).find("expected a list"), std::string::npos) << empty;
  EXPECT_EQ(problem({"faults=oom_gpu,opps"}),
            "--simulate faults: found 'oom_gpu,opps'; expected a list like oom_gpu,none,crash of "
            "none, oom_gpu, fail, hang, crash, exit");
}

TEST(SimulationSettingsTest, TheHelpNamesEveryKey) {
  const std::string help = simulation_help();
  for (const char* key : {"steps", "step_s", "noise", "seed", "sleep_s", "fail", "hang_at_step",
                          "crash_signal", "crash_probability"}) {
    EXPECT_NE(help.find(std::string("  ") + key + " "), std::string::npos) << key;
  }
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    ASSERT_GT(line.size(), 25u) << line;
    EXPECT_EQ(line.find_last_of(' ', 24), 23u) << "explanations stand in a column: " << line;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
