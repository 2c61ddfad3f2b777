#include "sftbench/space/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sftbench/base/json.h"
#include "space_text.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

std::vector<std::string> ids(const Space& space) {
  std::vector<std::string> ids;
  for (int64_t i = 0; i < space.entity_count(); ++i) ids.push_back(entity_id(space.entity(i)));
  return ids;
}

std::string warnings(const Space& space) {
  std::string text;
  for (const Diagnostic& warning : space.warnings)
    text += (text.empty() ? "" : "\n") + to_string(warning);
  return text;
}

// The values of a property's domain, as JSON.
std::string values(const std::string& property, const std::string& domain) {
  const Space space = parse(space_text(std::string(kRequired) + "  - {identifier: " + property +
                                       ", propertyDomain: " + domain + "}\n"));
  Json list = Json::array();
  const Dimension& dimension = space.dimensions.back();
  for (int64_t i = 0; i < dimension.size(); ++i) list.push_back(dimension.value(i));
  return list.dump();
}

// --- whole files ---------------------------------------------------------------------------------

TEST(SpaceTest, ShippedCpuExampleHasTwelveEntitiesInAdosOrder) {
  const Space space =
      read_space_file(SFTBENCH_SOURCE_DIR "/experiments/spaces/cpu_smoke.yaml", Catalog::shipped());
  EXPECT_EQ(space.entity_count(), 12);
  EXPECT_TRUE(space.warnings.empty()) << warnings(space);
  const std::string tail = "-model_name.smollm2-135m-number_gpus.0";
  const std::vector<std::string> all = ids(space);
  EXPECT_EQ(all[0], "batch_size.1-gradient_checkpointing.0-model_max_length.256" + tail);
  EXPECT_EQ(all[1], "batch_size.1-gradient_checkpointing.1-model_max_length.256" + tail);
  EXPECT_EQ(all[2], "batch_size.3-gradient_checkpointing.0-model_max_length.256" + tail);
  EXPECT_EQ(all[6], "batch_size.1-gradient_checkpointing.0-model_max_length.768" + tail);
  EXPECT_EQ(all[11], "batch_size.5-gradient_checkpointing.1-model_max_length.768" + tail);
  EXPECT_EQ(experiment_id(space.experiments[0]),
            "SFTTrainer.finetune_full_benchmark-v1.0.0-flash_attn.0-max_steps.8");
}

TEST(SpaceTest, ShippedGpuExampleHas48EntitiesUnderTwoExperiments) {
  const Space space = read_space_file(
      SFTBENCH_SOURCE_DIR "/experiments/spaces/gpu_batch_sizes.yaml", Catalog::shipped());
  EXPECT_EQ(space.entity_count(), 48);
  EXPECT_EQ(space.experiments.size(), 2U);
  const std::vector<std::string> all = ids(space);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 48U);
  EXPECT_EQ(
      all[7],
      "batch_size.64-gpu_model.NVIDIA-H100-80GB-HBM3-model_max_length.4096-model_name.granite-"
      "3.1-2b-number_gpus.1");
}

TEST(SpaceTest, ShippedQuickstartIsOneEntityWithRandomWeights) {
  const Space space = read_space_file(SFTBENCH_SOURCE_DIR "/experiments/spaces/quickstart.yaml",
                                      Catalog::shipped());
  EXPECT_EQ(space.entity_count(), 1);
  EXPECT_EQ(space.weights, "random");
}

TEST(SpaceTest, WrappedResourceAndWholeExperimentsReadLikeThePlainForm) {
  const Space space = read_space_file(
      SFTBENCH_SOURCE_DIR "/tests/fuzz/seeds/space_fuzz/every_form.yaml", Catalog::shipped());
  EXPECT_EQ(space.label, "1");
  EXPECT_EQ(space.padding, "max_length");
  EXPECT_TRUE(space.actuator_configuration.has_value());
  EXPECT_EQ(space.entity_count(), 2 * 2 * 4 * 2 * 2 * 2 * 2);
  EXPECT_EQ(entity_id(space.entity(0)),
            "accelerate_config_mixed_precision.no-batch_size.1-fast_kernels.[True, 'True', False]-"
            "model_max_length.512-model_name.my-3b-number_gpus.0-stop_after_seconds.1000.0");
}

