#include "cli/dataset.h"

#include <gmock/gmock.h>

#include "cli/dataset_fixture.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

TEST_F(DatasetCommandTest, NamedDatasetGoesToTheUsersDataAndItsPathToStdout) {
  const fs::path path = folder_ / "data/sftbench/datasets/news-chars-512-entries-256.jsonl";
  EXPECT_EQ(run({"text", "news-chars-512-entries-256"}), path.string() + "\n");
  const std::string content = read_file(path);
  EXPECT_EQ(std::count(content.begin(), content.end(), '\n'), 256);

  const fs::path elsewhere = folder_ / "elsewhere.jsonl";
  run({"text", "news-chars-512-entries-256", "-o", elsewhere.string()});
  EXPECT_EQ(read_file(elsewhere), content);
}

TEST_F(DatasetCommandTest, OptionsDescribeADatasetOfOnesOwn) {
  const fs::path seed = folder_ / "seed.txt", output = folder_ / "own.jsonl";
  write_file_atomic(seed, "one two three four five");
  run({"text",
       "-i",
       seed.string(),
       "-o",
       output.string(),
       "--tokens-input",
       "2",
       "--tokens-output",
       "4",
       "--words-per-token",
       "0.5",
       "--prompt",
       "P:",
       "--response-delimiter",
       "R:",
       "--num-max-gpus",
       "1",
       "--num-max-batch-size",
       "3",
       "--num-gradient-accumulation-steps",
       "1"});
  EXPECT_EQ(read_file(output),
            "{\"output\": \"P: one R: two three\"}\n"
            "{\"output\": \"P: four R: five one\"}\n"
            "{\"output\": \"P: two R: three four\"}\n");
}

TEST_F(DatasetCommandTest, EntriesSaysHowMany) {
  const fs::path output = folder_ / "two.jsonl";
  run({"text", "-o", output.string(), "--entries", "2", "--tokens-output", "8"});
  const std::string content = read_file(output);
  EXPECT_EQ(std::count(content.begin(), content.end(), '\n'), 2);
  EXPECT_THROW(run({"text", "-o", "x", "--entries", "0"}), CLI::ValidationError);
  EXPECT_THROW(run({"text", "-o", "x", "--entries", "2", "--num-max-gpus", "1"}),
               CLI::ExcludesError);
}

TEST_F(DatasetCommandTest, NamedDatasetTakesNoOptionsOfOnesOwn) {
  EXPECT_EQ(error_of({"text", "news-chars-512-entries-256", "--prompt", "x"}),
            "--prompt: the named dataset 'news-chars-512-entries-256' is always made the same way; "
            "expected either a dataset's name or options of your own");
}

TEST_F(DatasetCommandTest, WithoutANameAnOutputIsNeeded) {
  EXPECT_EQ(error_of({"text", "--tokens-input", "3"}),
            "--output: nothing says where the dataset goes; expected a file to write, or the name "
            "of a dataset ('sftbench dataset list')");
}

TEST_F(DatasetCommandTest, UnknownNameGetsTheNearest) {
  EXPECT_THAT(error_of({"text", "news-chars-512-entries-257"}),
              HasSubstr("did you mean 'news-chars-512-entries-256'?"));
  EXPECT_THAT(error_of({"count", "news-chars-512-entries-257"}),
              HasSubstr("did you mean 'news-chars-512-entries-256'?"));
}

TEST_F(DatasetCommandTest, EntriesHaveALimit) {
  EXPECT_THROW(run({"text", "-o", "x", "--num-max-gpus", "0"}), CLI::ValidationError);
  EXPECT_THAT(
      error_of({"text", "-o", "x", "--num-max-gpus", "100000", "--num-max-batch-size", "100000"}),
      HasSubstr("--entries: found 4e+10; expected a number from 1 to 100000000"));
}

TEST_F(DatasetCommandTest, ListSaysWhatIsThere) {
  run({"text", "news-chars-512-entries-256"});
  const Json rows = parse_json(run({"list", "--format", "json"}), "stdout");
  ASSERT_EQ(rows.size(), 14u);
  for (const Json& row : rows) {
    EXPECT_EQ(row["present"].get<bool>(), row["dataset"] == "news-chars-512-entries-256");
    if (row["present"].get<bool>()) {
      EXPECT_EQ(row["bytes"].get<uintmax_t>(), fs::file_size(row["path"].get<std::string>()));
    }
  }
}

TEST_F(DatasetCommandTest, CountingTwiceReadsTheCacheAndRepairsIt) {
  run({"text", "news-chars-512-entries-256"});
  const std::vector<std::string> count = {
      "count",
      "news-chars-512-entries-256",
      "--format",
      "json",
      "--threads",
      "2",
      "--tokenizer",
      (fs::path(SFTBENCH_TEST_DATA) / "data" / "tokenizers" / "sentence_piece").string()};
  const Json first = parse_json(run(count), "stdout")[0];
  EXPECT_EQ(first["entries"], 256);
  EXPECT_GT(first["min"].get<int64_t>(), 100);
  const fs::path cache = first["cache"].get<std::string>();
  EXPECT_EQ(cache.parent_path(), folder_ / "cache/sftbench/tokens");
  EXPECT_EQ(parse_json(run(count), "stdout")[0], first);

  write_file_atomic(cache, "{\"schema\": \"something else\"}");
  EXPECT_EQ(parse_json(run(count), "stdout")[0], first);
}

TEST_F(DatasetCommandTest, CountsMayBeCutAtAMaximum) {
  const fs::path path = folder_ / "x.jsonl";
  write_file_atomic(path, "{\"text\": \"a\"}\n{\"text\": \"a a a a a a a a a a a a a a a a\"}\n");
  const Json row =
      parse_json(run({"count", path.string(), "--text-field", "text", "--model-max-length", "5",
                      "--format", "json", "--tokenizer",
                      (fs::path(SFTBENCH_TEST_DATA) / "data/tokenizers/byte_level").string()}),
                 "stdout")[0];
  EXPECT_EQ(row["min"], 2) << "EOS is one of them";
  EXPECT_EQ(row["max"], 5);
  EXPECT_EQ(row["tokens"], 7);
}

TEST_F(DatasetCommandTest, DatasetThatWasNotMadeNamesTheCommandThatMakesIt) {
  EXPECT_EQ(error_of({"count", "news-chars-512-entries-256"}),
            "dataset: dataset 'news-chars-512-entries-256' is not at " +
                (folder_ / "data/sftbench/datasets/news-chars-512-entries-256.jsonl").string() +
                "; expected a file, or what this makes: sftbench dataset text "
                "news-chars-512-entries-256");
  EXPECT_EQ(error_of({"count", "/nowhere/x.jsonl"}),
            "dataset: no such file: /nowhere/x.jsonl; expected a file");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
