// Space files and what real ado of two generations makes of each (tests/reference/ado_files.py):
// the ids of its entities and experiments, in its order, or that it refuses the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sftbench/base/file.h"
#include "sftbench/space/expansion.h"
#include "space_text.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kGolden = std::string(SFTBENCH_TEST_DATA) + "/ado/";

// What ado takes in silence although it is a mistake, and this program refuses.
const std::set<std::string> kRefusedHere = {
    "twice",                 // a property twice: the last one counts in ado
    "yaml-repeated-key",     // a key twice: the last one counts
    "range-18",              // an interval below 0: no entity
    "list-repeats-by-type",  // a truth value as a number
    "boolean-batch",         // likewise
};

struct Row {
  std::string name;
  std::string text;
  Json verdict;

  bool taken() const { return verdict.contains("entities"); }
};

std::vector<Row> rows(const std::string& generation) {
  std::vector<Row> all;
  std::map<std::string, Json> verdicts;
  for (const Json& row : read_json_file(kGolden + generation + ".json")) {
    verdicts[row.at("name").get<std::string>()] = row;
  }
  for (const Json& row : read_json_file(kGolden + "spaces.json")) {
    const std::string name = row.at("name");
    all.push_back({name, row.at("text"), verdicts.at(name)});
  }
  return all;
}

// Without those that stand before: ado counts a value that is listed twice as two entities of one
// id.
std::vector<std::string> unique(const Json& list) {
  std::vector<std::string> kept;
  for (const Json& item : list) {
    const std::string text = item;
    if (std::find(kept.begin(), kept.end(), text) == kept.end()) kept.push_back(text);
  }
  return kept;
}

std::string warnings_of(const Space& space) {
  std::string text;
  for (const Diagnostic& warning : space.warnings) text += to_string(warning) + "\n";
  return text;
}

class AdoGoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  AdoIds ids() const { return *ado_ids_named(GetParam()); }

  SpaceOptions options() const {
    SpaceOptions options;
    options.ids = ids();
    return options;
  }
};

TEST_P(AdoGoldenTest, SpacesThatAdoTakesHaveItsEntitiesAndExperiments) {
  size_t compared = 0;
  for (const Row& row : rows(GetParam())) {
    if (!row.taken() || kRefusedHere.count(row.name) > 0) continue;
    SCOPED_TRACE(row.name + ":\n" + row.text);
    ASSERT_EQ(error_of(row.text, options()), "no error");
    const Space space = parse(row.text, options());
    std::vector<std::string> experiments;
    for (const ExperimentReference& reference : space.experiments)
      experiments.push_back(experiment_id(reference));
    std::vector<std::string> expected = unique(row.verdict.at("experiments"));
    // ado 1.7 told such experiments apart by the order of their parameters. They share one key
    // here.
    if (row.name == "experiment-twice-reordered") expected.resize(1);
    EXPECT_THAT(experiments, ElementsAreArray(expected));

    const Json& entities = row.verdict.at("entities");
    const std::vector<std::string> golden = unique(entities);
    const int64_t count = row.verdict.at("count");
    if (golden.size() == entities.size()) {
      EXPECT_EQ(space.entity_count(), count);
    }
    std::vector<std::string> ours;
    for (int64_t i = 0; i < std::min(space.entity_count(), static_cast<int64_t>(golden.size()));
         ++i)
      ours.push_back(entity_id(space.entity(i)));
    EXPECT_THAT(ours, ElementsAreArray(golden));
    if (space.entity_count() > 0) {
      Expansion expansion(space, Catalog::shipped().models);
      for (const std::string& id : golden) {
        EXPECT_EQ(expansion.entity_id(), id);
        expansion.advance();
      }
    }
    ++compared;
  }
  EXPECT_GE(compared, 90U);
}

TEST_P(AdoGoldenTest, IdsOfBothGenerationsAreFoundUnderEither) {
  for (const std::string other : {"1.7", "1.8"}) {
    for (const Row& row : rows(other)) {
      if (!row.taken() || kRefusedHere.count(row.name) > 0) continue;
      SCOPED_TRACE(row.name);
      const Space space = parse(row.text, options());
      const std::vector<std::string> golden = unique(row.verdict.at("entities"));
      for (size_t i = 0; i < golden.size(); ++i) {
        EXPECT_EQ(space.find(golden[i]), static_cast<int64_t>(i)) << golden[i];
      }
      for (const Json& experiment : row.verdict.at("experiments")) {
        SpaceOptions chosen = options();
        chosen.experiment = experiment;
        EXPECT_EQ(parse(row.text, chosen).experiments.size(), 1U) << experiment;
      }
    }
  }
}

// `ado get space -o yaml`: whole experiments, and in 2.3 where they come from.
TEST_P(AdoGoldenTest, TheStoredFormOfASpaceReadsLikeTheFileThatItWasMadeFrom) {
  const Json golden = read_json_file(kGolden + "resource-" + GetParam() + ".json");
  const std::string text = golden.at("text");
  ASSERT_EQ(error_of(text, options()), "no error");
  const Space space = parse(text, options());
  EXPECT_EQ(warnings_of(space), "");
  std::vector<std::string> experiments;
  for (const ExperimentReference& reference : space.experiments)
    experiments.push_back(experiment_id(reference));
  EXPECT_EQ(Json(experiments), golden.at("experiments"));
  std::vector<std::string> entities;
  for (int64_t i = 0; i < space.entity_count(); ++i) entities.push_back(entity_id(space.entity(i)));
  EXPECT_EQ(Json(entities), golden.at("entities"));
}

INSTANTIATE_TEST_SUITE_P(Generations, AdoGoldenTest, ::testing::Values("1.7", "1.8"),
                         [](const auto& test) { return test.param == "1.7" ? "Ado17" : "Ado18"; });

// The notes speak of today's ado.
TEST(AdoNotesTest, WhatAdoRefusesIsRefusedOrNoted) {
  size_t refused = 0;
  for (const Row& row : rows("1.8")) {
    if (row.taken()) continue;
    SCOPED_TRACE(row.name + ":\n" + row.text);
    ++refused;
    if (error_of(row.text) != "no error") continue;
    EXPECT_THAT(warnings_of(parse(row.text)), HasSubstr("ado"));
  }
  EXPECT_GE(refused, 60U);
}

TEST(AdoNotesTest, WhatAdoTakesIsNotSaidToBeRefused) {
  for (const Row& row : rows("1.8")) {
    if (!row.taken() || kRefusedHere.count(row.name) > 0) continue;
    SCOPED_TRACE(row.name + ":\n" + row.text);
    EXPECT_THAT(warnings_of(parse(row.text)), Not(HasSubstr("refuse")));
  }
}

TEST(AdoNotesTest, WhatOnlyThisProgramRefusesIsRefusedInOneClearLine) {
  size_t found = 0;
  for (const Row& row : rows("1.8")) {
    if (kRefusedHere.count(row.name) == 0) continue;
    ++found;
    EXPECT_TRUE(row.taken()) << row.name;
    EXPECT_THAT(error_of(row.text), HasSubstr("s.yaml:")) << row.name;
  }
  EXPECT_EQ(found, kRefusedHere.size());
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
