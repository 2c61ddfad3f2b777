// What ends a run without a result, and what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <fstream>

#include "engine/training_fixture.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;
using testing::StartsWith;

TrainingJob small_job() {
  return job_of(golden_run("llama-float32"));
}

void expect_error(
    const TrainingJob& job, ReasonCode code, const testing::Matcher<std::string>& text,
    const std::function<bool()>& interrupted = [] { return false; }) {
  try {
    make_engine()->train_job(job, *make_single_rank(), {}, interrupted);
    FAIL() << "no error";
  } catch (const RunError& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code));
    EXPECT_THAT(std::string(error.what()), text);
  }
}

TEST(EngineErrors, MoreThanOneRank) {
  TrainingJob job = small_job();
  job.device.ranks = 4;
  expect_error(job, ReasonCode::kUnsupported,
               "the job is for 4 ranks, and this is one process alone");
}

TEST(EngineErrors, GpuWhereThereIsNone) {
  TrainingJob job = small_job();
  job.device.kind = "cuda";
#if SFTBENCH_CUDA
  if (torch::cuda::is_available()) GTEST_SKIP() << "this machine has a GPU";
  expect_error(job, ReasonCode::kUnsupported, "a GPU is asked for, but CUDA finds none");
#else
  expect_error(job, ReasonCode::kUnsupported,
               "a GPU is asked for, but this build of sftbench is for CPUs; `bash "
               "experiments/setup.sh --cuda` builds the one for GPUs");
#endif
}

TEST(EngineErrors, UnknownNamesOfTheJob) {
  TrainingJob job = small_job();
  job.optimizer.schedule = "polynomal";
  expect_error(job, ReasonCode::kUnsupported,
               StartsWith("learning-rate schedule 'polynomal' is not implemented"));
  job = small_job();
  job.optimizer.kind = OptimizerKind::kAdamwTorchXla;
  expect_error(job, ReasonCode::kUnsupported,
               StartsWith("optim adamw_torch_xla needs an XLA device"));
  job = small_job();
  job.device.kind = "tpu";
  expect_error(job, ReasonCode::kUnsupported, StartsWith("device 'tpu' is not implemented"));
}

TEST(EngineErrors, Float8WhereThereIsNone) {
  TrainingJob job = small_job();
  job.precision.autocast = Autocast::kFp8;
  if (job.device.kind != "cpu") GTEST_SKIP() << "this test runs on a GPU";
  expect_error(job, ReasonCode::kUnsupported,
               testing::AllOf(StartsWith("mixed precision fp8: "),
                              HasSubstr("compute capability 8.9 or newer"),
                              testing::EndsWith("mixed precision bf16 works here")));
}

TEST(EngineErrors, LossScalingOfFloat16Gradients) {
  TrainingJob job = small_job();
  job.precision = {.torch_dtype = ParameterDtype::kFloat16, .autocast = Autocast::kFp16};
  expect_error(job, ReasonCode::kUnsupported,
               "mixed precision fp16 scales the loss, and float16 gradients cannot be unscaled: "
               "model.embed_tokens.weight is float16; torch_dtype float32 or bfloat16 works, or "
               "mixed precision no");
}

TEST(EngineErrors, InterruptionEndsTheRunWithoutEndEvent) {
  Recorder recorder;
  int asked = 0;
  try {
    make_engine()->train_job(small_job(), *make_single_rank(), {&recorder},
                             [&asked] { return ++asked > 4; });
    FAIL() << "no error";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kKilled);
    EXPECT_STREQ(error.what(), "interrupted in step 2");
  }
  EXPECT_EQ(recorder.steps.size(), 1u) << "two micro-batches and the step's end each ask once";
  EXPECT_TRUE(recorder.ends.empty());
}

TEST(EngineErrors, NothingBearsLoss) {
  TrainingJob job = small_job();
  job.data.response_template = "\n### Nowhere in the texts:";
  expect_error(job, ReasonCode::kData,
               testing::AllOf(StartsWith(job.data.path + ": none of the "),
                              HasSubstr(" entries that this run uses has a position that bears "
                                        "loss: the response template \"\\n### Nowhere in the "
                                        "texts:\" is in none of them")));
}

// Trainer goes on, too.
TEST(EngineErrors, AStepWithoutLossIsNone) {
  const std::filesystem::path data = std::filesystem::path(testing::TempDir()) / "no_loss.jsonl";
  std::ofstream(data) << "{\"output\": \"a b\"}\n{\"output\": \"a\\n### Response: b\"}\n"
                      << "{\"output\": \"c d\"}\n";
  TrainingJob job = small_job();
  job.data.path = data;
  job.batches.per_device_batch_size = 1;
  job.batches.gradient_accumulation_steps = 1;
  job.batches.max_steps = 3;
  const Recorder run = train(job);
  ASSERT_EQ(run.steps.size(), 3u);
  int without = 0;
  for (const StepEvent& step : run.steps) {
    if (step.tokens.loss_bearing > 0) {
      EXPECT_GT(step.loss, 0);
      continue;
    }
    ++without;
    EXPECT_EQ(step.loss, 0);
    EXPECT_EQ(step.grad_norm, 0);
  }
  EXPECT_EQ(without, 2);
}

TEST(EngineErrors, RowsOfOneTokenBearNoLoss) {
  TrainingJob job = small_job();
  job.data.model_max_length = 1;
  job.data.response_template.clear();
  expect_error(job, ReasonCode::kData,
               "model_max_length is 1, so no position bears loss: each is predicted from the one "
               "before it; expected at least 2");
}

TEST(EngineErrors, MissingDatasetNamesTheFile) {
  TrainingJob job = small_job();
  job.data.path = "/nonexistent/news.jsonl";
  expect_error(job, ReasonCode::kData, StartsWith("/nonexistent/news.jsonl: cannot open"));
}

TEST(EngineEnvironment, NamesTheLibrariesInUse) {
  const Json environment = make_engine()->environment();
  EXPECT_THAT(environment["libtorch"].get<std::string>(),
              testing::MatchesRegex("[0-9]+\\.[0-9]+.*"));
  EXPECT_GT(environment["threads"].get<int>(), 0);
  EXPECT_TRUE(environment["blas"].is_string());
  EXPECT_TRUE(environment["gpus"].is_array());
  for (const char* key : {"onednn", "cuda", "nccl", "driver"})
    EXPECT_TRUE(environment.contains(key));
  EXPECT_EQ(environment["products"]["float16"], "sftbench");
  EXPECT_THAT(environment["products"]["float32"].get<std::string>(),
              testing::MatchesRegex("sftbench|libtorch|oneDNN [0-9]+\\.[0-9]+\\.[0-9]+"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
