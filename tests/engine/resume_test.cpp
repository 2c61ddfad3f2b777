// Resuming in one process: a run that is resumed goes on in the same bits as one that never
// stopped, and what does not fit is said.
#include "engine/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "engine/saving_fixture.h"
#include "parallel/rank_processes.h"
#include "sftbench/base/file.h"
#include "sftbench/base/torch.h"
#include "sftbench/checkpoint/saved_folder.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// --- going on ------------------------------------------------------------------------------------

void expect_goes_on(const std::function<void(TrainingJob&)>& change) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  change(job);
  const SavedRun straight = run_of(job, alone());
  const SavedRun again = run_of(resumed(job), alone());
  EXPECT_EQ(again.begin.resumed_step, 2);
  EXPECT_EQ(again.end.steps, 2);
  EXPECT_EQ(again.losses, std::vector<double>(straight.losses.begin() + 2, straight.losses.end()));
  expect_same_bits(again.at_end, straight.at_end);
}

TEST(Resuming, GoesOnInTheSameBitsWithOptimizersOfEveryKind) {
  for (const char* optimizer :
       {"adamw_torch", "adamw_bnb_8bit", "adamw_torch_4bit", "adafactor", "adalomo",
        "galore_adamw_8bit", "galore_adafactor_layerwise", "lomo", "schedule_free_adamw", "sgd"}) {
    SCOPED_TRACE(optimizer);
    expect_goes_on([&](TrainingJob& job) {
      job.optimizer.kind = named<OptimizerKind>(optimizer);
      // Large enough for states of 8 and of 4 bits.
      job.model.weights_directory.clear();
      job.model.hf_config["intermediate_size"] = 160;
    });
  }
}

