#include "sftbench/data/invocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/base/error.h"
#include "sftbench/data/mixed_texts.h"
#include "sftbench/data/text_dataset.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::optional<int64_t> last(std::vector<int64_t> ids, const std::vector<int32_t>& invocation) {
  return last_invocation(std::span<const int64_t>(ids), invocation);
}

TEST(Invocation, IsTheLastOfSeveral) {
  EXPECT_EQ(last({7, 8, 1, 7, 8, 2, 7}, {7, 8}), 3);
  EXPECT_EQ(last({5, 1, 5, 1, 5}, {5}), 4);
  EXPECT_EQ(last({5, 5, 5, 1}, {5, 5}), 1) << "one that overlaps another";
}

TEST(Invocation, MayStandAtTheStartAndAtTheEnd) {
  EXPECT_EQ(last({7, 8, 9, 1, 2}, {7, 8, 9}), 0);
  EXPECT_EQ(last({1, 2, 7, 8, 9}, {7, 8, 9}), 2);
  EXPECT_EQ(last({7, 8, 9}, {7, 8, 9}), 0);
}

TEST(Invocation, IsNotFoundWhereItIsNotWhole) {
  EXPECT_EQ(last({1, 2, 3}, {7}), std::nullopt);
  EXPECT_EQ(last({1, 2, 7, 8}, {7, 8, 9}), std::nullopt) << "cut off";
  EXPECT_EQ(last({7, 1, 8}, {7, 8}), std::nullopt) << "its tokens apart";
  EXPECT_EQ(last({7}, {7, 7}), std::nullopt);
  EXPECT_EQ(last({}, {7}), std::nullopt);
}

// --- batches -------------------------------------------------------------------------------------

TEST(SilentPositions, AreThoseBeforeTheLastInvocationOfARow) {
  MicroBatch batch;
  batch.batch = 4;
  batch.length = 5;
  batch.lengths = {5, 3, 4, 0};
  batch.input_ids = {7, 8, 7, 8, 1,   // twice
                     1, 7, 8, 0, 0,   // at the end, in front of padding
                     1, 2, 3, 4, 0,   // nowhere
                     0, 0, 0, 0, 0};  // an entry of nothing
  EXPECT_THAT(silent_positions(batch, {7, 8}), ElementsAre(1, 1, 0, 0, 0,  //
                                                           1, 0, 0, 1, 1,  //
                                                           1, 1, 1, 1, 1,  //
                                                           1, 1, 1, 1, 1));
  EXPECT_THAT(silent_positions(batch, {0}), ::testing::Each(1)) << "padding is not searched";
}

TEST(SilentPositions, OfOneRowAreThoseOfEachEntry) {
  MicroBatch batch;
  batch.batch = 1;
  batch.length = 9;
  batch.one_row = true;
  batch.lengths = {4, 2, 3};
  batch.input_ids = {7, 8, 1, 7,  // begins with it, and what follows it is another entry's
                     8, 1,        //
                     2, 7, 8};
  EXPECT_THAT(silent_positions(batch, {7, 8}), ElementsAre(0, 0, 0, 0, 1, 1, 1, 0, 0));
}

// --- texts ---------------------------------------------------------------------------------------

Tokenizer words() {
  return Tokenizer::from_directory(SFTBENCH_TEST_DATA "/training/tokenizer");
}

TEST(InvocationIds, AreTheTextsWithoutSpecialTokensAroundThem) {
  const Tokenizer tokenizer = words();
  ASSERT_EQ(tokenizer.encode(" stone").size(), 2u) << "BOS in front of it";
  EXPECT_EQ(invocation_ids(tokenizer, " stone"), tokenizer.encode(" stone", false));
  EXPECT_THAT(invocation_ids(tokenizer, "<s>"), ElementsAre(0)) << "one in the text is one";
}

// A tokenizer whose vocabulary has neither the letter nor an unknown token leaves it out.
TEST(InvocationIds, OfATextWithoutTokensAreRefused) {
  const Tokenizer tokenizer = Tokenizer::from_json(
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})", "t.json");
  EXPECT_THAT(invocation_ids(tokenizer, "az"), ElementsAre(0));
  try {
    invocation_ids(tokenizer, "zz");
    FAIL() << "no refusal";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("alora_invocation_string \"zz\" has no tokens under this "
                                        "tokenizer"));
  }
}

std::shared_ptr<TextDataset> texts(std::vector<int32_t> invocation, int64_t model_max_length) {
  const std::string lines =
      R"({"output": "river stone river stone"}
{"output": "river river"}
{"output": "river river river river river stone"})";
  auto dataset =
      std::make_shared<TextDataset>(JsonlFile(lines, "x.jsonl"), words(),
                                    TextDatasetOptions{.response_template = "",
                                                       .model_max_length = model_max_length,
                                                       .invocation = std::move(invocation)});
  dataset->encode({0, 1, 2}, 2);
  return dataset;
}

TEST(TextDatasets, CountTheEntriesThatHaveAnInvocation) {
  const std::vector<int32_t> stone = invocation_ids(words(), " stone");
  EXPECT_EQ(texts(stone, 48)->invocations().with, 2);
  EXPECT_EQ(texts(stone, 48)->invocations().without, 1);
  EXPECT_EQ(texts(stone, 5)->invocations().with, 1) << "of the last entry it is cut off";
  EXPECT_EQ(texts({}, 48)->invocations().with + texts({}, 48)->invocations().without, 0);
  const MixedTexts mixture({texts(stone, 48), texts(stone, 48)});
  EXPECT_EQ(mixture.size(), 6);
  EXPECT_EQ(mixture.length(4), texts(stone, 48)->length(1)) << "the second entry of the second set";
  EXPECT_EQ(mixture.invocations().with, 4);
  EXPECT_EQ(mixture.invocations().without, 2);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