TEST(SpaceTest, EntityIsFoundByItsId) {
  const Space space = read_space_file(
      SFTBENCH_SOURCE_DIR "/tests/fuzz/seeds/space_fuzz/every_form.yaml", Catalog::shipped());
  for (int64_t i = 0; i < space.entity_count(); ++i)
    EXPECT_EQ(space.find(entity_id(space.entity(i))), i);
  EXPECT_EQ(space.find(entity_id(space.entity(0)) + "x"), std::nullopt);
  EXPECT_EQ(space.find("nonsense"), std::nullopt);
}

TEST(SpaceTest, MillionsOfEntitiesAreComputedAndNotStored) {
  const Space space = parse(space_text(
      "  - {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n"
      "  - {identifier: number_gpus, propertyDomain: {domainRange: [0, 33], interval: 1}}\n"
      "  - {identifier: model_max_length, propertyDomain: {domainRange: [1, 131073], interval: "
      "1}}\n"
      "  - {identifier: batch_size, propertyDomain: {domainRange: [1, 4097], interval: 1}}\n"));
  EXPECT_EQ(space.entity_count(), int64_t{33} * 131072 * 4096);
  EXPECT_EQ(entity_id(space.entity(space.entity_count() - 1)),
            "batch_size.4096-model_max_length.131072-model_name.smollm2-135m-number_gpus.32");
}

TEST(SpaceTest, MoreEntitiesThanCanBeCountedAreAnError) {
  std::string dimensions = kRequired;
  for (const char* property : {"stop_after_seconds", "max_steps", "num_train_epochs"}) {
    dimensions += std::string("  - {identifier: ") + property +
                  ", propertyDomain: {domainRange: [1, 10000], interval: 1}}\n";
  }
  const std::string wide =
      dimensions +
      "  - {identifier: gradient_accumulation_steps, propertyDomain: {domainRange: [1, 33], "
      "interval: 1}}\n" +
      "  - {identifier: fast_moe, propertyDomain: {domainRange: [0, 33], interval: 1}}\n";
  EXPECT_EQ(error_of(space_text(wide)), "no error");
  std::string wider = wide;
  wider.replace(wider.find("values: [0]"), 11, "domainRange: [0, 33], interval: 1");
  wider.replace(wider.find("values: [512]"), 13, "domainRange: [1, 131073], interval: 1");
  EXPECT_THAT(error_of(space_text(wider)),
              HasSubstr("s.yaml:3: entitySpace: has more entities than can be counted"));
}

// --- domains -------------------------------------------------------------------------------------

TEST(DomainTest, ValuesRangesAndBinariesExpandAsInAdo) {
  EXPECT_EQ(values("max_steps", "{values: [8, 2, 4]}"), "[8,2,4]");
  EXPECT_EQ(values("max_steps", "{domainRange: [1, 9], interval: 2}"), "[1,3,5,7]");
  EXPECT_EQ(values("max_steps", "{domainRange: [1, 10], interval: 3}"), "[1,4,7]");
  EXPECT_EQ(values("max_steps", "{domainRange: [10, 1], interval: 3}"), "[1,4,7]");
  EXPECT_EQ(values("stop_after_seconds", "{domainRange: [1, 11e-1], interval: 5e-2}"),
            "[1.0,1.05]");
  EXPECT_EQ(values("stop_after_seconds", "{domainRange: [1.0, 4], interval: 1}"), "[1.0,2.0,3.0]");
  EXPECT_EQ(values("bf16", "{variableType: BINARY_VARIABLE_TYPE}"), "[false,true]");
  EXPECT_EQ(values("max_steps", "{values: [1, 3], domainRange: [0, 4]}"), "[1,3]");
  EXPECT_EQ(values("fast_kernels", "{values: [[True, True, False], null]}"),
            "[[true,true,false],null]");
}

