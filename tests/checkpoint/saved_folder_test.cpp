#include "sftbench/checkpoint/saved_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "data/file_size_limit.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/checkpoint/safetensors_writer.h"
#include "sftbench/checkpoint/stored_state.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SavedFolders : public ::testing::Test {
 protected:
  SavedFolders() {
    std::string name = ::testing::TempDir() + "saved.XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  ~SavedFolders() override { fs::remove_all(root_); }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  void make_checkpoint(int64_t step) const {
    write_file_atomic(root_ / ("checkpoint-" + std::to_string(step)) / kTrainerStateFile, "{}");
  }

  fs::path root_;
};

std::string problem_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no problem";
}

TEST_F(SavedFolders, AreThereOnceTheyAreCommitted) {
  {
    PendingFolder folder(root_ / "model");
    write_file_atomic(pending_path(root_ / "model") / "config.json", "{}");
    EXPECT_FALSE(fs::exists(root_ / "model"));
    folder.commit();
  }
  EXPECT_THAT(names(), ElementsAre("model"));
  EXPECT_TRUE(fs::exists(root_ / "model" / "config.json"));
}

TEST_F(SavedFolders, LeaveNothingWhenTheyAreNot) {
  {
    const PendingFolder folder(root_ / "model");
    write_file_atomic(pending_path(root_ / "model") / "config.json", "{}");
  }
  EXPECT_THAT(names(), ElementsAre());
}

TEST_F(SavedFolders, TakeThePlaceOfOneThatWasThere) {
  write_file_atomic(root_ / "checkpoint-3" / "old", "");
  PendingFolder folder(root_ / "checkpoint-3");
  write_file_atomic(pending_path(root_ / "checkpoint-3") / "new", "");
  folder.commit();
  EXPECT_THAT(names(), ElementsAre("checkpoint-3"));
  EXPECT_TRUE(fs::exists(root_ / "checkpoint-3" / "new"));
  EXPECT_FALSE(fs::exists(root_ / "checkpoint-3" / "old"));
}

TEST_F(SavedFolders, CountAsCheckpointsByTheirStateAndTheirStep) {
  make_checkpoint(12);
  make_checkpoint(9);
  fs::create_directory(root_ / "checkpoint-15");  // without a state
  make_checkpoint(3);
  fs::rename(root_ / "checkpoint-3", root_ / "checkpoint-3b");
  const std::vector<FoundCheckpoint> found = list_checkpoints(root_);
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0].step, 9);
  EXPECT_EQ(found[1].step, 12);
  EXPECT_EQ(find_checkpoint(root_), root_ / "checkpoint-12");
  EXPECT_EQ(find_checkpoint(root_ / "checkpoint-9"), root_ / "checkpoint-9");
  EXPECT_THAT(problem_of([&] { find_checkpoint(root_ / "checkpoint-15"); }),
              HasSubstr("checkpoint-15: no checkpoint; expected a checkpoint, which has "
                        "trainer_state.json, or a folder of them"));
  EXPECT_THAT(problem_of([&] { find_checkpoint(root_ / "nowhere"); }), HasSubstr("no such folder"));
}

TEST_F(SavedFolders, KeepTheNewest) {
  for (const int64_t step : {8, 10, 9}) make_checkpoint(step);
  fs::create_directory(root_ / "checkpoint-1");  // no checkpoint, and not ours to remove
  const CheckpointFolder folder(root_);
  folder.keep_newest(2, 10);
  EXPECT_THAT(names(), ElementsAre("checkpoint-1", "checkpoint-10", "checkpoint-9"));
  folder.keep_newest(5, 10);
  EXPECT_THAT(names(), ElementsAre("checkpoint-1", "checkpoint-10", "checkpoint-9"));
}

TEST_F(SavedFolders, KeepWhatAResumedRunSavedBeforeWhatItLeftBehind) {
  for (const int64_t step : {2, 4, 6, 8}) make_checkpoint(step);
  const CheckpointFolder folder(root_);
  folder.keep_newest(3, 4);  // went on from 2
  EXPECT_THAT(names(), ElementsAre("checkpoint-2", "checkpoint-4", "checkpoint-8"));
  folder.keep_newest(1, 4);
  EXPECT_THAT(names(), ElementsAre("checkpoint-4"));
}

TEST_F(SavedFolders, OfCheckpointsBelongToOneRunAndAreTidiedByTheNext) {
  fs::create_directories(root_ / ".checkpoint-4.saving" / "inner");
  fs::create_directory(root_ / ".other.saving");
  std::optional<CheckpointFolder> first(std::in_place, root_);
  EXPECT_THAT(names(), ElementsAre(".other.saving"));
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
  writer.finish();
  EXPECT_EQ(writer.size_bytes(), fs::file_size(root_ / "x.safetensors"));
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

TEST_F(SavedFolders, SpreadModelsOverFilesAsHuggingFaceNamesThem) {
  ModelFilesWriter writer(root_, kTensors, /*most_bytes=*/34);  // a: 24, b: 10, c: 7
  for (const TensorHeader& tensor : kTensors) {
    const std::string bytes = bytes_of(tensor);
    writer.append(bytes.data(), bytes.size());
  }
  writer.finish();
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
  EXPECT_THAT(problem_with(piece(0, 8, "c")), HasSubstr("'c' of x.safetensors is too short for 8"));
  EXPECT_THAT(problem_with(piece(0, 4, "d")), HasSubstr("no tensor 'd' in x.safetensors"));
  PieceRow outside = piece(0, 4, "a");
  outside.file = "../x.safetensors";
  EXPECT_THAT(problem_with(outside), HasSubstr("'../x.safetensors' leads out of the folder"));
  PieceRow quantised = piece(0, 7, "c");
  quantised.map = "signed8";
  quantised.scales = "a";
  EXPECT_THAT(problem_with(quantised), HasSubstr("no scales of 1 blocks"));
  write_file_atomic(root_ / "model_pieces.json", R"({"pieces": [{"value": 3}]})");
  EXPECT_THAT(problem_of([&] { StoredState::of_pieces(root_, "model"); }),
              HasSubstr("pieces: not an index of pieces: "));
}

}  // namespace
}  // namespace sftbench
