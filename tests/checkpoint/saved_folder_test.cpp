#include "sftbench/checkpoint/saved_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "checkpoint/folder_fixture.h"
#include "data/file_size_limit.h"
#include "sftbench/checkpoint/safetensors_writer.h"
#include "sftbench/checkpoint/stored_state.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using SavedFolders = FolderTest;

TEST_F(SavedFolders, PathsAreBelowAFolderOrNot) {
  EXPECT_EQ(path_below(root_ / "a" / "b", root_ / "a"), fs::path("b"));
  EXPECT_EQ(path_below(root_ / "a" / ".." / "a" / "b" / "c", root_ / "a"), fs::path("b/c"));
  EXPECT_EQ(path_below(root_ / "a", root_ / "a"), fs::path("."));
  for (const fs::path& elsewhere : {root_ / "b", root_ / "ab", root_ / "a" / ".." / "b", root_})
    EXPECT_FALSE(path_below(elsewhere, root_ / "a")) << elsewhere;
  EXPECT_FALSE(path_below("", root_));
  EXPECT_FALSE(path_below(root_, ""));
}

// --- models --------------------------------------------------------------------------------------

void write_model(const fs::path& folder) {
  write_saved(folder, "model", 4, {{"config.json", "{}"}, {"model.safetensors", "weights"}});
}

TEST_F(SavedFolders, OfModelsAreThereOnceTheyAreCommitted) {
  {
    ModelFolder model(root_ / "model");
    EXPECT_THAT(names(), ElementsAre(".model.saving"));
    write_model(model.pending().path());
    EXPECT_FALSE(fs::exists(root_ / "model"));
    model.commit();
  }
  EXPECT_THAT(names(), ElementsAre("model"));
  EXPECT_TRUE(fs::exists(root_ / "model" / "config.json"));
}

TEST_F(SavedFolders, OfModelsLeaveNothingWhenTheyAreNotCommitted) {
  fs::create_directory(root_ / "there");
  {
    ModelFolder absent(root_ / "model"), there(root_ / "there");
    write_model(absent.pending().path());
    write_model(there.pending().path());
    EXPECT_THAT(names_in(root_ / "there"), ElementsAre(".model.saving"));
  }
  EXPECT_THAT(names(), ElementsAre("there"));
  EXPECT_THAT(names_in(root_ / "there"), IsEmpty());
}

// As fms-hf-tuning lays it out when output_dir and save_model_dir are one.
TEST_F(SavedFolders, OfModelsMayBeThatOfTheCheckpointsAndHoldOtherThings) {
  write_file_atomic(root_ / "training_logs.jsonl", "{}");
  CheckpointFolder checkpoints(root_);
  ModelFolder model(root_);
  make_checkpoint(2);
  write_model(model.pending().path());
  model.commit();
  EXPECT_THAT(names(), ElementsAre("checkpoint-2", "config.json", "model.safetensors",
                                   "sftbench_manifest.json", "training_logs.jsonl"));
  EXPECT_EQ(names_in(root_ / "checkpoint-2").size(), 3);
}

TEST_F(SavedFolders, OfModelsKeepWhatHasAppearedInThem) {
  ModelFolder model(root_ / "model");
  write_model(model.pending().path());
  write_file_atomic(root_ / "model" / "thesis.tex", "mine");
  model.commit();
  EXPECT_THAT(names_in(root_ / "model"), ElementsAre("config.json", "model.safetensors",
                                                     "sftbench_manifest.json", "thesis.tex"));
}

// A run that goes on saves the model again where fms-hf-tuning's overwrites it.
TEST_F(SavedFolders, OfModelsOfTheSameJobAreReplaced) {
  write_file_atomic(root_ / "training_logs.jsonl", "{}");
  const auto save = [this](const std::string& weights, const std::string& replaces) {
    ModelFolder model(root_, replaces);
    write_saved(model.pending().path(), "model", 8,
                {{"config.json", "{}"}, {"model.safetensors", weights}});
    model.commit();
  };
  save("first", "");
  save("second", "a job");
  EXPECT_EQ(read_file(root_ / "model.safetensors"), "second");
  EXPECT_THAT(names(), ElementsAre("config.json", "model.safetensors", "sftbench_manifest.json",
                                   "training_logs.jsonl"));
  EXPECT_TRUE(holds_model_of(root_, "a job"));
  // Of another job, or changed since: it stays, and the new one is beside it.
  EXPECT_FALSE(holds_model_of(root_, "another job"));
  EXPECT_THAT(problem_of([&] { save("third", "another job"); }), HasSubstr("stays"));
  write_file_atomic(root_ / "config.json", "edited");
  EXPECT_FALSE(holds_model_of(root_, "a job"));
  EXPECT_THAT(problem_of([&] { save("fourth", "a job"); }), HasSubstr("stays"));
  EXPECT_EQ(read_file(root_ / "model.safetensors"), "second");
  EXPECT_EQ(read_file(root_ / "config.json"), "edited");
}

