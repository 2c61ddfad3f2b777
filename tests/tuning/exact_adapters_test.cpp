// Six steps of gradient descent of adapters in float64, against peft.
#include "tuning/exact_adapters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "sftbench/tuning/adapter_files.h"

namespace sftbench {
namespace SFTBENCH_FILE {

class ExactAdapters : public testing::TestWithParam<std::string> {};

TEST_P(ExactAdapters, TrainAsInPeft) {
  const Json& golden = exact_cases().at(GetParam());
  const auto model = exact_base(golden);
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
