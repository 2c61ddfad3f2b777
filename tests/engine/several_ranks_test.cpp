// Training on several ranks over Gloo: the golden runs of Trainer under DDP and FSDP2
// (tests/reference/distributed.py), and one rank's run against that of several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "engine/peft_adapter.h"
#include "engine/prepare_parallel.h"
#include "engine/train_steps.h"
#include "engine/training_fixture.h"
#include "parallel/rank_processes.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;

std::string folder() {
  return std::string(SFTBENCH_TEST_DATA) + "/distributed";
}

std::string initial_adapter(const Json& golden) {
  return std::string(SFTBENCH_TEST_DATA) + "/adapters/" + golden["adapter"].get<std::string>() +
         "/initial";
}

TrainingJob job_of_ranks(const Json& golden) {
  TrainingJob job = job_of(golden);
  job.batches.max_steps = golden["settings"]["max_steps"];
  job.device.ranks = golden["ranks"];
  job.device.nodes = golden["nodes"];
  job.device.threads = 1;
  job.parallel.strategy = golden["strategy"].get<Strategy>();
  job.parallel.reduce_dtype = golden["reduce_dtype"];
  job.activations.gradient_checkpointing = golden["gradient_checkpointing"];
  if (golden["adapter"] == "") return job;
  const Json config = read_json_file(initial_adapter(golden) + "/adapter_config.json");
  job.tuning = TuningMethod::kLora;
  job.lora = {config["r"], config["lora_alpha"], config["lora_dropout"], config["target_modules"]};
  return job;
}

struct Tolerance {
  double loss, norm;  // relative
};

Tolerance tolerance_of(const Json& golden) {
  // float32: the order of sums. bfloat16 keeps 8 bits: a unit in the last place of the parameters
  // is 0.4 %.
  if (golden["torch_dtype"] == "float32" && golden["autocast"] == "no") return {1e-5, 1e-4};
  return {4e-3, 2e-2};
}

void train_as_rank(const TrainingJob& job, RankGroup& group, const Json& golden) {
  Recorder recorder;
  TrainingRun run = prepare_run(job, group);
  if (golden["adapter"] != "") load_adapter(initial_adapter(golden), run, group);
  train_steps(run, group, {&recorder}, [] { return false; });
  const Json& steps = golden["steps"];
  const Tolerance tolerance = tolerance_of(golden);
  ASSERT_EQ(recorder.steps.size(), steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepEvent& step = recorder.steps[i];
    const double loss = steps[i]["loss"];
    EXPECT_NEAR(step.loss, loss, tolerance.loss * loss) << "step " << i + 1;
    EXPECT_NEAR(step.learning_rate, steps[i]["learning_rate"].get<double>(), 1e-12);
    // Not finite, and nobody has made this update: the loss was scaled too high for float16.
    EXPECT_EQ(step.update_skipped, steps[i]["grad_norm"].is_null()) << "step " << i + 1;
    if (step.update_skipped) continue;
    const double norm = steps[i]["grad_norm"];
    EXPECT_NEAR(step.grad_norm, norm, tolerance.norm * norm) << "step " << i + 1;
  }
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (entry.path().stem() != "order") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class GoldenRanks : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenRanks, TrainAsHuggingFaceOnAsManyRanks) {
  const Json golden = read_json_file(folder() + "/" + GetParam() + ".json");
  const TrainingJob job = job_of_ranks(golden);
  run_ranks({.ranks = golden["ranks"].get<int>(), .nodes = golden["nodes"].get<int>()},
            [&](RankGroup& group) { train_as_rank(job, group, golden); });
}

