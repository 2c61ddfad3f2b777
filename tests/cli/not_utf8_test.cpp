// Text from outside that is not UTF-8: it ends neither a sweep nor a run, and paths stay what they
// are. Latin-1 is what such text is in practice; its bytes are in no UTF-8 text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/program.h"
#include "results/schema_check.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const std::string kLatin1 = "caf\xe9";
const std::string kReplaced = "caf\uFFFD";

class NotUtf8Test : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder("plain");
    configure_small_dataset(folder_);
  }

  // Two cells for a sweep, one of them for a run.
  std::vector<std::string> words(const std::string& command, const fs::path& folder,
                                 const std::string& weights = "random") const {
    std::vector<std::string> words = {command,
                                      "--experiment",
                                      "finetune_full_benchmark-v1.0.0",
                                      "--config",
                                      (folder / "config.yaml").string(),
                                      "--weights",
                                      weights,
                                      "-o",
                                      (folder / "results").string()};
    for (const char* assignment : {"model_name=smollm2-135m", "number_gpus=0", "batch_size=2",
                                   "max_steps=2", "model_max_length=64"}) {
      words.insert(words.end(), {"--set", assignment});
    }
    if (command == "sweep") words.insert(words.end(), {"--set", "torch_dtype=[float32, bfloat16]"});
    return words;
  }

  std::vector<Json> results(const fs::path& folder) const {
    std::vector<Json> all;
    if (!fs::exists(folder / "results")) return all;
    for (const auto& entry : fs::recursive_directory_iterator(folder / "results")) {
      if (entry.path().extension() != ".json") continue;
      EXPECT_EQ(schema_violation(entry.path()), "");
      all.push_back(read_json_file(entry.path().string()));
    }
    return all;
  }

  fs::path folder_;
};

TEST_F(NotUtf8Test, TheLastLineOfALogEndsNoSweep) {
  const ProgramResult sweep =
      run_program(words("sweep", folder_), {{"FAKE_ENGINE", "latin1-crash"}});
  EXPECT_EQ(sweep.status, 4) << sweep.err;
  const std::vector<Json> all = results(folder_);
  EXPECT_THAT(all, SizeIs(2));
  for (const Json& result : all) {
    EXPECT_EQ(result.at("reason").at("code"), "INTERNAL");
    EXPECT_EQ(result.at("reason").at("evidence"), kReplaced + " cannot be read");
  }
}

TEST_F(NotUtf8Test, AnErrorOfAChildIsItsResult) {
  const ProgramResult sweep = run_program(words("sweep", folder_), {{"FAKE_ENGINE", "latin1"}});
  EXPECT_EQ(sweep.status, 4) << sweep.err;
  const std::vector<Json> all = results(folder_);
  EXPECT_THAT(all, SizeIs(2));
  for (const Json& result : all) {
    EXPECT_EQ(result.at("reason").at("message"), kReplaced + ": not a dataset");
  }
}

TEST_F(NotUtf8Test, AnErrorOfARunIsItsResult) {
  for (const char* format : {"table", "json", "csv"}) {
    std::vector<std::string> run_words = words("run", folder_);
    run_words.insert(run_words.end(), {"--format", format});
    const ProgramResult run = run_program(run_words, {{"FAKE_ENGINE", "latin1"}});
    EXPECT_EQ(run.status, 4) << run.err;
    EXPECT_THAT(run.err, Not(HasSubstr("a bug")));
    ASSERT_THAT(results(folder_), SizeIs(1));
    EXPECT_EQ(results(folder_).front().at("reason").at("message"), kReplaced + ": not a dataset");
    fs::remove_all(folder_ / "results");
  }
}

TEST_F(NotUtf8Test, ARankThatFailsSaysWhy) {
  std::vector<std::string> run_words = words("run", folder_);
  run_words.insert(run_words.end(), {"--ranks", "2"});
  const ProgramResult run = run_program(run_words, {{"FAKE_ENGINE", "rank 1: latin1"}});
  EXPECT_EQ(run.status, 4) << run.err;
  ASSERT_THAT(results(folder_), SizeIs(1));
  EXPECT_THAT(results(folder_).front().at("reason").at("message").get<std::string>(),
              HasSubstr("caf\\xe9: not a dataset"));
}

