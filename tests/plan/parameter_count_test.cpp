// The parameter counts of config/models.yaml, held against what others publish and what
// transformers builds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/families/model_shape.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

const ModelCatalog& shipped() {
  return Catalog::shipped().models;
}

TEST(ParameterCountTest, CountOfTheFactsEqualsThePublishedCount) {
  int exact = 0;
  int rounded = 0;
  for (const ModelFacts& model : shipped().models()) {
    if (!model.published || model.hf_config.is_null()) continue;
    const auto counted = static_cast<double>(parameter_count(model.hf_config));
    EXPECT_LE(std::abs(counted - model.published->parameters), model.published->tolerance)
        << model.name << " has " << static_cast<int64_t>(counted) << ", published "
        << model.published->text;
    (model.published->tolerance == 0 ? exact : rounded)++;
  }
  EXPECT_GE(exact, 20);
  EXPECT_GE(rounded, 10);
}

TEST(ParameterCountTest, CountOfTheFactsEqualsWhatTransformersBuilds) {
  const Json golden = read_json_file(SFTBENCH_TEST_DATA "/space/parameter_counts.json");
  size_t known = 0;
  for (const ModelFacts& model : shipped().models()) known += model.hf_config.is_null() ? 0 : 1;
  ASSERT_EQ(golden.size(), known)
      << "run tests/reference/space.py after a change of config/models.yaml";
  for (const Json& row : golden) {
    const ModelFacts* model = shipped().find(row["model"].get<std::string>());
    ASSERT_NE(model, nullptr) << row;
    EXPECT_EQ(parameter_count(model->hf_config), row["parameters"].get<int64_t>()) << model->name;
  }
}

TEST(ParameterCountTest, NamesWhatItCannotCount) {
  const auto error_of = [](const char* config) {
    try {
      parameter_count(Json::parse(config));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(
      error_of(R"({"model_type": "mamba"})"),
      HasSubstr("config.json: model_type: unknown model type \"mamba\"; expected one of bloom, "));
  EXPECT_THAT(error_of(R"({"model_type": "llama"})"),
              HasSubstr("config.json: hidden_size: missing; expected a positive integer"));
  EXPECT_THAT(error_of(R"({"model_type": "llava_next", "text_config": {"model_type": "qwen2"}})"),
              HasSubstr("config.json: text_config.model_type: found \"qwen2\"; expected one of "
                        "llama, granite, mistral"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
