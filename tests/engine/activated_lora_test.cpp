// Activated LoRA: adapters that act from the last invocation of an entry on. Trainer over peft is
// followed in adapter_training_test.cpp; here is what must come out the same, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/peft_adapter.h"
#include "engine/ranks_fixture.h"
#include "engine/saving_fixture.h"
#include "sftbench/base/error.h"
#include "sftbench/checkpoint/saved_folder.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kOfSome = " stone";         // several times in some entries, never in others
constexpr const char* kOfMost = "### Response:";  // in all but one
constexpr const char* kOfNone = " zebra";

TrainingJob activated(TrainingJob job, const std::string& invocation) {
  job.tuning = TuningMethod::kLora;
  job.lora.invocation_string = invocation;
  return job;
}

// From adapters that are no zeros, so that the first step shows them.
SavedRun from_peft(const TrainingJob& job) {
  TrainingRun run = prepare_run(job, alone());
  load_adapter(adapter_folder("llama-lora_qv") + "/initial", run, alone());
  SavedRun saved;
  saved.at_begin = values_of(run);
  Recorder recorder;
  train_steps(run, alone(), {&recorder}, [] { return false; });
  saved.losses = recorder.losses();
  saved.at_end = values_of(run);
  saved.begin = recorder.begin;
  for (const StepEvent& step : recorder.steps) EXPECT_TRUE(std::isfinite(step.grad_norm));
  return saved;
}

TrainingJob peft_job(const std::string& invocation) {
  return activated(adapter_job("llama-lora_qv"), invocation);
}

// BOS, with which each entry begins: adapters act everywhere.
TEST(ActivatedLora, FromTheStartOnIsLora) {
  const SavedRun lora = from_peft(adapter_job("llama-lora_qv")), all = from_peft(peft_job("<s>"));
  EXPECT_EQ(all.losses, lora.losses);
  expect_same_bits(all.at_end, lora.at_end);
  EXPECT_THAT(all.begin.warnings, Not(Contains(HasSubstr("alora"))));
}

// EOS, with which entries end: what acts on the last token is asked for nothing.
TEST(ActivatedLora, FromTheEndOnTrainsNothing) {
  for (const char* invocation : {"</s>", kOfNone}) {
    SCOPED_TRACE(invocation);
    TrainingJob job = peft_job(invocation);
    const SavedRun run = from_peft(job);
    expect_same_bits(run.at_end, run.at_begin);
    // B starts at zero: the base model.
    job.optimizer.learning_rate = 0;
    job.lora.invocation_string.clear();
    EXPECT_EQ(run.losses, run_of(job, alone()).losses);
  }
}

TEST(ActivatedLora, SaysOnWhichEntriesAdaptersDoNotAct) {
  const auto warnings = [](const std::string& invocation) {
    return from_peft(peft_job(invocation)).begin.warnings;
  };
  EXPECT_THAT(warnings(kOfMost),
              Contains("1 entry lacks the tokens of alora_invocation_string within "
                       "model_max_length: adapters do not act there"));
  EXPECT_THAT(warnings(kOfNone),
              Contains("no entry has the tokens of alora_invocation_string within "
                       "model_max_length: adapters act nowhere and stay as they are"));
}

// Each entry of a row without padding has an invocation of its own.
TEST(ActivatedLora, EntriesInOneRowTrainAsEntriesInRowsOfTheirOwn) {
  for (const char* invocation : {kOfSome, kOfMost}) {
    TrainingJob job = peft_job(invocation);
    const std::vector<double> padded = from_peft(job).losses;
    job.data.padding = Padding::kNone;
    const std::vector<double> one_row = from_peft(job).losses;
    ASSERT_EQ(one_row.size(), padded.size());
    for (size_t i = 0; i < padded.size(); ++i) EXPECT_NEAR(one_row[i], padded[i], 1e-4);
  }
}

TEST(ActivatedLora, IsRecomputedAsItWas) {
  TrainingJob job = peft_job(kOfSome);
  job.lora.dropout = 0.2;
  job.activations.gradient_checkpointing = false;
  const SavedRun kept = from_peft(job);
  for (const bool reentrant : {false, true}) {
    job.activations = {.gradient_checkpointing = true, .use_reentrant = reentrant};
    const SavedRun recomputed = from_peft(job);
    EXPECT_EQ(recomputed.losses, kept.losses);
    expect_same_bits(recomputed.at_end, kept.at_end);
  }
}

TrainingJob ranks_job(const RanksCase& c, const std::string& invocation) {
  TrainingJob job = activated(job_of(c), invocation);
  job.lora.target_modules = {"all-linear"};
  job.optimizer.learning_rate = 0.05;  // B starts at zero
  return job;
}

