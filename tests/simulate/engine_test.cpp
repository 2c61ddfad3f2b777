#include "simulate/engine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sftbench/measure/proc.h"
#include "sftbench/simulate/backend.h"
#include "simulate/simulated_job.h"

namespace sftbench {
namespace SFTBENCH_FILE {

std::vector<double> seconds(const Told& told) {
  std::vector<double> values;
  for (const StepEvent& step : told.steps) values.push_back(step.end_s - step.begin_s);
  return values;
}

TrainingJob gpu_job(int64_t ranks) {
  TrainingJob job = simulated_job();
  job.device.kind = "cuda";
  job.device.ranks = ranks;
  return job;
}

double device_gib(const TrainingJob& job) {
  return static_cast<double>(told_by(job).end.device_peak_allocated_bytes.at(0)) / (1 << 30);
}

TEST(SimulatedEngineTest, TheSameJobGivesTheSameFigures) {
  EXPECT_EQ(seconds(told_by(simulated_job())), seconds(told_by(simulated_job())));
  EXPECT_EQ(told_by(simulated_job()).steps.back().loss, told_by(simulated_job()).steps.back().loss);
}

TEST(SimulatedEngineTest, JobsSamplesAndSeedsDifferInTheirNoiseAttemptsDoNot) {
  TrainingJob other = simulated_job();
  other.inputs["model_name"] = "n";
  const std::vector<double> first = seconds(told_by(simulated_job()));
  EXPECT_NE(seconds(told_by(other)), first);
  EXPECT_NE(seconds(told_by(simulated_job(), {}, 2)), first);
  EXPECT_NE(seconds(told_by(simulated_job(), {"seed=7"})), first);
  EXPECT_EQ(seconds(told_by(simulated_job(), {}, 1, 2)), first);
}

TEST(SimulatedEngineTest, StepsTakeWhatTheyAreToldTo) {
  const Told told = told_by(simulated_job(), {"step_s=0.5", "noise=0", "steps=6"});
  EXPECT_EQ(seconds(told), std::vector<double>(6, 0.5));
  EXPECT_EQ(told.begin.total_steps, 6);
  EXPECT_EQ(told.end.steps, 6);
}

TEST(SimulatedEngineTest, OtherwiseTimeIsFlopsOverSpeed) {
  TrainingJob job = simulated_job();
  job.activations.gradient_checkpointing = false;
  const Told told = told_by(job, {"flops_per_s=1e12", "noise=0"});
  // 2 entries of 512 tokens: 6 N per token and three times causal attention, 2 L^2 H per layer.
  const double flops = 6.0 * 134515008 * 1024 + 3 * 2.0 * (2 * 512 * 512) * 576 * 30;
  EXPECT_EQ(told.begin.parameters_total, 134515008);
  EXPECT_NEAR(seconds(told)[0], flops / 1e12, 1e-9);
  job.activations.gradient_checkpointing = true;  // one forward pass more
  EXPECT_NEAR(seconds(told_by(job, {"flops_per_s=1e12", "noise=0"}))[0], flops / 1e12 * 4 / 3,
              1e-9);
}

// 4e14 FLOP/s of a GPU that nothing is known of, 2e11 of a CPU (sftbench/simulate/settings.h).
TEST(SimulatedEngineTest, DevicesOfNoGivenSpeedHaveThatOfTheirKind) {
  TrainingJob job = simulated_job();
  job.activations.gradient_checkpointing = false;
  const double flops = 6.0 * 134515008 * 1024 + 3 * 2.0 * (2 * 512 * 512) * 576 * 30;
  const Told on_cpu = told_by(job, {"noise=0"});
  EXPECT_NEAR(seconds(on_cpu)[0], flops / 2e11, 1e-9);
  EXPECT_EQ(on_cpu.steps[0].device_allocated_bytes, 0);
  EXPECT_TRUE(on_cpu.end.device_peak_allocated_bytes.empty());
  job.device.kind = "cuda";
  const Told on_gpu = told_by(job, {"noise=0"});
  EXPECT_NEAR(seconds(on_gpu)[0], flops / 4e14, 1e-9);
  EXPECT_EQ(on_gpu.steps[0].device_allocated_bytes, on_gpu.end.device_peak_allocated_bytes.at(0));
  EXPECT_GT(on_gpu.steps[0].device_allocated_bytes, 4 * 2 * 134515008);
}

// From the loss of guessing, ln V, to half of it; the learning rate by a cosine to 0.
TEST(SimulatedEngineTest, LossFallsToHalfAndTheLearningRateByACosine) {
  const Told told = told_by(simulated_job(), {"noise=0", "steps=4"});
  ASSERT_EQ(told.steps.size(), 4u);
  for (const StepEvent& step : told.steps) {
    const double done = static_cast<double>(step.step) / 4;
    EXPECT_DOUBLE_EQ(step.epoch, done);
    EXPECT_DOUBLE_EQ(step.loss, std::log(49152.0) * (1 - done / 2));
    EXPECT_GE(step.grad_norm, 1);
    EXPECT_LT(step.grad_norm, 2);
  }
  const double quarter = std::numbers::sqrt2 / 2;  // the cosine of a quarter of the way
  EXPECT_NEAR(told.steps[0].learning_rate, 1e-5 * (1 + quarter) / 2, 1e-18);
  EXPECT_NEAR(told.steps[1].learning_rate, 1e-5 / 2, 1e-18);
  EXPECT_NEAR(told.steps[2].learning_rate, 1e-5 * (1 - quarter) / 2, 1e-18);
  EXPECT_NEAR(told.steps[3].learning_rate, 0, 1e-18);
}

double deviation_of(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// A deviation of 4000 draws is known within 1.1 %.
TEST(SimulatedEngineTest, NoiseIsTheDeviationOfTimeAndTenTimesThatOfLoss) {
  const Told told = told_by(simulated_job(), {"step_s=2", "noise=0.1", "steps=4000"});
  std::vector<double> times = seconds(told), losses;
  for (const StepEvent& step : told.steps)
    losses.push_back(step.loss / std::log(49152.0) + step.epoch / 2);
  EXPECT_NEAR(deviation_of(times), 2 * 0.1, 0.2 * 0.045);
  EXPECT_NEAR(deviation_of(losses), 0.1 / 10, 0.01 * 0.045);
}

// A normal draw lies below -0.95, where a step would take less than a twentieth, with a chance
// of 17.1 %, and beyond 2 with 2.3 %.
TEST(SimulatedEngineTest, NoStepIsShorterThanATwentieth) {
  const std::vector<double> times =
      seconds(told_by(simulated_job(), {"step_s=2", "noise=1", "steps=2000"}));
  const double least = *std::min_element(times.begin(), times.end());
  EXPECT_NEAR(least, 0.1, 1e-9);
  EXPECT_NEAR(static_cast<double>(std::count_if(times.begin(), times.end(),
                                                [](double time) { return time < 0.1 + 1e-9; })),
              0.171 * 2000, 67);  // four standard deviations
  EXPECT_NEAR(static_cast<double>(
                  std::count_if(times.begin(), times.end(), [](double time) { return time > 6; })),
              0.0228 * 2000, 27);
}

// Ranks that divide rows read the same entries.
TEST(SimulatedEngineTest, EntriesCountOnceForAGroupOfRanks) {
  TrainingJob job = simulated_job();
  job.device.ranks = 4;
  job.parallel.context_ranks = 2;
  EXPECT_EQ(told_by(job).steps.front().samples, 2 * 2 * job.batches.gradient_accumulation_steps);
}

TEST(SimulatedEngineTest, TokensAreCountedAsTheJobsBatchesHaveThem) {
  TrainingJob job = gpu_job(4);
  job.data.dataset_id = "news-chars-512-entries-256";  // about 205 tokens each
  job.data.padding = Padding::kMaxLength;
  job.batches.gradient_accumulation_steps = 3;
  job.batches.max_steps = -1;
  const Told told = told_by(job);
  const StepEvent& step = told.steps.front();
  EXPECT_EQ(step.samples, 2 * 4 * 3);
  EXPECT_EQ(step.tokens.padded, 24 * 512);
  EXPECT_EQ(step.tokens.padding, 24 * (512 - 204));
  EXPECT_LT(step.tokens.dataset, step.tokens.padded);
  EXPECT_LT(step.tokens.loss_bearing, step.tokens.dataset);
  EXPECT_EQ(told.begin.total_steps, 11);  // 256 entries, 32 batches of 8, groups of 3
}

TEST(SimulatedEngineTest, PackedEntriesFillTheModelsLengthInFewerSteps) {
  TrainingJob job = gpu_job(1);
  job.data.dataset_id = "news-chars-512-entries-256";
  job.data.padding = Padding::kPacked;  // 204 tokens each: two of them share 512
  job.batches.per_device_batch_size = 1;
  job.batches.gradient_accumulation_steps = 1;
  job.batches.max_steps = -1;
  const Told told = told_by(job);
  EXPECT_EQ(told.begin.total_steps, 128);
  EXPECT_EQ(told.steps.front().samples, 2);
  EXPECT_EQ(told.steps.front().tokens.padded, 2 * 204);
  EXPECT_EQ(told.steps.front().tokens.padding, 0);
}

TEST(SimulatedEngineTest, MemoryGrowsWithTheBatchAndShrinksWithCheckpointingAndShards) {
  TrainingJob large = gpu_job(1);
  large.batches.per_device_batch_size = 8;
  TrainingJob kept = gpu_job(1);
  kept.activations.gradient_checkpointing = false;
  EXPECT_GT(device_gib(large), device_gib(gpu_job(1)));
  EXPECT_GT(device_gib(kept), device_gib(gpu_job(1)));
  EXPECT_LT(device_gib(gpu_job(4)), device_gib(gpu_job(1)));
}

TEST(SimulatedEngineTest, KnownGpusAreAsFastAndAsLargeAsPredicted) {
  const auto on = [](const std::string& gpu) {
    TrainingJob job = gpu_job(1);
    job.device.gpu_model = gpu;
    job.batches.per_device_batch_size = 64;  // so that kernels take longer than their launches
    return job;
  };
  const auto step_s = [&on](const std::string& gpu) {
    const StepEvent step = told_by(on(gpu), {"noise=0"}).steps.front();
    return step.end_s - step.begin_s;
  };
  EXPECT_LT(step_s("NVIDIA-H100-80GB-HBM3"), 0.8 * step_s("NVIDIA-A100-SXM4-80GB"));
  TrainingJob large = on("Tesla-T4");
  large.precision.torch_dtype = ParameterDtype::kFloat16;
  EXPECT_NO_THROW(told_by(large));
  large.batches.per_device_batch_size = 4096;
  EXPECT_THROW(told_by(large), std::runtime_error);
  EXPECT_NO_THROW(told_by(large, {"oom_gpu_above_gib=100000"}));
}

TEST(SimulatedEngineTest, MemoryAboveItsThresholdEndsAsLibtorchWouldEnd) {
  const auto message = [](const TrainingJob& job, const std::string& setting) -> std::string {
    try {
      told_by(job, {setting});
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message(gpu_job(1), "oom_gpu_above_gib=0.5").substr(0, 38),
            "CUDA out of memory. Tried to allocate ");
  EXPECT_EQ(message(gpu_job(1), "oom_gpu_above_gib=80"), "");
  EXPECT_EQ(message(simulated_job(), "oom_gpu_above_gib=0.5"), "");  // it has no GPU
  EXPECT_EQ(message(simulated_job(), "oom_host_above_gib=1").substr(0, 43),
            "DefaultCPUAllocator: can't allocate memory:");
}

TEST(SimulatedEngineTest, ChancesComeTrueAsOftenAsTheySayAndDifferFromAttemptToAttempt) {
  int failed = 0, failed_twice = 0;
  for (int i = 0; i < 1000; ++i) {
    TrainingJob job = simulated_job();
    job.batches.max_steps = 1;
    job.inputs["model_name"] = std::to_string(i);
    const auto fails = [&job](int attempt) {
      try {
        told_by(job, {"fail_probability=0.3", "fail=NCCL"}, 1, attempt);
        return false;
      } catch (const RunError& error) {
        EXPECT_EQ(error.code(), ReasonCode::kNccl);
        return true;
      }
    };
    if (!fails(1)) continue;
    ++failed;
    if (fails(2)) ++failed_twice;
  }
  EXPECT_NEAR(failed, 300, 60);  // four standard deviations
  EXPECT_NEAR(failed_twice, 0.3 * failed, 35);
}

TEST(SimulatedEngineTest, ReadingsStandOnItsOwnClock) {
  SimulatedEngine engine({"step_s=2", "noise=0"});
  const std::unique_ptr<SystemSource> source = engine.system_source(2);
  Told told;
  engine.train_job(gpu_job(2), *make_single_rank(), {&told}, [] { return false; });
  const SystemReading reading = source->read();
  EXPECT_EQ(reading.time_s, 8);  // 4 steps
  EXPECT_EQ(reading.cpu_seconds, 8);
  ASSERT_EQ(reading.gpus.size(), 2u);
  EXPECT_DOUBLE_EQ(*reading.gpus[1].energy_joules, 8 * *reading.gpus[1].power_watts);
  // 700 W of a GPU that no list has, 80 GiB of memory; the second one is busy for 91 % of the time.
  EXPECT_EQ(reading.gpus[0].utilization_percent, 90);
  EXPECT_EQ(reading.gpus[1].utilization_percent, 91);
  EXPECT_DOUBLE_EQ(*reading.gpus[1].power_watts, 637);
  const auto bytes = static_cast<double>(told.end.device_peak_allocated_bytes.at(1));
  EXPECT_NEAR(*reading.gpus[1].memory_percent, 100 * bytes / (80.0 * (1 << 30)), 1e-6);
}

TEST(SimulatedBackendTest, CountsTheGpusOfItsNode) {
  TrainingJob job = gpu_job(8);
  const auto gpus = [&job] { return make_simulated_backend(job, {}, 1, 1)->local_gpus(); };
  EXPECT_EQ(gpus(), 8);
  job.device.nodes = 2;
  EXPECT_EQ(gpus(), 4);
  job.device.kind = "cpu";
  EXPECT_EQ(gpus(), 0);
}

TEST(SimulatedEngineTest, AGpuTakesAsMuchPowerAsItsBoardMay) {
  const auto limit = [](const std::string& gpu) {
    SimulatedEngine engine({"step_s=2", "noise=0"});
    const std::unique_ptr<SystemSource> source = engine.system_source(1);
    Told told;
    TrainingJob job = gpu_job(1);
    job.inputs["gpu_model"] = gpu;
    engine.train_job(job, *make_single_rank(), {&told}, [] { return false; });
    const SystemReading reading = source->read();
    EXPECT_LT(*reading.gpus[0].power_watts, *reading.gpus[0].power_limit_watts);
    return *reading.gpus[0].power_limit_watts;
  };
  EXPECT_EQ(limit("NVIDIA-L4"), 72);
  EXPECT_EQ(limit("NVIDIA-A100-80GB-PCIe"), 300);
}

TEST(SimulatedEngineTest, EveryResultSaysThatItIsSimulated) {
  const SimulatedEngine engine({"noise=0", "steps=3"});
  EXPECT_EQ(engine.environment(),
            Json::parse(R"({"backend": "simulate", "simulation": ["noise=0", "steps=3"]})"));
  EXPECT_EQ(told_by(simulated_job()).begin.warnings.at(0),
            "simulated: nothing was trained, no figure of this result was measured");
}

TEST(SimulatedEngineTest, TakesTheMemoryThatItIsToldTo) {
  constexpr int64_t kMost = int64_t{1} << 30, kTaken = kMost / 16;
  const auto resident = [] { return process_tree_resident_bytes(getpid()); };
  told_by(simulated_job());
  const int64_t before = resident();
  EXPECT_LT(before, kMost);
  told_by(simulated_job(), {"allocate_gib=0.0625"});
  EXPECT_GE(resident() - before, kTaken / 10 * 9);
  told_by(simulated_job(), {"allocate_gib=0"});
  EXPECT_LT(resident() - before, kTaken / 2) << "a job's memory is that of one job";
}

TEST(SimulatedEngineTest, AStopRuleAndAnInterruptEndItAfterTheirStep) {
  struct StopsAtTwo : Told {
    void on_step_end(const StepEvent& event, TrainControl& control) override {
      Told::on_step_end(event, control);
      control.stop = event.step == 2;
    }
  } stops;
  SimulatedEngine({}).train_job(simulated_job(), *make_single_rank(), {&stops},
                                [] { return false; });
  EXPECT_EQ(stops.end.steps, 2);
  Told interrupted;
  EXPECT_THROW(SimulatedEngine({}).train_job(simulated_job(), *make_single_rank(), {&interrupted},
                                             [] { return true; }),
               RunError);
  EXPECT_EQ(interrupted.steps.size(), 1u);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
