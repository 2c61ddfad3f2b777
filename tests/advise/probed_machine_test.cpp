// What a probe's small runs took becomes constants of the machine, and files of other probes are
// not taken for this one.
#include "sftbench/advise/probed_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "advise/fit_probe.h"
#include "sftbench/advise/oracle.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/measure/host_info.h"
#include "sftbench/plan/probe_jobs.h"
#include "temporary_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

constexpr double kScale = 1.2, kFrozenScale = 0.9, kLaunchSeconds = 8e-6,
                 kFrozenLaunchSeconds = 6e-6, kBytesPerSecond = 12e9, kRestSeconds = 0.004;

// Products reach 100 GFLOP/s whatever their shape, and the rest is as fast as memory.
Json probe_without_runs() {
  return {{"schema", kProbeSchema},
          {"cpu", read_host_info().cpu},
          {"cores", read_host_info().cores},
          {"threads", read_host_info().cores},
          {"dtypes",
           {{"float32",
             {{"products", {{32, 576, 576, 1e11}, {1024, 2048, 2048, 1e11}}},
              {"head", {{32, 1e11}, {512, 1e11}}},
              {"attention", {{32, 5e10}, {2048, 5e10}}},
              {"element_bytes_per_s", 2e10},
              {"runs", Json::array()}}}}},
          {"memory_bytes_per_s", 2e10},
          {"collectives", {{"problem", "none"}}}};
}

// A machine on which each layer takes kScale times what its operators take, and kLaunchSeconds for
// each of them.
Json runs_of_known_constants() {
  MachineModel machine;
  machine.products = {{32, 576, 576, 1e11}, {1024, 2048, 2048, 1e11}};
  machine.flops_per_s = machine.head_flops_per_s = 1e11;
  machine.attention_flops_per_s = 5e10;
  machine.element_bytes_per_s = 2e10;
  machine.memory_bytes_per_s = kBytesPerSecond;
  machine.stack = StackModel::named("sftbench");
  machine.stack.unit_s = machine.stack.contention = 0;
  machine.launches_add = true;
  Json runs = Json::array();
  for (const TrainingJob& job : probe_jobs(ParameterDtype::kFloat32, {})) {
    const bool full = job.tuning == TuningMethod::kFull;
    machine.compute_scale = full ? kScale : kFrozenScale;
    machine.stack.launch_s = full ? kLaunchSeconds : kFrozenLaunchSeconds;
    const StepCost cost = predict_step(job, machine);
    runs.push_back(
        {{"compute_s", cost.compute_s}, {"update_s", cost.optimizer_s}, {"rest_s", kRestSeconds}});
  }
  return runs;
}

Json whole_probe() {
  Json probe = probe_without_runs();
  probe["dtypes"]["float32"]["runs"] = Json::array({runs_of_known_constants()});
  return probe;
}

TrainingJob float32_job() {
  return probe_jobs(ParameterDtype::kFloat32, {}).front();
}

TEST(ProbedMachineTest, ConstantsAreThoseOfTheMachineThatMadeTheRuns) {
  const auto machine = ProbedMachine(whole_probe()).machine_for(float32_job());
  ASSERT_TRUE(machine);
  EXPECT_NEAR(machine->compute_scale, kScale, 1e-6);
  EXPECT_NEAR(machine->stack.launch_s, kLaunchSeconds, 1e-10);
  EXPECT_NEAR(machine->memory_bytes_per_s, kBytesPerSecond, 1);
  EXPECT_EQ(machine->stack.step_s, kRestSeconds);
  EXPECT_TRUE(machine->launches_add);
  TrainingJob adapters = float32_job();
  adapters.tuning = TuningMethod::kLora;
  const auto frozen = ProbedMachine(whole_probe()).machine_for(adapters);
  ASSERT_TRUE(frozen);
  EXPECT_NEAR(frozen->compute_scale, kFrozenScale, 1e-6);
  EXPECT_NEAR(frozen->stack.launch_s, kFrozenLaunchSeconds, 1e-10);
}

TEST(ProbedMachineTest, RunsThatDifferSayHowNoisyTheMachineIsAndTheirMediansCount) {
  const Json runs = runs_of_known_constants();
  const auto times = [&runs](double factor) {
    Json other = runs;
    for (Json& run : other) {
      for (Json& part : run) part = part.get<double>() * factor;
    }
    return other;
  };
  Json probe = probe_without_runs();
  probe["dtypes"]["float32"]["runs"] = {times(std::exp(0.2)), runs, times(std::exp(-0.2))};
  const ProbedMachine noisy(probe);
  EXPECT_NEAR(noisy.run_variance(), 0.04, 1e-12);
  EXPECT_NEAR(noisy.machine_for(float32_job())->compute_scale, kScale, 1e-6);
  EXPECT_EQ(ProbedMachine(whole_probe()).run_variance(), 0);
}

// Steps of one position each are all launches: a machine may not come out with products that take
// less than no time.
TEST(ProbedMachineTest, NoConstantIsNegative) {
  Json probe = whole_probe();
  for (Json& run : probe["dtypes"]["float32"]["runs"].front()) run["compute_s"] = 0.05;
  const auto machine = ProbedMachine(probe).machine_for(float32_job());
  ASSERT_TRUE(machine);
  EXPECT_GE(machine->compute_scale, 0);
  EXPECT_GE(machine->stack.launch_s, 0);
}

