// `sftbench run --distribute-one-rank` as a user types it: what its result says, and what it excludes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"
#include "cli/trained_run.h"
#include "results/schema_check.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class DistributeOneRankTest : public TrainedRunTest {
 protected:
  void SetUp() override {
#if !SFTBENCH_HAS_GLOO
    GTEST_SKIP() << "this build has no Gloo";
#endif
  }

  // Three steps; its result.
  Json result_of(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"--set", "torch_dtype=float32"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult program = run(words, 3);
    errors_ = program.err;
    status_ = program.status;
    return Json::parse(program.out);
  }

  mutable std::string errors_;
  mutable int status_ = -1;
};

TEST_F(DistributeOneRankTest, TrainsAsOneRankAndSaysSoInItsResult) {
  const Json plain = result_of({});
  const Json sharded =
      result_of({"--distribute-one-rank", "--set", "fsdp_sharding_strategy=FULL_SHARD"});
  ASSERT_EQ(status_, 0) << errors_;
  EXPECT_FALSE(plain["inputs"].contains("distribute_one_rank"));
  EXPECT_EQ(sharded["inputs"]["distribute_one_rank"], true);
  EXPECT_THAT(sharded["command"].get<std::string>(), HasSubstr("--distribute-one-rank"));
  ASSERT_EQ(sharded["extra"]["loss"].size(), 3);
  for (size_t step = 0; step < 3; ++step) {
    // The norm that gradients are clipped by is summed in another order over one flat array.
    const double loss = plain["extra"]["loss"][step];
    EXPECT_NEAR(sharded["extra"]["loss"][step].get<double>(), loss, 1e-6 * loss);
  }
  std::vector<std::string> operations;
  for (const Json& collective : sharded["extra"]["communication"]["collectives"]) {
    operations.push_back(collective["operation"]);
    EXPECT_EQ(collective["sent_bytes_per_step"]["max"], 0) << collective;
  }
  EXPECT_THAT(operations, ::testing::IsSupersetOf({"all_gather", "reduce_scatter"}));
  // Two measurements: what was asked for is part of the key.
  int results = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "results")) {
    if (entry.path().extension() != ".json") continue;
    EXPECT_EQ(schema_violation(entry.path()), "");
    ++results;
  }
  EXPECT_EQ(results, 2);
}

TEST_F(DistributeOneRankTest, ExcludesOptimizersThatUpdateInTheBackwardPass) {
  const Json result = result_of({"--distribute-one-rank", "--set", "optim=lomo"});
  EXPECT_EQ(status_, 4);
  EXPECT_EQ(result["reason"]["code"], "UNSUPPORTED");
  EXPECT_THAT(result["reason"]["message"].get<std::string>(),
              HasSubstr("one rank (without --distribute-one-rank) works"));
}

TEST_F(DistributeOneRankTest, IsToldToHaveNoEffectOnSeveralRanks) {
  const Json result = result_of({"--distribute-one-rank", "--ranks", "2"});
  EXPECT_EQ(status_, 0) << errors_;
  EXPECT_THAT(errors_, HasSubstr("--distribute-one-rank has no effect on several ranks"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
