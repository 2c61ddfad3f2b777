#include "sftbench/data/text_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "data/golden.h"
#include "sftbench/data/micro_batch.h"
#include "sftbench/data/text_generator.h"
#include "tokenizer/golden_tokenizer.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using Rows = std::vector<std::vector<int64_t>>;

std::vector<int64_t> all_of(int64_t entries) {
  std::vector<int64_t> numbers(static_cast<size_t>(entries));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<int64_t> flat(const Json& rows) {
  std::vector<int64_t> values;
  for (const Json& row : rows) {
    for (const Json& value : row) values.push_back(value);
  }
  return values;
}

// One file of golden results: texts, and for each tokenizer and maximum length what becomes of
// them.
class TextDatasetTest : public ::testing::Test {
 protected:
  // Calls verify(tokenizer, its golden, one case of it, the dataset encoded for it).
  template <typename Verify>
  void for_each_case(const Verify& verify) {
    ASSERT_EQ(golden_["tokenizers"].size(), 3u);
    for (const Json& tokenizer : golden_["tokenizers"]) {
      for (const Json& one : tokenizer["cases"]) {
        SCOPED_TRACE(tokenizer["name"].get<std::string>() + " " + one["model_max_length"].dump());
        TextDataset dataset = dataset_of(golden_tokenizer(tokenizer), one["model_max_length"]);
        dataset.encode(all_of(dataset.size()), 2);
        verify(tokenizer, one, dataset);
      }
    }
  }

  TextDataset dataset_of(const Tokenizer& tokenizer, int64_t model_max_length) const {
    return TextDataset(JsonlFile(lines_, "x.jsonl"), tokenizer,
                       {.model_max_length = model_max_length});
  }

  Tokenizer first_tokenizer() const { return golden_tokenizer(golden_["tokenizers"][0]); }

  Json golden_ = golden("entries.json");
  std::string lines_ = as_jsonl(golden_["texts"]);
};

TEST_F(TextDatasetTest, IdsEqualHuggingFacesWithEosAppendedAndTruncated) {
  for_each_case([](const Json&, const Json& one, const TextDataset& dataset) {
    for (int64_t i = 0; i < dataset.size(); ++i) {
      EXPECT_EQ(dataset.entry(i).input_ids,
                one["input_ids"][static_cast<size_t>(i)].get<std::vector<int32_t>>())
          << "entry " << i;
    }
  });
}

TEST_F(TextDatasetTest, ResponseTemplateIsSearchedAsTheReferenceSearchesIt) {
  for_each_case([this](const Json& tokenizer, const Json& one, const TextDataset& dataset) {
    EXPECT_EQ(response_template_ids(golden_tokenizer(tokenizer), golden_["response_template"]),
              tokenizer["response_ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(dataset.account().without_loss, one["without_response"].get<int64_t>());
  });
}

TEST_F(TextDatasetTest, DatasetTokensAreThoseOfTheTextWithoutEosUpToTheMaximum) {
  for_each_case([](const Json&, const Json& one, const TextDataset& dataset) {
    for (int64_t i = 0; i < dataset.size(); ++i) {
      const auto tokens = one["text_tokens"][static_cast<size_t>(i)].get<int64_t>();
      EXPECT_EQ(dataset.entry(i).dataset_tokens,
                std::min(tokens, one["model_max_length"].get<int64_t>()));
    }
  });
}

TEST_F(TextDatasetTest, MicroBatchesEqualTheCollatorsWithTheSameLabelsAndNumItems) {
  for_each_case([](const Json& tokenizer, const Json& one, const TextDataset& dataset) {
    for (const Json& expected : one["batches"]) {
      const auto numbers = expected["entries"].get<std::vector<int64_t>>();
      const MicroBatch batch =
          make_micro_batch(dataset, numbers, Padding::kLongest, tokenizer["pad_id"]);
      EXPECT_EQ(batch.batch, static_cast<int64_t>(numbers.size()));
      EXPECT_EQ(batch.length, static_cast<int64_t>(expected["input_ids"][0].size()));
      EXPECT_EQ(batch.input_ids, flat(expected["input_ids"]));
      EXPECT_EQ(batch.labels, flat(expected["labels"]));
      EXPECT_EQ(batch.loss_tokens, expected["num_items"].get<int64_t>());
      EXPECT_EQ(batch.padded_tokens, batch.batch * batch.length);
    }
  });
}

TEST_F(TextDatasetTest, PaddingToTheMaximumChangesNothingButTheShape) {
  TextDataset dataset = dataset_of(first_tokenizer(), 512);
  dataset.encode({0, 2}, 1);
  const int64_t pad_id = golden_["tokenizers"][0]["pad_id"];
  const MicroBatch longest = make_micro_batch(dataset, {0, 2}, Padding::kLongest, pad_id);
  const MicroBatch maximum = make_micro_batch(dataset, {0, 2}, Padding::kMaxLength, pad_id);
  EXPECT_EQ(longest.length, 39);
  EXPECT_EQ(maximum.length, 512);
  EXPECT_EQ(maximum.padded_tokens, 1024);
  EXPECT_EQ(maximum.loss_tokens, longest.loss_tokens);
  EXPECT_EQ(maximum.dataset_tokens, longest.dataset_tokens);
  EXPECT_THAT(maximum.lengths, ElementsAre(39, 5));
  EXPECT_EQ(longest.padding_tokens, 39 - 5);
  EXPECT_EQ(maximum.padding_tokens, 1024 - 39 - 5);
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t i = 0; i < 512; ++i) {
      const auto at = static_cast<size_t>(row * 512 + i), from = static_cast<size_t>(row * 39 + i);
      EXPECT_EQ(maximum.input_ids[at], i < 39 ? longest.input_ids[from] : pad_id);
      EXPECT_EQ(maximum.labels[at], i < 39 ? longest.labels[from] : kIgnoredLabel);
    }
  }
}

TEST_F(TextDatasetTest, WithoutPaddingEntriesStandInOneRowAndNoLabelLeadsFromOneToTheNext) {
  TextDataset dataset(JsonlFile(lines_, "x.jsonl"), first_tokenizer(),
                      {.response_template = "", .model_max_length = 512});
  dataset.encode({0, 1, 2}, 1);
  const int64_t pad_id = golden_["tokenizers"][0]["pad_id"];
  const MicroBatch row = make_micro_batch(dataset, {2, 0, 1}, Padding::kNone, pad_id);
  std::vector<int64_t> ids, labels;
  int64_t loss_tokens = 0, dataset_tokens = 0;
  for (const int64_t entry : {2, 0, 1}) {
    const MicroBatch alone = make_micro_batch(dataset, {entry}, Padding::kLongest, pad_id);
    ids.insert(ids.end(), alone.input_ids.begin(), alone.input_ids.end());
    labels.insert(labels.end(), alone.labels.begin(), alone.labels.end());
    labels[labels.size() - alone.labels.size()] = kIgnoredLabel;
    loss_tokens += alone.loss_tokens;
    dataset_tokens += alone.dataset_tokens;
  }
  EXPECT_TRUE(row.one_row);
  EXPECT_EQ(row.batch, 1);
  EXPECT_EQ(row.length, static_cast<int64_t>(ids.size()));
  EXPECT_EQ(row.input_ids, ids);
  EXPECT_EQ(row.labels, labels);
  EXPECT_EQ(row.loss_tokens, loss_tokens) << "as many as the entries have alone";
  EXPECT_EQ(row.dataset_tokens, dataset_tokens);
  EXPECT_EQ(row.lengths.size(), 3u);
  EXPECT_EQ(row.lengths[0], 5);
  EXPECT_EQ(row.padding_tokens, 0);
}

TEST_F(TextDatasetTest, WithoutATemplateEveryTokenBearsLoss) {
  TextDataset dataset(JsonlFile(lines_, "x.jsonl"), first_tokenizer(),
                      {.response_template = "", .model_max_length = 512});
  dataset.encode({1}, 1);
  EXPECT_EQ(dataset.entry(1).loss_begin, 0);
  EXPECT_EQ(dataset.account().without_loss, 0);
}

TEST_F(TextDatasetTest, OnlyTheEntriesAskedForAreReadAndEachOnce) {
  const std::string lines = "{\"output\": \"fine\"}\nbroken\n{\"output\": \"also fine\"}\n";
  TextDataset dataset(JsonlFile(lines, "x.jsonl"), first_tokenizer(), {.model_max_length = 64});
  dataset.encode({2, 0, 2, 0}, 3);
  EXPECT_EQ(dataset.account().without_loss, 2);
  dataset.encode({0, 2}, 3);
  EXPECT_EQ(dataset.account().without_loss, 2);
  EXPECT_THROW(dataset.entry(1), std::logic_error);
}

TEST_F(TextDatasetTest, AllBadEntriesAreReportedAtOnceInTheFilesOrder) {
  const std::string lines = "{\"output\": 1}\n{\"output\": \"fine\"}\n\n{\"text\": \"a\"}\n[]\n";
  TextDataset dataset(JsonlFile(lines, "x.jsonl"), first_tokenizer(), {.model_max_length = 64});
  try {
    dataset.encode({3, 2, 1, 0}, 2);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "x.jsonl:1: output: the field is a number; expected a string\n"
                 "x.jsonl:4: output: no such field; found text\n"
                 "x.jsonl:5: the line is a list; expected a JSON object with the field 'output'");
  }
}

