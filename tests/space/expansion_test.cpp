// The fast way through a space says what the plain one says: Space::entity(), entity_id(),
// validate().
#include "sftbench/space/expansion.h"

#include <gtest/gtest.h>

#include "space_text.h"

namespace sftbench {
namespace SFTBENCH_FILE {

std::string text_of(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& violation : violations)
    text += std::string(to_string(violation.code)) + ": " + violation.message + "\n";
  return text;
}

void expect_same(const Space& space, int64_t first, int64_t count) {
  const ModelCatalog& models = Catalog::shipped().models;
  Expansion expansion(space, models, first);
  for (int64_t i = first; i < first + count; ++i, expansion.advance()) {
    const Entity entity = space.entity(i);
    ASSERT_EQ(expansion.index(), i);
    ASSERT_EQ(expansion.entity_id(), entity_id(entity));
    for (size_t k = 0; k < space.experiments.size(); ++k) {
      const Json inputs = make_request(entity, space.experiments[k]).inputs;
      ASSERT_EQ(text_of(expansion.violations(k)), text_of(validate(inputs, models)))
          << entity_id(entity);
    }
  }
}

// Every property that a rule reads is a dimension, each kind of domain is among them.
Space ruled_space() {
  return parse(space_text(
      "  - {identifier: batch_size, propertyDomain: {domainRange: [1, 8], interval: 1}}\n"
      "  - {identifier: number_gpus, propertyDomain: {values: [0, 2, 3.0]}}\n"
      "  - {identifier: fast_moe, propertyDomain: {values: [0, 2, 3]}}\n"
      "  - {identifier: stop_after_seconds, propertyDomain: {domainRange: [-1.0, 2], interval: "
      "1}}\n"
      "  - {identifier: model_name, propertyDomain: {values: [mixtral-8x7b-instruct-v0.1, "
      "llama-7b]}}\n"
      "  - {identifier: number_nodes, propertyDomain: {values: [1, 2]}}\n"
      "  - {identifier: gpu_model, propertyDomain: {values: [L40S, None, null, '']}}\n"
      "  - {identifier: model_max_length, propertyDomain: {values: [64]}}\n"
      "  - {identifier: fast_kernels, propertyDomain: {values: [[True, 'False', True], null]}}\n"
      "  - {identifier: bf16, propertyDomain: {variableType: BINARY_VARIABLE_TYPE}}\n",
      "[{property: {identifier: fms_hf_tuning_version}, value: 2.8.2}]}, {experimentIdentifier: "
      "finetune_lora_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer, parameterization: []"));
}

TEST(ExpansionTest, SaysOfEveryEntityWhatThePlainWaySays) {
  const Space space = ruled_space();
  EXPECT_EQ(space.entity_count(), 7 * 3 * 3 * 3 * 2 * 2 * 2 * 2 * 2);
  expect_same(space, 0, space.entity_count());
}

TEST(ExpansionTest, BeginsAnywhere) {
  const Space space = ruled_space();
  for (const int64_t first : {1, 5, 1000, 5003, 6047}) {
    expect_same(space, first, std::min<int64_t>(60, space.entity_count() - first));
  }
}

TEST(ExpansionTest, TheFirstEntityFollowsTheLast) {
  const Space space = ruled_space();
  Expansion expansion(space, Catalog::shipped().models, space.entity_count() - 1);
  expansion.advance();
  EXPECT_EQ(expansion.index(), 0);
  EXPECT_EQ(expansion.entity_id(), entity_id(space.entity(0)));
}

TEST(ExpansionTest, SpacesOfBillionsBeginAtOnce) {
  const Space space = parse(space_text(
      "  - {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n"
      "  - {identifier: number_gpus, propertyDomain: {domainRange: [0, 33], interval: 1}}\n"
      "  - {identifier: model_max_length, propertyDomain: {domainRange: [1, 131073], interval: "
      "1}}\n"
      "  - {identifier: batch_size, propertyDomain: {domainRange: [1, 4097], interval: 1}}\n"));
  expect_same(space, 0, 100);
  expect_same(space, space.entity_count() - 4150, 4150);
  for (const char* last :
       {"batch_size.4096-model_max_length.131072-model_name.smollm2-135m-number_gpus.32",
        "model_name.smollm2-135m-number_gpus.32-model_max_length.131072-batch_size.4096",
        "model_name.smollm2-135m-number_gpus.32.0-model_max_length.131072.0-batch_size.4096.0"}) {
    EXPECT_EQ(space.find(last), space.entity_count() - 1) << last;
  }
  EXPECT_EQ(space.find("model_name.smollm2-135m-number_gpus.32-model_max_length.131073-batch_size."
                       "4096"),
            std::nullopt);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
