// The shapes of the catalog's models. Their parameter counts are those of parameter_count_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>

#include "sftbench/catalog/catalog.h"
#include "sftbench/families/family.h"
#include "sftbench/families/model_shape.h"

namespace sftbench {
namespace SFTBENCH_FILE {

ModelShape shape_named(const std::string& model) {
  return shape_of(parse_model_config(Catalog::shipped().models.find(model)->hf_config));
}

int64_t windowed_layers(const std::string& model, int64_t window) {
  const std::vector<LayerShape> layers = shape_named(model).layers;
  return std::count_if(layers.begin(), layers.end(),
                       [&](const LayerShape& layer) { return layer.window == window; });
}

TEST(CatalogFamilies, LinearsAreThoseWhoseWeightsAreListedAndAdaptersFindThem) {
  for (const ModelFacts& model : Catalog::shipped().models.models()) {
    if (model.in_entity_space || find_family(model.family) == nullptr) continue;  // ado's own lists
    const LayerShape layer = shape_named(model.name).layers.front();
    const bool transposed = parse_model_config(model.hf_config).transposed_linears;
    for (const LinearShape& linear : layer.linears) {
      const auto tensor =
          std::find_if(layer.tensors.begin(), layer.tensors.end(),
                       [&](const TensorShape& t) { return t.name == linear.name + ".weight"; });
      ASSERT_NE(tensor, layer.tensors.end()) << model.name << ": " << linear.name;
      const std::vector<int64_t> sizes = transposed ? std::vector<int64_t>{linear.in, linear.out}
                                                    : std::vector<int64_t>{linear.out, linear.in};
      EXPECT_EQ(tensor->sizes, sizes) << linear.name;
    }
    for (const std::string& target : model.lora_targets) {
      EXPECT_TRUE(std::any_of(
          layer.linears.begin(), layer.linears.end(),
          [&](const LinearShape& linear) { return is_lora_target(linear.name, target); }))
          << model.name << ": " << target;
    }
  }
}

// transformers' Gemma2Config and Gemma3TextConfig: every other layer, and five of six.
TEST(CatalogFamilies, GemmasLayersHaveTheirWindows) {
  EXPECT_EQ(windowed_layers("gemma2-2b", 4096), 13);
  EXPECT_EQ(windowed_layers("gemma2-2b", 0), 13);
  EXPECT_EQ(windowed_layers("gemma3-4b", 1024), 29);
  EXPECT_EQ(windowed_layers("gemma3-4b", 0), 5);
  EXPECT_EQ(windowed_layers("starcoder2-3b", 4096), 30);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
