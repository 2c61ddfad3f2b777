#include "sftbench/data/text_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/file_size_limit.h"
#include "data/golden.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/data/dataset_catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TextGeneratorOptions options_of(const Json& one) {
  TextGeneratorOptions options;
  options.prompt = one["prompt"];
  options.response_delimiter = one["delimiter"];
  options.entries = one["entries"];
  if (one["unit"] == "characters") {
    options.unit = TextUnit::kCharacters;
    options.characters = one["characters"];
  } else {
    options.input_tokens = one["tokens_input"];
    options.output_tokens = one["tokens_output"];
    options.words_per_token = one["words_per_token"];
  }
  return options;
}

std::string all_lines(TextGenerator generator, int64_t entries) {
  std::string lines;
  for (int64_t i = 0; i < entries; ++i) generator.append_entry(lines);
  return lines;
}

std::string error_of(std::string_view seed, const TextGeneratorOptions& options) {
  try {
    TextGenerator(seed, "seed.txt", options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

class TextGeneratorTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_ =
      fs::path(::testing::TempDir()) / ("sftbench-generator-" + std::to_string(::getpid()));
};

TEST_F(TextGeneratorTest, WritesWhatThePythonGeneratorWritesByteForByte) {
  const Json cases = golden("text_generator.json")["cases"];
  ASSERT_EQ(cases.size(), 4u);
  for (const Json& one : cases) {
    const TextGeneratorOptions options = options_of(one);
    const TextGenerator generator(one["seed"].get<std::string>(), "seed.txt", options);
    const auto expected = one["lines"].get<std::string>();
    EXPECT_EQ(all_lines(generator, options.entries), expected);
    EXPECT_EQ(generator.total_bytes(), static_cast<int64_t>(expected.size()));
    write_text_dataset(generator, folder_ / "set.jsonl", {});
    EXPECT_EQ(read_file(folder_ / "set.jsonl"), expected);
  }
}

TEST_F(TextGeneratorTest, NamedDatasetsAreTheSameEachTime) {
  const Json named = golden("text_generator.json")["named"];
  size_t compared = 0;
  for (const NamedDataset& dataset : named_datasets()) {
    if (!dataset.text) continue;
    const std::string lines = all_lines(named_text_generator(dataset), 16);
    EXPECT_EQ(lines.size(), named[dataset.id]["first_16_bytes"].get<size_t>()) << dataset.id;
    EXPECT_EQ(digest(lines), named[dataset.id]["first_16_digest"].get<std::string>()) << dataset.id;
    ++compared;
  }
  EXPECT_EQ(compared, named.size());
}

TEST_F(TextGeneratorTest, CharacterSetsHaveTheDocumentedNumberOfCharacters) {
  for (const int64_t characters : {512, 1024, 2048}) {
    const NamedDataset& dataset =
        named_dataset("news-chars-" + std::to_string(characters) + "-entries-256");
    const Json entry = parse_json(all_lines(named_text_generator(dataset), 1), "line");
    const auto text = entry["output"].get<std::string>();
    const auto code_points =
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
    EXPECT_EQ(code_points, characters + 127 + characters);
  }
}

TEST_F(TextGeneratorTest, NamedDatasetIsGeneratedOnceAndAgainWhenItIsNotWhole) {
  const NamedDataset& dataset = named_dataset("news-chars-512-entries-256");
  const fs::path path = folder_ / "new" / dataset.file_name;
  std::string announced;
  const auto announce = [&announced](const std::string& line) { announced += line + "\n"; };
  EXPECT_TRUE(ensure_named_dataset(dataset, path, announce));
  EXPECT_THAT(announced,
              HasSubstr("generating dataset news-chars-512-entries-256 (256 entries, 0 MB) at " +
                        path.string()));
  const std::string content = read_file(path);
  EXPECT_FALSE(ensure_named_dataset(dataset, path, announce));
  fs::resize_file(path, content.size() / 2);
  EXPECT_TRUE(ensure_named_dataset(dataset, path, announce));
  EXPECT_EQ(read_file(path), content);
}

TEST_F(TextGeneratorTest, ProgressEndsWithEverything) {
  TextGeneratorOptions options;
  options.entries = 200;
  const TextGenerator generator("some words to repeat", "seed.txt", options);
  int64_t last_entries = 0, last_bytes = 0, calls = 0;
  write_text_dataset(generator, folder_ / "set.jsonl", [&](int64_t entries, int64_t bytes) {
    EXPECT_GT(entries, last_entries);
    last_entries = entries;
    last_bytes = bytes;
    ++calls;
  });
  EXPECT_GE(calls, 2);
  EXPECT_EQ(last_entries, 200);
  EXPECT_EQ(last_bytes, static_cast<int64_t>(fs::file_size(folder_ / "set.jsonl")));
  EXPECT_EQ(last_bytes, generator.total_bytes());
}

TEST_F(TextGeneratorTest, DiskThatFillsUpLeavesNothingBehind) {
  TextGeneratorOptions options;
  options.entries = 200;
  const TextGenerator generator("some words to repeat", "seed.txt", options);
  std::string message = "no error";
  {
    const FileSizeLimit limit(10'000'000);
    try {
      write_text_dataset(generator, folder_ / "set.jsonl", {});
    } catch (const InputError& error) {
      message = error.what();
    }
  }
  EXPECT_EQ(message, (folder_ / "set.jsonl").string() + ": cannot write: File too large");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(TextGeneratorTest, FolderThatCannotBeWrittenIsNamed) {
  try {
    write_text_dataset(TextGenerator("words", "seed.txt", {}), "/dev/full/set.jsonl", {});
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/full"));
  }
}

TEST_F(TextGeneratorTest, SeedWithoutWordsOrNotUtf8IsNamed) {
  EXPECT_EQ(error_of(" \n\u3000", {}), "seed.txt: the seed text has no words; expected text");
  EXPECT_EQ(error_of("caf\xe9", {}), "seed.txt: the seed text is not UTF-8; expected UTF-8");
  TextGeneratorOptions options;
  options.prompt = "\xff";
  EXPECT_EQ(error_of("words", options), "the prompt is not UTF-8; expected UTF-8");
  options = {};
  options.response_delimiter = "\xff";
  EXPECT_EQ(error_of("words", options), "the response delimiter is not UTF-8; expected UTF-8");
}

TEST_F(TextGeneratorTest, AllOptionsThatAreOutOfRangeAreNamedAtOnce) {
  TextGeneratorOptions options;
  options.entries = 0;
  options.input_tokens = -1;
  options.output_tokens = 100'000'001;
  options.words_per_token = 0;
  EXPECT_EQ(error_of("words", options),
            "--entries: found 0; expected a number from 1 to 100000000\n"
            "--words-per-token: found 0; expected a number from 0.001 to 1000\n"
            "--tokens-input: found -1; expected a number from 0 to 100000000\n"
            "--tokens-output: found 1e+08; expected a number from 0 to 100000000");
}

TEST_F(TextGeneratorTest, EntryThatMemoryCannotHoldIsRefused) {
  TextGeneratorOptions options;
  options.output_tokens = 100'000'000;
  options.words_per_token = 1000;
  EXPECT_EQ(
      error_of("words", options),
      "--tokens-output: one entry would have more than 1000000000 bytes; expected fewer tokens, "
      "or fewer words per token");
  options.words_per_token = 1;
  EXPECT_EQ(error_of("longer words than this", options),
            "no error");  // 100 million words of 5.75 bytes
  EXPECT_THAT(error_of("unusuallylongwords", options), HasSubstr("one entry would have more than"));
}

TEST(DatasetCatalog, UnknownNameGetsTheNearest) {
  try {
    named_dataset("news-chars-512-entries-4069");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("dataset_id: unknown dataset 'news-chars-512-entries-4069'; expected one of "));
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'news-chars-512-entries-4096'?"));
  }
}

TEST(DatasetCatalog, ImagesThatAreThereAreLeftAsTheyAre) {
  const NamedDataset& dataset = named_dataset("vision-384x768-16384plus-entries-4096");
  EXPECT_EQ(dataset.file_name, "vision-384x768-16384plus-entries-4096.parquet");
  // A folder is there, too; a reader will say what it is.
  EXPECT_FALSE(ensure_named_dataset(dataset, fs::temp_directory_path(), {}));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
