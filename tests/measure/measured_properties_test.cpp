#include "sftbench/measure/measured_properties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/measure/run_record.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// Steps of 2 s each, the first of which begins at 10 s.
RunRecord record_of(int steps) {
  RunRecorder recorder;
  recorder.on_train_begin({});
  for (int i = 0; i < steps; ++i) {
    StepEvent step;
    step.step = i + 1;
    step.begin_s = 10 + 2 * i;
    step.end_s = step.begin_s + 2;
    step.samples = 4;
    step.tokens = {.padded = 2048, .dataset = 2000 + i, .loss_bearing = 1900};
    step.attention_flops = 1000;
    TrainControl control;
    recorder.on_step_end(step, control);
  }
  recorder.on_train_end({});
  return recorder.record();
}

SystemReading reading(double time_s, double cpu_seconds, double memory_percent,
                      std::vector<GpuReading> gpus = {}) {
  SystemReading r;
  r.time_s = time_s;
  r.cpu_seconds = cpu_seconds;
  r.memory_percent = memory_percent;
  r.gpus = std::move(gpus);
  return r;
}

GpuReading gpu(double utilization, double memory, double watts, double limit) {
  GpuReading g;
  g.utilization_percent = utilization;
  g.memory_percent = memory;
  g.power_watts = watts;
  g.power_limit_watts = limit;
  return g;
}

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> names;
  for (const auto& item : object.items()) names.push_back(item.key());
  return names;
}

TEST(MeasuredPropertiesTest, AllPropertiesStandInTheOrderOfTheDocuments) {
  const auto span = measured_span(record_of(3), 0);
  const Json cpu_run =
      measured_properties(span, {reading(10, 1, 30), reading(16, 7, 40)}, 0, false);
  const std::vector<std::string> expected(kMeasuredProperties.begin(), kMeasuredProperties.end());
  EXPECT_EQ(keys(cpu_run), expected);
  const auto gpus = std::vector<GpuReading>{gpu(1, 2, 3, 4)};
  const Json gpu_run =
      measured_properties(span, {reading(10, 1, 30, gpus), reading(16, 7, 40, gpus)}, 1, false);
  EXPECT_EQ(keys(gpu_run), expected);
}

TEST(MeasuredPropertiesTest, RatesDivideExactCountsByTheTimeOfTheSteps) {
  const Json p = measured_properties(measured_span(record_of(5), 0),
                                     {reading(9, 1, 30), reading(19, 16, 50)}, 0, false);
  EXPECT_DOUBLE_EQ(p["train_runtime"], 10);
  EXPECT_DOUBLE_EQ(p["train_samples_per_second"], 2);
  EXPECT_DOUBLE_EQ(p["train_steps_per_second"], 0.5);
  EXPECT_DOUBLE_EQ(p["train_tokens_per_second"], 1024);
  EXPECT_DOUBLE_EQ(p["train_tokens_per_gpu_per_second"], 1024);
  EXPECT_DOUBLE_EQ(p["dataset_tokens_per_second"], 1001);
  EXPECT_DOUBLE_EQ(p["dataset_tokens_per_second_per_gpu"], 1001);
  EXPECT_DOUBLE_EQ(p["cpu_compute_utilization"], 150);
  EXPECT_DOUBLE_EQ(p["cpu_memory_utilization"], 40);
  EXPECT_EQ(p["is_valid"], 1);
  EXPECT_TRUE(p["is_valid"].is_number_integer());
}

TEST(MeasuredPropertiesTest, GpuFiguresAreZeroWithoutGpus) {
  const Json p = measured_properties(measured_span(record_of(1), 0), {reading(10, 0, 1)}, 0, false);
  for (const std::string_view name : kMeasuredProperties) {
    if (name.substr(0, 4) == "gpu_") {
      EXPECT_EQ(p[std::string(name)], 0.0) << name;
    }
  }
}

