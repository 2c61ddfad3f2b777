// A pipe, a device, a socket or a folder in place of each file that a user can name: every command
// ends at once, and says what stands there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cli/program.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

// Opening a pipe that nobody writes to waits forever; of the devices, one has no end and one no
// begin.
constexpr std::pair<const char*, const char*> kKinds[] = {{"pipe", "is a pipe"},
                                                          {"/dev/zero", "is a device"},
                                                          {"/dev/null", "is a device"},
                                                          {"folder", "is a folder"}};

class NoRegularFileTest : public ::testing::Test {
 protected:
  NoRegularFileTest() {
    fs::create_directories(folder_ / "folder");
    make_pipe("pipe");
    std::ofstream(folder_ / "space.yaml")
        << "sampleStoreIdentifier: s\n"
           "experiments: [{experimentIdentifier: finetune_full_benchmark-v1.0.0,"
           " actuatorIdentifier: SFTTrainer}]\nentitySpace:\n"
           "- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n"
           "- {identifier: number_gpus, propertyDomain: {values: [0]}}\n"
           "- {identifier: model_max_length, propertyDomain: {values: [64]}}\n"
           "- {identifier: batch_size, propertyDomain: {values: [1]}}\n";
    std::ofstream(folder_ / "data.jsonl") << "{\"output\": \"one\"}\n";
  }

  void make_pipe(const fs::path& name) const {
    fs::create_directories((folder_ / name).parent_path());
    EXPECT_EQ(::mkfifo((folder_ / name).c_str(), 0600), 0) << name;
  }

  void expect_refused(const std::vector<std::string>& words, const std::string& finding,
                      const std::map<std::string, std::string>& environment = {}) const {
    const ProgramResult result = run_program(words, environment, folder_);
    EXPECT_EQ(result.status, 2) << testing::PrintToString(words) << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(finding));
    EXPECT_THAT(result.err, Not(HasSubstr("a bug")));
    EXPECT_LT(result.wall_s, 20.0);
    EXPECT_LT(result.peak_rss_kib, 500'000);
  }

  // `words` with each of the kinds in place of FILE.
  void expect_every_kind_refused(const std::vector<std::string>& words) const {
    for (const auto& [name, finding] : kKinds) {
      std::vector<std::string> named = words;
      for (std::string& word : named) {
        if (word == "FILE") word = name;
      }
      expect_refused(named, std::string(name) + ": " + finding + "; expected a regular file");
    }
  }

  fs::path folder_ = fresh_folder(std::string("no_regular_") +
                                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(NoRegularFileTest, AsASpace) {
  for (const char* command : {"run", "expand", "sweep", "predict"}) {
    expect_every_kind_refused({command, "FILE"});
  }
}

TEST_F(NoRegularFileTest, AsAnActuatorConfiguration) {
  expect_every_kind_refused({"run", "space.yaml", "--weights", "random", "--config", "FILE"});
  expect_every_kind_refused({"sweep", "space.yaml", "--weights", "random", "--config", "FILE"});
}

TEST_F(NoRegularFileTest, AsAnOperation) {
  expect_every_kind_refused({"sweep", "space.yaml", "--operation", "FILE", "--dry-run"});
}

TEST_F(NoRegularFileTest, AsAJob) {
  expect_every_kind_refused({"run", "--job", "FILE"});
}

TEST_F(NoRegularFileTest, AsADatasetThatIsCounted) {
  for (const auto& [name, finding] : kKinds) {
    const fs::path path = folder_ / name;
    const std::string found = std::string(name) == "folder" ? "the folder has no data" : finding;
    expect_refused({"dataset", "count", path.string()}, path.string() + ": " + found);
  }
}

TEST_F(NoRegularFileTest, AsASeedText) {
  for (const char* kind : {"text", "vision"}) {
    expect_every_kind_refused({"dataset", kind, "-i", "FILE", "-o", "made"});
  }
}

TEST_F(NoRegularFileTest, AsAListOfModels) {
  expect_every_kind_refused({"weights", "fetch", "-i", "FILE", "-o", "home"});
}

TEST_F(NoRegularFileTest, AsATokenOfAHub) {
  for (const auto& [name, finding] : kKinds) {
    expect_refused(
        {"weights", "fetch", "org/small", "-o", "home"}, finding,
        {{"HF_TOKEN_PATH", name}, {"HF_TOKEN", ""}, {"HF_ENDPOINT", "http://127.0.0.1:9"}});
  }
}

TEST_F(NoRegularFileTest, AmongTheFilesOfATokenizer) {
  make_pipe("whole/tokenizer.json");
  expect_refused({"dataset", "count", "./data.jsonl", "--tokenizer", "whole"},
                 "whole/tokenizer.json: is a pipe");
  const fs::path shipped = fs::path(SFTBENCH_SOURCE_DIR) / "datasets/tokenizer";
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const fs::path own = folder_ / name / "own";
    fs::create_directories(own);
    fs::copy_file(shipped / "tokenizer.json", own / "tokenizer.json");
    make_pipe(own / name);
    expect_refused({"dataset", "count", "./data.jsonl", "--tokenizer", own.string()},
                   (own / name).string() + ": is a pipe");
  }
}

TEST_F(NoRegularFileTest, AmongTheFilesOfTheProgram) {
  make_pipe("share/config/models.yaml");
  expect_refused({"models"}, "share/config/models.yaml: is a pipe",
                 {{"SFTBENCH_HOME", (folder_ / "share").string()}});
}

TEST_F(NoRegularFileTest, AsAFolder) {
  for (const char* name : {"pipe", "/dev/zero", "space.yaml"}) {
    expect_refused({"report", name}, name);
    expect_refused({"report", "folder", "--compare", name}, name);
    expect_refused({"run", "space.yaml", "--weights", "random", "--resume-from-checkpoint", name},
                   name);
    expect_refused({"run", "space.yaml", "--weights", "random", "--save-model-dir", name}, name);
    expect_refused({"run", "space.yaml", "--weights", "random", "-o", name}, name);
    expect_refused({"sweep", "space.yaml", "--weights", "random", "-o", name}, name);
    expect_refused({"weights", "check", "-o", name}, name);
    expect_refused({"dataset", "count", "./data.jsonl", "--tokenizer", name}, name);
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