TEST_F(SavedFolders, OfModelsAloneAreReplacedAtOnce) {
  write_saved(root_ / "model", "model", 8, {{"config.json", "{}"}, {"model.safetensors", "first"}});
  ModelFolder model(root_ / "model", "a job");
  EXPECT_THAT(names(), ElementsAre(".model.saving", "model")) << "beside it, to change places";
  write_model(model.pending().path());
  model.commit();
  EXPECT_THAT(names(), ElementsAre("model"));
  EXPECT_EQ(read_file(root_ / "model/model.safetensors"), "weights");
}

// Killed when the manifest was aside, when all was and a part of the new model stood there, and
// behind the last file.
TEST_F(SavedFolders, OfModelsThatWereBeingReplacedAreBroughtBack) {
  const fs::path aside = root_ / ".model.replaced";
  const std::map<std::string, std::string> first = {{"config.json", "{}"},
                                                    {"model.safetensors", "first"}};
  const auto go_on = [&] {
    EXPECT_TRUE(holds_model_of(root_, "a job"));
    { ModelFolder killed(root_, "a job"); }
    EXPECT_THAT(names(), ElementsAre("config.json", "model.safetensors", "sftbench_manifest.json"));
    return read_file(root_ / "model.safetensors");
  };
  write_saved(root_, "model", 8, first);
  fs::create_directory(aside);
  fs::rename(root_ / kManifestFile, aside / kManifestFile);
  EXPECT_EQ(go_on(), "first");
  fs::create_directory(aside);
  for (const char* name : {kManifestFile, "config.json", "model.safetensors"})
    fs::rename(root_ / name, aside / name);
  write_file_atomic(root_ / "model.safetensors", "second");
  EXPECT_EQ(go_on(), "first");
  write_saved(root_, "model", 12, {{"config.json", "{}"}, {"model.safetensors", "second"}});
  fs::create_directory(aside);
  write_saved(aside, "model", 8, first);
  EXPECT_EQ(go_on(), "second");
}

TEST_F(SavedFolders, OfModelsStandBesideWhatHasTheSameNames) {
  fs::create_directory(root_ / "there");
  for (const std::string target : {"model", "there"}) {
    SCOPED_TRACE(target);
    ModelFolder model(root_ / target);
    write_model(model.pending().path());
    write_file_atomic(root_ / target / "model.safetensors", "mine");
    const fs::path kept = target == "model" ? root_ / "model.saved" : root_ / "there/model.saved";
    EXPECT_THAT(problem_of([&] { model.commit(); }),
                HasSubstr("/" + target +
                          "/model.safetensors: something else is there, and stays; "
                          "what was saved is " +
                          kept.string()));
    EXPECT_EQ(read_file(root_ / target / "model.safetensors"), "mine");
    EXPECT_FALSE(fs::exists(root_ / target / "config.json"));
    EXPECT_THAT(names_in(kept),
                ElementsAre("config.json", "model.safetensors", "sftbench_manifest.json"));
  }
  write_file_atomic(root_ / "file", "mine");
  ModelFolder model(root_ / "file");
  write_model(model.pending().path());
  EXPECT_THAT(problem_of([&] { model.commit(); }),
              HasSubstr("/file: something else is there, and stays"));
  EXPECT_EQ(names_in(root_ / "file.saved").size(), 3);
}

TEST_F(SavedFolders, OfModelsBelongToOneRun) {
  fs::create_directory(root_ / "there");
  for (const std::string target : {"model", "there"}) {
    std::optional<ModelFolder> first(std::in_place, root_ / target);
    write_model(first->pending().path());
    EXPECT_THAT(problem_of([&] { ModelFolder second(root_ / target); }),
                HasSubstr("another run saves there; expected a folder for each run"));
    EXPECT_EQ(names_in(first->pending().path()).size(), 3);
    first.reset();
    EXPECT_EQ(problem_of([&] { ModelFolder second(root_ / target); }), "no problem");
  }
}