TEST(ProbedMachineTest, ADtypeThatWasNotProbedHasNoMachine) {
  EXPECT_FALSE(
      ProbedMachine(whole_probe()).machine_for(probe_jobs(ParameterDtype::kBfloat16, {}).front()));
}

TEST(ProbedMachineTest, RanksShareMemoryAndThreads) {
  TrainingJob job = float32_job();
  job.device.ranks = 2;
  job.device.threads = 1;
  const auto machine = ProbedMachine(whole_probe()).machine_for(job);
  ASSERT_TRUE(machine);
  EXPECT_NEAR(machine->memory_bytes_per_s, kBytesPerSecond / 2, 1);
  EXPECT_NEAR(machine->flops_per_s, 1e11 / read_host_info().cores, 1);
}

Json link(double latency_s, double bytes_per_s) {
  return {{"latency_s", latency_s}, {"bytes_per_s", bytes_per_s}};
}

Json probed_links() {
  return {{"ranks", 2},
          {"all_gather", {{"idle", link(1e-4, 2e9)}, {"busy", link(2e-4, 1e9)}}},
          {"reduce_scatter",
           {{"bfloat16", {{"idle", link(3e-4, 9e8)}, {"busy", link(4e-4, 8e8)}}},
            {"float32", {{"idle", link(5e-4, 7e8)}, {"busy", link(6e-4, 6e8)}}}}}};
}

// Ranks that leave a core to their exchanges, and ranks that have them all.
TEST(ProbedMachineTest, ExchangesAreThoseOfRanksThatComputeWhereNoCoreIsLeft) {
  Json probe = whole_probe();
  probe["cores"] = 4;
  probe["collectives"] = probed_links();
  TrainingJob job = float32_job();
  job.device.ranks = 2;
  job.device.threads = 1;
  const auto with_cores_left = ProbedMachine(probe).machine_for(job);
  ASSERT_TRUE(with_cores_left);
  EXPECT_TRUE(with_cores_left->overlaps);
  EXPECT_EQ(with_cores_left->inside.bytes_per_s, 2e9);
  EXPECT_EQ(with_cores_left->inside_sums.latency_s, 5e-4);
  job.device.threads = 2;
  const auto without = ProbedMachine(probe).machine_for(job);
  ASSERT_TRUE(without);
  EXPECT_FALSE(without->overlaps);
  EXPECT_EQ(without->inside.latency_s, 2e-4);
  EXPECT_EQ(without->inside_sums.bytes_per_s, 6e8);
}

// A prediction takes the probe's word on overlap.
TEST(ProbedMachineTest, APredictionAddsExchangesWhereNoCoreIsLeft) {
  Json probe = whole_probe();
  probe["collectives"] = probed_links();
  ::setenv("XDG_DATA_HOME", temporary_file("data").c_str(), 1);
  std::filesystem::create_directories(probe_file().parent_path());
  write_file_atomic(probe_file(), json_text(probe));
  TrainingJob job = float32_job();
  job.device.ranks = 2;
  job.device.threads = read_host_info().cores;  // of each: more than there are
  const MachineOverrides overrides;
  const StepCost cost = Oracle({}, {}, overrides, Catalog::shipped()).predict(job).cost;
  EXPECT_GT(cost.communication_s, 0);
  EXPECT_NEAR(cost.exposed_s, cost.communication_s, 1e-9);
  ::unsetenv("XDG_DATA_HOME");
}

TEST(ProbedMachineTest, AFileOfAnotherVersionOrMachineIsLeftAloneAndSaidSo) {
  const std::string path = temporary_file("machine.json");
  const auto problem_of = [&path](const std::string& member, const Json& value) {
    Json probe = whole_probe();
    probe[member] = value;
    write_file_atomic(path, json_text(probe));
    std::string problem;
    EXPECT_FALSE(ProbedMachine::read(path, problem));
    return problem;
  };
  EXPECT_THAT(problem_of("schema", "sftbench.probe/1"), HasSubstr("another version"));
  EXPECT_THAT(problem_of("schema", "sftbench.probe/1"), HasSubstr("sftbench doctor --probe"));
  EXPECT_THAT(problem_of("cpu", "A processor of 1978"), HasSubstr("another machine"));
}

TEST(ProbedMachineTest, WhatIsNoProbeIsRefused) {
  const std::string path = temporary_file("machine.json");
  std::string problem;
  write_file_atomic(path, R"({"schema": "sftbench.measurement/1"})");
  EXPECT_THROW(ProbedMachine::read(path, problem), InputError);
  Json probe = whole_probe();
  probe["dtypes"]["float32"].erase("runs");
  EXPECT_THROW(ProbedMachine{probe}, InputError);
  probe = whole_probe();
  probe["dtypes"]["float32"]["runs"].front().erase(0);
  EXPECT_THROW(ProbedMachine{probe}, InputError);
  probe["dtypes"]["float32"]["runs"] = Json::array();
  EXPECT_THROW(ProbedMachine{probe}, InputError);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