// The folder of datasets comes from the environment, that of results from the command line. A path
// that were changed on its way to a child would have the child make the dataset there.
TEST_F(NotUtf8Test, PathsReachEveryProcessAsTheyAre) {
  const fs::path folder = fresh_folder(kLatin1);
  const fs::path dataset = folder / "sftbench/datasets/news-chars-512-entries-256.jsonl";
  std::ofstream(folder_ / "config.yaml") << "parameters: {}\n";
  for (const char* command : {"run", "sweep"}) {
    std::vector<std::string> command_words = words(command, folder_);
    std::replace(command_words.begin(), command_words.end(), (folder_ / "results").string(),
                 (folder / "results").string());
    command_words.insert(command_words.end(), {"--set", "dataset_id=news-chars-512-entries-256"});
    const ProgramResult ended = run_program(command_words, {{"XDG_DATA_HOME", folder.string()}});
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(results(folder), Not(IsEmpty()));
    for (const Json& result : results(folder)) {
      EXPECT_EQ(result.at("status"), "valid");
      EXPECT_THAT(result.at("job").at("data").at("path").get<std::string>(),
                  HasSubstr(kReplaced + "/sftbench/datasets/news"));
    }
    fs::remove_all(folder / "results");
  }
  EXPECT_TRUE(fs::exists(dataset));
  EXPECT_FALSE(fs::exists(folder.parent_path() / kReplaced));
}

TEST_F(NotUtf8Test, ASettingThatIsNotIsNamed) {
  std::ofstream(folder_ / "config.yaml")
      << "parameters:\n  model_map: {smollm2-135m: " << (folder_ / kLatin1).string() << "}\n";
  for (const char* command : {"run", "sweep"}) {
    const ProgramResult ended = run_program(words(command, folder_, "auto"));
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.err, HasSubstr("config.yaml:2: a text is not UTF-8"));
    EXPECT_THAT(results(folder_), IsEmpty());
  }
}

TEST_F(NotUtf8Test, AModelInSuchAFolderIsNamed) {
  const fs::path home = fresh_folder(kLatin1);
  const fs::path model =
      home / "hub/models--HuggingFaceTB--SmolLM2-135M/snapshots/0123456789abcdef";
  fs::create_directories(model);
  for (const char* file : {"model.safetensors", "tokenizer.json", "config.json"}) {
    std::ofstream(model / file) << "no JSON";
  }
  for (const char* command : {"run", "sweep"}) {
    const ProgramResult ended = run_program(words(command, folder_, "auto"),
                                            {{"HF_HOME", home.string()}, {"HF_HUB_CACHE", ""}});
    EXPECT_EQ(ended.status, 4) << ended.err;
    EXPECT_THAT(results(folder_), Not(IsEmpty()));
    for (const Json& result : results(folder_)) {
      EXPECT_EQ(result.at("reason").at("code"), "WEIGHTS");
      EXPECT_THAT(result.at("reason").at("message").get<std::string>(),
                  HasSubstr(kReplaced + "/hub/"));
    }
    fs::remove_all(folder_ / "results");
  }
}

TEST_F(NotUtf8Test, TheEnvironmentIsTakenAsItIs) {
  const fs::path home = fresh_folder(kLatin1);
  const ProgramResult run = run_program(
      words("run", folder_), {{"HOME", home.string()}, {"HF_HOME", (home / "hf").string()}});
  EXPECT_EQ(run.status, 0) << run.err;
  const ProgramResult missing = run_program(
      words("run", folder_, "auto"), {{"HF_HOME", (home / "hf").string()}, {"HF_HUB_CACHE", ""}});
  EXPECT_EQ(missing.status, 4) << missing.err;
  EXPECT_THAT(missing.err, Not(HasSubstr("a bug")));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
