// What a run writes, when and where: nothing is lost, and nothing of somebody else is touched.
#include "engine/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "data/file_size_limit.h"
#include "engine/prepare_data.h"
#include "engine/saved_size.h"
#include "engine/saving_fixture.h"
#include "sftbench/base/file.h"
#include "sftbench/base/torch.h"
#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/checkpoint/saved_folder.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  job.save.strategy = IntervalStrategy::kEpoch;
  job.batches.per_device_batch_size = 13;  // of 26 entries
  run_of(job, alone());
  EXPECT_THAT(names_in(folder / "epochs"), ElementsAre("checkpoint-2", "checkpoint-4"));
}

TEST(Saving, TakesNoTimeOfAnyStep) {
  const TemporaryFolder folder;
  TrainingRun run = prepare_run(saving_job(folder / "checkpoints"), alone());
  Recorder recorder;
  train_steps(run, alone(), {&recorder}, [] { return false; });
  const TrainEnd& end = recorder.ends.at(0);
  EXPECT_EQ(recorder.steps[1].pause_s, 0);
  EXPECT_GE(recorder.steps[2].pause_s, end.saved.at(0).seconds);
  EXPECT_GE(recorder.steps[2].begin_s - recorder.steps[1].end_s, recorder.steps[2].pause_s);
  EXPECT_EQ(end.ranks.at(0).steps.at(2).pause_s, recorder.steps[2].pause_s);
}

// What a model's own files have, in another order.
TEST(Saving, LeavesAModelAsHuggingFaceSavesIt) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job("");
  job.save = {};
  job.save.model_directory = folder / "model";
  const SavedRun run = run_of(job, alone());
  EXPECT_THAT(names_in(folder / "model"),
              ElementsAre("README.md", "config.json", "model.safetensors", "sftbench_manifest.json",
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
  job.precision.torch_dtype = ParameterDtype::kBfloat16;
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

// The model has rows for the tokens that were added, and its tokenizer has those tokens.
TEST(Saving, LeavesTheTokenizerThatWasCompleted) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job("");
  fs::create_directory(folder / "tokenizer");
  fs::copy_file(job.model.tokenizer_directory + "/tokenizer.json",
                folder / "tokenizer/tokenizer.json");
  job.model.tokenizer_directory = folder / "tokenizer";
  job.model.weights_directory.clear();
  job.model.hf_config["vocab_size"] =  // without a row for <PAD>
      Tokenizer::from_directory(folder / "tokenizer").vocabulary_size();
  job.save = {};
  job.save.model_directory = folder / "model";
  const SavedRun run = run_of(job, alone());
  const Tokenizer saved = Tokenizer::from_directory(folder / "model");
  EXPECT_EQ(saved.special_tokens().pad, "<PAD>");
  EXPECT_EQ(saved.vocabulary_size(), prepare_tokenizer(job.model).vocabulary_size());
  EXPECT_GE(read_json_file(folder / "model/config.json")["vocab_size"], saved.vocabulary_size());

  job.save = {};
  job.model.tokenizer_directory = job.model.weights_directory = folder / "model";
  job.model.hf_config = read_json_file(folder / "model/config.json");
  TrainingRun loaded = prepare_run(job, alone());
  expect_same_bits(values_of(loaded), run.at_end);
}

TEST(Saving, LeavesTheTokenizerThatShipsWithModelsThatHaveNone) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job("");
  job.model.tokenizer_directory.clear();
  job.model.weights_directory.clear();
  job.save = {};
  job.save.model_directory = folder / "model";
  run_of(job, alone());
  EXPECT_EQ(Tokenizer::from_directory(folder / "model").vocabulary_size(),
            prepare_tokenizer(job.model).vocabulary_size());
}

// --- what else is there --------------------------------------------------------------------------

// As fms-hf-tuning lays them out, with one folder for both or one inside the other.
TEST(Saving, LosesNoCheckpointToAModelInTheSameFolder) {
  const std::set<std::string> model = {"README.md",         "config.json",
                                       "model.safetensors", "sftbench_manifest.json",
                                       "tokenizer.json",    "tokenizer_config.json"};
  for (const auto& [checkpoints, model_folder] : std::vector<std::pair<std::string, std::string>>{
           {"same", "same"}, {"out", "out/save_model_dir"}, {"model/checkpoints", "model"}}) {
    SCOPED_TRACE(checkpoints + ", " + model_folder);
    const TemporaryFolder folder;
    TrainingJob job = saving_job(folder / checkpoints);
    job.save.model_directory = folder / model_folder;
    const SavedRun run = run_of(job, alone());
    EXPECT_EQ(run.end.saved.size(), 3);
    std::set<std::string> expected = model, beside = {"checkpoint-2", "checkpoint-4"};
    if (checkpoints == "same") expected.merge(beside);
    if (model_folder == "model") expected.insert("checkpoints");
    EXPECT_EQ(names_in(folder / model_folder), expected);
    TrainingJob next = resumed(job);
    next.save.model_directory.clear();
    expect_same_bits(run_of(next, alone()).at_end, run.at_end);
  }
}

class BetweenSteps : public TrainObserver {
 public:
  explicit BetweenSteps(std::function<void()> act) : act_(std::move(act)) {}
  void on_step_end(const StepEvent& event, TrainControl&) override {
    if (event.step == 3) act_();
  }

 private:
  std::function<void()> act_;
};