TEST(MeasuredPropertiesTest, GpuFiguresAreOverGpusOfMeansOverTime) {
  const std::vector<SystemReading> samples = {
      reading(10, 0, 1, {gpu(90, 40, 300, 600), gpu(10, 10, 100, 400)}),
      reading(11, 1, 1, {gpu(100, 80, 400, 600), gpu(30, 20, 200, 400)}),
      reading(12, 2, 1, {gpu(80, 60, 500, 600), gpu(20, 30, 300, 400)})};
  const Json p = measured_properties(measured_span(record_of(2), 0), samples, 2, false);
  EXPECT_DOUBLE_EQ(p["gpu_compute_utilization_min"], 20);
  EXPECT_DOUBLE_EQ(p["gpu_compute_utilization_avg"], 55);
  EXPECT_DOUBLE_EQ(p["gpu_compute_utilization_max"], 90);
  EXPECT_DOUBLE_EQ(p["gpu_memory_utilization_min"], 20);
  EXPECT_DOUBLE_EQ(p["gpu_memory_utilization_avg"], 40);
  EXPECT_DOUBLE_EQ(p["gpu_memory_utilization_max"], 60);
  EXPECT_DOUBLE_EQ(p["gpu_memory_utilization_peak"], 80);
  EXPECT_DOUBLE_EQ(p["gpu_power_watts_min"], 200);
  EXPECT_DOUBLE_EQ(p["gpu_power_watts_avg"], 300);
  EXPECT_DOUBLE_EQ(p["gpu_power_watts_max"], 400);
  EXPECT_NEAR(p["gpu_power_percent_min"], 50, 1e-9);
  EXPECT_NEAR(p["gpu_power_percent_avg"], (50 + 400 / 6.0) / 2, 1e-9);
  EXPECT_NEAR(p["gpu_power_percent_max"], 400 / 6.0, 1e-9);
  EXPECT_DOUBLE_EQ(p["train_tokens_per_gpu_per_second"], 512);
  EXPECT_DOUBLE_EQ(p["dataset_tokens_per_second_per_gpu"], 1000.25 / 2);
}

TEST(MeasuredPropertiesTest, WhatNvmlDoesNotReportIsAbsent) {
  GpuReading without_limit = gpu(50, 50, 100, 0);
  without_limit.power_limit_watts.reset();
  GpuReading nothing;
  const auto span = measured_span(record_of(2), 0);
  const Json p = measured_properties(
      span, {reading(10, 0, 1, {without_limit}), reading(14, 1, 1, {nothing})}, 1, false);
  EXPECT_FALSE(p.contains("gpu_power_percent_avg"));
  EXPECT_DOUBLE_EQ(p["gpu_power_watts_avg"], 100);  // of the one reading that there is
  // No reading of one of two GPUs: no figure over both.
  const Json q = measured_properties(span, {reading(10, 0, 1, {without_limit, nothing})}, 2, false);
  EXPECT_FALSE(q.contains("gpu_compute_utilization_min"));
  EXPECT_FALSE(q.contains("gpu_memory_utilization_peak"));
}

TEST(MeasuredPropertiesTest, AReadingWithoutAGpuThatTheFirstOneHadIsLeftOut) {
  const Json p = measured_properties(
      measured_span(record_of(2), 0),
      {reading(10, 0, 1, {gpu(50, 10, 100, 400)}), reading(14, 1, 1)}, 1, false);
  EXPECT_DOUBLE_EQ(p["gpu_compute_utilization_avg"], 50);
  EXPECT_DOUBLE_EQ(p["gpu_power_percent_avg"], 25);
}

TEST(MeasuredPropertiesTest, StepsThatTookNoTimeAreABug) {
  RunRecord record = record_of(1);
  record.steps[0].end_s = record.steps[0].begin_s;
  EXPECT_THROW(measured_properties(measured_span(record, 0), {}, 0, false), std::logic_error);
}

TEST(MeasuredPropertiesTest, TrainTokensAreLeftOutWhenTimeStoppedTheRun) {
  const Json p = measured_properties(measured_span(record_of(2), 0),
                                     {reading(10, 0, 1), reading(14, 1, 1)}, 0, true);
  EXPECT_FALSE(p.contains("train_tokens_per_second"));
  EXPECT_FALSE(p.contains("train_tokens_per_gpu_per_second"));
  EXPECT_TRUE(p.contains("dataset_tokens_per_second"));
  EXPECT_EQ(p.size(), kMeasuredProperties.size() - 2);
}

TEST(MeasuredPropertiesTest, OneSampleGivesNoCpuUtilisation) {
  const Json p =
      measured_properties(measured_span(record_of(2), 0), {reading(10, 5, 25)}, 0, false);
  EXPECT_FALSE(p.contains("cpu_compute_utilization"));
  EXPECT_DOUBLE_EQ(p["cpu_memory_utilization"], 25);
}

// Both processes of node 0 read the same host.
TEST(MeasuredPropertiesTest, TheHostsMemoryIsAMeanOverNodesAndNoSumOverProcesses) {
  const auto host = [](double time_s, double percent) {
    SystemReading r = reading(time_s, 0, 1);
    r.host_memory_percent = percent;
    return r;
  };
  const std::vector<ProcessSamples> processes = {
      {0, {host(10, 30), host(20, 40)}}, {0, {host(10, 30), host(20, 40)}}, {1, {host(10, 80)}}};
  EXPECT_DOUBLE_EQ(host_memory_percent(processes).get<double>(), (35 + 80) / 2.0);
  EXPECT_TRUE(host_memory_percent({{0, {}}}).is_null());
}