TEST(DomainTest, RangesEndBelowTheirUpperBoundInExactArithmetic) {
  static const PropertySpec kAny = [] {
    PropertySpec spec;
    spec.identifier = "x";
    spec.kind = PropertyKind::kNumber;
    return spec;
  }();
  const Json golden = read_json_file(SFTBENCH_TEST_DATA "/space/ranges.json");
  ASSERT_GT(golden.size(), 100U);
  for (const Json& row : golden) {
    Catalog catalog;
    Experiment experiment = Catalog::shipped().experiments.front();
    experiment.properties = {kAny};
    catalog.experiments = {experiment};
    const std::string text =
        "experiments: [{experimentIdentifier: " + experiment.identifier +
        ", actuatorIdentifier: SFTTrainer}]\nentitySpace: [{identifier: x, propertyDomain: "
        "{domainRange: [" +
        row["lower"].dump() + ", " + row["upper"].dump() +
        "], interval: " + row["interval"].dump() + "}}]\n";
    const Space space = parse_space(text, "s.yaml", catalog);
    ASSERT_EQ(space.entity_count(), row["count"].get<int64_t>()) << row;
    const Dimension& dimension = space.dimensions.front();
    EXPECT_EQ(dimension.value(0).dump(), row["first"].dump()) << row;
    EXPECT_EQ(dimension.value(dimension.size() - 1).dump(), row["last"].dump()) << row;
  }
}

TEST(DomainTest, FractionsAreRoundedAsPythonRounds) {
  const Json golden = read_json_file(SFTBENCH_TEST_DATA "/space/range_values.json");
  ASSERT_EQ(golden.size(), 150U);
  for (const Json& row : golden) {
    const Dimension dimension(nullptr, row["lower"], row["interval"], 10'000'000,
                              Dimension::Steps::kFloats);
    const int64_t index = row["index"];
    EXPECT_EQ(python_str(dimension.value(index)), row["str"]) << row;
    EXPECT_EQ(dimension.index_of(row["str"].get<std::string>()), index) << row;
  }
}

