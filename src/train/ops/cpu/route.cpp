#include <algorithm>
#include <cstring>

#include "ops/cpu/dispatch.h"
#include "ops/route_impl.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int64_t kRouteGrainNumel = 16384;

int64_t route_grain(const Tensor& rows, int64_t choices) {
  return std::max<int64_t>(1, kRouteGrainNumel / std::max<int64_t>(1, rows.size(1) * choices));
}

// A counting sort: linear in the choices, and stable.
Routes sort_routes(const Tensor& experts, int64_t expert_count) {
  const int64_t choices = experts.size(1), count = experts.numel();
  const int64_t* expert = experts.data_ptr<int64_t>();
  if (count > 0) {
    const auto [lowest, highest] = std::minmax_element(expert, expert + count);
    require_experts(*lowest, *highest, expert_count);
  }
  Routes routes{torch::empty({count}, experts.options()), torch::empty_like(experts),
                std::vector<int64_t>(static_cast<size_t>(expert_count) + 1, 0)};
  for (int64_t i = 0; i < count; ++i) ++routes.offsets[static_cast<size_t>(expert[i]) + 1];
  for (size_t e = 1; e < routes.offsets.size(); ++e) routes.offsets[e] += routes.offsets[e - 1];
  std::vector<int64_t> next(routes.offsets.begin(), routes.offsets.end() - 1);
  int64_t* const tokens = routes.tokens.data_ptr<int64_t>();
  int64_t* const positions = routes.positions.data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = next[static_cast<size_t>(expert[i])]++;
    tokens[position] = i / choices;
    positions[i] = position;
  }
  return routes;
}

Tensor gather(const Tensor& x, const Tensor& tokens) {
  const int64_t width = x.size(1);
  Tensor y = torch::empty({tokens.size(0), width}, x.options());
  const int64_t* const token = tokens.data_ptr<int64_t>();
  const auto bytes = static_cast<size_t>(width * x.element_size());
  at::parallel_for(0, tokens.size(0), route_grain(x, 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::memcpy(element(y, row * width), element(x, token[row] * width), bytes);
    }
  });
  return y;
}

Tensor combine(const Tensor& y, const Tensor& weights, const Tensor& positions) {
  const CpuKernels& kernels = cpu_kernels(y);
  const int64_t choices = positions.size(1), width = y.size(1);
  Tensor out = torch::empty({positions.size(0), width}, y.options());
  const int64_t* const position = positions.data_ptr<int64_t>();
  const float* const weight = weights.defined() ? weights.data_ptr<float>() : nullptr;
  at::parallel_for(0, positions.size(0), route_grain(y, choices), [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      kernels.combine_rows(y.data_ptr(), position + token * choices,
                           weight == nullptr ? nullptr : weight + token * choices, choices,
                           element(out, token * width), width);
    }
  });
  return out;
}

std::pair<Tensor, Tensor> combine_backward(const Tensor& output_gradient, const Tensor& y,
                                           const Tensor& weights, const Tensor& positions) {
  const CpuKernels& kernels = cpu_kernels(y);
  const int64_t choices = positions.size(1), width = y.size(1);
  const Tensor dy = torch::empty_like(y), d_weights = torch::empty_like(weights);
  const int64_t* const position = positions.data_ptr<int64_t>();
  at::parallel_for(0, positions.size(0), route_grain(y, choices), [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      kernels.combine_rows_backward(
          element(output_gradient, token * width), y.data_ptr(), position + token * choices,
          weights.data_ptr<float>() + token * choices, choices, dy.data_ptr(),
          d_weights.data_ptr<float>() + token * choices, width);
    }
  });
  return {dy, d_weights};
}

}  // namespace

const RouteImpl kRouteCpu{sort_routes, gather, combine, combine_backward};

}  // namespace sftbench::ops