INSTANTIATE_TEST_SUITE_P(All, GoldenRanks, ::testing::ValuesIn(golden_names()),
                         [](const ::testing::TestParamInfo<std::string>& golden) {
                           std::string name = golden.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// --- choices that go together only on one rank, or not at all ------------------------------------

std::string refusal(const TrainingJob& job, RankGroup& group) {
  try {
    make_engine()->train_job(job, group, {}, [] { return false; });
    return "trained";
  } catch (const RunError& error) {
    return error.what();
  }
}

void expect_refused(const std::function<void(TrainingJob&)>& change, const std::string& message) {
  TrainingJob job = job_of_ranks(read_json_file(folder() + "/llama-FULL_SHARD-2.json"));
  change(job);
  run_ranks({.ranks = 2}, [&](RankGroup& group) {
    EXPECT_THAT(refusal(job, group), ::testing::HasSubstr(message));
  });
}

TEST(SeveralRanks, WhatCannotBeDoneIsSaidWithWhatCan) {
  expect_refused([](TrainingJob& job) { job.parallel.reduce_dtype = "float64"; },
                 "reduce_dtype 'float64' is not implemented; there are float32, bfloat16");
  expect_refused([](TrainingJob& job) { job.optimizer.kind = OptimizerKind::kLomo; },
                 "updates in the backward, before gradients of several ranks are summed");
  expect_refused(
      [](TrainingJob& job) {
        job.precision = {ParameterDtype::kFloat16, Autocast::kFp16};
      },
      "mixed precision fp16 scales the loss, and float16 gradients cannot be unscaled");
  expect_refused([](TrainingJob& job) { job.device.ranks = 3; },
                 "the job is for 3 ranks, and this is a group of 2");
}

TEST(SeveralRanks, NotesSayWhatAChoiceChangesThere) {
  TrainingJob job = job_of_ranks(read_json_file(folder() + "/llama-FULL_SHARD-2.json"));
  job.batches.max_steps = 1;
  job.optimizer.kind = OptimizerKind::kAdafactor;
  run_ranks({.ranks = 2}, [&](RankGroup& group) {
    Recorder recorder;
    make_engine()->train_job(job, group, {&recorder}, [] { return false; });
    EXPECT_THAT(recorder.begin.warnings,
                ::testing::Contains(::testing::HasSubstr("nothing of it is factored")));
    job.parallel.strategy = Strategy::kDdp;
    job.parallel.gradient_sync = GradientSync::kEach;
    Recorder replicated;
    make_engine()->train_job(job, group, {&replicated}, [] { return false; });
    EXPECT_THAT(replicated.begin.warnings,
                ::testing::ElementsAre(::testing::HasSubstr("each has no effect under DDP")));
  });
}

TEST(SeveralRanks, NotesSayWhatDividedExpertsChange) {
  TrainingJob job;
  job.parallel.strategy = Strategy::kDdp;
  job.parallel.expert_ranks = 2;
  EXPECT_THAT(notes_on_ranks(job), ::testing::IsEmpty());
  job.optimizer.kind = OptimizerKind::kAdafactor;
  EXPECT_THAT(notes_on_ranks(job),
              ::testing::ElementsAre("optim adafactor with fast_moe 2: a tensor of several experts "
                                     "is clipped by the size of a rank's part of it"));
  job.optimizer.kind = OptimizerKind::kGrokadamw;
  EXPECT_THAT(notes_on_ranks(job),
              ::testing::ElementsAre(::testing::HasSubstr("counts its experts behind all other")));
  job.parallel.strategy = Strategy::kFullShard;
  EXPECT_THAT(notes_on_ranks(job), ::testing::SizeIs(2));
  job.parallel.expert_ranks = 1;
  EXPECT_THAT(notes_on_ranks(job), ::testing::SizeIs(1));
}

// --- the timeline --------------------------------------------------------------------------------

std::vector<std::string> names_on(const Json& trace, int rank, const std::string& prefix) {
  std::vector<std::string> names;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["pid"] != rank) continue;
    EXPECT_GE(event["ts"].get<double>(), 0);
    EXPECT_GE(event["dur"].get<double>(), 0);
    const std::string name = event["name"];
    if (name.rfind(prefix, 0) == 0) names.push_back(name);
  }
  return names;
}

TEST(SeveralRanks, ATraceShowsWhatEachComputedAndSent) {
  TrainingJob job = job_of_ranks(read_json_file(folder() + "/llama-FULL_SHARD-2.json"));
  job.batches.max_steps = 1;
  job.batches.gradient_accumulation_steps = 1;
  job.trace_path = ::testing::TempDir() + "several_ranks_trace.json";
  fs::remove(job.trace_path);
  run_ranks({.ranks = 2}, [&](RankGroup& group) {
    make_engine()->train_job(job, group, {}, [] { return false; });
  });
  const Json trace = read_json_file(job.trace_path);
  const int64_t layers = job.model.hf_config["num_hidden_layers"];
  for (const int rank : {0, 1}) {
    EXPECT_EQ(names_on(trace, rank, "forward layer").size(), static_cast<size_t>(layers));
    EXPECT_THAT(names_on(trace, rank, "backward layer"),
                ::testing::ElementsAre("backward layer 2", "backward layer 1", "backward layer 0"));
    EXPECT_THAT(names_on(trace, rank, "optimizer"), ::testing::SizeIs(1));
    // Of every layer twice, and of the root unit.
    EXPECT_EQ(names_on(trace, rank, "all_gather").size(), static_cast<size_t>(2 * layers + 1));
    EXPECT_EQ(names_on(trace, rank, "reduce_scatter").size(), static_cast<size_t>(layers + 1));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