// Of the last step's saving, which the run outlives.
std::string problem_with(const TrainingJob& job, const std::function<void()>& after_step_3) {
  TrainingRun run = prepare_run(job, alone());
  BetweenSteps between(after_step_3);
  Recorder recorder;
  train_steps(run, alone(), {&between, &recorder}, [] { return false; });
  EXPECT_EQ(recorder.steps.size(), 4);
  const std::vector<UnsavedFolder>& unsaved = recorder.ends.at(0).unsaved;
  EXPECT_EQ(unsaved.size(), 1);
  return unsaved.empty() ? "no problem" : unsaved.front().path + ": " + unsaved.front().problem;
}

TEST(Saving, LosesNothingThatHasAppearedMeanwhileNorWhatItTrained) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  EXPECT_THAT(
      problem_with(job,
                   [&] { write_file_atomic(folder / "checkpoints/checkpoint-4/thesis.tex", ""); }),
      HasSubstr("checkpoint-4: something else is there, and stays; what was saved is " +
                (folder / "checkpoints/checkpoint-4.saved")));
  EXPECT_THAT(names_in(folder / "checkpoints/checkpoint-4"), ElementsAre("thesis.tex"));
  TrainingJob longer = resumed(job, folder / "checkpoints/checkpoint-4.saved");
  longer.batches.max_steps = 5;
  EXPECT_EQ(run_of(longer, alone()).begin.resumed_step, 4);

  job.save = {};
  job.save.model_directory = folder / "model";
  const auto write = [&] { write_file_atomic(folder / "model/config.json", "mine"); };
  EXPECT_THAT(problem_with(job, write), HasSubstr("model/config.json: something else is there"));
  EXPECT_EQ(read_file(folder / "model/config.json"), "mine");
  EXPECT_EQ(open_checkpoint(folder / "model.saved").size(), 1);
}

TEST(Saving, KeepsASecondRunOutOfTheModelsFolderFromTheBeginning) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job("");
  job.save = {};
  job.save.model_directory = folder / "model";
  const TrainingRun first = prepare_run(job, alone());
  EXPECT_THAT(problem_of(job, ReasonCode::kWeights),
              HasSubstr("another run saves there; expected a folder for each run"));
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
    const SavedRun run = run_of(next, alone());
    EXPECT_EQ(run.losses.size(), 2);
    EXPECT_EQ(run.end.saved.size(), 0);
    ASSERT_EQ(run.end.unsaved.size(), 1);
    EXPECT_EQ(run.end.unsaved[0].path, folder / "checkpoints/checkpoint-4");
    EXPECT_EQ(run.end.unsaved[0].step, 4);
    EXPECT_EQ(run.end.unsaved[0].problem, (folder / "checkpoints/.checkpoint-4.saving/") +
                                              "model.safetensors: cannot write: File too large");
  }
  EXPECT_THAT(names_in(folder / "checkpoints"), ElementsAre("checkpoint-2"));
  EXPECT_EQ(names_in(folder / "checkpoints/checkpoint-2"), files);
  EXPECT_EQ(run_of(next, alone()).end.saved.size(), 1);
}

// Neither the checkpoints between nor the model at the end cost the measurement.
TEST(Saving, TrainsToItsEndWhateverCannotBeSaved) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  job.save.model_directory = folder / "model";
  const SavedRun whole = run_of(job, alone());
  job.save.checkpoint_directory = folder / "others";
  job.save.model_directory = folder / "other";
  const FileSizeLimit limit(20'000);
  const SavedRun run = run_of(job, alone());
  EXPECT_EQ(run.losses, whole.losses);
  EXPECT_TRUE(run.end.saved.empty());
  std::vector<std::string> paths;
  for (const UnsavedFolder& unsaved : run.end.unsaved) paths.push_back(unsaved.path);
  EXPECT_THAT(paths, ElementsAre(folder / "others/checkpoint-2", folder / "others/checkpoint-4",
                                 folder / "other"));
  EXPECT_THAT(names_in(folder / "others"), IsEmpty());
}

TEST(Saving, WithoutRoomForAllOfItDoesNotTrain) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  job.save.model_directory = folder / "model";
  const SavedSize size{1 << 20, uint64_t{1} << 62};
  EXPECT_EQ(lack_of_room(job, {1 << 20, 2 << 20}, 4), std::nullopt);
  EXPECT_THAT(lack_of_room(job, size, 4).value_or(""),
              AllOf(HasSubstr("there is not enough room at " + (folder / "checkpoints")),
                    HasSubstr("will be saved"), HasSubstr("are free")));
  job.save.strategy = IntervalStrategy::kNo;
  EXPECT_EQ(lack_of_room(job, size, 4), std::nullopt) << "a model has no optimizer";
}

TEST(Saving, KnowsHowMuchItWillSave) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  job.save.model_directory = folder / "model";
  const SavedRun run = run_of(job, alone());
  TrainingRun again = prepare_run(resumed(job), alone());
  const SavedSize size = saved_size({*again.model,
                                     *again.parameters,
                                     *again.optimizer,
                                     *again.loss_scaler,
                                     *again.mesh,
                                     alone(),
                                     {}},
                                    job.model.weights_directory);
  const uint64_t model_bytes = fs::file_size(folder / "model/model.safetensors");
  EXPECT_LE(size.model_bytes, model_bytes);
  EXPECT_GT(size.model_bytes + (64 << 10), model_bytes);
  EXPECT_EQ(size.optimizer_bytes / size.model_bytes, 2) << "Adam's averages";
  EXPECT_EQ(certain_checkpoints(job, 4), 2);
  EXPECT_EQ(certain_checkpoints(job, 5), 3);
  job.save.total_limit = 1;
  EXPECT_EQ(certain_checkpoints(job, 100), 2);
  job.batches.stop_after_seconds = 1;
  EXPECT_EQ(certain_checkpoints(job, 100), 1);
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

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
