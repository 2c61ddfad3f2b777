#include "parallel/forward_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// GrokAdamW, for one, goes by a parameter's number.
TEST(OwnedTensors, ComeInTheOrderOfTheForwardPass) {
  torch::Tensor tensors[4];
  for (torch::Tensor& tensor : tensors) tensor = torch::ones({2}).set_requires_grad(true);
  const auto parameters =
      keep_parameters({{"root", {{"embedding", &tensors[0]}, {"norm", &tensors[1], true}}},
                       {"layer 0", {{"a", &tensors[2]}}},
                       {"layer 1", {{"b", &tensors[3]}}}});
  std::string names;
  for (const OwnedTensor& owned : parameters->owned()) names.append(owned.name).append(" ");
  EXPECT_EQ(names, "embedding a b norm ");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
