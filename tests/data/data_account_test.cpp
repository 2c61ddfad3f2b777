// What is said of data that a run does not use, word for word.
#include "sftbench/data/data_account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

DataAccount account() {
  return {.entries = 8,
          .tokens = 400,
          .cut_entries = 1,
          .cut_tokens = 1,
          .without_loss = 3,
          .without_loss_by_cut = 1,
          .doubtful_entries = 1,
          .doubtful_tokens = 1,
          .unused = {{"column weight", 1}},
          .remarks = {{"a turn is empty", 2}}};
}

TEST(DataAccountTest, OneAndSeveralAreToldApart) {
  EXPECT_THAT(warnings_about({}, false), IsEmpty());
  EXPECT_THAT(
      warnings_about(account(), true),
      ElementsAre(
          "column weight of 1 entry is not used", "in 2 entries, a turn is empty",
          "1 entry of 8 is cut at model_max_length, which leaves out 1 of 400 tokens (below 1 %)",
          "2 entries bear no loss: the response template is not in them",
          "1 entry bears no loss: what bears it stands behind model_max_length",
          "in 1 entry, 1 token that bears loss is doubtful: the chat template renders beginnings "
          "of these conversations otherwise, and masks are those of fms-hf-tuning"));
  DataAccount twice = account();
  twice.add(account());
  twice.cut_tokens = 100;
  twice.without_loss = 3;
  EXPECT_THAT(
      warnings_about(twice, false),
      ElementsAre(
          "column weight of 2 entries is not used", "in 4 entries, a turn is empty",
          "2 entries of 16 are cut at model_max_length, which leaves out 100 of 800 tokens (13 %)",
          "1 entry bears no loss: nothing in them bears it",
          "2 entries bear no loss: what bears it stands behind model_max_length",
          "in 2 entries, 2 tokens that bear loss are doubtful: the chat template renders "
          "beginnings of these conversations otherwise, and masks are those of fms-hf-tuning"));
}

TEST(DataAccountTest, SumsAreOfEveryFigure) {
  DataAccount sum = account();
  sum.add(account());
  EXPECT_EQ(to_json(sum),
            Json({{"entries", 16},
                  {"tokens", 800},
                  {"cut_entries", 2},
                  {"cut_tokens", 2},
                  {"entries_without_loss", 6},
                  {"entries_without_loss_by_cut", 2},
                  {"doubtful_entries", 2},
                  {"doubtful_tokens", 2},
                  {"unused", Json::array({{{"what", "column weight"}, {"entries", 2}}})},
                  {"remarks", Json::array({{{"what", "a turn is empty"}, {"entries", 4}}})}}));
}

// Twenty are named one by one, and a thousand are listed.
TEST(DataAccountTest, KeysWithoutEndAreCounted) {
  DataAccount many;
  const auto add = [&many](int from, int to) {
    for (int i = from; i < to; ++i) many.unused["key " + std::to_string(100000 + i)] = 1;
    return warnings_about(many, false);
  };
  EXPECT_EQ(add(0, 20).size(), 20u);
  EXPECT_EQ(add(20, 21).back(), "1 more columns and keys are not used");
  EXPECT_EQ(add(21, 23).back(), "3 more columns and keys are not used");
  EXPECT_EQ(add(23, 25).size(), 21u);
  add(25, 1001);
  EXPECT_EQ(to_json(many)["unused"].size(), 1000u);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
