#include "sftbench/plan/actuator.h"

#include <gmock/gmock.h>

#include "plan_files.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ActuatorTest : public PlanTest {
 protected:
  ActuatorSettings read(const std::string& path, const YamlNode* inline_parameters = nullptr) {
    return read_actuator_settings(path, inline_parameters, "s.yaml", warnings_);
  }
  std::vector<Diagnostic> warnings_;
};

TEST_F(ActuatorTest, DefaultsGenerateDatasetsAndLookInTheUsualCache) {
  const ActuatorSettings settings = read("");
  EXPECT_EQ(settings.output_dir, "output");
  EXPECT_EQ(settings.data_directory, std::nullopt);
  EXPECT_EQ(settings.hf_home, std::nullopt);
  EXPECT_EQ(settings.num_tokens_cache_directory, "cache");
  EXPECT_TRUE(settings.match_exact_dependencies);
  EXPECT_TRUE(settings.model_map.empty());
}

TEST_F(ActuatorTest, ReadsAnActuatorConfigurationOfAdo) {
  const std::string path = file(
      "c.yaml",
      "actuatorIdentifier: SFTTrainer\n"
      "parameters: {match_exact_dependencies: false, data_directory: /srv/sft/data, hf_home: "
      "/srv/hf, num_tokens_cache_directory: null, aim_dashboard_url: http://aim,\n"
      "  model_map: {my-3b: /srv/models/my-3b, big: {Vanilla: org/big, GPTQ-Quantized: /q}}}\n");
  const ActuatorSettings settings = read(path);
  EXPECT_FALSE(settings.match_exact_dependencies);
  EXPECT_EQ(settings.data_directory, "/srv/sft/data");
  EXPECT_EQ(settings.hf_home, "/srv/hf");
  EXPECT_EQ(settings.num_tokens_cache_directory, std::nullopt);
  EXPECT_EQ(settings.model_map.at("my-3b").at("Vanilla"), "/srv/models/my-3b");
  EXPECT_EQ(settings.model_map.at("big").at("GPTQ-Quantized"), "/q");
  EXPECT_THAT(settings.model_names(), ElementsAre("big", "my-3b"));
}

TEST_F(ActuatorTest, TheFileGoesOverTheSpaceAndTheEnvironmentOverBoth) {
  const YamlNode space =
      parse_yaml("{hf_home: /space, data_directory: /space, output_dir: /space}", "s.yaml");
  const std::string config =
      file("c.yaml", "parameters: {hf_home: /config, data_directory: /config}");
  set("SFTTRAINER_PARAMETERS_FILE", file("e.yaml", "hf_home: /environment").c_str());
  const ActuatorSettings settings = read(config, &space);
  EXPECT_EQ(settings.output_dir, "/space");
  EXPECT_EQ(settings.data_directory, "/config");
  EXPECT_EQ(settings.hf_home, "/environment");
}

TEST_F(ActuatorTest, CacheIsAcceptedWithAWarningAsAdoIgnoresIt) {
  read(file("c.yaml", "actuatorIdentifier: SFTTrainer\nparameters:\n  cache: /x\n"));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(to_string(warnings_[0]),
              HasSubstr("c.yaml:3: parameters.cache: is no parameter of the actuator, not used "
                        "(as in ado); did you mean 'num_tokens_cache_directory'?"));
}

// ado's documents spell the weight type so, its code does not.
TEST_F(ActuatorTest, TheDocumentsSpellingOfGptqIsTaken) {
  const ActuatorSettings settings =
      read(file("c.yaml", "model_map:\n  big: {Vanilla: org/big, QPTQ-Quantized: /q}\n"));
  EXPECT_EQ(settings.model_map.at("big").at("GPTQ-Quantized"), "/q");
  EXPECT_EQ(settings.model_map.at("big").count("QPTQ-Quantized"), 0U);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(
      to_string(warnings_[0]),
      HasSubstr("c.yaml:2: model_map.big.QPTQ-Quantized: taken as GPTQ-Quantized; ado would "
                "refuse this spelling"));
  const std::string both =
      file("both.yaml", "model_map:\n  big: {GPTQ-Quantized: /p, QPTQ-Quantized: /q}\n");
  try {
    read(both);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("both.yaml:2: model_map.big.QPTQ-Quantized: stands beside "
                                        "GPTQ-Quantized; expected one of them"));
  }
}