TEST(DomainTest, ImpossibleDomainsAreErrors) {
  const std::string at = "s.yaml:7: entitySpace[4].propertyDomain";
  EXPECT_EQ(domain_error("max_steps", "{}"),
            at + ": no values; expected values, or domainRange and interval");
  EXPECT_EQ(domain_error("max_steps", "{domainRange: [1, 5]}"),
            at + ": a range without interval has no list of values; expected values, or "
                 "domainRange and interval");
  EXPECT_EQ(
      domain_error("max_steps", "{interval: 2}"),
      at + ": an interval without range never ends; expected values, or domainRange and interval");
  EXPECT_EQ(domain_error("max_steps", "{domainRange: [1, 5], interval: 0}"),
            at + ".interval: found 0; expected a number above 0");
  EXPECT_EQ(
      domain_error("max_steps", "{domainRange: [1, 5, 9], interval: 1}"),
      at + ".domainRange: found a list of 3; expected two numbers: [lower, upper), upper excluded");
  EXPECT_EQ(domain_error("max_steps", "{domainRange: [1, 1.0e+300], interval: 1}"),
            at + ".domainRange: holds more than 10^15 values");
  EXPECT_EQ(
      domain_error("max_steps", "{values: [1], interval: 1}"),
      at + ".interval: stands beside values; expected either values or domainRange and interval");
  EXPECT_EQ(domain_error("max_steps", "{values: [1, 3], domainRange: [0, 3]}"),
            at + ".domainRange: does not hold all values; expected a lower bound <= and an upper "
                 "bound > each of them");
  EXPECT_EQ(domain_error("max_steps", "{values: []}"),
            at + ".values: an empty list has no value; expected an integer from -1 to 10000");
  EXPECT_EQ(domain_error("max_steps", "{values: [1], variableType: CONTINUOUS_VARIABLE_TYPE}"),
            at + ".variableType: a continuous domain has neither values nor an interval; expected "
                 "DISCRETE_VARIABLE_TYPE");
  EXPECT_EQ(
      domain_error("max_steps",
                   "{domainRange: [1, 3], interval: 1, variableType: CATEGORICAL_VARIABLE_TYPE}"),
      at + ".variableType: a categorical domain has values and no interval; expected values");
  EXPECT_EQ(domain_error("max_steps", "{values: [1], variableType: DISCRETE}"),
            at +
                ".variableType: unknown type 'DISCRETE'; expected one of CONTINUOUS_VARIABLE_TYPE, "
                "DISCRETE_VARIABLE_TYPE, CATEGORICAL_VARIABLE_TYPE, "
                "OPEN_CATEGORICAL_VARIABLE_TYPE, BINARY_VARIABLE_TYPE, UNKNOWN_VARIABLE_TYPE, "
                "IDENTIFIER_VARIABLE_TYPE; did you mean 'DISCRETE_VARIABLE_TYPE'?");
  EXPECT_EQ(domain_error("max_steps", "{values: [1], probabilityFunction: {identifier: gauss}}"),
            at + ".probabilityFunction: unknown function 'gauss'; expected uniform or normal");
  EXPECT_EQ(domain_error("max_steps", "{value: [1]}"),
            at + ".value: unknown key; expected one of values, interval, domainRange, "
                 "variableType, probabilityFunction; "
                 "did you mean 'values'?");
}

TEST(DomainTest, ValuesOutsideThePropertysDomainAreErrorsEachNamed) {
  const std::string at = "s.yaml:7: entitySpace[4].propertyDomain";
  EXPECT_EQ(
      domain_error("torch_dtype", "{values: [bfloat16, bfloat61, 3]}"),
      at +
          ".values[1]: 'bfloat61' is no value of torch_dtype; expected one of bfloat16, float32, "
          "float16; did "
          "you mean 'bfloat16'?\n" +
          at +
          ".values[2]: 3 is no value of torch_dtype; expected one of bfloat16, float32, float16");
  EXPECT_EQ(domain_error("dataset_id", "{values: [news-chars-512-entries-257]}").substr(0, 86),
            at + ".values[0]: 'news-chars-512-entries-257' is no ");
  EXPECT_THAT(domain_error("dataset_id", "{values: [news-chars-512-entries-257]}"),
              HasSubstr("did you mean 'news-chars-512-entries-256'?"));
  EXPECT_EQ(domain_error("number_nodes", "{domainRange: [1, 20], interval: 1}"),
            at + ".domainRange: 19 is no value of number_nodes; expected an integer from 1 to 8");
  EXPECT_EQ(domain_error("num_train_epochs", "{domainRange: [1, 3], interval: 0.5}"), "no error");
  EXPECT_EQ(
      domain_error("max_steps", "{domainRange: [1, 3], interval: 0.5}"),
      at + ".domainRange: 1.5 is no value of max_steps; expected an integer from -1 to 10000");
  EXPECT_EQ(
      domain_error("torch_dtype", "{variableType: BINARY_VARIABLE_TYPE}"),
      at + "[0]: false is no value of torch_dtype; expected one of bfloat16, float32, float16\n" +
          at + "[1]: true is no value of torch_dtype; expected one of bfloat16, float32, float16");
}