TEST_F(TextDatasetTest, OfManyBadEntriesTheFirstTwentyAreReported) {
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "{\"a" + std::to_string(i) + "\": \"\"}\n";
  TextDataset dataset(JsonlFile(lines, "x.jsonl"), first_tokenizer(), {.model_max_length = 64});
  try {
    dataset.encode(all_of(100), 2);
    FAIL() << "no error";
  } catch (const InputError& error) {
    ASSERT_EQ(error.diagnostics().size(), 21u);
    EXPECT_EQ(error.diagnostics()[19].line, 20);
    EXPECT_EQ(to_string(error.diagnostics().back()), "x.jsonl: 80 more lines are wrong");
  }
}

TEST_F(TextDatasetTest, OfManyEntriesThatAreWrongInOneWayTheFirstIsReported) {
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "{}\n";
  TextDataset dataset(JsonlFile(lines, "x.jsonl"), first_tokenizer(), {.model_max_length = 64});
  try {
    dataset.encode(all_of(100), 2);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "x.jsonl:1: output: no such field; the object is empty\n"
                 "x.jsonl: 99 more lines are wrong");
  }
}

// SentencePiece writes "###" otherwise behind a space than behind a line's end, and short templates
// leave no ids to be sought.
TEST_F(TextDatasetTest, WhereTheTemplatesIdsDoNotOccurItsTextTells) {
  size_t by_text = 0;
  for (const Json& one : golden("responses.json")) {
    SCOPED_TRACE(one["name"].get<std::string>() + ": " + one["text"].get<std::string>());
    const std::string lines = as_jsonl(Json::array({one["text"]}));
    TextDataset dataset(JsonlFile(lines, "x.jsonl"), golden_tokenizer(one),
                        {.response_template = one["template"], .model_max_length = 512});
    dataset.encode({0}, 1);
    EXPECT_EQ(dataset.entry(0).input_ids, one["input_ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(dataset.entry(0).loss_begin, one["loss_begin"].get<int32_t>());
    const auto length = static_cast<int64_t>(one["input_ids"].size());
    EXPECT_EQ(dataset.account().without_loss, one["loss_begin"] == length ? 1 : 0);
    if (!one["by_ids"].get<bool>() && one["loss_begin"] < length) ++by_text;
  }
  EXPECT_GE(by_text, 10u);
}

TEST_F(TextDatasetTest, ResponseBehindTheMaximumLengthIsNone) {
  const std::string lines = as_jsonl(Json::array({"Question: how many? A: seven"}));
  TextDataset dataset(JsonlFile(lines, "x.jsonl"), first_tokenizer(),
                      {.response_template = "A:", .model_max_length = 4});
  dataset.encode({0}, 1);
  EXPECT_EQ(dataset.account().without_loss, 1);
  EXPECT_EQ(dataset.entry(0).loss_begin, 4);
}

// What is counted is what is trained on: EOS is, and what model_max_length cuts off would be.
TEST_F(TextDatasetTest, EncodingFillsTheCacheWithTheTokensOfWholeEntries) {
  const JsonlFile file(lines_, "x.jsonl");
  TokenCountCache counts("/nowhere", {.tokenizer_digest = "t",
                                      .dataset_digest = "d",
                                      .text_field = "output",
                                      .entries = file.size()});
  TextDataset cut = dataset_of(first_tokenizer(), 8),
              whole = dataset_of(first_tokenizer(), 1 << 20);
  cut.encode(all_of(file.size()), 2, &counts);
  whole.encode(all_of(file.size()), 2);
  const Json& texts = golden_["tokenizers"][0]["cases"][0]["text_tokens"];
  for (int64_t i = 0; i < file.size(); ++i) {
    EXPECT_EQ(counts.tokens(i), whole.length(i)) << i;
    EXPECT_EQ(counts.tokens(i), texts[static_cast<size_t>(i)].get<int64_t>() + 1) << i;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
