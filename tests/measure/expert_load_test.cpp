#include "sftbench/measure/expert_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

ExpertCounts counts(int64_t steps, std::vector<int64_t> tokens, int64_t ranks = 1) {
  ExpertCounts counts;
  counts.experts = 4;
  counts.per_token = 2;
  counts.ranks = ranks;
  counts.tokens = std::move(tokens);
  counts.steps = steps;
  return counts;
}

TEST(ExpertLoadTest, ABusyExpertShowsInItsLayer) {
  // Two layers: means of 10; the busiest have 10 and 25.
  const ExpertLoad load = expert_load(counts(1, {10, 10, 10, 10, 5, 25, 0, 10}));
  EXPECT_EQ(load.count, 4);
  EXPECT_EQ(load.per_token, 2);
  EXPECT_EQ(load.ranks, 1);
  EXPECT_THAT(load.tokens_per_expert, ElementsAre(10));
  EXPECT_THAT(load.imbalance, ElementsAre((1 + 2.5) / 2));
  EXPECT_THAT(load.worst_imbalance, ElementsAre(2.5));
  EXPECT_THAT(load.busiest_share, ElementsAre(25.0 / 40));
  EXPECT_THAT(load.rank_imbalance, ElementsAre(1));
  EXPECT_THAT(load.tokens_by_layer,
              ElementsAre(ElementsAre(10, 10, 10, 10), ElementsAre(5, 25, 0, 10)));
}

TEST(ExpertLoadTest, EachStepHasItsNumbersAndLayersTheirSums) {
  const ExpertLoad load = expert_load(counts(2, {4, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_THAT(load.tokens_per_expert, ElementsAre(1, 1));
  EXPECT_THAT(load.imbalance, ElementsAre(4, 1));
  EXPECT_THAT(load.busiest_share, ElementsAre(1, 0.25));
  EXPECT_THAT(load.tokens_by_layer, ElementsAre(ElementsAre(5, 1, 1, 1)));
}

// What makes ranks wait is the sum over the neighbors that a rank has.
TEST(ExpertLoadTest, RanksHaveNeighbors) {
  EXPECT_THAT(expert_load(counts(1, {9, 1, 1, 9}, 2)).rank_imbalance, ElementsAre(1));
  EXPECT_THAT(expert_load(counts(1, {9, 9, 1, 1}, 2)).rank_imbalance, ElementsAre(1.8));
  EXPECT_THAT(expert_load(counts(1, {9, 9, 1, 1}, 4)).rank_imbalance, ElementsAre(1.8));
}

TEST(ExpertLoadTest, AStepWithoutTokensIsEven) {
  const ExpertLoad load = expert_load(counts(1, {0, 0, 0, 0}));
  EXPECT_THAT(load.tokens_per_expert, ElementsAre(0));
  EXPECT_THAT(load.imbalance, ElementsAre(1));
  EXPECT_THAT(load.busiest_share, ElementsAre(0.25));
}

TEST(ExpertLoadTest, NoStepsAndNoExpertsHaveNoNumbers) {
  EXPECT_THAT(expert_load(counts(0, {})).imbalance, IsEmpty());
  EXPECT_EQ(expert_load(ExpertCounts()).count, 0);
}

TEST(ExpertLoadTest, CountsOfPartOfALayerAreAnError) {
  EXPECT_THROW(expert_load(counts(1, {})), std::exception);
  EXPECT_THROW(expert_load(counts(1, {1, 2, 3})), std::exception);
  EXPECT_THROW(expert_load(counts(1, {1, 2, 3, 4, 5})), std::exception);
  EXPECT_THROW(expert_load(counts(2, {1, 2, 3, 4})), std::exception);
  EXPECT_THROW(expert_load(counts(1, {1, 2, 3, 4}, 3)), std::exception);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