TEST(DomainTest, AnEmptyRangeMakesAnEmptySpace) {
  const Space space = parse(space_text(
      std::string(kRequired) +
      "  - {identifier: max_steps, propertyDomain: {domainRange: [5, 5], interval: 1}}\n"));
  EXPECT_EQ(space.entity_count(), 0);
  EXPECT_EQ(space.find("batch_size.1"), std::nullopt);
  EXPECT_EQ(
      warnings(space),
      "s.yaml:7: entitySpace[4].propertyDomain.domainRange: holds no value, so that the space "
      "has no entity (as in ado); expected lower < upper");
}

TEST(DomainTest, WhatAdoWouldDoOtherwiseIsAWarning) {
  const Space space = parse(
      space_text(std::string(kRequired) +
                 "  - {identifier: max_steps, propertyDomain: {values: [1, 1.0, 2]}}\n"
                 "  - {identifier: bf16, propertyDomain: {values: [true], variableType: "
                 "BINARY_VARIABLE_TYPE}}\n"
                 "  - {identifier: accelerate_config_mixed_precision, propertyDomain: {values: "
                 "[no]}}\n"));
  EXPECT_EQ(space.entity_count(), 4);
  EXPECT_EQ(
      warnings(space),
      "s.yaml:7: entitySpace[4].propertyDomain.values[1]: 1.0 stands in the list before; taken "
      "once\n"
      "s.yaml:8: entitySpace[5].propertyDomain.values: a binary domain is always [false, true]; "
      "not used\n"
      "s.yaml:9: entitySpace[6].propertyDomain.values[0]: ado reads no as false; taken as \"no\"");
}

// --- files ---------------------------------------------------------------------------------------

TEST(SpaceErrorTest, AllErrorsOfAFileAreListedAtOnceWithLines) {
  EXPECT_EQ(
      error_of("sampleStoreIdentifer: demo\n"
               "experiments:\n"
               "  - experimentIdentifier: finetune_full_benchmark-v1.0.0\n"
               "    actuatorIdentifier: SFTTrainr\n"
               "entitySpace:\n"
               "  - identifier: model_name\n"
               "    propertyDomain: {values: [smollm2-135]}\n"
               "  - identifier: batchsize\n"
               "    propertyDomain: {values: [1]}\n"
               "  - identifier: number_gpus\n"
               "  - identifier: model_max_length\n"
               "    propertyDomain:\n"
               "      values:\n"
               "        - 0\n"),
      "s.yaml:4: experiments[0].actuatorIdentifier: unknown actuator 'SFTTrainr'; expected "
      "SFTTrainer; did you "
      "mean 'SFTTrainer'?\n"
      "s.yaml:7: entitySpace[0].propertyDomain.values[0]: 'smollm2-135' is no value of model_name; "
      "expected a model (`sftbench models`; any other goes with --model DIR|ID); did you mean "
      "'smollm2-135m'?\n"
      "s.yaml:8: entitySpace[1].identifier: unknown property 'batchsize'; expected a property of "
      "finetune_full_benchmark-v1.0.0; did you mean 'batch_size'?\n"
      "s.yaml:10: entitySpace[2].propertyDomain: missing; expected values, or domainRange and "
      "interval\n"
      "s.yaml:14: entitySpace[3].propertyDomain.values[0]: 0 is no value of model_max_length; "
      "expected an integer "
      "from 1 to 131072\n"
      "s.yaml:1: sampleStoreIdentifer: unknown key; expected one of sampleStoreIdentifier, "
      "metadata, weights, "
      "padding, actuatorConfiguration, experiments, entitySpace; did you mean "
      "'sampleStoreIdentifier'?\n"
      "s.yaml:6: entitySpace: the required property 'batch_size' is missing; expected an integer "
      "from 1 to 4096");
}

