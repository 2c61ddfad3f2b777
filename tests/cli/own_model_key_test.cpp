// Results of a model of one's own belong to what is in its folder, from `run` to `report`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cli/own_training_fixture.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;
using testing::Not;

class OwnModelKeyTest : public OwnTrainingTest {
 protected:
  static std::vector<std::string> words_of(const std::string& model, const std::string& data,
                                           const std::string& results) {
    return {
        "--model", model,   "--data",      data, "--input-column", "input",     "--output-column",
        "output",  "--set", "max_steps=2", "-o", results,          "--threads", "1"};
  }

  // The name of the result's file without its ending.
  std::string measured(const std::string& model = "my-llama",
                       const std::string& data = "pairs.json",
                       const std::string& results = "results") const {
    const ProgramResult result = program(words_of(model, data, results));
    EXPECT_EQ(result.status, 0) << result.err;
    return written(result);
  }
  static std::string written(const ProgramResult& result) {
    const size_t wrote = result.err.find("wrote ");
    EXPECT_NE(wrote, std::string::npos) << result.err;
    const std::string path = result.err.substr(0, result.err.find(".json", wrote));
    return path.substr(path.rfind('/') + 1);
  }

  // Rows of `report`, with the number of repeats of each.
  std::string report(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"results", "--format", "csv"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult result = program(words, "report");
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out + result.err;
  }
  size_t files() const {
    size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "results"))
      count += entry.path().extension() == ".json" ? 1 : 0;
    return count;
  }

  void change_last_byte(const std::string& name) const {
    std::string text = read_file(folder_ / name);
    text.back() = static_cast<char>(text.back() ^ 1);
    write(name, text);
  }
};

TEST_F(OwnModelKeyTest, AFileThatChangesInPlaceMakesAnotherKey) {
  std::set<std::string> keys = {measured()};
  const auto is_new = [&] { return keys.insert(measured().substr(0, 32)).second; };
  Json config = read_json_file((folder_ / "my-llama/config.json").string());
  config["rms_norm_eps"] = 0.5;
  write("my-llama/config.json", config.dump());
  EXPECT_TRUE(is_new());
  change_last_byte("my-llama/model.safetensors");
  EXPECT_TRUE(is_new());
  write("my-llama/special_tokens_map.json", "{}");
  EXPECT_TRUE(is_new());
  write("pairs.json", "[{\"input\": \"e\", \"output\": \"f\"}]\n");
  EXPECT_TRUE(is_new());
  write("my-llama/generation_config.json", "{}");
  EXPECT_FALSE(is_new()) << "no step reads it";
  EXPECT_THAT(report({"--wide"}), HasSubstr("model_weights"));
  EXPECT_EQ(files(), 6u) << "five keys, and a repeat of the last";
}

TEST_F(OwnModelKeyTest, AFolderThatMovesKeepsItsKey) {
  const std::string key = measured();
  fs::create_directory(folder_ / "elsewhere");
  fs::rename(folder_ / "my-llama", folder_ / "elsewhere/renamed");
  fs::rename(folder_ / "pairs.json", folder_ / "elsewhere/other.json");
  const ProgramResult again =
      program(words_of("elsewhere/renamed", "elsewhere/other.json", "results"));
  EXPECT_THAT(again.err, HasSubstr("/" + key + ".2.json: a repeat of "));
  const ProgramResult sweep =
      program(words_of("elsewhere/renamed", "elsewhere/other.json", "results"), "sweep");
  EXPECT_EQ(sweep.status, 0) << sweep.err;
  EXPECT_EQ(files(), 2u) << "the sweep had nothing to measure";
  EXPECT_EQ(measured("elsewhere/renamed", "elsewhere/other.json", "moved"), key);
  EXPECT_THAT(report({"--compare", "moved"}), HasSubstr("1 configuration in both, 0 only in"));
}

TEST_F(OwnModelKeyTest, ARepeatedJobSaysWhatHasChanged) {
  const std::string key = measured();
  const std::string stored = "results/finetune_full_benchmark-v1.0.0/" + key + ".json";
  EXPECT_EQ(written(program({"--job", stored, "-o", "results"})), key + ".2");
  change_last_byte("my-llama/model.safetensors");
  const ProgramResult other = program({"--job", stored, "-o", "results"});
  EXPECT_THAT(other.err,
              HasSubstr("since " + stored + " was printed, other content is in the files of " +
                        (folder_ / "my-llama").string()));
  EXPECT_EQ(written(other), measured().substr(0, key.size()));
}

// Version 0.1.0 wrote the path of the model's folder in place of digests.
TEST_F(OwnModelKeyTest, ResultsOfBeforeAreStillRead) {
  const std::string place = "results/finetune_full_benchmark-v1.0.0";
  fs::create_directories(folder_ / place);
  const std::string before = "b8e9c50bf01ea8ad25c868f5a9aa50ef.json";
  fs::copy(std::string(SFTBENCH_TEST_DATA) + "/results/" + before, folder_ / place);
  const std::string text = read_file(folder_ / place / before);
  const ProgramResult sweep = program(words_of("my-llama", "pairs.json", "results"), "sweep");
  EXPECT_EQ(sweep.status, 0) << sweep.err;
  EXPECT_EQ(files(), 2u) << "its key is another one";
  EXPECT_EQ(read_file(folder_ / place / before), text);
  EXPECT_THAT(report(), HasSubstr("2 results: 2 valid"));
  EXPECT_THAT(report({"--compare", "results"}), HasSubstr("2 configurations in both"));
  EXPECT_EQ(program({"--job", place + "/" + before, "--dry-run"}).status, 0);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