TEST_F(SavedFolders, FollowNoLinkToWhatSomebodyElseHas) {
  write_file_atomic(root_ / "mine/thesis.tex", "mine");
  fs::create_directory_symlink(root_ / "mine", root_ / ".model.saving");
  EXPECT_THAT(problem_of([&] { ModelFolder model(root_ / "model"); }),
              HasSubstr(".model.saving: cannot make the folder: Not a directory"));
  EXPECT_THAT(names_in(root_ / "mine"), ElementsAre("thesis.tex"));
}

// --- checkpoints ---------------------------------------------------------------------------------

void save(CheckpointFolder& folder, int64_t step, const std::string& weights) {
  const std::unique_ptr<PendingFolder> pending = folder.start(step);
  write_saved(pending->path(), "checkpoint", step,
              {{kTrainerStateFile, "{}"}, {"model.safetensors", weights}});
  folder.commit(*pending, step);
}

std::string weights_of(const fs::path& checkpoint) {
  return read_file(checkpoint / "model.safetensors");
}

TEST_F(SavedFolders, OfCheckpointsTakeThePlaceOfOnesThatWereThereAndOfTheirOwn) {
  make_checkpoint(3, "of the run before");
  CheckpointFolder folder(root_);
  save(folder, 3, "new");
  EXPECT_EQ(weights_of(root_ / "checkpoint-3"), "new");
  save(folder, 3, "newer");
  EXPECT_EQ(weights_of(root_ / "checkpoint-3"), "newer");
  EXPECT_THAT(names(), ElementsAre("checkpoint-3"));
}

void expect_stays(CheckpointFolder& folder, const fs::path& root, const std::string& weights) {
  EXPECT_THAT(problem_of([&] { save(folder, 3, "new"); }),
              HasSubstr("/checkpoint-3: something else is there, and stays; what was saved is " +
                        (root / "checkpoint-3.saved").string()));
  EXPECT_EQ(weights_of(root / "checkpoint-3"), weights);
  EXPECT_EQ(weights_of(root / "checkpoint-3.saved"), "new");
}

TEST_F(SavedFolders, OfCheckpointsDoNotReplaceOnesThatCameLater) {
  CheckpointFolder folder(root_);
  make_checkpoint(3, "of somebody else");
  expect_stays(folder, root_, "of somebody else");
}

TEST_F(SavedFolders, OfCheckpointsDoNotReplaceWhatIsNoLongerWhatWasThere) {
  make_checkpoint(3, "found at first");
  CheckpointFolder folder(root_);
  fs::rename(root_ / "checkpoint-3", root_ / "elsewhere");
  make_checkpoint(3, "found later");
  expect_stays(folder, root_, "found later");
}

TEST_F(SavedFolders, OfCheckpointsDoNotReplaceWhatHoldsMore) {
  make_checkpoint(3, "ours");
  write_file_atomic(root_ / "checkpoint-3/notes.txt", "mine");
  CheckpointFolder folder(root_);
  expect_stays(folder, root_, "ours");
  EXPECT_TRUE(fs::exists(root_ / "checkpoint-3/notes.txt"));
}

TEST_F(SavedFolders, OfCheckpointsGoOnWhereAnotherFolderStandsNow) {
  CheckpointFolder folder(root_ / "out");
  fs::rename(root_ / "out", root_ / "moved");
  save(folder, 3, "after the first has moved");
  EXPECT_TRUE(fs::exists(root_ / "out/checkpoint-3"));
  EXPECT_THAT(problem_of([&] { CheckpointFolder second(root_ / "out"); }),
              HasSubstr("another run saves its checkpoints there"));
}

