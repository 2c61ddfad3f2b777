// Operation files as ado writes them: what they say, and every mistake with its message.
#include "sftbench/space/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kHead =
    "spaces: [space-11aa22-70b1c2]\n"
    "operation:\n"
    "  module: {operatorName: random_walk, operationType: search}\n";

Operation parse(const std::string& text) {
  return parse_operation(text, "o.yaml");
}

Operation with(const std::string& parameters) {
  return parse(std::string(kHead) + "  parameters: " + parameters + "\n");
}

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string parameter_error(const std::string& parameters) {
  return error_of(std::string(kHead) + "  parameters: " + parameters + "\n");
}

std::string warnings(const Operation& operation) {
  std::string text;
  for (const Diagnostic& warning : operation.warnings) text += to_string(warning) + "\n";
  return text;
}

TEST(OperationTest, GroupedWalkOfTheFormatDocumentReads) {
  const Operation operation = parse(
      "spaces: [space-11aa22-70b1c2]\n"
      "actuatorConfigurationIdentifiers: [actuatorconfiguration-SFTTrainer-5e0d11aa]\n"
      "operation:\n"
      "  module: {operatorName: random_walk, operationType: search}\n"
      "  parameters: {numberEntities: all, batchSize: 3, maxRetries: 2, samplerConfig: "
      "{samplerType: generator, mode: sequentialgrouped, grouping: [model_name, number_gpus]}}\n");
  EXPECT_THAT(operation.spaces, ElementsAre("space-11aa22-70b1c2"));
  EXPECT_THAT(operation.actuator_configurations,
              ElementsAre("actuatorconfiguration-SFTTrainer-5e0d11aa"));
  EXPECT_EQ(operation.sampler, Sampler::kGenerator);
  EXPECT_EQ(operation.order, WalkOrder::kSequentialGrouped);
  EXPECT_THAT(operation.grouping, ElementsAre("model_name", "number_gpus"));
  EXPECT_EQ(operation.number_entities, std::nullopt);
  EXPECT_EQ(operation.batch_size, 3);
  EXPECT_EQ(operation.max_retries, 2);
  EXPECT_TRUE(operation.single_measurement);
  EXPECT_EQ(operation.filter, EntityFilter::kNone);
  EXPECT_THAT(operation.warnings, IsEmpty());
}

TEST(OperationTest, TodaysAdoCallsItExploreAndNamesTheVersion) {
  const Operation operation = parse(
      "spaces: [s]\noperation:\n  module: {operatorName: random_walk, operationType: explore, "
      "operatorVersion: 1.0.0}\n  parameters: {numberEntities: 3}\n");
  EXPECT_EQ(operation.number_entities, 3);
  EXPECT_THAT(operation.warnings, IsEmpty());
}

TEST(OperationTest, WhatIsNotSaidIsAdosDefault) {
  for (const Operation& operation : {parse(kHead), with("{}"), with("null")}) {
    EXPECT_EQ(operation.sampler, Sampler::kSelector);
    EXPECT_EQ(operation.order, WalkOrder::kRandom);
    EXPECT_EQ(operation.number_entities, 1);
    EXPECT_EQ(operation.batch_size, 1);
    EXPECT_EQ(operation.max_retries, 0);
    EXPECT_TRUE(operation.single_measurement);
    EXPECT_EQ(operation.filter, EntityFilter::kNone);
  }
}

TEST(OperationTest, EveryModeFilterAndSamplerHasItsName) {
  const auto sampled = [](const std::string& config) {
    return with("{samplerConfig: {" + config + "}}");
  };
  EXPECT_EQ(sampled("mode: random").order, WalkOrder::kRandom);
  EXPECT_EQ(sampled("mode: sequential").order, WalkOrder::kSequential);
  EXPECT_EQ(sampled("mode: randomgrouped, grouping: [a]").order, WalkOrder::kRandomGrouped);
  EXPECT_EQ(sampled("mode: sequentialgrouped, grouping: [a]").order, WalkOrder::kSequentialGrouped);
  EXPECT_EQ(sampled("samplerType: generator").sampler, Sampler::kGenerator);
  EXPECT_EQ(sampled("samplerType: selector").sampler, Sampler::kSelector);
  const auto filtered = [](const std::string& mode) {
    return with("{filter: {filterMode: " + mode + "}}").filter;
  };
  EXPECT_EQ(filtered("noFilter"), EntityFilter::kNone);
  EXPECT_EQ(filtered("measured"), EntityFilter::kMeasured);
  EXPECT_EQ(filtered("unmeasured"), EntityFilter::kUnmeasured);
  EXPECT_EQ(filtered("partial"), EntityFilter::kPartial);
  EXPECT_FALSE(with("{singleMeasurement: false}").single_measurement);
}

