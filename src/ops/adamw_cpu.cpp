#include <torch/torch.h>

#include <cmath>

#include "ops/adamw_impl.h"
#include "ops/cpu_dispatch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int64_t kBlockNumel = 16384;

// Many tensors as one sequence of blocks, so that threads share the work by elements, not by
// tensors.
struct Block {
  size_t tensor;
  int64_t begin, numel;
};

std::vector<Block> blocks_of(const TensorList& tensors) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (int64_t begin = 0; begin < tensors[i].numel(); begin += kBlockNumel) {
      blocks.push_back({i, begin, std::min(kBlockNumel, tensors[i].numel() - begin)});
    }
  }
  return blocks;
}

AdamWConstants constants_of(const AdamWStep& step) {
  const double correction1 = 1.0 - std::pow(step.beta1, step.step);
  const double correction2 = 1.0 - std::pow(step.beta2, step.step);
  const auto narrow = [](double value) { return static_cast<float>(value); };
  return {narrow(step.gradient_scale),
          narrow(1.0 - step.learning_rate * step.weight_decay),
          narrow(step.beta1),
          narrow(1.0 - step.beta1),
          narrow(step.beta2),
          narrow(1.0 - step.beta2),
          narrow(1.0 / std::sqrt(correction2)),
          narrow(step.epsilon),
          narrow(step.learning_rate / correction1)};
}

}  // namespace

void adamw_step_cpu(const TensorList& parameters, const TensorList& gradients,
                    const TensorList& first_moments, const TensorList& second_moments,
                    const AdamWStep& step) {
  const AdamWConstants constants = constants_of(step);
  const std::vector<Block> blocks = blocks_of(parameters);
  at::parallel_for(0, static_cast<int64_t>(blocks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Block& block = blocks[i];
      const Tensor& parameter = parameters[block.tensor];
      cpu_kernels(parameter).adamw(
          element(parameter, block.begin), element(gradients[block.tensor], block.begin),
          element(first_moments[block.tensor], block.begin),
          element(second_moments[block.tensor], block.begin), block.numel, constants);
    }
  });
}

double sum_of_squares_cpu(const TensorList& tensors) {
  const std::vector<Block> blocks = blocks_of(tensors);
  std::vector<float> sums(blocks.size());
  at::parallel_for(0, static_cast<int64_t>(blocks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Tensor& tensor = tensors[blocks[i].tensor];
      sums[i] =
          cpu_kernels(tensor).sum_of_squares(element(tensor, blocks[i].begin), blocks[i].numel);
    }
  });
  double total = 0.0;
  for (const float sum : sums) total += sum;
  return total;
}

}  // namespace sftbench::ops
