// Six steps of gradient descent of adapters in float64, against peft.
#include "tuning/exact_adapters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "sftbench/families/nf4.h"
#include "sftbench/tuning/adapter_files.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// What NF4 makes of the weights of a float32 model, whose linears are quantized one by one.
void dequantize_into(CausalLm& model, const Json& golden) {
  const std::string folder = SFTBENCH_TEST_DATA "/training/" + golden["model"].get<std::string>();
  Json config = read_json_file(folder + "/config.json");
  config["quantization_config"] = to_json(Nf4Config());
  const auto quantized = make_causal_lm(config, torch::kFloat32, test_device());
  load_weights(*quantized, folder);
  std::map<std::string, torch::Tensor*> weights;
  for (const NamedParameter& parameter : model.parameters())
    weights[parameter.name] = parameter.tensor;
  for (const NamedLinear& linear : quantized->linears()) {
    const torch::NoGradGuard no_grad;
    weights.at(linear.name + ".weight")
        ->copy_((*linear.slot)->dense_rows(0, (*linear.slot)->out_features()));
  }
}

class ExactAdapters : public testing::TestWithParam<std::string> {};

TEST_P(ExactAdapters, TrainAsInPeft) {
  const Json& golden = exact_cases().at(GetParam());
  const auto model = exact_base(golden);
  if (golden.contains("nf4")) dequantize_into(*model, golden);
  const auto trained = make_tuning(TuningMethod::kLora, exact_options(golden))->apply(*model);
  std::map<std::string, std::vector<int64_t>> saved;
  for (const NamedParameter& parameter : trained)
    saved[adapter_tensor_name(parameter.name)] = parameter.tensor->sizes().vec();
  EXPECT_EQ(saved, saved_by_peft(golden));
  draw_adapters(trained);
  const torch::Tensor ids = Golden::matrix_of(golden["input_ids"]);
  const torch::Tensor labels = Golden::matrix_of(golden["labels"]);
  const auto predicted = (labels.slice(1, 1) != -100).sum().item<double>();
  for (const Json& expected : golden["steps"]) {
    LayerRunner runner;
    const torch::Tensor loss = model->loss(ids, labels, predicted, runner);
    loss.backward();
    EXPECT_NEAR(loss.item<double>(), expected[0].get<double>(), 1e-6);
    double squares = 0;
    const torch::NoGradGuard no_grad;
    for (const NamedParameter& parameter : trained) {
      const torch::Tensor gradient = parameter.tensor->grad();
      ASSERT_TRUE(gradient.defined()) << parameter.name;
      squares += gradient.square().sum().item<double>();
      parameter.tensor->sub_(gradient * golden["learning_rate"].get<double>());
      parameter.tensor->mutable_grad().reset();
    }
    const double norm = expected[1];
    EXPECT_NEAR(std::sqrt(squares), norm, 1e-5 * norm);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ExactAdapters, testing::ValuesIn(exact_case_names()),
                         [](const auto& tested) { return test_name_of(tested.param); });

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