TEST(ActivatedLora, MlpTilesTrainAsWholeMlpsDo) {
  for (const char* padding : {"longest", "none"}) {
    for (const bool checkpointing : {false, true}) {
      TrainingJob job = ranks_job(
          {.ranks = 1, .checkpointing = checkpointing, .padding = padding, .batch = 3}, kOfMost);
      const Outcome whole = train_to_the_end(job, alone());
      job.activations.mlp_tiles = 4;
      expect_equal(train_to_the_end(job, alone()), whole);
    }
  }
}

void expect_ranks_train_as_one(const RanksCase& c) {
  SCOPED_TRACE(name_of(c));
  const TrainingJob job = ranks_job(c, kOfMost);
  run_ranks({.ranks = c.ranks}, [&](RankGroup& group) {
    const Outcome several = train_to_the_end(job, group);
    expect_equal(several, train_to_the_end(on_one_rank(job), alone()));
    TrainingJob everywhere = on_one_rank(job);
    everywhere.lora.invocation_string.clear();
    EXPECT_NE(train_to_the_end(everywhere, alone()).losses.back(), several.losses.back());
  });
}

TEST(RanksAndActivatedLora, TrainAsOneRank) {
  for (const char* strategy : {"DDP", "FULL_SHARD"}) {
    expect_ranks_train_as_one({.strategy = strategy, .ranks = 2, .accumulation = 2, .batch = 2});
  }
  expect_ranks_train_as_one({.ranks = 2, .checkpointing = true, .padding = "none", .batch = 3});
}

TEST(RanksAndActivatedLora, RowsAndExpertsThatRanksDivideTrainAsOneRank) {
  for (const char* padding : {"longest", "none"}) {
    expect_ranks_train_as_one(
        {.ranks = 2, .checkpointing = true, .padding = padding, .context_ranks = 2, .batch = 3});
  }
  expect_ranks_train_as_one({.model = "granitemoehybrid-balanced",
                             .ranks = 2,
                             .expert_ranks = 2,
                             .context_ranks = 2,
                             .batch = 2});
}

TEST(ActivatedLora, IsEvaluatedAsItIsTrained) {
  TrainingJob job = peft_job(kOfMost);
  job.optimizer.learning_rate = 0;
  job.evaluation.path = job.data.path;
  job.evaluation.strategy = IntervalStrategy::kEpoch;
  const auto evaluated = [](const TrainingJob& of) {
    TrainingRun run = prepare_run(of, alone());
    load_adapter(adapter_folder("llama-lora_qv") + "/initial", run, alone());
    Recorder recorder;
    train_steps(run, alone(), {&recorder}, [] { return false; });
    return recorder.evaluations.at(0).token_loss;
  };
  const double some = evaluated(job);
  job.evaluation.per_device_batch_size = 1;
  EXPECT_NEAR(evaluated(job), some, 1e-5);
  job.lora.invocation_string = "<s>";
  EXPECT_GT(std::abs(evaluated(job) - some), 1e-3);
}

// --- files ---------------------------------------------------------------------------------------

TEST(ActivatedLora, GoesOnFromItsCheckpointAndFromNoOther) {
  const TemporaryFolder folder;
  TrainingJob job = activated(saving_job(folder / "checkpoints"), kOfMost);
  job.lora.target_modules = {"q_proj", "up_proj"};
  const SavedRun straight = run_of(job, alone());
  const SavedRun again = run_of(resumed(job), alone());
  EXPECT_EQ(again.losses, std::vector<double>(straight.losses.begin() + 2, straight.losses.end()));
  expect_same_bits(again.at_end, straight.at_end);
  const Json config = read_json_file(folder / "checkpoints/checkpoint-2/adapter_config.json");
  EXPECT_THAT(config.at("alora_invocation_tokens"), Not(::testing::IsEmpty()));

  TrainingJob other = resumed(job);
  other.lora.invocation_string = kOfSome;
  EXPECT_THAT(problem_of(other, ReasonCode::kUnsupported),
              HasSubstr("alora_invocation_string was \"### Response:\", and is \" stone\""));
  other.lora.invocation_string.clear();
  EXPECT_THAT(problem_of(other, ReasonCode::kUnsupported),
              HasSubstr("alora_invocation_string was \"### Response:\", and is not known"));
}

// --- what cannot be done -------------------------------------------------------------------------

TEST(ActivatedLora, IsRefusedOverQuantizedWeightsAndOnImages) {
  TrainingJob job = peft_job(kOfMost);
  job.tuning = TuningMethod::kGptqLora;
  EXPECT_EQ(refusal_of(job),
            "UNSUPPORTED: lora.invocation_string: peft has no activated LoRA over quantized "
            "weights; tuning lora "
            "works");
  job.tuning = TuningMethod::kLora;
  job.data.image_field = "images";
  EXPECT_EQ(refusal_of(job),
            "UNSUPPORTED: lora.invocation_string: activated LoRA is trained on texts; tuning lora "
            "without it "
            "trains on images");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
