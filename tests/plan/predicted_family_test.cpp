// Families that predictions know and nothing trains. Their parameter counts are those of
// parameter_count_test.cpp.
#include <gmock/gmock.h>

#include <algorithm>

#include "plan_files.h"
#include "sftbench/families/family.h"
#include "sftbench/families/model_shape.h"
#include "sftbench/plan/resolve.h"
#include "sftbench/plan/support.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

ModelShape shape_named(const std::string& model) {
  return shape_of(parse_model_config(Catalog::shipped().models.find(model)->hf_config));
}

int64_t windowed_layers(const std::string& model, int64_t window) {
  const std::vector<LayerShape> layers = shape_named(model).layers;
  return std::count_if(layers.begin(), layers.end(),
                       [&](const LayerShape& layer) { return layer.window == window; });
}

class PredictedFamilyTest : public PlanTest {
 protected:
  Resolution resolved(const std::string& model, bool predicts) {
    ResolveOptions options;
    options.weights = "random";
    options.predicts = predicts;
    return resolve(request({"model_name=" + model}), {}, options, Catalog::shipped());
  }
};

TEST_F(PredictedFamilyTest, ItsModelsAreResolvedForPredictionsAlone) {
  for (const char* model :
       {"gemma2-2b", "gemma3-1b", "phi4", "olmo2-7b", "pythia-1b", "smollm3-3b", "starcoder2-3b"}) {
    EXPECT_EQ(resolved(model, true).job.model.name, model);
    const std::string family = Catalog::shipped().models.find(model)->family;
    EXPECT_FALSE(trains_family(family)) << family;
    EXPECT_THAT(error_of([&] { resolved(model, false); }),
                HasSubstr("model_name " + std::string(model) + ": its family, " + family +
                          ", is not one that this version trains: bloom, "));
  }
}

TEST_F(PredictedFamilyTest, EachHasAModelAndIsNamedByNoListOfTrainedOnes) {
  for (const Family& family : families()) {
    const std::vector<std::string>& trained = known_model_types();
    EXPECT_EQ(std::count(trained.begin(), trained.end(), family.model_type), family.trains ? 1 : 0);
    if (family.trains) continue;
    const std::vector<ModelFacts>& models = Catalog::shipped().models.models();
    EXPECT_TRUE(std::any_of(models.begin(), models.end(), [&](const ModelFacts& model) {
      return model.family == family.model_type;
    })) << family.model_type;
  }
}

TEST_F(PredictedFamilyTest, LinearsAreThoseWhoseWeightsAreListedAndAdaptersFindThem) {
  for (const ModelFacts& model : Catalog::shipped().models.models()) {
    if (trains_family(model.family)) continue;
    const LayerShape layer = shape_named(model.name).layers.front();
    for (const LinearShape& linear : layer.linears) {
      const auto tensor =
          std::find_if(layer.tensors.begin(), layer.tensors.end(),
                       [&](const TensorShape& t) { return t.name == linear.name + ".weight"; });
      ASSERT_NE(tensor, layer.tensors.end()) << model.name << ": " << linear.name;
      EXPECT_EQ(tensor->sizes, (std::vector<int64_t>{linear.out, linear.in})) << linear.name;
    }
    ASSERT_FALSE(model.lora_targets.empty()) << model.name;
    for (const std::string& target : model.lora_targets) {
      EXPECT_TRUE(std::any_of(
          layer.linears.begin(), layer.linears.end(),
          [&](const LinearShape& linear) { return is_lora_target(linear.name, target); }))
          << model.name << ": " << target;
    }
  }
}

// transformers' Gemma2Config and Gemma3TextConfig: every other layer, and five of six.
TEST_F(PredictedFamilyTest, GemmasLayersHaveTheirWindows) {
  EXPECT_EQ(windowed_layers("gemma2-2b", 4096), 13);
  EXPECT_EQ(windowed_layers("gemma2-2b", 0), 13);
  EXPECT_EQ(windowed_layers("gemma3-4b", 1024), 29);
  EXPECT_EQ(windowed_layers("gemma3-4b", 0), 5);
  EXPECT_EQ(windowed_layers("starcoder2-3b", 4096), 30);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
