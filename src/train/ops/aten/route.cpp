#include "ops/route_impl.h"

#include "ops/shapes.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

// A radix sort passes over its keys once for each of their bytes.
torch::Dtype key_dtype(int64_t expert_count) {
  if (expert_count <= 1 << 8) return torch::kUInt8;
  return expert_count <= 1 << 15 ? torch::kInt16 : torch::kInt64;
}

// The host waits once.
Routes sort_routes(const Tensor& experts, int64_t expert_count) {
  const Tensor flat = experts.reshape(-1), keys = flat.to(key_dtype(expert_count));
  const auto [sorted, order] = at::sort(keys, /*stable=*/true, /*dim=*/0, false);
  Tensor positions = torch::empty_like(order);
  positions.scatter_(0, order, torch::arange(order.numel(), order.options()));
  Routes routes{at::floor_divide(order, experts.size(1)), positions.view(experts.sizes()), {}};
  if (flat.numel() == 0) {
    routes.offsets.assign(static_cast<size_t>(expert_count) + 1, 0);
    return routes;
  }
  const Tensor first = at::searchsorted(sorted, torch::arange(expert_count, sorted.options()));
  const auto [lowest, highest] = at::aminmax(flat);
  const Tensor read = torch::cat({first, lowest.view(1), highest.view(1)}).cpu();
  const int64_t* values = read.data_ptr<int64_t>();
  require_experts(values[expert_count], values[expert_count + 1], expert_count);
  routes.offsets.assign(values, values + expert_count);
  routes.offsets.push_back(flat.numel());
  return routes;
}

Tensor gather(const Tensor& x, const Tensor& tokens) {
  return x.index_select(0, tokens);
}

// [T, k, H] in the wide dtype
Tensor rows_of_choices(const Tensor& y, const Tensor& positions) {
  return y.index_select(0, positions.reshape(-1))
      .to(wide_dtype(y))
      .view({positions.size(0), positions.size(1), y.size(1)});
}

Tensor combine(const Tensor& y, const Tensor& weights, const Tensor& positions) {
  const Tensor rows = rows_of_choices(y, positions);
  return (weights.defined() ? rows * weights.unsqueeze(-1) : rows).sum(1).to(y.scalar_type());
}

std::pair<Tensor, Tensor> combine_backward(const Tensor& output_gradient, const Tensor& y,
                                           const Tensor& weights, const Tensor& positions) {
  const Tensor upstream = output_gradient.to(wide_dtype(y)).unsqueeze(1);
  Tensor dy = torch::empty_like(y);
  dy.index_copy_(0, positions.reshape(-1),
                 (upstream * weights.unsqueeze(-1)).flatten(0, 1).to(y.scalar_type()));
  return {dy, (rows_of_choices(y, positions) * upstream).sum(-1)};
}

}  // namespace

const RouteImpl kRouteAten{sort_routes, gather, combine, combine_backward};

}  // namespace sftbench::ops
