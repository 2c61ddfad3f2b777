#include "ops/route_impl.h"

#include "ops/shapes.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

Routes sort_routes(const Tensor& experts, int64_t expert_count) {
  const Tensor flat = experts.reshape(-1);
  const Tensor order = std::get<1>(at::sort(flat, /*stable=*/true, /*dim=*/0, false));
  Tensor positions = torch::empty_like(order);
  positions.scatter_(0, order, torch::arange(order.numel(), order.options()));
  const Tensor counts = at::bincount(flat, {}, expert_count).cpu();
  Routes routes{at::floor_divide(order, experts.size(1)), positions.view(experts.sizes()), {0}};
  for (int64_t expert = 0; expert < expert_count; ++expert) {
    routes.offsets.push_back(routes.offsets.back() + counts.data_ptr<int64_t>()[expert]);
  }
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
