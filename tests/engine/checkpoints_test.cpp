// Saving and resuming in one process: a run that is resumed goes on in the same bits as one that
// never stopped, and what does not fit is said.
#include "engine/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "data/file_size_limit.h"
#include "engine/saving_fixture.h"
#include "parallel/gloo_communicator.h"
#include "sftbench/base/file.h"
#include "sftbench/base/torch.h"
#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/checkpoint/saved_folder.h"

namespace sftbench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

std::string problem_of(const TrainingJob& job, ReasonCode code) {
  try {
    run_of(job, alone());
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no problem";
}

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

TEST(Resuming, GoesOnInTheSameBitsWithOptimisersOfEveryKind) {
  for (const char* optimizer :
       {"adamw_torch", "adamw_bnb_8bit", "adamw_torch_4bit", "adafactor", "adalomo",
        "galore_adamw_8bit", "galore_adafactor_layerwise", "lomo", "schedule_free_adamw", "sgd"}) {
    SCOPED_TRACE(optimizer);
    expect_goes_on([&](TrainingJob& job) {
      job.optimizer.name = optimizer;
      // Large enough for states of 8 and of 4 bits.
      job.model.weights_directory.clear();
      job.model.hf_config["intermediate_size"] = 160;
    });
  }
}

TEST(Resuming, GoesOnWithTheDropoutOfAdaptersWhereItWas) {
  for (const char* tuning : {"lora", "pt"}) {
    SCOPED_TRACE(tuning);
    expect_goes_on([&](TrainingJob& job) {
      job.tuning = tuning;
      job.lora = {.rank = 4, .alpha = 16, .dropout = 0.3, .target_modules = {"q_proj", "up_proj"}};
      job.prompt = {.virtual_tokens = 3, .init = "TEXT", .init_text = "Classify"};
      job.batches.per_device_batch_size = 2;
      job.batches.gradient_accumulation_steps = 3;
    });
  }
}

TEST(Resuming, GoesOnInEveryPrecision) {
  expect_goes_on([](TrainingJob& job) { job.precision.torch_dtype = "bfloat16"; });
  expect_goes_on([](TrainingJob& job) { job.precision.autocast = "bf16"; });
  // Its loss scale is too large for the first steps' gradients, and their updates are skipped.
  expect_goes_on([](TrainingJob& job) { job.precision.autocast = "fp16"; });
}

TEST(Resuming, GoesOnWhenOneRankIsDistributed) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  for (const char* form : {"FULL_STATE_DICT", "SHARDED_STATE_DICT", "LOCAL_STATE_DICT"}) {
    for (const char* strategy : {"FULL_SHARD", "DDP"}) {
      SCOPED_TRACE(std::string(strategy) + ", " + form);
      expect_goes_on([&](TrainingJob& job) {
        job.parallel.strategy = strategy;
        job.parallel.state_dict_type = form;
        job.parallel.distribute_one_rank = true;
      });
    }
  }
}

TEST(Resuming, GoesOnFromDistributedToPlainAndBack) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  const TemporaryFolder folder;
  TrainingJob plain = saving_job(folder / "plain");
  // A clipping factor comes from a norm whose terms are summed in another order over a flat array.
  plain.optimizer.max_grad_norm = 0;
  TrainingJob distributed = plain;
  distributed.save.checkpoint_directory = folder / "distributed";
  distributed.parallel.strategy = "FULL_SHARD";
  distributed.parallel.distribute_one_rank = true;
  const SavedRun straight = run_of(plain, alone());
  expect_same_bits(run_of(distributed, alone()).at_end, straight.at_end);
  const std::string saved_by_plain = folder / "plain/checkpoint-2",
                    saved_by_distributed = folder / "distributed/checkpoint-2";
  expect_same_bits(run_of(resumed(distributed, saved_by_plain), alone()).at_end, straight.at_end);
  expect_same_bits(run_of(resumed(plain, saved_by_distributed), alone()).at_end, straight.at_end);
}

TEST(Resuming, FindsTheNewestWholeCheckpoint) {
  const TemporaryFolder folder;
  const TrainingJob job = saving_job(folder / "checkpoints");
  run_of(job, alone());
  EXPECT_EQ(find_checkpoint(folder / "checkpoints"), folder / "checkpoints/checkpoint-4");
  fs::remove(folder / "checkpoints/checkpoint-4/trainer_state.json");
  EXPECT_EQ(find_checkpoint(folder / "checkpoints"), folder / "checkpoints/checkpoint-2");
}

