#include "sftbench/ops/global_norm.h"

#include <algorithm>
#include <cmath>

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using TensorList = std::vector<Tensor>;

constexpr int64_t kBlockNumel = 16384;

bool all_contiguous_on_cpu(const TensorList& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) {
    return has_cpu_kernels(tensor) && tensor.is_contiguous();
  });
}

// Many tensors as one sequence of blocks, so that threads share the work by elements, not by
// tensors, and the sum does not depend on their number.
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

double sum_of_squares_cpu(const TensorList& tensors) {
  const std::vector<Block> blocks = blocks_of(tensors);
  std::vector<float> sums(blocks.size());
  at::parallel_for(0, static_cast<int64_t>(blocks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Block& block = blocks[static_cast<size_t>(i)];
      const Tensor& tensor = tensors[block.tensor];
      sums[static_cast<size_t>(i)] =
          cpu_kernels(tensor).sum_of_squares(element(tensor, block.begin), block.numel);
    }
  });
  double total = 0.0;
  for (const float sum : sums) total += sum;
  return total;
}

// Of each tensor, summed up in float64.
TensorList norms_of(const TensorList& tensors) {
#if SFTBENCH_TORCH_2
  // Without a copy that wide, and many tensors a launch.
  return at::_foreach_norm(tensors, 2, torch::kFloat64);
#else
  TensorList norms;
  for (const Tensor& tensor : tensors) {
    norms.push_back(at::linalg_vector_norm(tensor, 2, c10::nullopt, false, torch::kFloat64));
  }
  return norms;
#endif
}

Tensor sum_of_squares(const TensorList& tensors) {
  return at::stack(norms_of(tensors)).square().sum();
}

double sum_of_squares_aten(const TensorList& tensors) {
  if (tensors.empty()) return 0.0;
  // One transfer from the device at the end, not one per tensor.
  return sum_of_squares(tensors).item<double>();
}

}  // namespace

double global_norm(const TensorList& tensors) {
  const torch::NoGradGuard no_grad;
  for (const Tensor& tensor : tensors) require_float(tensor, "global_norm", "tensors");
  return std::sqrt(
      (all_contiguous_on_cpu(tensors) ? sum_of_squares_cpu : sum_of_squares_aten)(tensors));
}

Tensor global_norm_on_device(const TensorList& tensors) {
  const torch::NoGradGuard no_grad;
  for (const Tensor& tensor : tensors) require_float(tensor, "global_norm", "tensors");
  return sum_of_squares(tensors).sqrt();
}

}  // namespace sftbench::ops
