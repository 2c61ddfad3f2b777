// Against the package datasets (tests/reference/numpy_random.py).
#include "sftbench/data/mixing.h"

#include <gtest/gtest.h>

#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using Numbers = std::vector<int64_t>;

Json golden() {
  return read_json_file(SFTBENCH_TEST_DATA "/data/numpy_random.json");
}

TEST(MixingTest, SplitsAsTheDatasetsPackage) {
  const Json all = golden();
  for (const Json& given : all["splits"]) {
    const EntrySplit split =
        split_entries(given["entries"], given["share"], given["seed"], given["trained"]);
    EXPECT_EQ(split.training, given["train"].get<Numbers>()) << given.dump();
    EXPECT_EQ(split.evaluation, given["test"].get<Numbers>()) << given.dump();
  }
}

TEST(MixingTest, NoShareLeavesEntriesAsTheyStand) {
  EXPECT_EQ(split_entries(3, 0, 1).training, Numbers({0, 1, 2}));
  EXPECT_TRUE(split_entries(3, 0, 1).evaluation.empty());
}

TEST(MixingTest, FromOneOnAShareIsANumberOfEntries) {
  EXPECT_EQ(split_entries(10, 1, 7).evaluation.size(), 1u);
  EXPECT_EQ(split_entries(10, 1, 7).training.size(), 9u);
  EXPECT_EQ(split_entries(10, 0.99, 7).evaluation.size(), 10u) << "rounded up";
  EXPECT_EQ(split_entries(10, 12, 7).evaluation.size(), 10u);
}

TEST(MixingTest, InterleavesAsTheDatasetsPackage) {
  const Json all = golden();
  for (const Json& given : all["mixtures"]) {
    EXPECT_EQ(
        interleave(given["lengths"].get<Numbers>(),
                   given["probabilities"].get<std::vector<double>>(),
                   named<StoppingStrategy>(given["strategy"].get<std::string>()), given["seed"]),
        given["entries"].get<Numbers>())
        << given["strategy"] << " " << given["lengths"];
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
