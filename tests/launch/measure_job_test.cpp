#include "sftbench/launch/measure_job.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "launch/fake_engine.h"
#include "sftbench/base/clock.h"
#include "sftbench/measure/measured_properties.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TrainingJob job_of_steps(int64_t steps) {
  TrainingJob job;
  job.experiment = "finetune_full_benchmark-v1.0.0";
  job.experiment_id = "SFTTrainer.finetune_full_benchmark-v1.0.0";
  job.entity_id = "model_name.m-batch_size.2";
  job.inputs = {
      {"batch_size", 2}, {"model_max_length", 64}, {"model_name", "m"}, {"number_gpus", 0}};
  job.data.model_max_length = 64;
  job.batches.per_device_batch_size = 2;
  job.batches.max_steps = steps;
  return job;
}

// This machine without GPUs, and an engine that the test brings.
class BackendOfTest : public Backend {
 public:
  explicit BackendOfTest(Engine& engine) : engine_(engine) {}

  void check_devices() const override {}
  std::optional<std::string> memory_warning() const override { return {}; }
  Engine& engine() override { return engine_; }
  const Nvml* nvml() const override { return nullptr; }
  int local_gpus() const override { return 0; }
  std::unique_ptr<SystemSource> system_source(int gpus) const override {
    return make_system_source(nullptr, gpus);
  }
  DevicePeak peak(const std::string& dtype) const override {
    asked_peak = dtype;
    return known_peak;
  }

  DevicePeak known_peak = {{}, "no catalog of devices was given"};
  mutable std::string asked_peak;

 private:
  Engine& engine_;
};

MeasureOptions options_of_test() {
  MeasureOptions options;
  options.log = "run.log";
  options.command = "sftbench run";
  return options;
}

Measurement run_with(const std::string& mode, const TrainingJob& job) {
  setenv("FAKE_ENGINE", mode.c_str(), 1);
  FakeEngine engine;
  BackendOfTest backend(engine);
  const Measurement measurement = measure_job(job, backend, options_of_test());
  unsetenv("FAKE_ENGINE");
  return measurement;
}

TEST(MeasureJobTest, AValidRunHasEveryPropertyAndAllItsSteps) {
  const Measurement m = run_with("", job_of_steps(5));
  EXPECT_EQ(m.status, Status::kValid);
  EXPECT_FALSE(m.reason.has_value());
  EXPECT_EQ(m.measured.size(), kMeasuredProperties.size());
  EXPECT_EQ(m.measured["is_valid"], 1);
  EXPECT_EQ(m.extra["loss"], Json::parse("[10.0, 5.0, 3.3333333333333335, 2.5, 2.0]"));
  EXPECT_EQ(m.extra["step_seconds"].size(), 5u);
  EXPECT_EQ(m.extra["tokens"],
            Json::parse(R"({"padded": 640, "dataset": 600, "loss_bearing": 560})"));
  EXPECT_EQ(m.extra["memory_bytes"]["host_peak_rss"], Json::parse("[123456789]"));
  EXPECT_DOUBLE_EQ(m.extra["mfu"]["model_flops_per_token"], 6 * 900 + 3 * 5000 / 128.0);
  EXPECT_TRUE(m.extra["mfu"]["value"].is_null());
  EXPECT_EQ(m.extra["warmup_steps"], 0);
  EXPECT_EQ(m.extra["warnings"], Json::parse(R"(["the fake engine trains nothing"])"));
  EXPECT_GE(m.extra["system_samples"], 2);
  EXPECT_EQ(m.environment["libtorch"], "0.0-fake");
  EXPECT_EQ(m.inputs, job_of_steps(5).inputs);
  EXPECT_NEAR(m.measured["train_samples_per_second"].get<double>() *
                  m.measured["train_runtime"].get<double>(),
              10, 1e-9);
}