TEST_F(ActuatorTest, WhatHasNoEffectHereIsNamed) {
  const std::string path = file("c.yaml",
                                "actuatorIdentifier: SFTTrainer\nparameters:\n  output_dir: /out\n"
                                "  aim_db: aim://host\n  aim_dashboard_url: http://aim\n");
  EXPECT_EQ(read(path).output_dir, "/out");
  std::string all;
  for (const Diagnostic& warning : warnings_) all += to_string(warning) + "\n";
  EXPECT_EQ(all, path +
                     ":3: parameters.output_dir: has no effect: nothing is kept unless it is asked "
                     "for; expected run --save-model-dir DIR, --checkpoint-dir DIR\n" +
                     path +
                     ":4: parameters.aim_db: has no effect: this program writes to no Aim "
                     "repository; expected trackers: [aim-info=FILE], or [tensorboard=DIR]\n");
  warnings_.clear();
  read(file("none.yaml", "parameters: {aim_db: null, aim_dashboard_url: null}"));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ActuatorTest, TheResourceInWhichAdoStoresItIsRead) {
  EXPECT_EQ(read(file("c.yaml",
                      "kind: actuatorconfiguration\nconfig:\n  actuatorIdentifier: SFTTrainer\n"
                      "  parameters: {output_dir: /out}\n"))
                .output_dir,
            "/out");
}

TEST_F(ActuatorTest, TrackersAreAListOfTexts) {
  const std::string path =
      file("c.yaml", "parameters:\n  trackers: [tensorboard=/runs, 'mlflow=http://h:1']\n");
  EXPECT_THAT(read(path).trackers, ElementsAre("tensorboard=/runs", "mlflow=http://h:1"));
  EXPECT_TRUE(read(file("none.yaml", "parameters: {trackers: null}")).trackers.empty());
  EXPECT_TRUE(warnings_.empty());
  try {
    read(file("bad.yaml", "parameters:\n  trackers: {tensorboard: /runs}\n"));
    FAIL() << "a mapping was read as a list";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("bad.yaml:2: parameters.trackers: found a mapping"));
  }
}

TEST_F(ActuatorTest, AllThatIsWrongIsListed) {
  const std::string path = file("c.yaml",
                                "actuatorIdentifier: SFTTrain\n"
                                "parameters:\n"
                                "  data_dir: /x\n"
                                "  hf_home: [1]\n"
                                "  model_map: {a: {Vanila: x}}\n");
  EXPECT_EQ(error_of([&] { read(path); }),
            path +
                ":1: actuatorIdentifier: unknown actuator 'SFTTrain'; expected SFTTrainer; did you "
                "mean 'SFTTrainer'?\n" +
                path + ":4: parameters.hf_home: found a list of 1; expected text\n" + path +
                ":5: parameters.model_map.a.Vanila: unknown key; expected one of Vanilla, "
                "GPTQ-Quantized; did you mean "
                "'Vanilla'?\n" +
                path +
                ":3: parameters.data_dir: unknown key; expected one of match_exact_dependencies, "
                "output_dir, "
                "data_directory, aim_db, aim_dashboard_url, hf_home, fetch_weights, "
                "num_tokens_cache_directory, "
                "trackers, model_map, cache; did you mean 'data_directory'?");
}

TEST_F(ActuatorTest, ErrorsInsideASpaceFileNameIt) {
  const YamlNode space = parse_yaml("\n{hf_hom: /x}", "s.yaml");
  EXPECT_THAT(error_of([&] { read("", &space); }),
              HasSubstr("s.yaml:2: actuatorConfiguration.hf_hom: unknown key; expected one of "));
}

TEST_F(ActuatorTest, MissingFileIsNamed) {
  EXPECT_THAT(error_of([&] { read("/no/such.yaml"); }),
              HasSubstr("/no/such.yaml: cannot open: No such file"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
