// Which files a split consists of, compared with the package datasets
// (tests/reference/dataset_files.py).
#include "sftbench/base/train_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/glob.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TrainFilesTest, AreThoseThatThePackageDatasetsTakes) {
  const std::string place = std::string(SFTBENCH_TEST_DATA) + "/data/dataset_files.json";
  const Json cases = read_json_file(place)["cases"];
  ASSERT_GT(cases.size(), 30u);
  for (const Json& expected : cases) {
    const TrainFiles found = find_train_files(expected["paths"], expected["card"],
                                              {expected["config"], expected["split"]});
    const std::string label = expected["layout"].get<std::string>() + ":" +
                              expected["config"].get<std::string>() + ":" +
                              expected["split"].get<std::string>();
    if (expected["files"].is_null()) {
      EXPECT_THAT(found.files, IsEmpty()) << label;
      EXPECT_NE(found.problem, "") << label;
    } else {
      EXPECT_EQ(Json(found.files), expected["files"]) << label << ": " << found.problem;
    }
  }
}

std::string problem_of(const std::vector<std::string>& paths, const std::string& card = {},
                       const DatasetPart& part = {}) {
  const TrainFiles found = find_train_files(paths, card, part);
  EXPECT_THAT(found.files, IsEmpty());
  return found.problem + "; " + found.expected;
}

constexpr const char* kTwoConfigs =
    "---\nconfigs:\n- config_name: en\n  data_files: en/*\n- config_name: '0625'\n  data_files: "
    "x/*\n---\n";

TEST(TrainFilesTest, WhatIsNotThereIsNamedWithWhatIs) {
  EXPECT_EQ(problem_of({"train.xml", "README.md"}),
            "has its data as train.xml, which this program does not read; files .json, .jsonl, "
            ".csv, .parquet or .arrow");
  EXPECT_THAT(problem_of({"data/train.jsonl.bz2"}),
              HasSubstr("has its data as data/train.jsonl.bz2"));
  EXPECT_THAT(problem_of({"data/train.parquet.gz"}),
              HasSubstr("has its data as data/train.parquet.gz"));
  EXPECT_THAT(problem_of({"train/a.png", "train/b.png", "train/metadata.jsonl"}),
              HasSubstr("has its data as train/a.png"));
  EXPECT_EQ(problem_of({"test.jsonl", "dev.jsonl"}),
            "has no split train by the names of its files; one of validation, test");
  EXPECT_EQ(problem_of({"en/a.jsonl"}, kTwoConfigs),
            "has several configs and no default one; one of en, 0625, as NAME:CONFIG");
  EXPECT_EQ(problem_of({"en/a.jsonl"}, kTwoConfigs, {"enn", "train"}),
            "has no config enn; one of en, 0625; did you mean 'en'?");
  EXPECT_EQ(problem_of({"en/a.jsonl"}, kTwoConfigs, {"en", "test"}),
            "has no split test in its config en; one of train");
  EXPECT_THAT(problem_of({"a.jsonl"}, {}, {"en", "train"}),
              HasSubstr("has no config en, and no data in a folder of that name"));
  EXPECT_THAT(problem_of({}), HasSubstr("has no data"));
}

// As in datasets: one config, one that is called default, or one that the card calls the default.
TEST(TrainFilesTest, OfSeveralConfigsTheFirstThatIsTheDefaultIsTaken) {
  const auto files = [](const std::string& second, const std::string& third) {
    const std::string card =
        "---\nconfigs:\n- config_name: en\n  data_files: en/*\n- config_name: " + second +
        "\n  data_files: de/*\n- config_name: " + third + "\n  data_files: fr/*\n---\n";
    return find_train_files({"en/a.jsonl", "de/a.jsonl", "fr/a.jsonl"}, card, {}).files;
  };
  EXPECT_THAT(files("de", "default"), ElementsAre("fr/a.jsonl"));
  EXPECT_THAT(files("de\n  default: true", "fr"), ElementsAre("de/a.jsonl"));
  EXPECT_THAT(files("de\n  default: true", "default"), ElementsAre("de/a.jsonl"));
  EXPECT_THAT(files("de\n  default: false", "fr"), IsEmpty());
}

TEST(TrainFilesTest, ADataFolderLeadsToNoOtherPlace) {
  for (const char* folder : {"../other", "/etc", "a/../../b", "a*"}) {
    const std::string card =
        std::string("---\nconfigs:\n- config_name: x\n  data_dir: '") + folder + "'\n---\n";
    EXPECT_THAT(problem_of({"a.jsonl"}, card), HasSubstr("a folder inside it")) << folder;
  }
  const std::string card =
      "---\nconfigs:\n- config_name: x\n  data_files: ../../secret.jsonl\n---\n";
  EXPECT_THAT(problem_of({"a.jsonl"}, card), HasSubstr("has no file ../../secret.jsonl"));
}