// Two ranks take two steps.
class TwoRanksEngine : public FakeEngine {
 public:
  void train_job(const TrainingJob&, RankGroup&, const std::vector<TrainObserver*>& observers,
                 const std::function<bool()>&) override {
    TrainEnd end;
    end.ranks.resize(2);
    end.ranks[1].rank = 1;
    TrainBegin begin;
    begin.compute_dtype = "float32";
    begin.padding = "longest";
    for (TrainObserver* observer : observers) observer->on_train_begin(begin);
    TrainControl control;
    for (int i = 0; i < 2; ++i) {
      StepEvent event;
      event.step = i + 1;
      event.end_s = (event.begin_s = steady_seconds()) + 2;
      event.samples = 6;
      event.tokens = {.padded = 60, .dataset = 50, .loss_bearing = 40};
      for (TrainObserver* observer : observers) observer->on_step_end(event, control);
      for (RankReport& rank : end.ranks) {
        const int64_t share = 1 + rank.rank;
        rank.steps.push_back({event.begin_s, event.end_s, 0.5, 2 * share, {20 * share, 20, 20}});
      }
    }
    for (RankReport& rank : end.ranks) {
      rank.parameter_bytes = 100 + rank.rank;
      rank.collectives = {{"shards", "all_gather", 4, 400, 0.25}};
    }
    for (TrainObserver* observer : observers) observer->on_train_end(end);
  }
};

TEST(MeasureJobTest, SeveralRanksAreAddedUpAndReportedOneByOne) {
  TrainingJob job = job_of_steps(2);
  job.device.ranks = 2;
  job.parallel.strategy = Strategy::kFullShard;
  job.parallel.reduce_dtype = "float32";
  TwoRanksEngine engine;
  BackendOfTest backend(engine);
  const Measurement m = measure_job(job, backend, options_of_test());
  ASSERT_EQ(m.status, Status::kValid) << m.reason->message;
  const double seconds = m.measured["train_runtime"];
  EXPECT_DOUBLE_EQ(m.measured["train_samples_per_second"], 12 / seconds);
  EXPECT_EQ(m.extra["ranks"].size(), 2u);
  EXPECT_EQ(m.extra["ranks"][1]["samples"], 8);
  EXPECT_DOUBLE_EQ(m.extra["communication"]["sent_bytes_per_step"], 200);
  EXPECT_EQ(m.extra["sharding"], Json::parse(R"({
    "strategy": "FULL_SHARD", "ranks": 2, "nodes": 1, "gradient_sync": "last",
    "reduce_dtype": "float32", "parameter_bytes": 101, "gradient_bytes": 0,
    "optimizer_state_bytes": 0, "gathered_peak_bytes": 0})"));
  for (const char* member : {"ranks", "communication", "sharding"}) {
    EXPECT_FALSE(run_with("", job_of_steps(1)).extra.contains(member)) << "of one rank";
  }
}

TEST(MeasureJobTest, TimeStopsARunAfterItsStep) {
  TrainingJob job = job_of_steps(100000);
  job.batches.stop_after_seconds = 0.05;
  const Measurement m = run_with("", job);
  EXPECT_EQ(m.status, Status::kValid);
  EXPECT_GE(m.measured["train_runtime"], 0.05);
  EXPECT_FALSE(m.measured.contains("train_tokens_per_second"));
  EXPECT_LE(m.extra["loss"].size(), 25u);  // steps of 2 ms and more
}

struct Ending {
  const char* mode;
  Status status;
  const char* code;
  const char* evidence;
};

class MeasureJobEndingTest : public testing::TestWithParam<Ending> {};

TEST_P(MeasureJobEndingTest, HasItsOutcomeCodeAndEvidence) {
  const Measurement m = run_with(GetParam().mode, job_of_steps(3));
  EXPECT_EQ(m.status, GetParam().status);
  ASSERT_TRUE(m.reason.has_value());
  EXPECT_EQ(to_string(m.reason->code), GetParam().code);
  EXPECT_EQ(m.reason->evidence, GetParam().evidence);
  EXPECT_EQ(m.reason->log, "run.log");
  const Json invalid = {{"is_valid", 0}};
  EXPECT_EQ(m.measured, m.status == Status::kInvalid ? invalid : Json(Json::object()));
  EXPECT_EQ(m.extra, Json::object());
  EXPECT_EQ(m.environment["libtorch"], "0.0-fake");
}

