// In which order the entities of a space come, and which of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "sftbench/base/json.h"
#include "sftbench/space/operation.h"
#include "space/shuffle.h"
#include "space_text.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::ElementsAreArray;

// number_gpus (2) x model_max_length (3) x model_name (2) x batch_size (2) = 24 entities.
Space grid(const std::string& parameterization = "[]") {
  return parse(space_text(
      "  - {identifier: number_gpus, propertyDomain: {values: [0, 1]}}\n"
      "  - {identifier: model_max_length, propertyDomain: {values: [64, 128, 256]}}\n"
      "  - {identifier: model_name, propertyDomain: {values: [smollm2-135m, llama-7b]}}\n"
      "  - {identifier: batch_size, propertyDomain: {values: [1, 2]}}\n",
      parameterization));
}

constexpr const char* kTwoExperiments =
    "[{property: {identifier: max_steps}, value: 3}]}, {experimentIdentifier: "
    "finetune_full_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer, parameterization: "
    "[{property: {identifier: max_steps}, value: 4}]";

Operation ordered(WalkOrder order, std::vector<std::string> grouping = {}) {
  Operation operation;
  operation.order = order;
  operation.grouping = std::move(grouping);
  return operation;
}

std::vector<int64_t> entities(const Space& space, const Operation& operation, uint64_t seed = 1,
                              Walk::Lookup recorded = {}) {
  Walk walk(space, operation, seed, std::move(recorded));
  std::vector<int64_t> entities;
  while (const std::optional<WalkStep> step = walk.next()) {
    if (step->experiment == 0) entities.push_back(step->entity);
  }
  return entities;
}

std::vector<int64_t> all_of(int64_t count) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// The values of one property along the walk, each change once: how often it was left and come to.
std::vector<std::string> runs(const Space& space, const std::vector<int64_t>& walk,
                              const std::vector<std::string>& properties) {
  std::vector<std::string> runs;
  for (const int64_t index : walk) {
    std::string text;
    for (const auto& [property, value] : space.entity(index).values) {
      if (std::find(properties.begin(), properties.end(), property) != properties.end())
        text += (text.empty() ? "" : " ") + python_str(value);
    }
    if (runs.empty() || runs.back() != text) runs.push_back(text);
  }
  return runs;
}

TEST(WalkTest, EntitiesThatShareWeightsAndTokensRunTogetherUnlessAskedOtherwise) {
  const Space space = grid();
  const std::vector<int64_t> walk = entities(space, Operation());
  EXPECT_THAT(walk, testing::UnorderedElementsAreArray(all_of(24)));
  EXPECT_THAT(runs(space, walk, {"model_name"}), ElementsAre("smollm2-135m", "llama-7b"));
  EXPECT_THAT(runs(space, walk, {"model_name", "model_max_length"}),
              ElementsAre("64 smollm2-135m", "128 smollm2-135m", "256 smollm2-135m", "64 llama-7b",
                          "128 llama-7b", "256 llama-7b"));
}

TEST(WalkTest, SequentialIsTheOrderOfTheExpansion) {
  EXPECT_THAT(entities(grid(), ordered(WalkOrder::kSequential)), ElementsAreArray(all_of(24)));
}

TEST(WalkTest, AWalkThatBeginsElsewhereEndsWithWhatComesBefore) {
  const Space space = grid();
  std::vector<int64_t> turned = all_of(24);
  std::rotate(turned.begin(), turned.begin() + 6, turned.end());
  const auto begun_at = [&](const Operation& operation, double part) {
    Walk walk(space, operation, 1, [](int64_t, size_t) { return Recorded::kNothing; });
    walk.jump(part);
    EXPECT_EQ(walk.entities_left_at_most(), 24);
    std::vector<int64_t> order;
    while (const std::optional<WalkStep> step = walk.next()) order.push_back(step->entity);
    return order;
  };
  Operation operation = ordered(WalkOrder::kSequential);
  EXPECT_THAT(begun_at(operation, 0.25), ElementsAreArray(turned));
  EXPECT_THAT(begun_at(operation, 0), ElementsAreArray(all_of(24)));
  EXPECT_THAT(begun_at(operation, 1), testing::UnorderedElementsAreArray(all_of(24)));
  operation.filter = EntityFilter::kUnmeasured;
  EXPECT_THAT(begun_at(operation, 0.25), ElementsAreArray(all_of(24))) << "a filter asks in order";
}