TEST(OperationTest, ModuleMayBeNamedByItsClass) {
  const Operation operation = parse(
      "spaces: [s]\n"
      "metadata: {name: walk, anything: [1]}\n"
      "operation:\n"
      "  module: {moduleClass: RandomWalk, moduleName: orchestrator.modules.operators.randomwalk, "
      "modulePath: ., moduleType: operation}\n"
      "  parameters: {numberEntities: 7}\n");
  EXPECT_EQ(operation.number_entities, 7);
}

TEST(OperationTest, ResourceIsUnwrapped) {
  const std::string resource =
      "version: v1\nkind: operation\nidentifier: x\ncreated: now\nstatus: []\n"
      "operationType: search\noperatorIdentifier: random_walk-1.0.1\nconfig:\n"
      "  spaces: [s]\n"
      "  operation: {module: {operatorName: random_walk, operationType: search}, parameters: "
      "{numberEntities: 5}}\n";
  EXPECT_EQ(parse(resource).number_entities, 5);
  EXPECT_EQ(error_of("kind: discoveryspace\nconfig: {}\n"),
            "o.yaml:1: kind: this is a resource of kind 'discoveryspace'; expected operation");
}

TEST(OperationTest, OlderFlatFieldsAreTheSamplersOnlyBesideMode) {
  const Operation flat =
      with("{mode: sequentialgrouped, samplerType: generator, grouping: [batch_size]}");
  EXPECT_EQ(flat.order, WalkOrder::kSequentialGrouped);
  EXPECT_EQ(flat.sampler, Sampler::kGenerator);
  EXPECT_THAT(flat.grouping, ElementsAre("batch_size"));
  const Operation both = with("{mode: sequential, samplerConfig: {mode: random}}");
  EXPECT_EQ(both.order, WalkOrder::kSequential);
  EXPECT_EQ(warnings(both),
            "o.yaml:4: operation.parameters.samplerConfig: not used, since mode stands beside it "
            "(as in ado)\n");
  EXPECT_THAT(parameter_error("{samplerType: generator}"),
              testing::StartsWith("o.yaml:4: operation.parameters.samplerType: unknown key"));
}

TEST(OperationTest, WhatAdoWouldRefuseOrNotUseIsAWarning) {
  const Operation words = with("{filter: {filterMode: unsampled}}");
  EXPECT_EQ(words.filter, EntityFilter::kUnmeasured);
  EXPECT_EQ(warnings(words),
            "o.yaml:4: operation.parameters.filter.filterMode: ado would refuse 'unsampled' for "
            "'unmeasured'\n");
  EXPECT_EQ(warnings(with("{samplerConfig: {mode: random, grouping: [batch_size]}}")),
            "o.yaml:4: operation.parameters.samplerConfig.grouping: no effect, since the mode is "
            "not a grouped one\n");
}

