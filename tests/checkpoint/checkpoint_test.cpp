#include "sftbench/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors_builder.h"
#include "sftbench/base/error.h"
#include "sftbench/checkpoint/weights_digest.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string one_float(const std::string& name) {
  return safetensors("{" + entry(name, "F32", "[1]", "[0,4]") + "}", 4);
}

std::string error_of(const std::filesystem::path& folder) {
  return message_of<InputError>([&] { open_checkpoint(folder); });
}

TEST(OpenCheckpoint, SingleFileGoesBeforeAnIndex) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", one_float("a"));
  folder.write("model.safetensors.index.json", "not read");
  const auto shards = open_checkpoint(folder.path());
  ASSERT_EQ(shards.size(), 1u);
  EXPECT_EQ(shards[0].tensors.at(0).name, "a");
}

TEST(OpenCheckpoint, IndexNamesTheShards) {
  const TemporaryFolder folder;
  folder.write("x.safetensors", one_float("a"));
  folder.write("y.safetensors", one_float("b"));
  folder.write("model.safetensors.index.json",
               R"({"metadata":{},"weight_map":{"a":"x.safetensors","b":"y.safetensors"}})");
  EXPECT_EQ(open_checkpoint(folder.path()).size(), 2u);
}

TEST(WeightsDigest, IsOfWhatIsReadWhereverItLies) {
  const TemporaryFolder folder, other, single;
  for (const TemporaryFolder* one : {&folder, &other}) {
    one->write("x.safetensors", one_float("a"));
    one->write("y.safetensors", one_float("b"));
    one->write("model.safetensors.index.json",
               R"({"metadata":{},"weight_map":{"a":"x.safetensors","b":"y.safetensors"}})");
  }
  const std::string digest = weights_digest(folder.path());
  EXPECT_EQ(weights_files(folder.path()).size(), 2u);
  EXPECT_EQ(weights_digest(other.path()), digest);
  other.write("z.safetensors", one_float("c"));
  EXPECT_EQ(weights_digest(other.path()), digest) << "the index does not name it";
  other.write("y.safetensors", one_float("c"));
  EXPECT_NE(weights_digest(other.path()), digest);
  single.write("model.safetensors", one_float("a"));
  single.write("model.safetensors.index.json", "not read");
  EXPECT_EQ(weights_files(single.path()).size(), 1u);
  EXPECT_NE(weights_digest(single.path()), digest);
}

TEST(WeightsDigest, RefusesWhatHasNone) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<InputError>([&] { weights_digest(folder.path()); }),
              HasSubstr("no weights; expected model.safetensors or"));
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"x.safetensors"}})");
  EXPECT_THAT(message_of<InputError>([&] { weights_digest(folder.path()); }),
              HasSubstr("x.safetensors"));
}

TEST(OpenCheckpoint, FolderWithoutWeightsNamesWhatItHas) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of(folder.path()), folder.path().string() +
                                         ": no weights; expected model.safetensors or "
                                         "model.safetensors.index.json");
  folder.write("pytorch_model.bin", "");
  folder.write("config.json", "{}");
  EXPECT_THAT(error_of(folder.path()),
              HasSubstr("no weights that can be read; it has pytorch_model.bin; expected"));
  for (const char* name : {"a.gguf", "b.pt", "c.pth", "d.safetensors"}) folder.write(name, "");
  EXPECT_THAT(error_of(folder.path()),
              HasSubstr("it has a.gguf, b.pt, c.pth, d.safetensors, pytorch_model.bin; expected"));
  EXPECT_EQ(error_of(folder.path() / "absent"),
            (folder.path() / "absent").string() +
                ": no such folder; expected a folder with model.safetensors");
}

TEST(OpenCheckpoint, IndexWithoutWeightMap) {
  const TemporaryFolder folder;
  for (const char* index : {"{}", "[]", R"({"weight_map":{}})", R"({"weight_map":[]})"}) {
    folder.write("model.safetensors.index.json", index);
    EXPECT_THAT(
        error_of(folder.path()),
        HasSubstr("weight_map: missing or empty; expected an object: tensor name -> file name"));
  }
}

TEST(OpenCheckpoint, IndexMayNotLeadOutOfItsFolder) {
  const TemporaryFolder folder;
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"../x","b":"/etc/passwd","c":7,"d":".."}})");
  EXPECT_THAT(
      error_of(folder.path()),
      AllOf(HasSubstr("weight_map.a: '../x' leads out of the folder; expected a plain file name"),
            HasSubstr("weight_map.b: '/etc/passwd' leads out"),
            HasSubstr("weight_map.c: not a text"), HasSubstr("weight_map.d: '..' leads out")));
}

// The system reads a name up to there, and would open another file.
TEST(OpenCheckpoint, IndexMayNotNameAFileWithAZeroByte) {
  const TemporaryFolder folder;
  folder.write("x.safetensors", one_float("a"));
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"x.safetensors\u0000y"}})");
  EXPECT_THAT(error_of(folder.path()),
              HasSubstr("weight_map.a: has a zero byte; expected a plain file name"));
}

TEST(OpenCheckpoint, EveryBrokenShardIsListed) {
  const TemporaryFolder folder;
  folder.write("x.safetensors", one_float("a"));
  folder.write("y.safetensors", one_float("a"));
  folder.write("z.safetensors", "short");
  folder.write(
      "model.safetensors.index.json",
      R"({"weight_map":{"a":"x.safetensors","b":"y.safetensors","c":"z.safetensors","d":"absent"}})");
  EXPECT_THAT(
      error_of(folder.path()),
      AllOf(HasSubstr("y.safetensors: a: duplicate tensor, also in x.safetensors"),
            HasSubstr("y.safetensors: b: missing, although the index places it here"),
            HasSubstr("z.safetensors: truncated: the file has 5 bytes"),
            HasSubstr("absent: no such file, although model.safetensors.index.json places 1 "
                      "tensor in it; expected every shard of the index; fetch the model "
                      "again")));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