// --- when and what -------------------------------------------------------------------------------

TEST(Saving, FollowsItsStrategyAndKeepsTheNewest) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "steps");
  job.batches.max_steps = 5;
  job.save.total_limit = 2;
  const SavedRun run = run_of(job, alone());
  EXPECT_THAT(names_in(folder / "steps"), ElementsAre("checkpoint-4", "checkpoint-5"));
  ASSERT_EQ(run.end.saved.size(), 3);  // after steps 2 and 4, and at the end
  EXPECT_EQ(run.end.saved[1].step, 4);
  EXPECT_EQ(run.end.saved[1].format, "FULL");
  EXPECT_EQ(run.end.saved[1].path, folder / "steps/checkpoint-4");
  EXPECT_GT(run.end.saved[1].seconds, 0);

  job = saving_job(folder / "epochs");
  job.save.strategy = "epoch";
  job.batches.per_device_batch_size = 13;  // of 26 entries
  run_of(job, alone());
  EXPECT_THAT(names_in(folder / "epochs"), ElementsAre("checkpoint-2", "checkpoint-4"));
}

TEST(Saving, TakesNoTimeOfAnyStep) {
  const TemporaryFolder folder;
  TrainingRun run = prepare_run(saving_job(folder / "checkpoints"), alone());
  Recorder recorder;
  train(run, alone(), {&recorder}, [] { return false; });
  const TrainEnd& end = recorder.ends.at(0);
  EXPECT_EQ(recorder.steps[1].saving_s, 0);
  EXPECT_GE(recorder.steps[2].saving_s, end.saved.at(0).seconds);
  EXPECT_GE(recorder.steps[2].begin_s - recorder.steps[1].end_s, recorder.steps[2].saving_s);
  EXPECT_EQ(end.ranks.at(0).steps.at(2).saving_s, recorder.steps[2].saving_s);
}

// What a model's own files have, in another order.
TEST(Saving, LeavesAModelAsHuggingFaceSavesIt) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job("");
  job.save = {};
  job.save.model_directory = folder / "model";
  const SavedRun run = run_of(job, alone());
  EXPECT_THAT(names_in(folder / "model"), ElementsAre("config.json", "model.safetensors",
                                                      "tokenizer.json", "tokenizer_config.json"));
  std::map<std::string, std::vector<int64_t>> saved, own;
  for (const CheckpointShard& file : open_checkpoint(folder / "model")) {
    for (const StoredTensor& tensor : file.tensors) {
      EXPECT_EQ(tensor.dtype, StoredDtype::kF32);
      EXPECT_EQ(tensor.offset_bytes % 8, 0);
      saved[tensor.name] = tensor.shape;
    }
  }
  for (const CheckpointShard& file : open_checkpoint(job.model.weights_directory)) {
    for (const StoredTensor& tensor : file.tensors) own[tensor.name] = tensor.shape;
  }
  EXPECT_EQ(saved, own);  // the tied output projection is in neither
  EXPECT_EQ(read_json_file(folder / "model/config.json"), job.model.hf_config);

  TrainingJob next = saving_job("");
  next.save = {};
  next.model.weights_directory = folder / "model";
  TrainingRun loaded = prepare_run(next, alone());
  expect_same_bits(values_of(loaded), run.at_end);
}

TEST(Saving, WritesDtypeAndVocabularyThatWereTrained) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job("");
  job.save = {};
  job.save.model_directory = folder / "model";
  job.precision.torch_dtype = "bfloat16";
  job.model.weights_directory.clear();
  job.model.hf_config["vocab_size"] = 300;  // of the tokenizer's 384
  run_of(job, alone());
  const Json config = read_json_file(folder / "model/config.json");
  EXPECT_EQ(config["dtype"], "bfloat16");
  EXPECT_FALSE(config.contains("torch_dtype"));
  for (const CheckpointShard& file : open_checkpoint(folder / "model")) {
    for (const StoredTensor& tensor : file.tensors) {
      EXPECT_EQ(tensor.dtype, StoredDtype::kBF16) << tensor.name;
      if (tensor.name == "model.embed_tokens.weight") {
        EXPECT_EQ(tensor.shape.at(0), config["vocab_size"].get<int64_t>());
        EXPECT_GT(tensor.shape.at(0), 300);
      }
    }
  }
}

// --- what does not fit ---------------------------------------------------------------------------