TEST(SpaceErrorTest, UnknownExperimentNamesTheNearest) {
  EXPECT_EQ(error_of("experiments: [{experimentIdentifier: finetune_full_benchmark-v1.0, "
                     "actuatorIdentifier: SFTTrainer}]"),
            "s.yaml:1: experiments[0].experimentIdentifier: unknown experiment "
            "'finetune_full_benchmark-v1.0'; expected "
            "one of finetune_full_benchmark-v1.0.0, finetune_full_stability-v1.0.0, "
            "finetune_gptq-lora_benchmark-v1.0.0, finetune_lora_benchmark-v1.0.0, "
            "finetune_pt_benchmark-v1.0.0, finetune_qlora_benchmark-v1.0.0; did you mean "
            "'finetune_full_benchmark-v1.0.0'?");
}

TEST(SpaceErrorTest, FilesThatAreNoSpacesSaySo) {
  EXPECT_EQ(error_of(""),
            "s.yaml: found nothing; expected a discovery space: entitySpace and experiments");
  EXPECT_EQ(error_of("[1, 2]"),
            "s.yaml:1: found a list of 2; expected a discovery space: entitySpace and experiments");
  EXPECT_THAT(error_of("kind: operation\nconfig: {}"),
              HasSubstr("kind: this is a resource of kind 'operation'; expected discoveryspace"));
  EXPECT_THAT(error_of("entitySpace: []"), HasSubstr("s.yaml:1: experiments: missing"));
  EXPECT_THAT(error_of("experiments: 3"),
              HasSubstr("experiments: found 3; expected a list of experiments"));
  EXPECT_THAT(error_of("a: ]"), HasSubstr("s.yaml:1: not YAML: "));
}

TEST(SpaceErrorTest, PropertiesThatStandTwiceAreErrors) {
  EXPECT_EQ(error_of(space_text(std::string(kRequired) +
                                "  - {identifier: batch_size, propertyDomain: {values: [2]}}\n")),
            "s.yaml:7: entitySpace[4]: the property 'batch_size' stands twice in entitySpace");
  EXPECT_EQ(
      error_of(space_text(
          std::string(kRequired) + "  - {identifier: max_steps, propertyDomain: {values: [2]}}\n",
          "[{property: {identifier: max_steps}, value: 3}]")),
      "s.yaml:7: entitySpace[4]: 'max_steps' stands in entitySpace and in the parameterization of "
      "'SFTTrainer.finetune_full_benchmark-v1.0.0-max_steps.3'; expected it in one of them");
  EXPECT_EQ(
      error_of(space_text(kRequired,
                          "[{property: {identifier: max_steps}, value: 3}, {property: {identifier: "
                          "max_steps}, value: 4}]")),
      "s.yaml:1: experiments[0].parameterization[1]: 'max_steps' is set twice");
}

TEST(SpaceTest, AnExperimentThatStandsTwiceIsTakenOnce) {
  const Space space = parse(space_text(
      kRequired,
      "[{property: {identifier: max_steps}, value: 3}, {property: {identifier: bf16}, value: "
      "true}]}, {experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: "
      "SFTTrainer, parameterization: [{property: {identifier: bf16}, value: true}, {property: "
      "{identifier: max_steps}, value: 3}]"));
  EXPECT_EQ(space.experiments.size(), 1U);
  EXPECT_EQ(warnings(space),
            "s.yaml:1: experiments[1]: the experiment "
            "'SFTTrainer.finetune_full_benchmark-v1.0.0-bf16.1-max_steps.3' stands in the list "
            "before; taken once");
}

TEST(SpaceErrorTest, ParameterizationsAreChecked) {
  const auto error = [](const std::string& list) { return error_of(space_text(kRequired, list)); };
  const std::string at = "s.yaml:1: experiments[0].parameterization[0]";
  EXPECT_EQ(error("[{property: {identifier: max_stepps}, value: 3}]"),
            at + ".property: unknown property 'max_stepps'; expected a property of "
                 "finetune_full_benchmark-v1.0.0; did "
                 "you mean 'max_steps'?");
  EXPECT_EQ(error("[{property: {identifier: max_steps}, value: 3.5}]"),
            at + ".value: 3.5 is no value of max_steps; expected an integer from -1 to 10000");
  EXPECT_EQ(error("[{property: {identifier: max_steps}}]"), at + ".value: missing");
  EXPECT_EQ(error("[{property: max_steps, value: 3}]"),
            at + ".property: found 'max_steps'; expected a mapping");
  EXPECT_EQ(
      error("[{property: {identifier: batch_size}, value: 3}]"),
      at + ": 'batch_size' is a required property of the experiment; expected it in entitySpace");
}