TEST_F(SavedFolders, CountAsCheckpointsByTheirNameAndTheirFiles) {
  make_checkpoint(12);
  make_checkpoint(9);
  fs::create_directory(root_ / "checkpoint-15");  // with nothing in it
  make_checkpoint(3);
  fs::rename(root_ / "checkpoint-3", root_ / "checkpoint-3b");
  write_model(root_);
  const std::vector<FoundCheckpoint> found = list_checkpoints(root_);
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0].step, 9);
  EXPECT_EQ(found[1].step, 12);
  EXPECT_EQ(find_checkpoint(root_), root_ / "checkpoint-12");
  // Half a checkpoint is not passed over: to resume from it says what is missing.
  fs::remove(root_ / "checkpoint-12" / kTrainerStateFile);
  EXPECT_EQ(find_checkpoint(root_), root_ / "checkpoint-12");
  EXPECT_EQ(find_checkpoint(root_ / "checkpoint-9"), root_ / "checkpoint-9");
  EXPECT_THAT(problem_of([&] { find_checkpoint(root_ / "checkpoint-15"); }),
              HasSubstr("checkpoint-15: no checkpoint; expected a checkpoint, which has "
                        "trainer_state.json, or a folder of them"));
  EXPECT_THAT(problem_of([&] { find_checkpoint(root_ / "nowhere"); }), HasSubstr("no such folder"));
}

TEST_F(SavedFolders, KnowWhatLiesInACheckpoint) {
  const auto around = [&](const fs::path& path) {
    return checkpoint_around(path, root_).value_or("none").filename();
  };
  EXPECT_EQ(around(root_ / "checkpoint-3"), "checkpoint-3");
  EXPECT_EQ(around(root_ / "checkpoint-3/model/deeper"), "checkpoint-3");
  EXPECT_EQ(around(root_ / "other/../checkpoint-3"), "checkpoint-3");
  EXPECT_EQ(around(root_ / ".checkpoint-3.saving/model"), ".checkpoint-3.saving");
  fs::create_directory_symlink(root_, root_ / "link");
  EXPECT_EQ(around(root_ / "link/checkpoint-3"), "checkpoint-3");
  for (const fs::path& path :
       {root_, root_ / "model", root_.parent_path() / "checkpoint-3", root_ / "checkpoint-best"}) {
    EXPECT_EQ(around(path), "none") << path;
  }
}

TEST_F(SavedFolders, SetCheckpointsAsideWithTheirLog) {
  make_checkpoint(2);
  make_checkpoint(4);
  write_file_atomic(root_ / kTrainingLogsFile, "{}");
  write_file_atomic(root_ / "thesis.tex", "");
  fs::create_directory(root_ / "earlier-1");
  CheckpointFolder checkpoints(root_);
  checkpoints.set_aside();
  EXPECT_THAT(names(), ElementsAre("earlier-1", "earlier-2", "thesis.tex"));
  EXPECT_THAT(names_in(root_ / "earlier-2"),
              ElementsAre("checkpoint-2", "checkpoint-4", kTrainingLogsFile));
  checkpoints.set_aside();
  EXPECT_THAT(names(), ElementsAre("earlier-1", "earlier-2", "thesis.tex")) << "nothing to move";
}

TEST_F(SavedFolders, KeepTheNewest) {
  for (const int64_t step : {8, 10, 9}) make_checkpoint(step);
  fs::create_directory(root_ / "checkpoint-1");  // no checkpoint, and not ours to remove
  CheckpointFolder folder(root_);
  folder.keep_newest(2, 10);
  EXPECT_THAT(names(), ElementsAre("checkpoint-1", "checkpoint-10", "checkpoint-9"));
  folder.keep_newest(5, 10);
  EXPECT_THAT(names(), ElementsAre("checkpoint-1", "checkpoint-10", "checkpoint-9"));
}

TEST_F(SavedFolders, KeepTheBestAmongOrBesideTheNewest) {
  for (const int64_t step : {1, 2, 3, 4}) make_checkpoint(step);
  CheckpointFolder folder(root_);
  folder.keep_newest(3, 4, /*best=*/1);
  EXPECT_THAT(names(), ElementsAre("checkpoint-1", "checkpoint-3", "checkpoint-4"));
  folder.keep_newest(1, 4, 1);
  EXPECT_THAT(names(), ElementsAre("checkpoint-1", "checkpoint-4"));
  folder.keep_newest(1, 4, 4);
  EXPECT_THAT(names(), ElementsAre("checkpoint-4"));
}

TEST_F(SavedFolders, KeepWhatTheyDoNotKnowOrHoldsMore) {
  for (const int64_t step : {1, 2, 3}) make_checkpoint(step);
  write_file_atomic(root_ / "checkpoint-1/notes.txt", "mine");
  CheckpointFolder folder(root_);
  make_checkpoint(0);  // somebody else's, since
  folder.keep_newest(1, 3);
  EXPECT_THAT(names(), ElementsAre("checkpoint-0", "checkpoint-1", "checkpoint-3"));
}