TEST(TrainFilesTest, WithoutACardAConfigIsAFolder) {
  EXPECT_THAT(find_train_files({"en/train.jsonl", "de/train.jsonl"}, {}, {"de", "train"}).files,
              ElementsAre("de/train.jsonl"));
  EXPECT_THAT(
      find_train_files({"a/en/train/0.parquet", "a/en/test/0.parquet"}, {}, {"a/en", "train"})
          .files,
      ElementsAre("a/en/train/0.parquet"));
}

TEST(TrainFilesTest, WhetherMoreFilesCouldHelpIsKnown) {
  EXPECT_TRUE(find_train_files({"test.jsonl"}, {}, {}).incomplete);
  EXPECT_TRUE(find_train_files({"README.md"}, kTwoConfigs, {"en", "train"}).incomplete);
  EXPECT_FALSE(find_train_files({"README.md"}, kTwoConfigs, {"fr", "train"}).incomplete);
  const TrainFiles part = find_train_files({"data/train-00001-of-00003.parquet"}, {}, {});
  EXPECT_THAT(part.files, ElementsAre("data/train-00001-of-00003.parquet"));
  EXPECT_EQ(part.warning, "data/train is there in 1 of 3 parts");
  for (const std::string name : {"x/tug-of-war-train", "a-of-b-train"}) {
    EXPECT_EQ(find_train_files({name + "-00001-of-00003.parquet"}, {}, {}).warning,
              name + " is there in 1 of 3 parts");
  }
  EXPECT_EQ(
      find_train_files({"train-00000-of-00002.parquet", "train-00001-of-00002.parquet"}, {}, {})
          .warning,
      "");
}

TEST(TrainFilesTest, ACardOfAnotherFormIsRefusedByItsLine) {
  const auto problem = [](const std::string& front) {
    try {
      find_train_files({"a.jsonl"}, "---\n" + front + "---\n", {});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(problem("configs: 7\n"), HasSubstr("README.md:2: configs: found"));
  EXPECT_THAT(problem("license: mit\nconfigs:\n- data_files:\n  - split: train\n"),
              HasSubstr("README.md:5: configs[0].data_files: found"));
  EXPECT_THAT(problem("configs: [\n"), HasSubstr("README.md"));
  EXPECT_FALSE(names_data_files("---\nconfigs: 7\n---\n"));
  EXPECT_FALSE(names_data_files("# A text\n"));
  EXPECT_TRUE(names_data_files(kTwoConfigs));
}

TEST(TrainFilesTest, APartIsReadAndSpelled) {
  std::string problem;
  for (const char* text : {"", ":en", ":data/en", ":en:test", "::test"}) {
    EXPECT_EQ(text_of(dataset_part(text, problem)), text);
    EXPECT_EQ(problem, "") << text;
  }
  EXPECT_EQ(text_of(dataset_part(":en:train", problem)), ":en");
  for (const char* text :
       {":", "::", ":en:", ":a:b:c", ":../x", ":/x", ":a//b", ":x/", ":a\n", ":*"}) {
    dataset_part(text, problem);
    EXPECT_THAT(problem, HasSubstr("names no config and split")) << text;
  }
}

// Python's glob and fnmatch say the same of these.
TEST(GlobTest, StarsQuestionMarksAndSets) {
  EXPECT_TRUE(matches_glob("a/b.json", "a/*.json"));
  EXPECT_FALSE(matches_glob("a/b/c.json", "a/*.json"));
  EXPECT_TRUE(matches_glob("a/b/c.json", "a/**/*.json"));
  EXPECT_TRUE(matches_glob("a/c.json", "a/**/*.json"));
  EXPECT_TRUE(matches_glob("a/b/c", "a/**"));
  EXPECT_FALSE(matches_glob("a", "a/**"));
  EXPECT_TRUE(matches_glob("x1y", "x?y"));
  EXPECT_FALSE(matches_glob("x/y", "x?y"));
  EXPECT_TRUE(matches_glob("b", "[a-c]"));
  EXPECT_FALSE(matches_glob("d", "[a-c]"));
  EXPECT_TRUE(matches_glob("d", "[!a-c]"));
  EXPECT_TRUE(matches_glob("]", "[]]"));
  EXPECT_TRUE(matches_glob("-", "[-._ 0-9]"));
  EXPECT_TRUE(matches_glob("[a", "[a"));
  EXPECT_TRUE(matches_glob("aXbXc", "a*b*c"));
  EXPECT_FALSE(matches_glob("aXbX", "a*b*c"));
}

TEST(GlobTest, ManyStarsTakeNoTime) {
  EXPECT_FALSE(matches_glob(std::string(2000, 'a'), std::string(50, '*') + "a*a*a*a*a*a*a*a*a*b"));
  std::string folders, pattern;
  for (int i = 0; i < 200; ++i) {
    folders += "a/";
    pattern += "**/";
  }
  EXPECT_FALSE(matches_glob(folders + "x", pattern + "y"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
