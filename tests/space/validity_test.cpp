#include "sftbench/space/validity.h"

#include <gtest/gtest.h>

#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// The violations of otherwise valid inputs with these members changed: "RULE_1: message" per line.
std::string violations(const Json& changes) {
  Json inputs = {{"model_name", "mixtral-8x7b-instruct-v0.1"},
                 {"batch_size", 8},
                 {"number_gpus", 4},
                 {"number_nodes", 1},
                 {"gpu_model", "L40S"},
                 {"fast_moe", 0},
                 {"fms_hf_tuning_version", "2.8.2"}};
  inputs.update(changes);
  std::string text;
  for (const Violation& violation : validate(inputs, Catalog::shipped().models)) {
    text += (text.empty() ? "" : "\n") + std::string(to_string(violation.code)) + ": " +
            violation.message;
  }
  return text;
}

TEST(ValidityTest, ValidEntitiesBreakNoRule) {
  EXPECT_EQ(violations(Json::object()), "");
  EXPECT_EQ(violations({{"number_gpus", 0}, {"gpu_model", nullptr}, {"batch_size", 3}}), "");
  EXPECT_EQ(violations({{"fast_moe", 4}}), "");
}

TEST(ValidityTest, Rule1BatchIsDividedEvenlyAmongGpus) {
  EXPECT_EQ(violations({{"batch_size", 6}}),
            "RULE_1: batch_size 6 cannot be divided evenly by number_gpus 4");
}

TEST(ValidityTest, Rule1CountsGroupsThatDivideRowsOnce) {
  EXPECT_EQ(violations({{"batch_size", 1}, {"context_parallel", 4}}), "");
  EXPECT_EQ(violations({{"batch_size", 6}, {"context_parallel", 2}}), "");
  EXPECT_EQ(violations({{"batch_size", 4}, {"context_parallel", 0}}), "") << "refused elsewhere";
  EXPECT_EQ(violations({{"batch_size", 3}, {"context_parallel", 2}}),
            "RULE_1: batch_size 3 cannot be divided evenly by number_gpus 4 / context_parallel 2");
}

TEST(ValidityTest, Rule2GpusAreDividedEvenlyAmongNodes) {
  EXPECT_EQ(violations({{"number_nodes", 3}}),
            "RULE_2: number_gpus 4 cannot be divided evenly by number_nodes 3");
  EXPECT_EQ(violations({{"number_nodes", 2}, {"number_gpus", 0}}),
            "RULE_2: number_gpus 0 cannot be divided evenly by number_nodes 2");
}

TEST(ValidityTest, Rule3ThereIsANode) {
  EXPECT_EQ(violations({{"number_nodes", 0}}), "RULE_3: number_nodes 0 is not greater than 0");
}

TEST(ValidityTest, Rule4ThereIsABatch) {
  EXPECT_EQ(violations({{"batch_size", 0}}), "RULE_4: batch_size 0 is not greater than 0");
}

TEST(ValidityTest, Rule5GpusHaveAModel) {
  EXPECT_EQ(violations({{"gpu_model", nullptr}}),
            "RULE_5: gpu_model is not given although number_gpus 4 is greater than 0");
  EXPECT_EQ(violations({{"gpu_model", ""}}),
            "RULE_5: gpu_model is not given although number_gpus 4 is greater than 0");
}

TEST(ValidityTest, Rule6FastMoeDividesTheGpusAndNeedsVersion240) {
  EXPECT_EQ(violations({{"fast_moe", 8}}),
            "RULE_6: number_gpus 4 cannot be divided evenly by fast_moe 8");
  for (const char* version : {"2.3.1", "2.0.1", "1.9.9"}) {
    EXPECT_EQ(violations({{"fast_moe", 4}, {"fms_hf_tuning_version", version}}),
              std::string("RULE_6: fast_moe 4 needs fms_hf_tuning_version 2.4.0 or later, not ") +
                  version);
  }
  for (const char* version : {"2.4.0", "2.10.0", "3.0.0.1"}) {
    EXPECT_EQ(violations({{"fast_moe", 4}, {"fms_hf_tuning_version", version}}), "") << version;
  }
}

TEST(ValidityTest, Rule7FastMoeDividesTheExperts) {
  EXPECT_EQ(violations({{"fast_moe", 3}, {"number_gpus", 6}, {"batch_size", 6}}),
            "RULE_7: num_local_experts 8 of mixtral-8x7b-instruct-v0.1 cannot be divided evenly by "
            "fast_moe 3");
  EXPECT_EQ(
      violations(
          {{"fast_moe", 3}, {"number_gpus", 6}, {"batch_size", 6}, {"model_name", "llama3-8b"}}),
      "");
}

TEST(ValidityTest, ReportsEveryViolationTheFirstOneInAdosOrder) {
  EXPECT_EQ(violations({{"batch_size", 7},
                        {"number_nodes", 3},
                        {"gpu_model", nullptr},
                        {"fast_moe", 3},
                        {"fms_hf_tuning_version", "2.1.2"}}),
            "RULE_1: batch_size 7 cannot be divided evenly by number_gpus 4\n"
            "RULE_2: number_gpus 4 cannot be divided evenly by number_nodes 3\n"
            "RULE_5: gpu_model is not given although number_gpus 4 is greater than 0\n"
            "RULE_6: number_gpus 4 cannot be divided evenly by fast_moe 3\n"
            "RULE_6: fast_moe 3 needs fms_hf_tuning_version 2.4.0 or later, not 2.1.2\n"
            "RULE_7: num_local_experts 8 of mixtral-8x7b-instruct-v0.1 cannot be divided evenly by "
            "fast_moe 3");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
