// Files as ado's users write them: the examples of its formats, the entity spaces of the actuator's
// package page, and what this program takes although ado would not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/base/file.h"
#include "space_text.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string warnings(const Space& space) {
  std::string text;
  for (const Diagnostic& warning : space.warnings) text += to_string(warning) + "\n";
  return text;
}

std::string warnings_of_domain(const std::string& property, const std::string& domain) {
  return warnings(parse(space_text(std::string(kRequired) + "  - {identifier: " + property +
                                   ", propertyDomain: " + domain + "}\n")));
}

std::vector<std::string> experiment_ids(const Space& space) {
  std::vector<std::string> ids;
  for (const ExperimentReference& reference : space.experiments)
    ids.push_back(experiment_id(reference));
  return ids;
}

// --- examples ------------------------------------------------------------------------------------

TEST(AdoExampleTest, CpuSmokeHasTwelveEntities) {
  const Space space = parse(R"(
sampleStoreIdentifier: demo-store
experiments: [{experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer, parameterization: [{property: {identifier: max_steps}, value: 8}, {property: {identifier: flash_attn}, value: false}]}]
entitySpace: [{identifier: model_name, propertyDomain: {values: [smollm2-135m]}}, {identifier: number_gpus, propertyDomain: {values: [0]}}, {identifier: model_max_length, propertyDomain: {values: [256, 768]}}, {identifier: batch_size, propertyDomain: {domainRange: [1, 6], interval: 2}}, {identifier: gradient_checkpointing, propertyDomain: {variableType: BINARY_VARIABLE_TYPE}}]
)");
  EXPECT_EQ(space.entity_count(), 12);
  EXPECT_THAT(experiment_ids(space),
              ElementsAre("SFTTrainer.finetune_full_benchmark-v1.0.0-flash_attn.0-max_steps.8"));
  EXPECT_EQ(entity_id(space.entity(5)),
            "batch_size.5-gradient_checkpointing.1-model_max_length.256-model_name.smollm2-135m-"
            "number_gpus.0");
  EXPECT_THAT(warnings(space), IsEmpty());
}

TEST(AdoExampleTest, TwoParameterisationsOfLoraHave48Entities) {
  const Space space = parse(R"(
sampleStoreIdentifier: 70b1c2
experiments: [{experimentIdentifier: finetune_lora_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer, parameterization: [{property: {identifier: r}, value: 8}]}, {experimentIdentifier: finetune_lora_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer, parameterization: [{property: {identifier: r}, value: 16}]}]
entitySpace: [{identifier: model_name, propertyDomain: {values: [granite-3.1-2b, llama3.1-8b]}}, {identifier: gpu_model, propertyDomain: {values: [NVIDIA-H100-80GB-HBM3]}}, {identifier: number_gpus, propertyDomain: {values: [1, 2, 4]}}, {identifier: model_max_length, propertyDomain: {values: [4096]}}, {identifier: batch_size, propertyDomain: {domainRange: [8, 65], interval: 8, variableType: DISCRETE_VARIABLE_TYPE}}]
)");
  EXPECT_EQ(space.entity_count(), 48);
  EXPECT_THAT(experiment_ids(space), ElementsAre("SFTTrainer.finetune_lora_benchmark-v1.0.0-r.8",
                                                 "SFTTrainer.finetune_lora_benchmark-v1.0.0-r.16"));
  EXPECT_THAT(warnings(space), IsEmpty());
  EXPECT_EQ(make_request(space.entity(0), space.experiments[1]).inputs["r"], 16);
}

// --- the package page ----------------------------------------------------------------------------

TEST(PackagePageTest, EveryEntitySpaceOfThePageLoads) {
  const Json experiments = read_json_file(SFTBENCH_TEST_DATA "/space/package_page.json");
  ASSERT_EQ(experiments.size(), 5U);
  for (const Json& page : experiments) {
    const std::string identifier = page.at("identifier");
    const Json& models = page.at("models");
    const Experiment* experiment = Catalog::shipped().experiment(identifier);
    ASSERT_NE(experiment, nullptr) << identifier;
    ASSERT_GE(models.size(), 9U) << identifier;
    const Space space = parse(
        "sampleStoreIdentifier: page\nexperiments: [{experimentIdentifier: " + identifier +
        ", actuatorIdentifier: SFTTrainer}]\nentitySpace:\n  - {identifier: model_name, "
        "propertyDomain: {values: " +
        models.dump() +
        "}}\n"
        "  - {identifier: model_max_length, propertyDomain: {domainRange: [1, 131073], interval: "
        "1}}\n"
        "  - {identifier: number_gpus, propertyDomain: {domainRange: [0, 33], interval: 1}}\n"
        "  - {identifier: batch_size, propertyDomain: {domainRange: [1, 4097], interval: 1}}\n"
        "  - {identifier: gpu_model, propertyDomain: {values: [NVIDIA-A100-80GB-PCIe, "
        "NVIDIA-A100-SXM4-80GB, NVIDIA-H100-PCIe]}}\n"
        "  - {identifier: dataset_id, propertyDomain: {values: [news-chars-512-entries-4096, "
        "news-chars-1024-entries-4096, news-chars-2048-entries-4096, "
        "news-tokens-16384plus-entries-4096, vision-384x384-16384plus-entries-4096, "
        "vision-384x768-16384plus-entries-4096]}}\n");
    EXPECT_EQ(space.entity_count(),
              static_cast<int64_t>(models.size()) * 131072 * 33 * 4096 * 3 * 6);
    for (const Json& property : page.at("optional"))
      EXPECT_NE(experiment->find(property.get<std::string>()), nullptr)
          << identifier << ": " << property;
    // The stability experiment's properties stand in one list, without "Optional:".
    EXPECT_GE(page.at("optional").size(), experiment->runs == 1 ? 26U : 0U) << identifier;
  }
}