TEST(MeasuredPropertiesTest, WaitingForAProcessorIsAShareOfTheTimeThatThreadsCouldRun) {
  const auto threads = [](double time_s, double ran_s, double waited_s) {
    SystemReading r = reading(time_s, 0, 1);
    r.threads_ran_s = ran_s;
    r.threads_waited_s = waited_s;
    return r;
  };
  const std::vector<ProcessSamples> one = {
      {0, {threads(10, 5, 1), threads(15, 9, 2), threads(20, 11, 3)}}};
  EXPECT_DOUBLE_EQ(run_queue_wait_share(one).get<double>(), 2.0 / 8);
  // Of several processes by their time, as a long one's threads are most of what ran.
  std::vector<ProcessSamples> two = one;
  two.push_back({1, {threads(0, 0, 0), threads(9, 16, 8)}});
  EXPECT_DOUBLE_EQ(run_queue_wait_share(two).get<double>(), 10.0 / 32);
  EXPECT_TRUE(run_queue_wait_share({{0, {reading(10, 0, 1), reading(20, 1, 1)}}}).is_null())
      << "the kernel does not tell";
  EXPECT_TRUE(run_queue_wait_share({{0, {threads(0, 0, 0), threads(1, 0.05, 0.04)}}}).is_null())
      << "too little to tell";
  // From a tenth of a second on.
  EXPECT_EQ(run_queue_wait_share({{0, {threads(0, 0, 0), threads(1, 0.05, 0.05)}}}), 0.5);
  EXPECT_TRUE(run_queue_wait_share({{0, {}}}).is_null());
  // All four figures, or none.
  for (const auto figure : {&SystemReading::threads_ran_s, &SystemReading::threads_waited_s}) {
    for (const size_t of_two : {0, 1}) {
      std::vector<SystemReading> samples = {threads(0, 5, 7), threads(9, 20, 30)};
      (samples[of_two].*figure).reset();
      EXPECT_TRUE(run_queue_wait_share({{0, samples}}).is_null()) << of_two;
    }
  }
}

TEST(MeasuredPropertiesTest, ThreadsThatWaitForThoseOfTheirOwnRunAreNoBusyMachine) {
  const auto sample = [](double ran_s, double waited_s, double cpu_s, double host_cpu_s) {
    SystemReading r = reading(10 + ran_s, cpu_s, 1);
    r.threads_ran_s = ran_s;
    r.threads_waited_s = waited_s;
    r.host_cpu_seconds = host_cpu_s;
    return r;
  };
  const auto share = [&](double host_cpu_s) {
    // Two ranks of a node, each its own process: 8 s of CPU time, 6 s of waiting.
    const std::vector<ProcessSamples> ranks = {
        {0, {sample(0, 0, 5, 100), sample(4, 3, 9, 100 + host_cpu_s)}},
        {0, {sample(0, 0, 7, 100), sample(4, 3, 11, 100 + host_cpu_s)}}};
    return run_queue_wait_share(ranks).get<double>();
  };
  EXPECT_DOUBLE_EQ(share(8), 0);
  EXPECT_NEAR(share(9.4), 1.4 / 14, 1e-12) << "others ran for 1.4 s";
  EXPECT_DOUBLE_EQ(share(20), 6.0 / 14) << "they were waited for no longer than all waiting took";
  EXPECT_DOUBLE_EQ(share(4), 0) << "half of the run's time is not less than half";
  EXPECT_DOUBLE_EQ(share(1), 6.0 / 14) << "a host that counts less than the run does not tell";
}

TEST(MeasuredPropertiesTest, ABusyMachineIsNamedFromATenthOn) {
  EXPECT_EQ(busy_machine_note(Json()), "");
  EXPECT_EQ(busy_machine_note(0.0), "");
  EXPECT_EQ(busy_machine_note(0.0999), "");
  EXPECT_NE(busy_machine_note(kBusyShare), "");
  EXPECT_EQ(busy_machine_note(0.38),
            "this machine was busy: threads waited 38 % of the training time for a processor; "
            "speed is too low, and times are too high");
}