TEST(OperationErrorTest, OtherOperatorsAreNamedWithTheOneThatThereIs) {
  EXPECT_EQ(error_of("spaces: [s]\noperation:\n  module: {operatorName: rifferla, operationType: "
                     "modify}\n"),
            "o.yaml:3: operation.module.operationType: rifferla is no operation of type 'modify'; "
            "expected search\n"
            "o.yaml:3: operation.module.operatorName: the operator 'rifferla' is not supported; "
            "expected random_walk or ray_tune");
  EXPECT_EQ(error_of("spaces: [s]\noperation: {module: {moduleClass: Rifferla}}\n"),
            "o.yaml:2: operation.module.moduleClass: the operator 'Rifferla' is not supported; "
            "expected RandomWalk or RayTune");
  EXPECT_EQ(error_of("spaces: [s]\noperation: {module: {operatorName: random_wlk, operationType: "
                     "serch}}\n"),
            "o.yaml:2: operation.module.operationType: unknown type 'serch'; expected search; did "
            "you mean 'search'?\n"
            "o.yaml:2: operation.module.operatorName: the operator 'random_wlk' is not supported; "
            "expected random_walk or ray_tune; did you mean 'random_walk'?");
  EXPECT_EQ(error_of("spaces: [s]\noperation: {module: {operatorName: random_walk, operationType: "
                     "compare}}\n"),
            "o.yaml:2: operation.module.operationType: random_walk is no operation of type "
            "'compare'; expected search");
  EXPECT_EQ(error_of("spaces: [s]\noperation: {module: {operatorName: random_walk, operatorType: "
                     "explore}}\n"),
            "o.yaml:2: operation.module.operationType: missing\n"
            "o.yaml:2: operation.module.operatorType: unknown key; expected one of operatorName, "
            "operationType, operatorVersion; did you mean 'operationType'?");
}

TEST(OperationErrorTest, AllErrorsOfAFileAreListedAtOnceWithLines) {
  EXPECT_EQ(error_of("spaces: []\n"
                     "space: x\n"
                     "operation:\n"
                     "  module:\n"
                     "    operatorName: random_walk\n"
                     "    operationType: search\n"
                     "  parameters:\n"
                     "    numberEntities: most\n"
                     "    batchSize: 0\n"
                     "    maxRetries: -1\n"
                     "    singleMeasurement: 1\n"
                     "    filter: {filterMode: nofilter}\n"
                     "    samplerConfig:\n"
                     "      samplerType: Selector\n"
                     "      mode: shuffled\n"
                     "    seed: 3\n"),
            "o.yaml:1: spaces: an empty list; expected the id of a space\n"
            "o.yaml:2: space: unknown key; expected one of spaces, "
            "actuatorConfigurationIdentifiers, metadata, operation; did you mean 'spaces'?\n"
            "o.yaml:14: operation.parameters.samplerConfig.samplerType: found 'Selector'; expected "
            "one of selector, generator; did you mean 'selector'?\n"
            "o.yaml:15: operation.parameters.samplerConfig.mode: found 'shuffled'; expected one of "
            "random, sequential, randomgrouped, sequentialgrouped\n"
            "o.yaml:8: operation.parameters.numberEntities: found 'most'; expected an integer "
            "above 0, or all\n"
            "o.yaml:9: operation.parameters.batchSize: found 0; expected at least 1\n"
            "o.yaml:11: operation.parameters.singleMeasurement: found 1; expected true or false\n"
            "o.yaml:10: operation.parameters.maxRetries: found -1; expected at least 0\n"
            "o.yaml:12: operation.parameters.filter.filterMode: found 'nofilter'; expected one of "
            "noFilter, measured, unmeasured, partial; did you mean 'noFilter'?\n"
            "o.yaml:16: operation.parameters.seed: unknown key; expected one of samplerConfig, "
            "numberEntities, batchSize, singleMeasurement, maxRetries, filter");
}

TEST(OperationErrorTest, ParametersThatContradictEachOtherAreErrors) {
  EXPECT_EQ(
      parameter_error("{numberEntities: 2, batchSize: 3}"),
      "o.yaml:4: operation.parameters.batchSize: found 3; expected at most numberEntities, 2");
  EXPECT_EQ(parameter_error("{samplerConfig: {mode: randomgrouped}}"),
            "o.yaml:4: operation.parameters.samplerConfig.grouping: missing; expected the "
            "properties that are equal within a group");
  EXPECT_EQ(parameter_error("{samplerConfig: {module: {moduleClass: Mine}, parameters: {}}}"),
            "o.yaml:4: operation.parameters.samplerConfig.module: custom samplers are Python "
            "classes and not supported; expected samplerType and mode");
}