TEST(SpaceErrorTest, TopLevelChoicesAreChecked) {
  EXPECT_EQ(error_of(space_text(kRequired, "[]", "weights: rnd\n")),
            "s.yaml:8: weights: found 'rnd'; expected auto or random");
  EXPECT_EQ(error_of(space_text(kRequired, "[]", "padding: longst\n")),
            "s.yaml:8: padding: found 'longst'; expected longest or max_length or none or packed; "
            "did you mean 'longest'?");
}

TEST(SpaceTest, WhatAdoWouldRefuseIsAccepted) {
  const Space space = parse(
      "experiments: [{experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: "
      "SFTTrainer, color: red, parameterization: [{property: {identifier: "
      "gradient_accumulation_steps}, value: 4}]}]\nentitySpace:\n" +
      std::string(kRequired));
  EXPECT_EQ(warnings(space),
            "s.yaml:1: experiments[0].color: unknown key, not used; ado would refuse this\n"
            "s.yaml:1: experiments[0].parameterization[0]: equals the default of "
            "'gradient_accumulation_steps'; ado "
            "would refuse this");
}

TEST(SpaceTest, ModelsOfTheActuatorConfigurationAreKnown) {
  const std::string text =
      space_text(kRequired, "[]", "actuatorConfiguration: {model_map: {my-3b: /srv/my-3b}}\n");
  SpaceOptions options;
  options.assignments = {"model_name=my-3b"};
  EXPECT_EQ(error_of(text, options), "no error");
  options.assignments = {"model_name=other-3b"};
  EXPECT_THAT(error_of(text, options),
              HasSubstr("--set model_name: 'other-3b' is no value of model_name"));
  options.extra_models = {"other-3b"};
  EXPECT_EQ(error_of(text, options), "no error");
}

// --- command line --------------------------------------------------------------------------------

Space with_set(std::vector<std::string> assignments, const std::string& parameterization = "[]") {
  SpaceOptions options;
  options.assignments = std::move(assignments);
  return parse(space_text(kRequired, parameterization), options);
}

TEST(AssignmentTest, ReplacesADomainInItsPlace) {
  EXPECT_THAT(ids(with_set({"number_gpus=[1, 2]"})),
              ::testing::ElementsAre(
                  "batch_size.1-model_max_length.512-model_name.smollm2-135m-number_gpus.1",
                  "batch_size.1-model_max_length.512-model_name.smollm2-135m-number_gpus.2"));
}

TEST(AssignmentTest, ReplacesAParameterInItsPlaceOrMakesItADimension) {
  const std::string parameters =
      "[{property: {identifier: max_steps}, value: 3}, {property: {identifier: bf16}, value: "
      "true}]";
  const Space one = with_set({"max_steps=5"}, parameters);
  EXPECT_EQ(experiment_id(one.experiments[0]),
            "SFTTrainer.finetune_full_benchmark-v1.0.0-bf16.1-max_steps.5");
  EXPECT_EQ(one.entity_count(), 1);
  const Space two = with_set({"max_steps=[5, 6]"}, parameters);
  EXPECT_EQ(experiment_id(two.experiments[0]), "SFTTrainer.finetune_full_benchmark-v1.0.0-bf16.1");
  EXPECT_EQ(two.entity_count(), 2);
}

