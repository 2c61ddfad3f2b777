#include "sftbench/ops/route.h"

#include <atomic>

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/route_impl.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const RouteImpl& route_for(const Tensor& x) {
#if SFTBENCH_CUDA
  if (has_cuda_kernels(x)) return kRouteCuda;
#endif
  return has_cpu_kernels(x) ? kRouteCpu : kRouteAten;
}

class GatherRows : public torch::autograd::Function<GatherRows> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& tokens,
                        const Tensor& positions) {
    ctx->save_for_backward({positions});
    return route_for(x).gather(x, tokens);
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const Tensor gradient = output_gradients[0].contiguous();
    const Tensor positions = ctx->get_saved_variables()[0];
    return {route_for(gradient).combine(gradient, {}, positions), Tensor(), Tensor()};
  }
};

class CombineRows : public torch::autograd::Function<CombineRows> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& y, const Tensor& weights,
                        const Tensor& positions) {
    ctx->save_for_backward({y, weights, positions});
    return route_for(y).combine(y, weights.to(wide_dtype(y)), positions);
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor& y = saved[0];
    const Tensor& weights = saved[1];
    const auto [dy, d_weights] = route_for(y).combine_backward(output_gradients[0].contiguous(), y,
                                                               weights.to(wide_dtype(y)), saved[2]);
    return {dy, d_weights.to(weights.scalar_type()), Tensor()};
  }
};

void check_routes(const Tensor& rows, const Routes& routes, const char* op) {
  const bool fit =
      routes.tokens.defined() && routes.positions.defined() && routes.positions.dim() == 2 &&
      routes.positions.numel() == routes.tokens.size(0) && routes.tokens.device() == rows.device();
  require(fit, op, "routes must be those of sort_by_expert on " + rows.device().str(),
          "positions " + describe(routes.positions));
}

std::atomic<int> even_routes = 0;  // how many EvenRoutes live

std::vector<int64_t> even_offsets(int64_t choices, int64_t expert_count) {
  std::vector<int64_t> offsets;
  for (int64_t expert = 0; expert <= expert_count; ++expert)
    offsets.push_back(choices * expert / expert_count);
  return offsets;
}

}  // namespace

void require_experts(int64_t lowest, int64_t highest, int64_t expert_count) {
  require(lowest >= 0 && highest < expert_count, "sort_by_expert",
          "experts must be from 0 to " + std::to_string(expert_count - 1),
          std::to_string(lowest < 0 ? lowest : highest));
}

EvenRoutes::EvenRoutes() {
  ++even_routes;
}

EvenRoutes::~EvenRoutes() {
  --even_routes;
}

bool EvenRoutes::are_assumed() {
  return even_routes > 0;
}

Routes sort_by_expert(const Tensor& experts, int64_t expert_count) {
  require(experts.defined() && experts.scalar_type() == torch::kInt64 && experts.dim() == 2 &&
              experts.size(1) > 0,
          "sort_by_expert", "experts must be int64 [T, k] with k above 0", describe(experts));
  require(expert_count > 0, "sort_by_expert", "there must be an expert",
          std::to_string(expert_count));
  const RouteImpl& route = experts.is_cpu() ? kRouteCpu : kRouteAten;
  Routes routes = route.sort(experts.contiguous(), expert_count);
  if (EvenRoutes::are_assumed()) routes.offsets = even_offsets(experts.numel(), expert_count);
  return routes;
}

Tensor gather_rows(const Tensor& x, const Routes& routes) {
  require_float(x, "gather_rows", "x");
  require(x.dim() == 2, "gather_rows", "x must be [T, H]", describe(x));
  check_routes(x, routes, "gather_rows");
  require_like(x, "gather_rows", "x", {routes.positions.size(0), -1}, x);
  const Tensor rows = x.contiguous();
  const bool differentiable = torch::GradMode::is_enabled() && x.requires_grad();
  return differentiable ? GatherRows::apply(rows, routes.tokens, routes.positions)
                        : route_for(rows).gather(rows, routes.tokens);
}

Tensor combine_rows(const Tensor& y, const Tensor& weights, const Routes& routes) {
  require_float(y, "combine_rows", "y");
  check_routes(y, routes, "combine_rows");
  require_like(y, "combine_rows", "y", {routes.tokens.size(0), -1}, y);
  const bool wide = weights.defined() && weights.scalar_type() == torch::kFloat32;
  require_like(weights, "combine_rows", "weights", routes.positions.sizes().vec(),
               wide ? torch::empty({0}, y.options().dtype(torch::kFloat32)) : y);
  const Tensor rows = y.contiguous(), factors = weights.contiguous();
  const bool differentiable =
      torch::GradMode::is_enabled() && (y.requires_grad() || weights.requires_grad());
  return differentiable
             ? CombineRows::apply(rows, factors, routes.positions)
             : route_for(rows).combine(rows, factors.to(wide_dtype(y)), routes.positions);
}

}  // namespace sftbench::ops