TEST(WalkTest, AWalkThatBeginsElsewhereHasTheEntitiesThatWereAskedFor) {
  Operation operation = ordered(WalkOrder::kSequential);
  operation.number_entities = 4;
  const Space space = grid();
  Walk walk(space, operation, 1);
  walk.jump(0.5);
  std::vector<int64_t> order;
  while (const std::optional<WalkStep> step = walk.next()) order.push_back(step->entity);
  EXPECT_THAT(order, ElementsAre(2, 3, 0, 1));
}

TEST(WalkTest, AWalkThatJumpsComesToEachEntityOnce) {
  const Space space = grid();
  Walk walk(space, ordered(WalkOrder::kSequential), 1);
  std::vector<int64_t> order;
  const auto go = [&](int steps) {
    for (int i = 0; i < steps; ++i) order.push_back(walk.next()->entity);
  };
  go(2);
  walk.jump(0.5);  // of the 22 that are left: behind 11 of them
  go(2);
  EXPECT_THAT(order, ElementsAre(0, 1, 13, 14));
  EXPECT_EQ(walk.entities_left_at_most(), 20);
  for (const double part : {0.99, 0.1, 0.6, 1.0, 0.0, 0.3}) {
    walk.jump(part);
    go(2);
  }
  while (const std::optional<WalkStep> step = walk.next()) order.push_back(step->entity);
  EXPECT_THAT(order, testing::UnorderedElementsAreArray(all_of(24)));
  walk.jump(0.5);
  EXPECT_EQ(walk.next(), std::nullopt) << "nothing is left to jump to";
}

TEST(WalkTest, RandomIsAPermutationThatTheSeedDecides) {
  const Space space = grid();
  const Operation random = ordered(WalkOrder::kRandom);
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<int64_t> walk = entities(space, random, seed);
    EXPECT_THAT(walk, testing::UnorderedElementsAreArray(all_of(24)));
    EXPECT_EQ(walk, entities(space, random, seed));
    orders.insert(walk);
  }
  EXPECT_EQ(orders.size(), 50U);
}

TEST(WalkTest, GroupsComeInTheOrderInWhichTheExpansionMeetsThem) {
  const Space space = grid();
  const auto walk =
      entities(space, ordered(WalkOrder::kSequentialGrouped, {"model_name", "number_gpus"}));
  EXPECT_THAT(walk, testing::UnorderedElementsAreArray(all_of(24)));
  EXPECT_THAT(runs(space, walk, {"model_name", "number_gpus"}),
              ElementsAre("0 smollm2-135m", "0 llama-7b", "1 smollm2-135m", "1 llama-7b"));
  EXPECT_TRUE(std::is_sorted(walk.begin(), walk.begin() + 6));
}

TEST(WalkTest, RandomGroupsStayWholeAndTheirEntitiesInOrder) {
  const Space space = grid();
  const Operation grouped = ordered(WalkOrder::kRandomGrouped, {"model_max_length", "model_name"});
  std::set<std::vector<std::string>> orders;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto walk = entities(space, grouped, seed);
    EXPECT_THAT(walk, testing::UnorderedElementsAreArray(all_of(24)));
    const auto groups = runs(space, walk, grouped.grouping);
    EXPECT_EQ(groups.size(), 6U);
    for (auto group = walk.begin(); group != walk.end(); group += 4)
      EXPECT_TRUE(std::is_sorted(group, group + 4));
    orders.insert(groups);
  }
  EXPECT_GT(orders.size(), 40U);
}

