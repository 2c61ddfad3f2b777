// Paths of the command line as workers of an engine get them.
#include "cli/engine_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/program.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class EnginePathsTest : public testing::Test {
 protected:
  EnginePathsTest() : before_(fs::current_path()), folder_(fs::canonical(fresh_folder("paths"))) {
    fs::current_path(folder_);
    fs::create_directory("tiny");
    fs::create_directory("parts");
    std::ofstream("pairs.jsonl") << "{}\n";
    plan_.output = (folder_ / "results").string();
  }
  ~EnginePathsTest() override { fs::current_path(before_); }

  // The options' values behind each other.
  std::vector<std::string> placed(const std::string& engine) {
    place_paths(engine, loaded_, selection_, data_, plan_);
    std::vector<std::string> values;
    for (const WorkerOption& option : plan_.options) values.push_back(option.value.value_or(""));
    return values;
  }
  std::string refusal(const std::string& engine) {
    try {
      placed(engine);
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing was refused";
  }
  std::string here(const std::string& name) const { return (folder_ / name).string(); }

  fs::path before_, folder_;
  LoadedSpace loaded_;
  Selection selection_;
  std::set<std::string> data_;
  CampaignPlan plan_;
};

TEST_F(EnginePathsTest, RelativePathsBecomeAbsoluteOnRay) {
  selection_.model = "tiny";
  data_ = {"pairs.jsonl", "parts:default:train", "org/name"};
  plan_.options = {{"--model", "./tiny"},
                   {"--data", "pairs.jsonl"},
                   {"--eval-data", "parts:default:train"},
                   {"--tokenizer", "org/name"},
                   {"--set", "training_data_path=pairs.jsonl"},
                   {"--set", "batch_size=1"},
                   {"--output-dir", "made"},
                   {"--model", "/absolute/is/the/users/word"},
                   {"--pretokenized", std::nullopt}};
  const std::vector<std::string> as_given = {"./tiny",
                                             "pairs.jsonl",
                                             "parts:default:train",
                                             "org/name",
                                             "training_data_path=pairs.jsonl",
                                             "batch_size=1",
                                             "made",
                                             "/absolute/is/the/users/word",
                                             ""};
  EXPECT_EQ(placed("slurm"), as_given) << "which starts in this folder";
  EXPECT_EQ(placed("local"), as_given);
  EXPECT_EQ(placed("ray"), (std::vector<std::string>{
                               here("tiny"), here("pairs.jsonl"), here("parts:default:train"),
                               "org/name", "training_data_path=" + here("pairs.jsonl"),
                               "batch_size=1", here("made"), "/absolute/is/the/users/word", ""}));
}

TEST_F(EnginePathsTest, WhatTravelsInAFileIsNotChanged) {
  selection_.arguments_paths = {"arguments.json"};
  loaded_.file.model = "tiny";
  data_ = {"pairs.jsonl"};
  EXPECT_THAT(refusal("ray"),
              AllOf(HasSubstr("--arguments or SPACE: found 'tiny', and is relative"),
                    HasSubstr("expected " + here("tiny")), HasSubstr("found 'pairs.jsonl'")));
  data_ = {here("pairs.jsonl")};
  loaded_.file.model = here("tiny");
  EXPECT_EQ(refusal("ray"), "nothing was refused");
  EXPECT_THAT(refusal("kubernetes"),
              HasSubstr("found '" + here("tiny") + "', and is not on the volume"));
}

TEST_F(EnginePathsTest, AConfigurationHasAbsolutePaths) {
  loaded_.settings.model_map["mine"]["Vanilla"] = "tiny";
  loaded_.settings.data_directory = "parts";
  for (const char* engine : {"ray", "kubernetes"}) {
    EXPECT_THAT(refusal(engine), AllOf(HasSubstr("--config model_map: found 'tiny'"),
                                       HasSubstr("--config data_directory: found 'parts'")));
  }
  loaded_.settings.model_map["mine"]["Vanilla"] = "/models/of/the/image";
  loaded_.settings.data_directory = "/data/sets";
  EXPECT_EQ(refusal("kubernetes"), "nothing was refused");
}

TEST_F(EnginePathsTest, WhatIsSavedIsOnTheVolumeOfPods) {
  plan_.options = {{"--save-model-dir", "models"}};
  EXPECT_THAT(refusal("kubernetes"), HasSubstr("--save-model-dir: found 'models'"));
  plan_.options = {{"--save-model-dir", "/data/../etc"}};
  EXPECT_THAT(refusal("kubernetes"), HasSubstr("expected a path below /data/"));
  plan_.options = {{"--save-model-dir", "/data/models"}};
  EXPECT_EQ(placed("kubernetes"), std::vector<std::string>{"/data/models"});
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
