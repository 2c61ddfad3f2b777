#include <gtest/gtest.h>

#include "model/layers.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

struct TwoLinears {
  explicit TwoLinears(bool trained) {
    std::vector<std::unique_ptr<Linear>> linears;
    for (const int64_t out : {3, 5})
      linears.push_back(std::make_unique<DenseLinear>(4, out, /*bias=*/false, torch::kFloat32));
    group.emplace(std::vector<std::string>{"gate", "up"}, std::move(linears));
    std::vector<NamedParameter> parameters;
    group->append_parameters("mlp", parameters);
    for (const NamedParameter& parameter : parameters)
      parameter.tensor->normal_().set_requires_grad(trained);
  }

  bool is_one_node() const {
    const auto outputs = group->forward(torch::ones({2, 4}).set_requires_grad(true));
    return outputs[0].grad_fn() == outputs[1].grad_fn();
  }

  std::optional<LinearGroup> group;
};

TEST(LinearGroup, IsOneNodeUnlessTrainedLinearsAreKeptApart) {
  for (const bool trained : {false, true}) {
    TwoLinears linears(trained);
    const torch::Tensor x = torch::ones({2, 4});
    const auto together = linears.group->forward(x);
    EXPECT_TRUE(linears.is_one_node());
    linears.group->keep_apart();
    EXPECT_EQ(linears.is_one_node(), !trained);
    const auto apart = linears.group->forward(x);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(apart[i].equal(together[i]));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