TEST(MeasuredPropertiesTest, TheWarmupIsLeftOutOfThroughputAndSystemFigures) {
  const MeasuredSpan span = measured_span(record_of(5), 3);
  const std::vector<SystemReading> samples = {reading(10, 0, 90), reading(15.9, 50, 90),
                                              reading(16, 60, 20), reading(20, 62, 40)};
  const Json p = measured_properties(span, samples_since(samples, span.begin_s), 0, false);
  EXPECT_DOUBLE_EQ(p["train_runtime"], 4);
  EXPECT_DOUBLE_EQ(p["train_samples_per_second"], 2);
  EXPECT_DOUBLE_EQ(p["dataset_tokens_per_second"], (2003 + 2004) / 4.0);
  EXPECT_DOUBLE_EQ(p["cpu_compute_utilization"], 50);
  EXPECT_DOUBLE_EQ(p["cpu_memory_utilization"], 30);
}

TEST(MeasuredPropertiesTest, EveryPropertyButIsValidHasAUnit) {
  for (const std::string_view name : kMeasuredProperties) {
    EXPECT_EQ(measured_unit(name).empty(), name == "is_valid") << name;
  }
  EXPECT_EQ(measured_unit("gpu_power_percent_avg"), "%");
  EXPECT_EQ(measured_unit("gpu_power_watts_max"), "W");
  EXPECT_EQ(measured_unit("dataset_tokens_per_second_per_gpu"), "tokens/s per GPU");
  EXPECT_EQ(measured_unit("train_tokens_per_second"), "tokens/s");
}

TEST(TokenRatesTest, EachRateHasItsOwnDenominator) {
  const Json rates = token_rates(measured_span(record_of(5), 0), 4);
  EXPECT_DOUBLE_EQ(rates["padded_tokens_per_second"], 1024);
  EXPECT_DOUBLE_EQ(rates["dataset_tokens_per_second"], 1001);
  EXPECT_DOUBLE_EQ(rates["loss_bearing_tokens_per_second"], 950);
  EXPECT_DOUBLE_EQ(rates["padded_tokens_per_second_per_device"], 256);
}

TEST(EnergyTest, IsTheDifferenceOfTheCountersAndNullWithoutOne) {
  GpuReading first = gpu(1, 1, 1, 1);
  GpuReading last = first;
  first.energy_joules = 1000;
  last.energy_joules = 1750.5;
  const std::vector<SystemReading> samples = {reading(0, 0, 0, {first, gpu(1, 1, 1, 1)}),
                                              reading(1, 0, 0, {last, gpu(1, 1, 1, 1)})};
  EXPECT_EQ(gpu_energy_joules(samples), Json::parse("[750.5, null]"));
  EXPECT_EQ(gpu_energy_joules({}), Json::array());
}

TEST(MeasuredSpanTest, AWarmupThatLeavesNothingIsABug) {
  EXPECT_THROW(measured_span(record_of(2), 2), std::logic_error);
  EXPECT_THROW(measured_span(record_of(0), 0), std::logic_error);
}

// Node 0: two processes, the first of which reads its one GPU; node 1: one with another GPU.
TEST(MeasuredPropertiesTest, OverNodesGpusArePutTogetherAndCpuFiguresAreMeans) {
  const std::vector<ProcessSamples> processes = {
      {0,
       {reading(10, 1, 30, {gpu(40, 10, 100, 400)}), reading(20, 6, 40, {gpu(60, 30, 200, 400)})}},
      {0, {reading(10, 0, 30), reading(20, 10, 40)}},
      {1,
       {reading(900, 7, 60, {gpu(90, 50, 300, 400)}),
        reading(910, 9, 80, {gpu(100, 70, 300, 400)})}}};
  const Json p = measured_properties_of(measured_span(record_of(2), 0), processes, 2, false);
  EXPECT_DOUBLE_EQ(p["gpu_compute_utilization_min"], 50);
  EXPECT_DOUBLE_EQ(p["gpu_compute_utilization_avg"], 72.5);
  EXPECT_DOUBLE_EQ(p["gpu_compute_utilization_max"], 95);
  EXPECT_DOUBLE_EQ(p["gpu_memory_utilization_peak"], 70);
  EXPECT_DOUBLE_EQ(p["cpu_compute_utilization"], ((50 + 100) + 20) / 2.0);
  EXPECT_DOUBLE_EQ(p["cpu_memory_utilization"], ((35 + 35) + 70) / 2.0);
  // A GPU of which nobody told anything is no reason to report the others' mean as that of all.
  EXPECT_FALSE(measured_properties_of(measured_span(record_of(2), 0), processes, 3, false)
                   .contains("gpu_compute_utilization_avg"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