INSTANTIATE_TEST_SUITE_P(
    Modes, MeasureJobEndingTest,
    testing::Values(Ending{"cuda-oom", Status::kInvalid, "OOM_GPU",
                           "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 is full."},
                    Ending{"illegal-access", Status::kInvalid, "OOM_GPU",
                           "CUDA error: an illegal memory access was encountered"},
                    Ending{"nccl", Status::kFailed, "NCCL", "NCCL Error 2: unhandled system error"},
                    Ending{"bad-alloc", Status::kFailed, "OOM_HOST", "std::bad_alloc"},
                    Ending{"internal", Status::kFailed, "INTERNAL", "shapes do not match"},
                    Ending{"not-an-exception", Status::kFailed, "INTERNAL", ""},
                    Ending{"no-steps", Status::kFailed, "INTERNAL", ""}),
    [](const auto& test) {
      std::string name = test.param.mode;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(MeasureJobTest, AnEngineThatCannotBeLoadedIsAFailedMeasurement) {
  class WithoutEngine : public BackendOfTest {
   public:
    using BackendOfTest::BackendOfTest;
    Engine& engine() override { throw RunError(ReasonCode::kUnsupported, "there is no engine"); }
  };
  FakeEngine unused;
  WithoutEngine backend(unused);
  const Measurement m = measure_job(job_of_steps(1), backend, options_of_test());
  EXPECT_EQ(m.status, Status::kFailed);
  EXPECT_EQ(m.reason->code, ReasonCode::kUnsupported);
  EXPECT_EQ(m.reason->message, "there is no engine");
  EXPECT_TRUE(m.environment["libtorch"].is_null());
}

TEST(MeasureJobTest, AnInterruptedRunHasNoOutcome) {
  MeasureOptions options;
  options.interrupted = [] { return true; };
  setenv("FAKE_ENGINE", "slow", 1);
  FakeEngine engine;
  BackendOfTest backend(engine);
  EXPECT_THROW(measure_job(job_of_steps(3), backend, options), RunInterrupted);
  unsetenv("FAKE_ENGINE");
}

TEST(MeasureJobTest, ThePeakIsAskedForTheDtypeThatGemmsRanIn) {
  FakeEngine engine;
  BackendOfTest backend(engine);
  backend.known_peak = {1e12, {}};
  TrainingJob job = job_of_steps(2);
  job.precision.torch_dtype = ParameterDtype::kFloat32;
  const Measurement m = measure_job(job, backend, options_of_test());
  EXPECT_EQ(backend.asked_peak, "float32");
  EXPECT_DOUBLE_EQ(m.extra["mfu"]["peak_flops_per_device"], 1e12);
  EXPECT_GT(m.extra["mfu"]["value"], 0);
}

TEST(EnvironmentTest, WhatNoEngineSaidIsNull) {
  const Json environment = environment_json({}, Json::object(), nullptr);
  for (const char* key :
       {"libtorch", "blas", "onednn", "products", "cuda", "nccl", "driver", "threads"}) {
    EXPECT_TRUE(environment.at(key).is_null()) << key;
  }
  EXPECT_GE(environment["cores"], 1);
  EXPECT_FALSE(environment.contains("aim_dashboard_url"));
}

TEST(EnvironmentTest, TheDashboardOfTheActuatorIsRepeated) {
  TrainingJob job;
  job.dashboard_url = "http://aim.example.com";
  EXPECT_EQ(environment_json(job, Json::object(), nullptr)["aim_dashboard_url"],
            "http://aim.example.com");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
