#include "sftbench/data/vision_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "data/golden.h"
#include "data/vision_image.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/data/dataset_catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

std::string error_of(const VisionGeneratorOptions& options, const std::string& seed = "words") {
  try {
    VisionGenerator(seed, "seed.txt", options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(VisionImage, IsThePictureThatPillowDrawsByteForByte) {
  const Json pictures = golden("vision.json")["pictures"];
  ASSERT_EQ(pictures.size(), 6u);
  for (const Json& picture : pictures) {
    const std::string jpeg = vision_image_jpeg(picture["width"], picture["height"]);
    EXPECT_EQ(jpeg.size(), picture["bytes"].get<size_t>());
    EXPECT_EQ(digest(jpeg), picture["digest"].get<std::string>())
        << picture["width"] << " x " << picture["height"];
  }
}

TEST(VisionGenerator, CutsTheWordsThatThePythonGeneratorCuts) {
  const Json small = golden("vision.json")["small"];
  VisionGeneratorOptions options;
  options.input_tokens = small["tokens_input"];
  options.output_tokens = small["tokens_output"];
  options.words_per_token = small["words_per_token"];
  VisionGenerator generator(small["seed"].get<std::string>(), "seed.txt", options);
  ASSERT_EQ(small["chats"].size(), 5u);
  for (const Json& chat : small["chats"]) {
    std::string question, answer;
    generator.next(question, answer);
    EXPECT_EQ(question, chat[0]["content"][0]["text"].get<std::string>());
    EXPECT_EQ(answer, chat[1]["content"][0]["text"].get<std::string>());
  }
}

TEST(VisionGenerator, NamedDatasetsBeginAsInThePythonGenerator) {
  const Json chats = golden("vision.json")["named"];
  std::set<std::string> made;
  for (const NamedDataset& dataset : named_datasets()) {
    if (!dataset.vision) continue;
    made.insert(dataset.file_name + " " + std::to_string(dataset.vision->image_width) + " " +
                std::to_string(dataset.vision->image_height));
    VisionGenerator generator = named_vision_generator(dataset);
    for (const Json& chat : chats) {
      std::string question, answer;
      generator.next(question, answer);
      EXPECT_EQ(question, chat["question"].get<std::string>());
      EXPECT_EQ(digest(answer), chat["answer_digest"].get<std::string>());
    }
  }
  EXPECT_EQ(made, (std::set<std::string>{"vision-384x384-16384plus-entries-4096.parquet 384 384",
                                         "vision-384x768-16384plus-entries-4096.parquet 384 768"}));
}

TEST(VisionGenerator, AllOptionsThatAreOutOfRangeAreNamedAtOnce) {
  VisionGeneratorOptions options;
  options.entries = 0;
  options.words_per_token = -1;
  options.input_tokens = -1;
  options.output_tokens = 100'000'001;
  options.image_width = 0;
  options.image_height = 8193;
  EXPECT_EQ(error_of(options),
            "--entries: found 0; expected a number from 1 to 100000000\n"
            "--words-per-token: found -1; expected a number from 0.001 to 1000\n"
            "--tokens-input: found -1; expected a number from 0 to 100000000\n"
            "--tokens-output: found 1e+08; expected a number from 0 to 100000000\n"
            "--image-width: found 0; expected a number from 1 to 8192\n"
            "--image-height: found 8193; expected a number from 1 to 8192");
}

TEST(VisionGenerator, EntryThatMemoryCannotHoldIsRefused) {
  VisionGeneratorOptions options;
  options.output_tokens = 100'000'000;
  options.words_per_token = 1000;
  EXPECT_THAT(error_of(options), HasSubstr("one entry would have more than 1000000000 bytes"));
}

TEST(VisionGenerator, SeedWithoutWordsOrNotUtf8IsNamed) {
  EXPECT_EQ(error_of({}, " \n"), "seed.txt: the seed text has no words; expected text");
  EXPECT_EQ(error_of({}, "caf\xe9"), "seed.txt: the seed text is not UTF-8; expected UTF-8");
}

TEST(VisionGenerator, TextDatasetsAreNotForIt) {
  try {
    named_vision_generator(named_dataset("news-chars-512-entries-256"));
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "dataset 'news-chars-512-entries-256' holds no images; it is made with: sftbench "
                 "dataset text news-chars-512-entries-256");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
