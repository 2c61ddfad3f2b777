// The shape that families/ computes from config.json is that of the model itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/golden.h"
#include "sftbench/base/file.h"
#include "sftbench/base/torch.h"
#include "sftbench/families/family.h"
#include "sftbench/model/causal_lm.h"

namespace sftbench {
namespace SFTBENCH_FILE {

std::string line_of(const std::string& name, const std::vector<int64_t>& sizes) {
  std::string line = name;
  for (const int64_t size : sizes) line.append(1, ' ').append(std::to_string(size));
  return line;
}

std::string layer_prefix(const ModelConfig& config, size_t index) {
  std::string prefix = family_of(config).names.layer_prefix;
  prefix += std::to_string(index);
  prefix += '.';
  return prefix;
}

std::vector<std::string> tensors_of(CausalLm& model) {
  std::vector<std::string> lines;
  for (const NamedParameter& parameter : model.parameters())
    lines.push_back(line_of(parameter.name, parameter.tensor->sizes().vec()));
  return lines;
}

std::vector<std::string> tensors_of(const ModelConfig& config) {
  const ModelShape shape = shape_of(config);
  std::vector<std::string> lines;
  for (const TensorShape& tensor : shape.before)
    lines.push_back(line_of(tensor.name, tensor.sizes));
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const std::string layer = layer_prefix(config, i);
    for (const TensorShape& tensor : shape.layers[i].tensors)
      lines.push_back(line_of(layer + tensor.name, tensor.sizes));
  }
  for (const TensorShape& tensor : shape.after) lines.push_back(line_of(tensor.name, tensor.sizes));
  return lines;
}

std::vector<std::string> linears_of(CausalLm& model) {
  std::vector<std::string> lines;
  for (const NamedLinear& linear : model.linears()) {
    lines.push_back(
        line_of(linear.name, {(*linear.slot)->in_features(), (*linear.slot)->out_features()}));
  }
  return lines;
}

std::vector<std::string> linears_of(const ModelConfig& config) {
  const ModelShape shape = shape_of(config);
  std::vector<std::string> lines;
  for (const LinearShape& linear : shape.linears_before)
    lines.push_back(line_of(linear.name, {linear.in, linear.out}));
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const std::string layer = layer_prefix(config, i);
    for (const LinearShape& linear : shape.layers[i].linears)
      lines.push_back(line_of(layer + linear.name, {linear.in, linear.out}));
  }
  return lines;
}

class ShapeTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ShapeTest, IsThatOfTheModel) {
  const Json hf_config = read_json_file((case_folder(GetParam()) / "config.json").string());
  const ModelConfig config = parse_model_config(hf_config);
  const auto model = make_causal_lm(hf_config, torch::kFloat32, torch::kMeta);
  EXPECT_EQ(tensors_of(config), tensors_of(*model));
  EXPECT_EQ(linears_of(config), linears_of(*model));
  const ModelShape shape = shape_of(config);
  int64_t elements = 0;
  for (const NamedParameter& parameter : model->parameters()) elements += parameter.tensor->numel();
  EXPECT_EQ(shape.parameters(), elements);
  EXPECT_GE(shape.lookup_parameters, config.tie_word_embeddings ? 0 : model->embedding().numel());
}

INSTANTIATE_TEST_SUITE_P(Drawn, ShapeTest, ::testing::ValuesIn(drawn_cases()),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(Families, ShapeTest, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param; });

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