TEST(Resuming, GoesOnWithTheDropoutOfAdaptersWhereItWas) {
  struct Case {
    const char *name, *tuning;
    void (*change)(LoraPlan& lora);
  };
  const Case cases[] = {
      {"lora", "lora", [](LoraPlan&) {}},
      {"dora", "lora", [](LoraPlan& lora) { lora.use_dora = true; }},
      {"whole", "lora",
       [](LoraPlan& lora) {
         lora.modules_to_save = {"embed_tokens", "lm_head"};
       }},
      {"tokens", "lora",
       [](LoraPlan& lora) {
         lora.target_modules = {"embed_tokens", "lm_head", "q_proj"};
       }},
      {"patterns", "lora",
       [](LoraPlan& lora) {
         lora.rank_pattern = {{"q_proj", 2}};
         lora.alpha_pattern = {{"up_proj", 5}};
       }},
      {"pt", "pt", [](LoraPlan&) {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    expect_goes_on([&](TrainingJob& job) {
      job.tuning = named<TuningMethod>(c.tuning);
      job.lora = {.rank = 4, .alpha = 16, .dropout = 0.3, .target_modules = {"q_proj", "up_proj"}};
      c.change(job.lora);
      job.prompt = {.virtual_tokens = 3, .init = "TEXT", .init_text = "Classify"};
      job.batches.per_device_batch_size = 2;
      job.batches.gradient_accumulation_steps = 3;
    });
  }
}

TEST(Resuming, GoesOnInEveryPrecision) {
  expect_goes_on([](TrainingJob& job) { job.precision.torch_dtype = ParameterDtype::kBfloat16; });
  expect_goes_on([](TrainingJob& job) { job.precision.autocast = Autocast::kBf16; });
  // Its loss scale is too large for the first steps' gradients, and their updates are skipped.
  expect_goes_on([](TrainingJob& job) { job.precision.autocast = Autocast::kFp16; });
}

TEST(Resuming, GoesOnWhenOneRankIsDistributed) {
  if (!ranks_can_connect()) GTEST_SKIP() << "this build has no Gloo";
  for (const char* form : {"FULL_STATE_DICT", "SHARDED_STATE_DICT", "LOCAL_STATE_DICT"}) {
    for (const char* strategy : {"FULL_SHARD", "DDP"}) {
      SCOPED_TRACE(std::string(strategy) + ", " + form);
      expect_goes_on([&](TrainingJob& job) {
        job.parallel.strategy = named<Strategy>(strategy);
        job.parallel.state_dict_type = named<StateDictType>(form);
        job.parallel.distribute_one_rank = true;
      });
    }
  }
}

TEST(Resuming, GoesOnFromDistributedToPlainAndBack) {
  if (!ranks_can_connect()) GTEST_SKIP() << "this build has no Gloo";
  const TemporaryFolder folder;
  TrainingJob plain = saving_job(folder / "plain");
  // A clipping factor comes from a norm whose terms are summed in another order over a flat array.
  plain.optimizer.max_grad_norm = 0;
  TrainingJob distributed = plain;
  distributed.save.checkpoint_directory = folder / "distributed";
  distributed.parallel.strategy = Strategy::kFullShard;
  distributed.parallel.distribute_one_rank = true;
  const SavedRun straight = run_of(plain, alone());
  expect_same_bits(run_of(distributed, alone()).at_end, straight.at_end);
  const std::string saved_by_plain = folder / "plain/checkpoint-2",
                    saved_by_distributed = folder / "distributed/checkpoint-2";
  expect_same_bits(run_of(resumed(distributed, saved_by_plain), alone()).at_end, straight.at_end);
  expect_same_bits(run_of(resumed(plain, saved_by_distributed), alone()).at_end, straight.at_end);
}

TEST(Resuming, FindsTheNewestCheckpoint) {
  const TemporaryFolder folder;
  const TrainingJob job = saving_job(folder / "checkpoints");
  run_of(job, alone());
  EXPECT_EQ(find_checkpoint(folder / "checkpoints"), folder / "checkpoints/checkpoint-4");
}

// --- what does not fit ---------------------------------------------------------------------------

TEST(Resuming, RefusesTheCheckpointOfAnotherJobNamingEachDifference) {
  const TemporaryFolder folder;
  const TrainingJob job = saving_job(folder / "checkpoints");
  run_of(job, alone());
  TrainingJob other = resumed(job);
  other.optimizer.kind = OptimizerKind::kSgd;
  other.model.name = "granite";
  other.batches.per_device_batch_size = 5;
  other.data.model_max_length = 20;
  const std::string problem = problem_of(other, ReasonCode::kUnsupported);
  EXPECT_THAT(problem, HasSubstr("/checkpoint-2, the checkpoint of another job: "
                                 "model was llama, and is granite; "));
  EXPECT_THAT(problem, HasSubstr("optimizer was adamw_torch_fused, and is sgd"));
  EXPECT_THAT(problem, HasSubstr("entries in a step was 6, and is 5"));
  EXPECT_THAT(problem, HasSubstr("model_max_length was"));
  EXPECT_THAT(problem, ::testing::Not(HasSubstr("seed")));

  TrainingJob with_texts = resumed(job);
  with_texts.data.response_template = "### Response:";
  EXPECT_THAT(problem_of(with_texts, ReasonCode::kUnsupported),
              HasSubstr("response template was \"\\n### Response:\", and is \"### Response:\""));

  TrainingJob with_adapters = resumed(job);
  with_adapters.tuning = TuningMethod::kLora;
  with_adapters.lora.target_modules = {"q_proj"};
  EXPECT_THAT(problem_of(with_adapters, ReasonCode::kUnsupported),
              HasSubstr("tuning was full, and is lora; lora rank was not known, and is 4"));
}

// A job over a copy of its model's folder, which tests may change.
TrainingJob over_a_copy(const TemporaryFolder& folder, const std::string& tuning) {
  TrainingJob job = saving_job(folder / "checkpoints");
  job.tuning = named<TuningMethod>(tuning);
  job.lora = {.rank = 4, .alpha = 16, .dropout = 0, .target_modules = {"q_proj"}};
  job.prompt = {.virtual_tokens = 3, .init = "RANDOM", .init_text = ""};
  fs::copy(job.model.weights_directory, folder / "base");
  job.model.weights_directory = folder / "base";
  return job;
}

void write_other_weights(const std::string& file) {
  std::string bytes = read_file(file);
  bytes[bytes.size() - 1] ^= 1;
  write_file_atomic(file, bytes);
}

TEST(Resuming, RefusesAdaptersAndVirtualTokensOverOtherWeights) {
  for (const char* tuning : {"lora", "pt"}) {
    SCOPED_TRACE(tuning);
    const TemporaryFolder folder;
    const TrainingJob job = over_a_copy(folder, tuning);
    run_of(job, alone());
    write_other_weights(folder / "base/model.safetensors");
    EXPECT_THAT(problem_of(resumed(job), ReasonCode::kUnsupported),
                ::testing::AllOf(HasSubstr("the checkpoint of another job: the weights' files "
                                           "(digest) was "),
                                 ::testing::Not(HasSubstr(";"))));
  }
}

TEST(Resuming, GoesOnWhereModelAndDataHaveMoved) {
  const TemporaryFolder folder;
  const TrainingJob job = over_a_copy(folder, "lora");
  run_of(job, alone());
  TrainingJob moved = resumed(job);
  fs::rename(folder / "base", folder / "moved");
  fs::copy(job.data.path, folder / "moved.jsonl");
  moved.model.weights_directory = folder / "moved";
  moved.model.name = "moved";
  moved.data.path = folder / "moved.jsonl";
  moved.data.dataset_id = "moved";
  EXPECT_EQ(run_of(moved, alone()).begin.resumed_step, 2);
}

TEST(Resuming, AModelThatIsTrainedItselfIsWholeInItsCheckpoint) {
  const TemporaryFolder folder;
  const TrainingJob job = over_a_copy(folder, "full");
  const SavedRun straight = run_of(job, alone());
  write_other_weights(folder / "base/model.safetensors");
  expect_same_bits(run_of(resumed(job), alone()).at_end, straight.at_end);
}

// Checkpoints of before weights had a digest.
TEST(Resuming, GoesOnFromACheckpointThatSaysNothingOfTheWeights) {
  const TemporaryFolder folder;
  const TrainingJob job = over_a_copy(folder, "lora");
  run_of(job, alone());
  const fs::path checkpoint = folder / "checkpoints/checkpoint-2";
  Json state = read_json_file((checkpoint / kTrainerStateFile).string());
  ASSERT_EQ(state["job"].erase("the weights' files (digest)"), 1u);
  Manifest manifest = read_manifest(checkpoint);
  std::erase_if(manifest.files, [](const FileSum& sum) { return sum.name == kTrainerStateFile; });
  manifest.files.push_back(write_summed(checkpoint, kTrainerStateFile, state.dump(2)));
  write_manifest(checkpoint, manifest);
  EXPECT_EQ(run_of(resumed(job), alone()).begin.resumed_step, 2);
}

TEST(Resuming, OneRankReadsTheFilesOfTheJobForAll) {
  const TemporaryFolder folder;
  TrainingJob job = on_ranks(over_a_copy(folder, "lora"), 2, "NO_SHARD");
  run_ranks({.ranks = 2}, [&](RankGroup& group) { run_of(job, group); });
  write_other_weights(folder / "base/model.safetensors");
  run_ranks({.ranks = 2}, [&](RankGroup& group) {
    try {
      run_of(resumed(job), group);
      ADD_FAILURE() << "it was resumed";
    } catch (const RunError& error) {
      EXPECT_THAT(error.what(), HasSubstr("the weights' files (digest) was "));
    }
  });
}

TEST(Resuming, SaysThatNothingIsLeftToTrain) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  run_of(job, alone());
  EXPECT_THAT(
      problem_of(resumed(job, folder / "checkpoints/checkpoint-4"), ReasonCode::kUnsupported),
      HasSubstr("checkpoint-4 has done 4 steps, and this run has 4; a larger max_steps"));
  job.batches.max_steps = 6;
  const SavedRun longer = run_of(resumed(job, folder / "checkpoints/checkpoint-4"), alone());
  EXPECT_EQ(longer.losses.size(), 2);
}

std::vector<std::string> notes_on_rates(const SavedRun& run) {
  std::vector<std::string> notes;
  for (const std::string& note : run.begin.warnings) {
    if (note.find("learning rate") != std::string::npos) notes.push_back(note);
  }
  return notes;
}

// The rates that are left are those of the new length: Trainer's lambdas are made from it, too.
TEST(Resuming, SaysWhenARunOfAnotherLengthHasOtherLearningRates) {
  for (const std::string schedule : {"linear", "cosine", "constant"}) {
    SCOPED_TRACE(schedule);
    const TemporaryFolder folder;
    TrainingJob job = saving_job(folder / "checkpoints");
    job.optimizer.schedule = schedule;
    run_of(job, alone());
    EXPECT_THAT(notes_on_rates(run_of(resumed(job), alone())), IsEmpty());
    TrainingJob longer = resumed(job, folder / "checkpoints/checkpoint-4");
    longer.batches.max_steps = 6;
    std::vector<std::string> expected;
    if (schedule != "constant") {
      expected = {"the learning rate followed " + schedule +
                  " over 4 steps up to step 4, and follows it over 6 steps from there: not as in "
                  "one run of 6 steps"};
    }
    EXPECT_EQ(notes_on_rates(run_of(longer, alone())), expected);
  }
}

void rewrite(const std::string& path, char from, char to) {
  std::string text = read_file(path);
  std::replace(text.begin(), text.end(), from, to);
  write_file_atomic(path, text);
}

TEST(Resuming, RefusesADatasetOfTheSameSizeWithOtherContent) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  fs::copy_file(job.data.path, folder / "dataset.jsonl");
  job.data.path = folder / "dataset.jsonl";
  run_of(job, alone());
  fs::rename(folder / "dataset.jsonl", folder / "elsewhere.jsonl");  // the same, wherever it is
  job.data.path = folder / "elsewhere.jsonl";
  EXPECT_EQ(run_of(resumed(job), alone()).losses.size(), 2);
  rewrite(job.data.path, 'a', 'o');
  EXPECT_THAT(problem_of(resumed(job), ReasonCode::kUnsupported),
              ::testing::MatchesRegex("cannot resume from .*/checkpoint-2, the checkpoint of "
                                      "another job: the dataset's file .digest. was [0-9a-f]{12}, "
                                      "and is [0-9a-f]{12}"));
}

TEST(Resuming, RefusesAnotherTokenizer) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  fs::copy(job.model.tokenizer_directory, folder / "tokenizer");
  job.model.tokenizer_directory = folder / "tokenizer";
  run_of(job, alone());
  const std::string config = folder / "tokenizer/tokenizer_config.json";
  write_file_atomic(config, read_file(config) + "\n");
  EXPECT_THAT(problem_of(resumed(job), ReasonCode::kUnsupported),
              HasSubstr("another job: the tokenizer's files (digest) was "));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