// --- more than ado takes -------------------------------------------------------------------------

TEST(AdoSupersetTest, DomainsOfAnotherTypeAreNoted) {
  const std::string at = "s.yaml:7: entitySpace[4].propertyDomain: ";
  EXPECT_EQ(warnings_of_domain("gradient_checkpointing",
                               "{values: [true], variableType: IDENTIFIER_VARIABLE_TYPE}"),
            at + "is of IDENTIFIER_VARIABLE_TYPE to ado, which would refuse this; expected "
                 "BINARY_VARIABLE_TYPE\n");
  EXPECT_EQ(
      warnings_of_domain("max_steps", "{values: [1], variableType: CATEGORICAL_VARIABLE_TYPE}"),
      at + "is of CATEGORICAL_VARIABLE_TYPE to ado, which would refuse this; expected "
           "DISCRETE_VARIABLE_TYPE\n");
  EXPECT_EQ(warnings_of_domain("torch_dtype",
                               "{values: [float32], variableType: IDENTIFIER_VARIABLE_TYPE}"),
            at + "is of IDENTIFIER_VARIABLE_TYPE to ado, which would refuse this; expected "
                 "CATEGORICAL_VARIABLE_TYPE\n");
  EXPECT_EQ(warnings_of_domain("fast_kernels", "{values: [[True, True, True]]}"),
            at.substr(0, at.size() - 2) + ".values[0]: ado would refuse [True, True, True]\n");
}

TEST(AdoSupersetTest, DomainsThatAdoTakesAreNotNoted) {
  for (const auto& [property, domain] : std::vector<std::pair<std::string, std::string>>{
           {"gradient_checkpointing", "{variableType: BINARY_VARIABLE_TYPE}"},
           {"gradient_checkpointing", "{values: [true, false]}"},
           {"gradient_checkpointing", "{values: [false], variableType: CATEGORICAL_VARIABLE_TYPE}"},
           {"fast_kernels", "{values: [null, ['True', 'True', 'True']]}"},
           {"torch_dtype", "{values: [float32], variableType: OPEN_CATEGORICAL_VARIABLE_TYPE}"},
           {"max_steps", "{values: [1, 2]}"},
           {"max_steps", "{values: [1, 2], variableType: UNKNOWN_VARIABLE_TYPE}"},
           {"max_steps",
            "{domainRange: [1, 9], interval: 2, variableType: DISCRETE_VARIABLE_TYPE}"},
           {"num_train_epochs", "{domainRange: [1.0, 9], interval: 2}"},
           {"torch_dtype", "{values: [float32], variableType: CATEGORICAL_VARIABLE_TYPE}"},
           {"gpu_model", "{values: [null]}"},
           {"max_steps",
            "{values: [1], probabilityFunction: {identifier: uniform, parameters: "
            "null}, interval: null, domainRange: null}"}}) {
    EXPECT_THAT(warnings_of_domain(property, domain), IsEmpty()) << property << ": " << domain;
  }
}

TEST(AdoSupersetTest, WhatHasNoEffectIsNoted) {
  const std::string at = "s.yaml:7: entitySpace[4].propertyDomain";
  EXPECT_EQ(warnings_of_domain("max_steps",
                               "{values: [1], probabilityFunction: {identifier: normal, "
                               "parameters: {mean: 2}}}"),
            at + ".probabilityFunction: not used: a grid has no probabilities (as in ado)\n");
  EXPECT_EQ(warnings_of_domain("bf16",
                               "{domainRange: [0, 2], interval: 1, variableType: "
                               "BINARY_VARIABLE_TYPE}"),
            at + ".domainRange: a binary domain is always [false, true]; not used\n" + at +
                ".interval: a binary domain is always [false, true]; not used\n");
  const Space extras = parse(
      space_text(kRequired,
                 "[{property: {identifier: max_steps}, value: 3, valueType: NUMERIC_VALUE_TYPE, "
                 "uncertainty: null, comment: x}]"));
  EXPECT_EQ(warnings(extras),
            "s.yaml:1: experiments[0].parameterization[0].comment: unknown key, not used (as in "
            "ado)\n");
}

