// The loss on held-out entries: against Trainer.evaluate() (tests/reference/evaluation.py), on
// several ranks, and without a trace in training.
#include "engine/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/saving_fixture.h"
#include "parallel/rank_processes.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kHeldOut = SFTBENCH_TEST_DATA "/evaluation/dataset.jsonl";

std::vector<int64_t> steps_of(const std::vector<EvaluationEvent>& evaluations) {
  std::vector<int64_t> steps;
  for (const EvaluationEvent& event : evaluations) steps.push_back(event.step);
  return steps;
}

// --- against Hugging Face ------------------------------------------------------------------------

class GoldenEvaluation : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenEvaluation, GivesTheLossesOfTrainer) {
  const std::string name = GetParam();
  const Json golden = read_json_file(SFTBENCH_TEST_DATA "/evaluation/" + name + ".json");
  const Json run_alone = golden_run(golden["case"]);
  TrainingJob job = job_of(run_alone);
  job.evaluation = {.path = kHeldOut,
                    .strategy = named<IntervalStrategy>(golden["strategy"].get<std::string>()),
                    .steps = golden["steps"],
                    .per_device_batch_size = golden["batch"]};
  const Recorder run = train(job);
  const Json& expected = golden["evaluations"];
  ASSERT_EQ(run.evaluations.size(), expected.size());
  // Under autocast Trainer's layers round elsewhere; its training losses are as far from ours.
  const double tolerance = name == "llama-autocast_bf16" ? 1e-2 : 1e-4;
  for (size_t i = 0; i < expected.size(); ++i) {
    const EvaluationEvent& event = run.evaluations[i];
    EXPECT_EQ(event.step, expected[i]["step"]);
    EXPECT_DOUBLE_EQ(event.epoch, expected[i]["epoch"]);
    EXPECT_EQ(event.entries, expected[i]["entries"]);
    EXPECT_EQ(event.tokens, expected[i]["tokens"]);
    EXPECT_NEAR(event.loss, expected[i]["loss"], tolerance) << "after step " << event.step;
    EXPECT_NEAR(event.token_loss, expected[i]["token_loss"], tolerance);
    EXPECT_GT(event.seconds, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenEvaluation,
                         ::testing::Values("llama-steps", "llama-epoch", "llama-autocast_bf16",
                                           "mixtral-balanced", "granitemoehybrid-balanced",
                                           "gpt_oss"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// --- training is as without it -------------------------------------------------------------------

TrainingJob evaluated(TrainingJob job, int64_t steps = 1) {
  job.evaluation = {.path = kHeldOut, .strategy = IntervalStrategy::kSteps, .steps = steps};
  return job;
}

TrainingJob without_checkpoints(TrainingJob job) {
  job.save = SavePlan();
  return job;
}

void expect_same_training(const TrainingJob& job) {
  const SavedRun with = run_of(evaluated(job), alone());
  const SavedRun without = run_of(job, alone());
  EXPECT_EQ(with.evaluations.size(), with.losses.size());
  EXPECT_EQ(with.losses, without.losses);
  expect_same_bits(with.at_end, without.at_end);
}

TEST(Evaluation, ChangesNoBitOfTraining) {
  expect_same_training(without_checkpoints(saving_job("")));
  TrainingJob adapters = without_checkpoints(saving_job(""));
  adapters.tuning = TuningMethod::kLora;
  adapters.lora = {.rank = 3, .alpha = 16, .dropout = 0.5, .target_modules = {"q_proj", "v_proj"}};
  expect_same_training(adapters);
  TrainingJob mixture = without_checkpoints(saving_job("", "mixtral"));
  mixture.model.hf_config["output_router_logits"] = true;
  expect_same_training(mixture);
  TrainingJob recomputed = without_checkpoints(saving_job("", "granitemoehybrid"));
  recomputed.activations.gradient_checkpointing = true;
  expect_same_training(recomputed);
}

TEST(Evaluation, HasNoDropout) {
  TrainingJob job = without_checkpoints(saving_job(""));
  job.tuning = TuningMethod::kLora;
  job.lora = {.rank = 3, .alpha = 16, .dropout = 0.9, .target_modules = {"q_proj", "v_proj"}};
  job.optimizer.learning_rate = 0;
  const SavedRun run = run_of(evaluated(job), alone());
  for (const EvaluationEvent& event : run.evaluations) {
    EXPECT_EQ(event.loss, run.evaluations.front().loss);
  }
}

TEST(Evaluation, IsNoPartOfTheMeasuredTime) {
  const Recorder run = train(evaluated(without_checkpoints(saving_job(""))));
  ASSERT_EQ(run.evaluations.size(), run.steps.size());
  EXPECT_EQ(run.steps[0].pause_s, 0);
  for (size_t i = 1; i < run.steps.size(); ++i) {
    EXPECT_GE(run.steps[i].pause_s, run.evaluations[i - 1].seconds);
    EXPECT_LE(run.steps[i].pause_s, run.steps[i].begin_s - run.steps[i - 1].end_s);
  }
}

TEST(Evaluation, CountsNoChoiceOfExperts) {
  TrainingJob job = without_checkpoints(saving_job("", "mixtral"));
  const TrainEnd with = run_of(evaluated(job), alone()).end;
  const TrainEnd without = run_of(job, alone()).end;
  EXPECT_EQ(with.experts.tokens_by_layer, without.experts.tokens_by_layer);
}

// --- when ----------------------------------------------------------------------------------------

TEST(Evaluation, ComesAfterEverySoManyStepsAndAtTheEnd) {
  const TrainingJob job = without_checkpoints(saving_job(""));
  EXPECT_THAT(steps_of(run_of(evaluated(job, 3), alone()).evaluations), ElementsAre(3, 4));
  EXPECT_THAT(steps_of(run_of(evaluated(job, 2), alone()).evaluations), ElementsAre(2, 4));
  TrainingJob never = evaluated(job);
  never.evaluation.strategy = IntervalStrategy::kNo;
  EXPECT_THAT(steps_of(run_of(never, alone()).evaluations), ElementsAre());
}

TEST(Evaluation, EveryRankHasAsManyBatches) {
  const std::vector<int64_t> entries = {5, 6, 7, 8, 9};
  const auto batches = [&](int64_t rank) { return evaluation_batches(entries, 2, 2, rank); };
  ASSERT_EQ(batches(0).size(), 2U);
  ASSERT_EQ(batches(1).size(), 2U);
  EXPECT_THAT(batches(0)[0].entries, ElementsAre(5, 6));
  EXPECT_THAT(batches(1)[0].entries, ElementsAre(7, 8));
  EXPECT_THAT(batches(0)[1].entries, ElementsAre(9));
  EXPECT_TRUE(batches(0)[1].counts);
  EXPECT_FALSE(batches(1)[1].counts) << "there is no fourth";
}

// --- several ranks -------------------------------------------------------------------------------

std::vector<int64_t> sent_bytes(const TrainEnd& end) {
  std::vector<int64_t> bytes;
  for (const CollectiveReport& report : end.ranks.front().collectives) {
    if (report.operation != "barrier") bytes.push_back(report.sent_bytes);
  }
  return bytes;
}

void expect_ranks_equal_one(TrainingJob job) {
  run_ranks({.ranks = static_cast<int>(job.device.ranks)}, [&](RankGroup& group) {
    TrainingJob one = job;
    one.batches.per_device_batch_size = 6;
    one.evaluation.per_device_batch_size = job.batches.per_device_batch_size;
    one.device.ranks = 1;
    one.parallel.expert_ranks = 1;
    const SavedRun several = run_of(job, group);
    const std::vector<EvaluationEvent> expected = run_of(one, alone()).evaluations;
    ASSERT_EQ(several.evaluations.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(several.evaluations[i].entries, expected[i].entries);
      EXPECT_EQ(several.evaluations[i].tokens, expected[i].tokens);
      EXPECT_NEAR(several.evaluations[i].loss, expected[i].loss, 1e-5);
      EXPECT_NEAR(several.evaluations[i].token_loss, expected[i].token_loss, 1e-5);
    }
    job.evaluation = EvaluationPlan();
    EXPECT_EQ(sent_bytes(several.end), sent_bytes(run_of(job, group).end))
        << "what an evaluation sends is no part of the steps";
  });
}

TEST(Evaluation, IsTheSameOnSeveralRanks) {
  for (const char* strategy : {"DDP", "FULL_SHARD", "SHARD_GRAD_OP", "SHARD_OPTIM"}) {
    for (const int ranks : {2, 3}) {
      SCOPED_TRACE(strategy + std::string(" on ") + std::to_string(ranks));
      expect_ranks_equal_one(
          on_ranks(evaluated(without_checkpoints(saving_job("")), 2), ranks, strategy));
    }
  }
}

TEST(Evaluation, IsTheSameWithExpertsOnSeveralRanks) {
  TrainingJob job =
      on_ranks(evaluated(without_checkpoints(saving_job("", "mixtral")), 2), 2, "FULL_SHARD");
  job.parallel.expert_ranks = 2;
  expect_ranks_equal_one(job);
}

// --- a share of the training data ----------------------------------------------------------------

TEST(Evaluation, AShareOfTheDataIsNotTrainedOn) {
  TrainingJob job = without_checkpoints(saving_job(""));
  job.batches = BatchPlan();  // one epoch
  job.batches.per_device_batch_size = 4;
  job.evaluation.split = 0.25;
  job.evaluation.strategy = IntervalStrategy::kEpoch;
  for (const Padding padding : {Padding::kLongest, Padding::kNone, Padding::kPacked}) {
    job.data.padding = padding;
    const Recorder run = train(job);
    int64_t trained = 0;
    for (const StepEvent& step : run.steps) trained += step.samples;
    EXPECT_EQ(trained, 19) << "of 26";
    ASSERT_EQ(run.evaluations.size(), 1U);
    EXPECT_EQ(run.evaluations[0].entries, 7);
  }
}

// --- the best model ------------------------------------------------------------------------------

// Steps so large that the loss rises from the second on.
TrainingJob rising(const TemporaryFolder& folder) {
  TrainingJob job = evaluated(saving_job(folder / "checkpoints"));
  job.save.steps = 1;
  job.save.model_directory = folder / "model";
  job.save.best_model = true;
  job.optimizer.learning_rate = 0.3;
  job.optimizer.warmup_ratio = 0;
  job.optimizer.schedule = "constant";
  return job;
}

void expect_best_kept(const TrainingJob& job, const SavedRun& run) {
  int64_t best = 0;
  for (size_t i = 0; i < run.evaluations.size(); ++i) {
    if (run.evaluations[i].loss < run.evaluations[static_cast<size_t>(best)].loss) {
      best = static_cast<int64_t>(i);
    }
  }
  const int64_t step = run.evaluations[static_cast<size_t>(best)].step;
  ASSERT_LT(step, run.evaluations.back().step) << "the test needs a loss that rises";
  EXPECT_EQ(run.end.best_step, step);
  EXPECT_EQ(run.end.best_loss, run.evaluations[static_cast<size_t>(best)].loss);
  EXPECT_EQ(run.end.saved.back().step, step);
  const std::string checkpoint =
      job.save.checkpoint_directory + "/checkpoint-" + std::to_string(step);
  EXPECT_TRUE(read_file(checkpoint + "/model.safetensors") ==
              read_file(job.save.model_directory + "/model.safetensors"));
}

TEST(Evaluation, TheBestModelIsKept) {
  const TemporaryFolder folder;
  const TrainingJob job = rising(folder);
  expect_best_kept(job, run_of(job, alone()));
}

TEST(Evaluation, TheBestModelIsKeptOnSeveralRanksAndItsCheckpointStays) {
  const TemporaryFolder folder;
  TrainingJob job = on_ranks(rising(folder), 2, "FULL_SHARD");
  job.save.total_limit = 1;
  run_ranks({.ranks = 2}, [&](RankGroup& group) {
    const SavedRun run = run_of(job, group);
    if (group.rank() != 0) return;
    expect_best_kept(job, run);
    EXPECT_EQ(names_in(job.save.checkpoint_directory).size(), 2U) << "the best and the last";
  });
}

TEST(Evaluation, AResumedRunKnowsTheBestOfBefore) {
  const TemporaryFolder folder;
  TrainingJob job = rising(folder);
  const SavedRun whole = run_of(job, alone());
  const int64_t best = whole.end.best_step;
  fs::remove_all(job.save.model_directory);
  job.save.resume_from = job.save.checkpoint_directory + "/checkpoint-3";
  ASSERT_LE(best, 3);
  const SavedRun rest = run_of(job, alone());
  EXPECT_EQ(rest.end.best_step, best);
  EXPECT_EQ(rest.end.best_loss, whole.end.best_loss);
  EXPECT_EQ(rest.end.saved.back().step, best);
}

TEST(Evaluation, AResumedRunForgetsTheBestOfOtherData) {
  const TemporaryFolder folder;
  TrainingJob job = rising(folder);
  const SavedRun whole = run_of(job, alone());
  fs::remove_all(job.save.model_directory);
  job.save.resume_from = job.save.checkpoint_directory + "/checkpoint-3";
  ASSERT_LE(whole.end.best_step, 3);
  const TrainingJob same = job;
  const std::string data = read_file(job.evaluation.path);
  write_file_atomic(folder / "other.jsonl", data.substr(0, data.find('\n') + 1));
  job.evaluation.path = folder / "other.jsonl";
  const SavedRun rest = run_of(job, alone());
  EXPECT_EQ(rest.end.best_step, 4) << "the only one of these data";
  EXPECT_EQ(rest.end.best_loss, rest.evaluations.back().loss);
  EXPECT_THAT(rest.begin.warnings,
              ::testing::Contains(HasSubstr("is one of other evaluation data: the comparison "
                                            "starts anew from step 3")));
  TrainingJob moved = same;
  write_file_atomic(folder / "moved.jsonl", data);
  moved.evaluation.path = folder / "moved.jsonl";
  fs::remove_all(job.save.model_directory);
  EXPECT_EQ(run_of(moved, alone()).end.best_step, whole.end.best_step) << "the same content";
}

// --- bad input -----------------------------------------------------------------------------------

TEST(Evaluation, WithoutAnyLossEndsBeforeTraining) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "none.jsonl", "{\"output\": \"no response here\"}\n");
  TrainingJob job = evaluated(without_checkpoints(saving_job("")));
  job.evaluation.path = folder / "none.jsonl";
  EXPECT_THAT(problem_of(job, ReasonCode::kData), HasSubstr("none.jsonl: none of the 1 entry"));
  job.evaluation.path.clear();
  job.evaluation.split = 0.99;
  EXPECT_THAT(problem_of(job, ReasonCode::kData),
              HasSubstr("26 entries, of which eval_split leaves none to train on"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