TEST(Resuming, RefusesTheCheckpointOfAnotherJobNamingEachDifference) {
  const TemporaryFolder folder;
  const TrainingJob job = saving_job(folder / "checkpoints");
  run_of(job, alone());
  TrainingJob other = resumed(job);
  other.optimizer.name = "sgd";
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

  TrainingJob with_adapters = resumed(job);
  with_adapters.tuning = "lora";
  with_adapters.lora.target_modules = {"q_proj"};
  EXPECT_THAT(problem_of(with_adapters, ReasonCode::kUnsupported),
              HasSubstr("tuning was full, and is lora; lora rank was not known, and is 4"));
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

TEST(Resuming, SaysWhatOfACheckpointIsMissingOrMalformed) {
  const TemporaryFolder folder;
  const TrainingJob job = saving_job(folder / "checkpoints");
  run_of(job, alone());
  const std::string checkpoint = folder / "checkpoints/checkpoint-2/";
  fs::resize_file(checkpoint + "optimizer-rank-00000-of-00001.safetensors", 3000);
  EXPECT_THAT(problem_of(resumed(job), ReasonCode::kInternal), HasSubstr("truncated"));
  fs::remove(checkpoint + "optimizer-rank-00000-of-00001.safetensors");
  EXPECT_THAT(problem_of(resumed(job), ReasonCode::kInternal),
              HasSubstr("optimizer-rank-00000-of-00001.safetensors: cannot open"));
  write_file_atomic(checkpoint + "optimizer_pieces.json", "{}");
  EXPECT_THAT(problem_of(resumed(job), ReasonCode::kInternal),
              HasSubstr("optimizer_pieces.json: pieces: not an index of pieces"));
  fs::remove(checkpoint + "model.safetensors");
  EXPECT_THAT(problem_of(resumed(job), ReasonCode::kInternal), HasSubstr("no weights"));
  write_file_atomic(checkpoint + "trainer_state.json", R"({"global_step": "two"})");
  EXPECT_THAT(problem_of(resumed(job), ReasonCode::kInternal),
              HasSubstr("trainer_state.json: not the state of a run"));
}

// --- what cannot be written ----------------------------------------------------------------------

TEST(Saving, LeavesTheCheckpointBeforeWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  job.batches.max_steps = 2;
  run_of(job, alone());
  const std::set<std::string> files = names_in(folder / "checkpoints/checkpoint-2");
  TrainingJob next = saving_job(folder / "checkpoints");
  next.save.resume_from = folder / "checkpoints/checkpoint-2";
  {
    const FileSizeLimit limit(20'000);
    EXPECT_THAT(problem_of(next, ReasonCode::kWeights),
                HasSubstr("/checkpoint-4: " + (folder / "checkpoints/.checkpoint-4.saving/") +
                          "model.safetensors: cannot write: File too large"));
  }
  EXPECT_THAT(names_in(folder / "checkpoints"), ElementsAre("checkpoint-2"));
  EXPECT_EQ(names_in(folder / "checkpoints/checkpoint-2"), files);
  EXPECT_EQ(run_of(next, alone()).end.saved.size(), 1);
}

TEST(Saving, SaysThatAFolderCannotBeWrittenBeforeItTrains) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "file", "");
  EXPECT_THAT(problem_of(saving_job(folder / "file/checkpoints"), ReasonCode::kWeights),
              HasSubstr("/file/checkpoints: cannot make the folder: Not a directory"));
  const CheckpointFolder held(folder / "held");
  EXPECT_THAT(problem_of(saving_job(folder / "held"), ReasonCode::kWeights),
              HasSubstr("another run saves its checkpoints there"));
}

TEST(Saving, ClearsWhatAKilledRunLeftBehind) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "checkpoints/.checkpoint-7.saving/");
  write_file_atomic(folder / "checkpoints/.checkpoint-7.saving/model.safetensors", "half");
  write_file_atomic(folder / "checkpoints/notes.txt", "mine");
  run_of(saving_job(folder / "checkpoints"), alone());
  EXPECT_THAT(names_in(folder / "checkpoints"),
              ElementsAre("checkpoint-2", "checkpoint-4", "notes.txt"));
}

TEST(Saving, KnowsItsStrategies) {
  TrainingJob job = saving_job("");
  job.save.strategy = "step";
  EXPECT_THAT(problem_of(job, ReasonCode::kUnsupported),
              HasSubstr("save_strategy 'step' is not implemented; there are epoch, no, steps; did "
                        "you mean 'steps'?"));
}

}  // namespace
}  // namespace sftbench