TEST(AdoSupersetTest, BothSpellingsOfGptqAreOneExperiment) {
  std::string text = space_text(kRequired);
  const std::string full = "finetune_full_benchmark-v1.0.0";
  text.replace(text.find(full), full.size(), "finetune_gtpq-lora_benchmark-v1.0.0");
  const Space space = parse(text);
  EXPECT_THAT(experiment_ids(space), ElementsAre("SFTTrainer.finetune_gptq-lora_benchmark-v1.0.0"));
  EXPECT_EQ(warnings(space),
            "s.yaml:1: experiments[0].experimentIdentifier: taken as "
            "'finetune_gptq-lora_benchmark-v1.0.0', which is how ado's code spells it\n");
}

// --- several experiments -------------------------------------------------------------------------

const char* const kGptqToo =
    "[]}, {experimentIdentifier: finetune_gptq-lora_benchmark-v1.0.0, actuatorIdentifier: "
    "SFTTrainer, parameterization: []";

TEST(SeveralExperimentsTest, ADomainHasToFitEachOfThem) {
  const std::string dtype = std::string(kRequired) +
                            "  - {identifier: torch_dtype, propertyDomain: {values: [float16, "
                            "bfloat16]}}\n";
  EXPECT_EQ(error_of(space_text(dtype)), "no error");
  EXPECT_EQ(error_of(space_text(dtype, kGptqToo)),
            "s.yaml:7: entitySpace[4].propertyDomain.values[1]: 'bfloat16' is no value of "
            "torch_dtype of finetune_gptq-lora_benchmark-v1.0.0; expected one of float16; did you "
            "mean 'float16'?");
  SpaceOptions options;
  options.assignments = {"torch_dtype=float32"};
  EXPECT_EQ(
      error_of(space_text(kRequired, kGptqToo), options),
      "--set torch_dtype: 'float32' is no value of torch_dtype of "
      "finetune_gptq-lora_benchmark-v1.0.0; expected one of float16; did you mean 'float16'?");
  EXPECT_EQ(error_of(space_text(std::string(kRequired) +
                                    "  - {identifier: torch_dtype, propertyDomain: {values: "
                                    "[float17]}}\n",
                                kGptqToo)),
            "s.yaml:7: entitySpace[4].propertyDomain.values[0]: 'float17' is no value of "
            "torch_dtype of finetune_full_benchmark-v1.0.0; expected one of bfloat16, float32, "
            "float16; did you mean 'float16'?");
}

TEST(SeveralExperimentsTest, APropertyWithoutEffectOnOneOfThemIsNoted) {
  const Space space = parse(
      space_text(std::string(kRequired) + "  - {identifier: r, propertyDomain: {values: [4, 8]}}\n",
                 kGptqToo));
  EXPECT_EQ(warnings(space),
            "s.yaml:7: entitySpace[4]: 'r' has no effect on finetune_full_benchmark-v1.0.0; what "
            "differs in it alone is measured once\n");
  const Entity entity = space.entity(1);
  EXPECT_EQ(make_request(entity, space.experiments[0]).inputs.count("r"), 0U);
  EXPECT_EQ(make_request(entity, space.experiments[1]).inputs["r"], 8);
}

TEST(SeveralExperimentsTest, APropertyThatOneOfThemLacksIsNoted) {
  const Space space = parse(space_text(
      std::string(kRequired) + "  - {identifier: max_steps, propertyDomain: {values: [5, 8]}}\n",
      "[]}, {experimentIdentifier: finetune_full_stability-v1.0.0, actuatorIdentifier: SFTTrainer, "
      "parameterization: []"));
  EXPECT_EQ(warnings(space),
            "s.yaml:7: entitySpace[4]: finetune_full_stability-v1.0.0 has no 'max_steps', entities "
            "that differ in it alone are one there; ado would refuse this\n");
}

TEST(SeveralExperimentsTest, EachHasItsOwnDefaults) {
  const Space space = parse(space_text(kRequired, kGptqToo));
  const Entity entity = space.entity(0);
  EXPECT_EQ(make_request(entity, space.experiments[0]).inputs["torch_dtype"], "bfloat16");
  EXPECT_EQ(make_request(entity, space.experiments[1]).inputs["torch_dtype"], "float16");
  EXPECT_EQ(make_request(entity, space.experiments[1]).inputs["fast_kernels"],
            Json({"True", "True", "True"}));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