TEST_F(SavedFolders, KeepWhatAResumedRunSavedBeforeWhatItLeftBehind) {
  for (const int64_t step : {2, 4, 6, 8}) make_checkpoint(step);
  CheckpointFolder folder(root_);
  folder.keep_newest(3, 4);  // went on from 2
  EXPECT_THAT(names(), ElementsAre("checkpoint-2", "checkpoint-4", "checkpoint-8"));
  folder.keep_newest(1, 4);
  EXPECT_THAT(names(), ElementsAre("checkpoint-4"));
}

TEST_F(SavedFolders, OfCheckpointsBelongToOneRunAndAreTidiedByTheNext) {
  fs::create_directories(root_ / ".checkpoint-4.saving" / "inner");
  fs::create_directory(root_ / ".other.saving");
  fs::create_directory(root_ / ".checkpoint-best.saving");
  std::optional<CheckpointFolder> first(std::in_place, root_);
  EXPECT_THAT(names(), ElementsAre(".checkpoint-best.saving", ".other.saving"));
  EXPECT_THAT(problem_of([&] { CheckpointFolder second(root_); }),
              HasSubstr("another run saves its checkpoints there; expected a folder for each run"));
  first.reset();
  EXPECT_EQ(problem_of([&] { CheckpointFolder second(root_); }), "no problem");
}

// --- files of tensors ----------------------------------------------------------------------------

const std::vector<TensorHeader> kTensors = {
    {"a", StoredDtype::kF32, {2, 3}}, {"b", StoredDtype::kBF16, {5}}, {"c", StoredDtype::kU8, {7}}};
std::string bytes_of(const TensorHeader& tensor) {
  std::string bytes(tensor.size_bytes(), tensor.name[0]);
  bytes.back() = '!';
  return bytes;
}

TEST_F(SavedFolders, HoldFilesThatTheReaderOfSafetensorsTakes) {
  SafetensorsWriter writer(root_ / "x.safetensors", kTensors);
  for (const TensorHeader& tensor : kTensors) {
    const std::string bytes = bytes_of(tensor);
    writer.append(bytes.data(), 1);
    writer.append(bytes.data() + 1, bytes.size() - 1);
  }
  const FileSum sum = writer.finish();
  EXPECT_EQ(sum.name, "x.safetensors");
  EXPECT_EQ(sum.bytes, fs::file_size(root_ / "x.safetensors"));
  EXPECT_EQ(sum.xxh3_128, digest_file(root_ / "x.safetensors"));
  const CheckpointShard file = open_safetensors(root_ / "x.safetensors");
  ASSERT_EQ(file.tensors.size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(file.tensors[i].name, kTensors[i].name);
    EXPECT_EQ(file.tensors[i].shape, kTensors[i].shape);
    std::string bytes(kTensors[i].size_bytes(), '\0');
    file.read(file.tensors[i], 0, bytes.data(), bytes.size());
    EXPECT_EQ(bytes, bytes_of(kTensors[i]));
  }
}

// What is written and summed is read in parts of 256 KiB.
TEST_F(SavedFolders, HoldWhatIsLargerThanAPart) {
  constexpr size_t kBytes = (700 << 10) + 3;
  std::string bytes(kBytes, '\0');
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<char>(i * i / 251);
  SafetensorsWriter writer(root_ / "x.safetensors", {{"t", StoredDtype::kU8, {kBytes}}});
  writer.append(bytes.data(), bytes.size());
  EXPECT_EQ(writer.finish().xxh3_128, digest_file(root_ / "x.safetensors"));
  EXPECT_TRUE(read_file(root_ / "x.safetensors").ends_with(bytes));
}

