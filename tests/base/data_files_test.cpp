#include "sftbench/base/data_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "temporary_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class DataFilesTest : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& text = "{}") const {
    write_file_atomic(folder_ / name, text);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const fs::path& file : data_files(folder_)) {
      names.push_back(file.lexically_relative(folder_).string());
    }
    return names;
  }
  std::string problem() const {
    try {
      names();
    } catch (const InputError& error) {
      return error.what();
    }
    return "none";
  }

  // Fresh.
  fs::path folder_ = [] {
    const fs::path folder = temporary_file("data_files.d");
    fs::create_directory(folder);
    return folder;
  }();
};

TEST_F(DataFilesTest, AFileIsItself) {
  EXPECT_THAT(data_files("any.txt"), ElementsAre(fs::path("any.txt")));
}

TEST_F(DataFilesTest, AFolderIsItsDataByName) {
  for (const char* name : {"b.jsonl", "a.json", "dataset_info.json", "state.json", "README.md"}) {
    put(name);
  }
  EXPECT_THAT(names(), ElementsAre("a.json", "b.jsonl"));
}

TEST_F(DataFilesTest, NoDataAreLeftOutInSilence) {
  for (const char* name : {"B.JSONL", "c.jsonl", "._c.jsonl", ".d.jsonl.xz", "LICENSE"}) put(name);
  EXPECT_THAT(names(), ElementsAre("B.JSONL", "c.jsonl"));
  for (const char* name : {"e.jsonl.xz", "e.parq", "e.gz", "e.zip"}) {
    put(name);
    EXPECT_THAT(problem(),
                HasSubstr(std::string("the folder has ") + name + ", which is not read"));
    fs::remove(folder_ / name);
  }
}

TEST_F(DataFilesTest, OfSplitsTheOneThatIsTrainedOn) {
  for (const char* name : {"test-0.parquet", "train-1.parquet", "train-0.parquet",
                           "training-notes.parquet", "constrain.parquet"}) {
    put("data/" + std::string(name));
  }
  EXPECT_THAT(names(), ElementsAre("data/train-0.parquet", "data/train-1.parquet"))
      << "the layout of a repository on the hub";
}

TEST_F(DataFilesTest, WhatIsNoDataIsRefused) {
  EXPECT_THAT(problem(), HasSubstr("the folder has no data; expected files .json, .jsonl, "
                                   ".csv, .parquet or .arrow"));
  put("a.json");
  put("b.parquet");
  EXPECT_THAT(problem(), HasSubstr("the folder has json and parquet files; expected files of one "
                                   "kind, or the file that is meant"));
  put("config.json");
  EXPECT_THAT(problem(), HasSubstr("the folder is a model's: it has config.json"));
}

TEST_F(DataFilesTest, ASnapshotOfTheHubIsItsSplit) {
  const fs::path snapshot = folder_ / "datasets--org--name" / "snapshots" / "abc";
  for (const char* name : {"x/train/1.jsonl", "x/train/0.jsonl", "x/test/0.jsonl"})
    put("datasets--org--name/snapshots/abc/" + std::string(name));
  EXPECT_THAT(data_files(snapshot),
              ElementsAre(snapshot / "x/train/0.jsonl", snapshot / "x/train/1.jsonl"));
  EXPECT_THAT(data_files(snapshot.string() + "::test"), ElementsAre(snapshot / "x/test/0.jsonl"));
}

TEST_F(DataFilesTest, ACardThatNamesFilesIsFollowed) {
  put("a.jsonl");
  put("sub/b.jsonl");
  EXPECT_THAT(names(), ElementsAre("a.jsonl"));
  put("README.md", "---\nlicense: [\n---\n");
  EXPECT_THAT(names(), ElementsAre("a.jsonl")) << "a text that is no card";
  put("README.md", "---\nconfigs:\n- config_name: x\n  data_files: sub/*\n---\n");
  EXPECT_THAT(names(), ElementsAre("sub/b.jsonl"));
  EXPECT_THAT(data_files(folder_.string() + ":x"), ElementsAre(folder_ / "sub/b.jsonl"));
  EXPECT_EQ(digest_data(folder_.string() + ":x"), digest_file(folder_ / "sub/b.jsonl"));
  EXPECT_THROW(data_files(folder_.string() + ":y"), InputError);
  EXPECT_THROW(data_files(folder_.string() + ":"), InputError);
}

TEST_F(DataFilesTest, WhatExistsIsAPathWholeWithItsColons) {
  put("a:b.jsonl");
  EXPECT_THAT(data_files(folder_ / "a:b.jsonl"), ElementsAre(folder_ / "a:b.jsonl"));
  EXPECT_THAT(data_files(folder_ / "no:b.jsonl"), ElementsAre(folder_ / "no:b.jsonl"));
  EXPECT_EQ(data_place(folder_.string() + ":x:test").part, ":x:test");
  EXPECT_EQ(data_place(folder_.string() + ":x:test").path, folder_);
}

TEST_F(DataFilesTest, TheDigestIsThatOfTheContent) {
  put("a.jsonl", "1");
  EXPECT_EQ(digest_data(folder_), digest_file(folder_ / "a.jsonl")) << "one file in a folder";
  put("b.jsonl", "2");
  const std::string both = digest_data(folder_);
  fs::rename(folder_ / "a.jsonl", folder_ / "0.jsonl");
  EXPECT_EQ(digest_data(folder_), both);
  fs::rename(folder_ / "0.jsonl", folder_ / "c.jsonl");
  EXPECT_NE(digest_data(folder_), both) << "the order is another";
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