TEST(OperationTest, ActuatorConfigurationsOfAdosStoreAreNamedWhenAnotherOneIsUsed) {
  const Operation operation = parse(
      "spaces: [s]\nactuatorConfigurationIdentifiers: [actuatorconfiguration-SFTTrainer-1]\n"
      "operation: {module: {operatorName: random_walk, operationType: search}}\n");
  const auto notes = [&](const std::string& config) {
    std::string text;
    for (const Diagnostic& note : notes_on_actuator_configurations(operation, config))
      text += to_string(note) + "\n";
    return text;
  };
  const std::string at = "o.yaml:2: actuatorConfigurationIdentifiers: ";
  EXPECT_EQ(notes(""),
            at + "actuatorconfiguration-SFTTrainer-1 in ado's store is not used; measured with the "
                 "defaults; expected --config FILE, from `ado get actuatorconfiguration ID -o "
                 "yaml`\n");
  const std::string path =
      testing::TempDir() + "/operation_config_" + std::to_string(::getpid()) + ".yaml";
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  write("actuatorIdentifier: SFTTrainer\nparameters: {}\n");
  EXPECT_EQ(notes(path), "");
  const std::string resource =
      "kind: actuatorconfiguration\nconfig: {actuatorIdentifier: SFTTrainer}\nidentifier: ";
  write(resource + "actuatorconfiguration-SFTTrainer-1\n");
  EXPECT_EQ(notes(path), "");
  write(resource + "actuatorconfiguration-SFTTrainer-2\n");
  EXPECT_EQ(notes(path), at + "names actuatorconfiguration-SFTTrainer-1, and " + path +
                             " is actuatorconfiguration-SFTTrainer-2, which is used\n");
  std::filesystem::remove(path);
  EXPECT_TRUE(notes_on_actuator_configurations(parse(kHead), "").empty());
}

TEST(OperationErrorTest, FilesThatAreNoOperationsSaySo) {
  EXPECT_EQ(error_of(""), "o.yaml: found nothing; expected an operation: spaces and operation");
  EXPECT_EQ(error_of("[1]"),
            "o.yaml:1: found a list of 1; expected an operation: spaces and operation");
  EXPECT_EQ(error_of("spaces: s\noperation: [3]\n"),
            "o.yaml:1: spaces: found 's'; expected a list\n"
            "o.yaml:2: operation: found a list of 1; expected a mapping");
  EXPECT_EQ(error_of("operation: {parameters: {}}\n"),
            "o.yaml:1: spaces: missing\n"
            "o.yaml:1: operation.module: missing");
}

// --- ray_tune ------------------------------------------------------------------------------------

std::string tune(const std::string& algorithm, const std::string& more = "",
                 const std::string& behind = "") {
  return "spaces: [space-1]\noperation:\n"
         "  module: {operatorName: ray_tune, operationType: explore}\n"
         "  parameters:\n"
         "    tuneConfig: {metric: dataset_tokens_per_second, mode: max, num_samples: 24, "
         "search_alg: " +
         algorithm + more + "}\n" + behind;
}

TEST(OperationTest, ABayesianSearchReads) {
  const Operation operation = parse(tune(
      "{name: bayesopt, params: {random_state: 7, random_search_steps: 6, utility_kwargs: {kind: "
      "ei, xi: 0.0}, points_to_evaluate: [{batch_size: 8, model_name: a}]}}",
      ", max_concurrent_trials: 2",
      "    runtimeConfig: {stop: [{name: MaxSamplesStopper, positionalParams: [20]}, {name: "
      "SimpleStopper, positionalParams: [max, dataset_tokens_per_second], keywordParams: "
      "{buffer_states: 3, min_trials: 10, count_nan: false}}]}\n"
      "    orchestratorConfig: {failed_metric_value: .nan, single_measurement_per_property: "
      "false}\n"));
  ASSERT_TRUE(operation.search);
  const SearchPlan& plan = *operation.search;
  EXPECT_EQ(plan.method, SearchMethod::kBayesian);
  EXPECT_EQ(plan.metric, "dataset_tokens_per_second");
  EXPECT_TRUE(plan.maximize);
  EXPECT_EQ(plan.samples, 20) << "the fewer of the two";
  EXPECT_EQ(plan.first, 6);
  EXPECT_EQ(plan.seed, 7u);
  EXPECT_EQ(plan.patience, 3);
  EXPECT_EQ(plan.patience_begins, 10);
  EXPECT_FALSE(plan.counts_failures);
  EXPECT_FALSE(plan.failed_value);
  EXPECT_THAT(plan.given, ElementsAre(Json({{"batch_size", 8}, {"model_name", "a"}})));
  EXPECT_EQ(operation.batch_size, 2);
  EXPECT_FALSE(operation.single_measurement);
  EXPECT_FALSE(operation.number_entities);
}