TEST(AssignmentTest, AddsADimension) {
  const Space space = with_set({"fast_kernels=[True, False, True]"});
  EXPECT_EQ(entity_id(space.entity(0)),
            "batch_size.1-fast_kernels.[True, False, True]-model_max_length.512-model_name.smollm2-"
            "135m-number_gpus.0");
}

TEST(AssignmentTest, ExperimentsThatBecomeEqualAreOne) {
  const Space space = with_set({"max_steps=5"},
                               "[{property: {identifier: max_steps}, value: 3}]}, "
                               "{experimentIdentifier: finetune_full_benchmark-v1.0.0, "
                               "actuatorIdentifier: SFTTrainer, parameterization: [{property: "
                               "{identifier: max_steps}, value: 4}]");
  EXPECT_EQ(space.experiments.size(), 1U);
}

TEST(AssignmentTest, NeedsNoFile) {
  SpaceOptions options;
  options.experiment = "finetune_full_benchmark-v1.0.0";
  options.assignments = {"model_name=smollm2-135m", "number_gpus=0", "model_max_length=512",
                         "batch_size=[1, 2]"};
  EXPECT_EQ(space_from_assignments(Catalog::shipped(), options).entity_count(), 2);
}

TEST(AssignmentTest, MistakesAreErrorsOfTheCommandLine) {
  const auto error = [](std::vector<std::string> assignments, const std::string& experiment = {}) {
    SpaceOptions options;
    options.assignments = std::move(assignments);
    options.experiment = experiment;
    return error_of(space_text(kRequired), options);
  };
  EXPECT_EQ(error({"batch_size"}), "--set: found 'batch_size'; expected property=value");
  EXPECT_EQ(error({"batchsize=3"}),
            "--set batchsize: unknown property 'batchsize'; expected a property of "
            "finetune_full_benchmark-v1.0.0; did "
            "you mean 'batch_size'?");
  EXPECT_EQ(error({"batch_size=1", "batch_size=2"}),
            "--set batch_size: given twice; expected a list for several values: [1, 2]");
  EXPECT_EQ(
      error({"batch_size=[1, -1]"}),
      "--set batch_size[1]: -1 is no value of batch_size; expected an integer from 1 to 4096");
  EXPECT_EQ(error({"torch_dtype=bflot16"}),
            "--set torch_dtype: 'bflot16' is no value of torch_dtype; expected one of bfloat16, "
            "float32, float16; did "
            "you mean 'bfloat16'?");
  EXPECT_EQ(error({}, "finetune_lora_benchmark-v1.0.0"),
            "--experiment: 'finetune_lora_benchmark-v1.0.0' is not in this space; expected one of "
            "SFTTrainer.finetune_full_benchmark-v1.0.0");
}

TEST(AssignmentTest, MissingPropertiesNameTheOptionThatGivesThem) {
  SpaceOptions options;
  options.experiment = "finetune_full_benchmark-v1.0.0";
  options.assignments = {"model_name=smollm2-135m", "number_gpus=0", "model_max_length=512"};
  try {
    space_from_assignments(Catalog::shipped(), options);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "the required property 'batch_size' is missing; expected an integer from 1 to 4096 (--set "
        "batch_size=...)");
  }
}

TEST(AssignmentTest, ExperimentIsChosenByItsId) {
  SpaceOptions options;
  options.experiment = "SFTTrainer.finetune_full_benchmark-v1.0.0-max_steps.4";
  const Space space = parse(space_text(kRequired,
                                       "[{property: {identifier: max_steps}, value: 3}]}, "
                                       "{experimentIdentifier: finetune_full_benchmark-v1.0.0, "
                                       "actuatorIdentifier: SFTTrainer, parameterization: "
                                       "[{property: {identifier: max_steps}, value: 4}]"),
                            options);
  ASSERT_EQ(space.experiments.size(), 1U);
  EXPECT_EQ(experiment_id(space.experiments[0]), options.experiment);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