TEST(WalkTest, AllExperimentsOfAnEntityFollowEachOther) {
  const Space space = grid(kTwoExperiments);
  Walk walk(space, ordered(WalkOrder::kSequential), 0);
  for (int64_t entity = 0; entity < 24; ++entity) {
    for (size_t experiment = 0; experiment < 2; ++experiment) {
      const std::optional<WalkStep> step = walk.next();
      ASSERT_TRUE(step);
      EXPECT_EQ(step->entity, entity);
      EXPECT_EQ(step->experiment, experiment);
    }
  }
  EXPECT_FALSE(walk.next());
  EXPECT_FALSE(walk.next());
}

TEST(WalkTest, NumberOfEntitiesEndsTheWalk) {
  const Space space = grid(kTwoExperiments);
  Operation operation = ordered(WalkOrder::kRandom);
  operation.number_entities = 5;
  Walk walk(space, operation, 9);
  EXPECT_EQ(walk.entities_left_at_most(), 5);
  int steps = 0;
  while (walk.next()) ++steps;
  EXPECT_EQ(steps, 10);
  EXPECT_EQ(walk.entities_left_at_most(), 0);
  Operation all = operation;
  all.number_entities.reset();
  const std::vector<int64_t> whole = entities(space, all, 9);
  EXPECT_THAT(entities(space, operation, 9),
              ElementsAreArray(whole.begin(), whole.begin() + 5));  // more entities: the same walk
}

TEST(WalkTest, MoreEntitiesThanThereAreIsAnError) {
  Operation operation = parse_operation(
      "spaces: [s]\noperation:\n  module: {operatorName: random_walk, operationType: search}\n"
      "  parameters: {numberEntities: 25}\n",
      "o.yaml");
  const Space space = grid();
  try {
    Walk walk(space, operation, 0);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "o.yaml:4: operation.parameters.numberEntities: asks for 25 entities; expected at "
                 "most 24, the size of the space");
  }
}

TEST(WalkTest, GroupingByWhatIsNoDimensionIsAnError) {
  Operation operation = ordered(WalkOrder::kSequentialGrouped, {"batchsize"});
  operation.origin = "o.yaml";
  const Space space = grid();
  try {
    Walk walk(space, operation, 0);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "o.yaml: operation.parameters.samplerConfig.grouping: 'batchsize' is not in "
                 "entitySpace; expected one of number_gpus, model_max_length, model_name, "
                 "batch_size; did you mean 'batch_size'?");
  }
}

// Entity 2: both experiments measured; 3: one measured; 4: one failed; all others: nothing.
Recorded store(int64_t entity, size_t experiment) {
  if (entity == 2 || (entity == 3 && experiment == 1)) return Recorded::kFinal;
  return entity == 4 && experiment == 0 ? Recorded::kFailed : Recorded::kNothing;
}

TEST(WalkTest, SelectorsTakeOnlyWhatTheStoreKnows) {
  const Space space = grid(kTwoExperiments);
  Operation operation = ordered(WalkOrder::kSequential);
  operation.sampler = Sampler::kSelector;
  EXPECT_THAT(entities(space, operation, 0, store), ElementsAre(2, 3, 4));
  EXPECT_THAT(entities(space, operation, 0), ElementsAre());
  operation.number_entities = 2;
  EXPECT_THAT(entities(space, operation, 0, store), ElementsAre(2, 3));
}

TEST(WalkTest, FiltersCountTheExperimentsThatAreMeasured) {
  const Space space = grid(kTwoExperiments);
  Operation operation = ordered(WalkOrder::kSequential);
  operation.filter = EntityFilter::kMeasured;
  EXPECT_THAT(entities(space, operation, 0, store), ElementsAre(2));
  operation.filter = EntityFilter::kPartial;
  EXPECT_THAT(entities(space, operation, 0, store), ElementsAre(3));
  operation.filter = EntityFilter::kUnmeasured;
  EXPECT_EQ(entities(space, operation, 0, store).size(), 22U);
  operation.sampler = Sampler::kSelector;
  EXPECT_THAT(entities(space, operation, 0, store), ElementsAre(4));
}