TEST(OperationTest, EverySearcherThatHasAnEqualReads) {
  const auto method = [](const std::string& algorithm) {
    return parse(tune(algorithm)).search->method;
  };
  EXPECT_EQ(method("{name: random}"), SearchMethod::kRandom);
  EXPECT_EQ(method("{name: variant_generator, params: {random_state: 1}}"), SearchMethod::kRandom);
  EXPECT_EQ(method("{name: lhu_sampler}"), SearchMethod::kLatinHypercube);
  EXPECT_EQ(method("{name: ax}"), SearchMethod::kBayesian);
  EXPECT_EQ(method("{name: optuna, params: {sampler: RandomSampler}}"), SearchMethod::kRandom);
  const Operation gp = parse(tune(
      "{name: optuna, params: {sampler: GPSampler, sampler_parameters: {seed: 3, n_startup_trials: "
      "4}}}"));
  EXPECT_EQ(gp.search->method, SearchMethod::kBayesian);
  EXPECT_EQ(gp.search->first, 4);
  EXPECT_EQ(gp.search->seed, 3u);
  EXPECT_EQ(
      parse(tune("{name: optuna, params: {sampler: GPSampler, sampler_parameters: {seed: 0}}}"))
          .search->seed,
      0u);
  EXPECT_THAT(error_of(tune(
                  "{name: optuna, params: {sampler: GPSampler, sampler_parameters: {seed: -1}}}")),
              testing::HasSubstr("seed: found -1; expected at least 0"));
  EXPECT_THAT(warnings(parse(tune("{name: bayesopt}"))),
              testing::HasSubstr("upper confidence bound in Ray and expected improvement here"));
}

TEST(OperationTest, WhatHasNoEqualIsRefusedByName) {
  const auto refused = [](const std::string& text, const std::string& what) {
    EXPECT_THAT(error_of(text), testing::HasSubstr(what));
  };
  refused(tune("{name: hyperopt}"), "the search algorithm 'hyperopt' has no equal here");
  refused(tune("{name: nevergrad, params: {optimizer: CMA}}"), "'nevergrad' has no equal");
  refused(tune("{name: optuna}"), "optuna's TPESampler has no equal here");
  refused(tune("{name: optuna, params: {sampler: CmaEsSampler}}"), "optuna's CmaEsSampler");
  refused(tune("{name: bayesopt, params: {utility_kwargs: {kind: ucb}}}"), "'ucb' has no equal");
  refused(tune("{name: lhu_samplr}"), "lhu_sampler");
  refused(tune("{name: random}", ", scheduler: asha"), "tuneConfig.scheduler");
  refused(tune("{name: random}", ", time_budget_s: 60"), "sweep --until");
  refused(tune("{name: random}", ", wait: 3"), "wait");
  refused(tune("{name: random, params: {points: []}}"), "points");
  refused(tune("{name: random}", "", "    runtimeConfig: {stop: [{name: GrowthStopper}]}\n"),
          "the stopper 'GrowthStopper' has no equal here");
  refused(tune("{name: random}", "", "    runtimeConfig: {stop: [{name: MaxSamplesStopper}]}\n"),
          "without max_samples");
  refused(tune("{name: random}", "",
               "    runtimeConfig: {stop: [{name: SimpleStopper, positionalParams: [min, "
               "loss]}]}\n"),
          "as in tuneConfig");
  refused(
      "spaces: [s]\noperation:\n  module: {operatorName: ray_tune, operationType: search}\n"
      "  parameters: {tuneConfig: {metric: [a, b], mode: max, search_alg: {name: random}}}\n",
      "several objectives");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