TEST_F(SavedFolders, SpreadModelsOverFilesAsHuggingFaceNamesThem) {
  ModelFilesWriter writer(root_, kTensors, /*most_bytes=*/34);  // a: 24, b: 10, c: 7
  for (const TensorHeader& tensor : kTensors) {
    const std::string bytes = bytes_of(tensor);
    writer.append(bytes.data(), bytes.size());
  }
  const std::vector<FileSum> sums = writer.finish();
  ASSERT_EQ(sums.size(), 3);
  for (const FileSum& sum : sums) EXPECT_EQ(sum.xxh3_128, digest_file(root_ / sum.name));
  EXPECT_THAT(names(),
              ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json"));
  const Json index = read_json_file(root_ / "model.safetensors.index.json");
  EXPECT_EQ(index["metadata"]["total_size"], 41);
  EXPECT_EQ(index["weight_map"]["b"], "model-00001-of-00002.safetensors");
  EXPECT_EQ(index["weight_map"]["c"], "model-00002-of-00002.safetensors");
  EXPECT_EQ(open_checkpoint(root_).size(), 2);
}

TEST_F(SavedFolders, SayThatADiskIsFull) {
  const FileSizeLimit limit(100);
  EXPECT_THAT(problem_of([&] { SafetensorsWriter writer(root_ / "x", kTensors); }),
              HasSubstr("/x: cannot write: File too large"));
}

// --- values in pieces ----------------------------------------------------------------------------

PieceRow piece(int64_t begin, int64_t end, const std::string& tensor, int64_t offset = 0) {
  return {"v", {2, 5}, begin, end, "x.safetensors", tensor, offset, "", ""};
}

// "v" in two pieces, which lie in a and c.
StoredState state_of(const fs::path& root, const std::vector<PieceRow>& rows) {
  SafetensorsWriter writer(root / "x.safetensors", kTensors);
  for (const TensorHeader& tensor : kTensors) {
    const std::string bytes = bytes_of(tensor);
    writer.append(bytes.data(), bytes.size());
  }
  writer.finish();
  Json json = Json::array();
  for (const PieceRow& row : rows) json.push_back(to_json(row));
  write_pieces(root, "model", json);
  return StoredState::of_pieces(root, "model");
}

TEST_F(SavedFolders, GiveAnyRangeOfAValueFromItsPieces) {
  const StoredState state = state_of(root_, {piece(4, 10, "c", 1), piece(0, 4, "a", 2)});
  const std::vector<StoredRun> runs = state.runs("v", 3, 8);
  ASSERT_EQ(runs.size(), 2);
  EXPECT_EQ(runs[0].tensor->name, "a");
  EXPECT_EQ(runs[0].offset, 5);
  EXPECT_EQ(runs[0].end, 4);
  EXPECT_EQ(runs[1].tensor->name, "c");
  EXPECT_EQ(runs[1].offset, 1);
  EXPECT_EQ(runs[1].end, 8);
  EXPECT_TRUE(state.runs("v", 3, 3).empty());
  EXPECT_EQ(state.runs("v", 4, 10).size(), 1u) << "nothing is left of a piece that ends there";
  EXPECT_EQ(state.runs("v", 0, 4).size(), 1u);
}

TEST_F(SavedFolders, SayWhichPiecesAreMissingOrWrong) {
  const StoredState state = state_of(root_, {piece(0, 4, "a"), piece(6, 10, "c")});
  EXPECT_THAT(problem_of([&] { state.runs("v", 2, 9); }),
              HasSubstr("v: elements 4 to 9 are in no file; expected the files of every rank"));
  EXPECT_THAT(problem_of([&] { state.runs("w", 0, 1); }), HasSubstr("w: missing"));
  const auto problem_with = [&](const PieceRow& row) {
    return problem_of([&] { state_of(root_, {row}); });
  };
  EXPECT_THAT(problem_with(piece(0, 11, "c")), HasSubstr("are not in shape [2, 5]"));
  EXPECT_THAT(problem_with(piece(-1, 3, "c")), HasSubstr("are not in shape [2, 5]"));
  EXPECT_THAT(problem_with(piece(3, 2, "c")), HasSubstr("are not in shape [2, 5]"));
  EXPECT_THAT(problem_with(piece(0, 8, "c")), HasSubstr("'c' of x.safetensors is too short for 8"));
  EXPECT_THAT(problem_with(piece(0, 4, "d")), HasSubstr("no tensor 'd' in x.safetensors"));
  PieceRow outside = piece(0, 4, "a");
  outside.file = "../x.safetensors";
  EXPECT_THAT(problem_with(outside), HasSubstr("'../x.safetensors' leads out of the folder"));
  PieceRow quantized = piece(0, 7, "c");
  quantized.map = "signed8";
  quantized.scales = "a";
  EXPECT_THAT(problem_with(quantized), HasSubstr("no scales of 1 blocks"));
  write_file_atomic(root_ / "model_pieces.json", R"({"pieces": [{"value": 3}]})");
  EXPECT_THAT(problem_of([&] { StoredState::of_pieces(root_, "model"); }),
              HasSubstr("pieces: not an index of pieces: "));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