TEST(WalkTest, WhyNoneOrFewerAreTakenIsSaid) {
  const Space space = grid(kTwoExperiments);
  const auto why = [&space](const Operation& operation, const Walk::Lookup& recorded) {
    Walk walk(space, operation, 0, recorded);
    while (walk.next()) {
    }
    return walk.why_fewer("results");
  };
  Operation operation = ordered(WalkOrder::kSequential);
  EXPECT_EQ(why(operation, store), "");
  operation.sampler = Sampler::kSelector;
  EXPECT_EQ(why(operation, {}),
            "no entity is taken: a selector takes those that have results, and results has none of "
            "this space; samplerType generator takes new ones");
  EXPECT_EQ(why(operation, store), "");
  operation.number_entities = 3;
  EXPECT_EQ(why(operation, store), "");
  operation.number_entities = 5;
  EXPECT_THAT(why(operation, store), testing::StartsWith("3 of 5 entities are taken: a selector"));
  operation.filter = EntityFilter::kMeasured;
  EXPECT_EQ(why(operation, {}),
            "no entity is taken: of those that have results, the filter takes those that are "
            "measured in results");
}

TEST(WalkTest, TheStoreIsAskedOnlyWhenAnAnswerMatters) {
  const Space space = grid(kTwoExperiments);
  int asked = 0;
  const auto counting = [&asked](int64_t, size_t) {
    ++asked;
    return Recorded::kNothing;
  };
  EXPECT_EQ(entities(space, Operation(), 0, counting).size(), 24U);
  EXPECT_EQ(asked, 0);
}

TEST(WalkTest, BillionsOfEntitiesAreWalkedWithoutAList) {
  const Space space = parse(space_text(
      "  - {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n"
      "  - {identifier: number_gpus, propertyDomain: {domainRange: [0, 33], interval: 1}}\n"
      "  - {identifier: model_max_length, propertyDomain: {domainRange: [1, 131073], interval: "
      "1}}\n"
      "  - {identifier: batch_size, propertyDomain: {domainRange: [1, 4097], interval: 1}}\n"));
  for (const WalkOrder order : {WalkOrder::kShared, WalkOrder::kRandom}) {
    Walk walk(space, ordered(order), 3);
    std::set<int64_t> seen;
    for (int i = 0; i < 1000; ++i) {
      const int64_t entity = walk.next()->entity;
      EXPECT_GE(entity, 0);
      EXPECT_LT(entity, space.entity_count());
      seen.insert(entity);
    }
    EXPECT_EQ(seen.size(), 1000U);
    EXPECT_EQ(walk.entities_left_at_most(), space.entity_count() - 1000);
  }
}

TEST(ShuffleTest, IsAPermutationOfEveryCount) {
  for (const int64_t count : {1, 2, 3, 4, 5, 7, 16, 17, 64, 65, 1000, 4097}) {
    std::vector<int64_t> images;
    for (int64_t i = 0; i < count; ++i) images.push_back(shuffled(i, count, 5));
    std::sort(images.begin(), images.end());
    EXPECT_EQ(images, all_of(count));
  }
}

TEST(ShuffleTest, EveryEntityComesToEveryPlaceAboutEquallyOften) {
  constexpr int64_t kCount = 12;
  constexpr int kSeeds = 6000;
  std::map<std::pair<int64_t, int64_t>, int> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (int64_t i = 0; i < kCount; ++i) ++seen[{i, shuffled(i, kCount, seed)}];
  }
  for (int64_t i = 0; i < kCount; ++i) {
    for (int64_t image = 0; image < kCount; ++image) {
      EXPECT_NEAR((seen[{i, image}]), kSeeds / kCount, 120) << i << " -> " << image;  // 5.6 sigma
    }
  }
}

TEST(ShuffleTest, IsTheSameOnEveryMachine) {
  const Json golden = read_json_file(SFTBENCH_TEST_DATA "/space/shuffles.json");
  ASSERT_EQ(golden.size(), 50U);
  for (const Json& row : golden) {
    EXPECT_EQ(shuffled(row["index"], row["count"], row["seed"]), row["image"]) << row;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
