// Letters: M rows of x, n adapters, r rank. u [M, n r] is scale * drop(x) A^T, one product with the
// A_i stacked; column block i of it belongs to adapter i. Silent rows of u are zero, and so are
// those of its gradient: all else follows from the two.
#include "sftbench/ops/low_rank.h"

#include "ops/checks.h"
#include "ops/gemm.h"
#include "ops/linear_rows.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/grad_accumulation.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kLowRank = "add_low_rank";
constexpr const char* kAdapted = "adapted_linears";

// The factors among the tensors of a node: x, n outputs, n A, n B.
std::vector<LowRankFactors> factors_of(at::TensorList a_then_b) {
  const size_t n = a_then_b.size() / 2;
  std::vector<LowRankFactors> factors(n);
  for (size_t i = 0; i < n; ++i) factors[i] = {a_then_b[i], a_then_b[n + i]};
  return factors;
}

// Adapter i's columns of a matrix [M, n r], or rows of one [n r, in].
Tensor block(const Tensor& stacked, int64_t dimension, size_t index, size_t count) {
  const int64_t width = stacked.size(dimension) / static_cast<int64_t>(count);
  return stacked.narrow(dimension, static_cast<int64_t>(index) * width, width);
}

// What products read: the A_i below one another, and the B_i.
struct CastFactors {
  Tensor a;  // [n r, in]
  std::vector<Tensor> b;
};

#if SFTBENCH_TORCH_2
// All of them by one launch.
CastFactors cast_on_gpu(const std::vector<LowRankFactors>& factors, torch::Dtype dtype) {
  const size_t n = factors.size();
  const Tensor& first = factors[0].a;
  CastFactors cast;
  cast.a = torch::empty({first.size(0) * static_cast<int64_t>(n), first.size(1)},
                        first.options().dtype(dtype));
  std::vector<Tensor> from, to;
  for (size_t i = 0; i < n; ++i) {
    cast.b.push_back(torch::empty_like(factors[i].b, torch::TensorOptions(dtype)));
    from.insert(from.end(), {factors[i].a, factors[i].b});
    to.insert(to.end(), {block(cast.a, 0, i, n), cast.b[i]});
  }
  at::_foreach_copy_(to, from);
  return cast;
}
#endif

CastFactors cast_to(const std::vector<LowRankFactors>& factors, torch::Dtype dtype) {
#if SFTBENCH_TORCH_2
  if (factors[0].a.is_cuda() && factors[0].a.scalar_type() != dtype)
    return cast_on_gpu(factors, dtype);
#endif
  std::vector<Tensor> parts;
  CastFactors cast;
  for (const LowRankFactors& factor : factors) {
    parts.push_back(factor.a.to(dtype));
    cast.b.push_back(factor.b.to(dtype));
  }
  cast.a = parts.size() == 1 ? parts[0] : at::cat(parts);
  return cast;
}

// In place.
void silence_rows(Tensor& u, const Tensor& silent) {
  if (silent.defined()) u.masked_fill_(silent.unsqueeze(1), 0);
}

// Adds to the outputs in place and returns u.
Tensor add_products(const Tensor& kept, const std::vector<Tensor>& outputs,
                    const std::vector<LowRankFactors>& factors, double scale,
                    const Tensor& silent) {
  const CastFactors cast = cast_to(factors, kept.scalar_type());
  Tensor u = torch::empty({kept.size(0), cast.a.size(0)}, kept.options());
  scaled_matmul_nt_into(u, kept, cast.a, scale);
  silence_rows(u, silent);
  for (size_t i = 0; i < factors.size(); ++i) {
    add_matmul_nt(outputs[i].view({-1, outputs[i].size(-1)}), block(u, 1, i, factors.size()),
                  cast.b[i]);
  }
  return u;
}

// scale * dy B, and the gradients of the B_i on the way.
Tensor back_through_b(const std::vector<Tensor>& y_gradients, const Tensor& u,
                      const std::vector<LowRankFactors>& factors, const CastFactors& cast,
                      double scale, const Tensor& silent, variable_list& b_gradients) {
  const size_t n = factors.size();
  Tensor u_gradient = torch::empty_like(u);
  for (size_t i = 0; i < n; ++i) {
    const Tensor target = block(u_gradient, 1, i, n);
    if (!y_gradients[i].defined()) {  // nobody used this output
      target.zero_();
      b_gradients.emplace_back();
      continue;
    }
    const Tensor dy = rows(y_gradients[i]);
    scaled_matmul_nn_into(target, dy, cast.b[i], scale);
    b_gradients.push_back(accumulate_gradient(factors[i].b, [&](Tensor& gradient, double beta) {
      matmul_tn_into(gradient, dy, block(u, 1, i, n), beta);
    }));
  }
  silence_rows(u_gradient, silent);
  return u_gradient;
}

void back_through_a(const Tensor& u_gradient, const Tensor& kept,
                    const std::vector<LowRankFactors>& factors, variable_list& a_gradients) {
  const Tensor& first = factors[0].a;
  Tensor stacked = torch::empty({u_gradient.size(1), kept.size(1)}, first.options());
  matmul_tn_into(stacked, u_gradient, kept, 0.0);
  for (size_t i = 0; i < factors.size(); ++i) {
    a_gradients.push_back(accumulate_gradient(factors[i].a, [&](Tensor& gradient, double beta) {
      const Tensor part = block(stacked, 0, i, factors.size());
      beta == 0.0 ? gradient.copy_(part) : gradient.add_(part);
    }));
  }
}

class AddLowRank : public torch::autograd::Function<AddLowRank> {
 public:
  // tensors: x, n outputs, n A, n B and, where rows are silent, which.
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, int64_t count,
                               double scale, double probability, int64_t seed) {
    const auto n = static_cast<size_t>(count);
    const Tensor& x = tensors[0];
    const variable_list outputs = tensors.slice(1, n).vec();
    const at::TensorList a_then_b = tensors.slice(1 + n, 2 * n);
    const std::vector<LowRankFactors> factors = factors_of(a_then_b);
    const bool has_silent = tensors.size() > 1 + 3 * n;
    const Tensor silent = has_silent ? tensors.back() : Tensor();
    const Dropout dropout{probability, static_cast<uint64_t>(seed)};
    const double whole_scale = scale * kept_scale(dropout);

    const Tensor kept = rows(zero_dropped(x, dropout));
    variable_list saved = {kept, add_products(kept, outputs, factors, whole_scale, silent)};
    for (const Tensor& factor : a_then_b) saved.push_back(factor);
    if (has_silent) saved.push_back(silent);
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["scale"] = whole_scale;
    ctx->saved_data["probability"] = probability;
    ctx->saved_data["seed"] = seed;
    ctx->saved_data["x_sizes"] = x.requires_grad() ? x.sizes().vec() : std::vector<int64_t>();
    ctx->mark_dirty(outputs);
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, variable_list y_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &kept = saved[0], &u = saved[1];
    const size_t n = y_gradients.size();
    const auto factors = factors_of(at::TensorList(saved).slice(2, 2 * n));
    const bool has_silent = saved.size() > 2 + 2 * n;
    variable_list a_gradients, b_gradients;
    const CastFactors cast = cast_to(factors, kept.scalar_type());
    const Tensor u_gradient =
        back_through_b(y_gradients, u, factors, cast, ctx->saved_data["scale"].toDouble(),
                       has_silent ? saved.back() : Tensor(), b_gradients);
    back_through_a(u_gradient, kept, factors, a_gradients);

    variable_list gradients(1);
    if (const auto sizes = ctx->saved_data["x_sizes"].toIntVector(); !sizes.empty()) {
      const Dropout dropout{ctx->saved_data["probability"].toDouble(),
                            static_cast<uint64_t>(ctx->saved_data["seed"].toInt())};
      const Tensor dx = matmul_nn(u_gradient, cast.a);
      gradients[0] = zero_dropped(dx, dropout).view(sizes);
    }
    for (const variable_list* part : {&y_gradients, &a_gradients, &b_gradients}) {
      gradients.insert(gradients.end(), part->begin(), part->end());
    }
    if (has_silent) gradients.emplace_back();
    gradients.resize(gradients.size() + 4);  // count, scale, probability, seed
    return gradients;
  }
};

// Beside the factors, hidden from autograd.
struct AdaptedPlan {
  std::vector<Tensor> biases;    // of the linears; undefined where there is none
  std::vector<int64_t> adapted;  // which of the linears have an adapter
  double scale;                  // with kept_scale()
  Dropout dropout;
  Tensor silent;
};

std::vector<Tensor> chosen(const std::vector<Tensor>& all, const std::vector<int64_t>& places) {
  std::vector<Tensor> some;
  for (const int64_t place : places) some.push_back(all[static_cast<size_t>(place)]);
  return some;
}

// Frozen linears and their adapters: x's gradient is one sum of products.
class AdaptedLinears : public torch::autograd::Function<AdaptedLinears> {
 public:
  // tensors: x, n weights, m A, m B.
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors,
                               const AdaptedPlan& plan) {
    const size_t n = plan.biases.size(), m = plan.adapted.size();
    const Tensor& x = tensors[0];
    const at::TensorList weights = tensors.slice(1, n), a_then_b = tensors.slice(1 + n, 2 * m);
    variable_list outputs;
    for (size_t i = 0; i < n; ++i) outputs.push_back(linear_rows(x, weights[i], plan.biases[i]));
    const Tensor kept = rows(zero_dropped(x, plan.dropout));
    variable_list saved = {kept, add_products(kept, chosen(outputs, plan.adapted),
                                              factors_of(a_then_b), plan.scale, plan.silent)};
    saved.insert(saved.end(), weights.begin(), weights.end());
    saved.insert(saved.end(), a_then_b.begin(), a_then_b.end());
    if (plan.silent.defined()) saved.push_back(plan.silent);
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["linears"] = static_cast<int64_t>(n);
    ctx->saved_data["adapted"] = plan.adapted;
    ctx->saved_data["scale"] = plan.scale;
    ctx->saved_data["probability"] = plan.dropout.probability;
    ctx->saved_data["seed"] = static_cast<int64_t>(plan.dropout.seed);
    ctx->saved_data["x_sizes"] = x.requires_grad() ? x.sizes().vec() : std::vector<int64_t>();
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& y_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &kept = saved[0], &u = saved[1];
    const auto n = static_cast<size_t>(ctx->saved_data["linears"].toInt());
    const std::vector<int64_t> adapted = ctx->saved_data["adapted"].toIntVector();
    const size_t m = adapted.size();
    const variable_list weights(saved.begin() + 2, saved.begin() + 2 + static_cast<ptrdiff_t>(n));
    const auto factors = factors_of(at::TensorList(saved).slice(2 + n, 2 * m));
    const Tensor silent = saved.size() > 2 + n + 2 * m ? saved.back() : Tensor();
    variable_list a_gradients, b_gradients;
    const CastFactors cast = cast_to(factors, kept.scalar_type());
    const Tensor u_gradient =
        back_through_b(chosen(y_gradients, adapted), u, factors, cast,
                       ctx->saved_data["scale"].toDouble(), silent, b_gradients);
    back_through_a(u_gradient, kept, factors, a_gradients);

    variable_list gradients(1 + n);  // x, and weights that are frozen
    if (const auto sizes = ctx->saved_data["x_sizes"].toIntVector(); !sizes.empty()) {
      const Dropout dropout{ctx->saved_data["probability"].toDouble(),
                            static_cast<uint64_t>(ctx->saved_data["seed"].toInt())};
      Tensor sum = zero_dropped(matmul_nn(u_gradient, cast.a), dropout);
      gradients[0] = input_gradient(y_gradients, weights, std::move(sum)).view(sizes);
    }
    for (const variable_list* part : {&a_gradients, &b_gradients})
      gradients.insert(gradients.end(), part->begin(), part->end());
    gradients.emplace_back();  // the plan
    return gradients;
  }
};

void check_factors(const char* op, const Tensor& x, const std::vector<LowRankFactors>& factors) {
  require(!factors.empty(), op, "at least one pair of factors", "none");
  const int64_t rank = factors[0].a.size(0);
  for (const LowRankFactors& factor : factors) {
    require_like(factor.a, op, "a", {rank, x.size(-1)}, factors[0].a);
    require_like(factor.b, op, "b", {-1, rank}, factors[0].a);
  }
}

void check_shapes(const Tensor& x, const std::vector<Tensor>& y,
                  const std::vector<LowRankFactors>& factors) {
  require_float(x, kLowRank, "x");
  require(!factors.empty() && y.size() == factors.size(), kLowRank,
          "as many outputs as factors, at least one",
          std::to_string(y.size()) + " and " + std::to_string(factors.size()));
  check_factors(kLowRank, x, factors);
  for (size_t i = 0; i < factors.size(); ++i) {
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = factors[i].b.size(0);
    require_like(y[i], kLowRank, "y", sizes, x);
    require(y[i].is_contiguous(), kLowRank, "y must be contiguous", describe(y[i]));
  }
}

void check_silent(const Tensor& x, const Tensor& silent) {
  if (!silent.defined()) return;
  const int64_t count = x.numel() / x.size(-1);
  require(silent.scalar_type() == torch::kBool && silent.dim() == 1 && silent.size(0) == count &&
              silent.device() == x.device(),
          kLowRank, "silent must be bool [" + std::to_string(count) + "] beside x",
          describe(silent));
}

}  // namespace

std::vector<Tensor> add_low_rank(const Tensor& x, std::vector<Tensor> y,
                                 const std::vector<LowRankFactors>& factors, double scale,
                                 const Dropout& dropout, const Tensor& silent) {
  check_shapes(x, y, factors);
  check_silent(x, silent);
  if (!torch::GradMode::is_enabled()) {
    add_products(rows(zero_dropped(x, dropout)), y, factors, scale * kept_scale(dropout), silent);
    return y;
  }
  variable_list tensors = {x};
  tensors.insert(tensors.end(), y.begin(), y.end());
  for (const LowRankFactors& factor : factors) tensors.push_back(factor.a);
  for (const LowRankFactors& factor : factors) tensors.push_back(factor.b);
  if (silent.defined()) tensors.push_back(silent);
  return AddLowRank::apply(at::TensorList(tensors), static_cast<int64_t>(y.size()), scale,
                           dropout.probability, static_cast<int64_t>(dropout.seed));
}

std::vector<Tensor> adapted_linears(const Tensor& x, const std::vector<LinearOperands>& linears,
                                    const std::vector<LinearAdapter>& adapters, double scale,
                                    const Dropout& dropout, const Tensor& silent) {
  require_float(x, kAdapted, "x");
  check_silent(x, silent);
  AdaptedPlan plan = {{}, {}, scale * kept_scale(dropout), dropout, silent};
  variable_list tensors = {x};
  for (const auto& [weight, bias] : linears) {
    require_like(weight, kAdapted, "weight", {-1, x.size(-1)}, x);
    require(!weight.requires_grad() && !(bias.defined() && bias.requires_grad()), kAdapted,
            "no operand of a linear may require a gradient", describe(weight));
    tensors.push_back(weight);
    plan.biases.push_back(bias);
  }
  std::vector<LowRankFactors> factors;
  for (const LinearAdapter& adapter : adapters) {
    plan.adapted.push_back(static_cast<int64_t>(adapter.linear));
    factors.push_back(adapter.factors);
  }
  check_factors(kAdapted, x, factors);
  for (const LinearAdapter& adapter : adapters) {
    const int64_t out = linears.at(adapter.linear).weight.size(0);
    require(adapter.factors.b.size(0) == out, kAdapted,
            "b must have " + std::to_string(out) + " rows, as its linear",
            describe(adapter.factors.b));
  }
  for (const LowRankFactors& factor : factors) tensors.push_back(factor.a);
  for (const LowRankFactors& factor : factors) tensors.push_back(factor.b);
  if (torch::GradMode::is_enabled()) return AdaptedLinears::apply(at::TensorList(tensors), plan);
  std::vector<Tensor> outputs;
  for (const auto& [weight, bias] : linears) outputs.push_back(linear_rows(x, weight, bias));
  add_products(rows(zero_dropped(x, dropout)), chosen(outputs, plan.adapted), factors, plan.scale,
               silent);
  return outputs;
}

}  // namespace sftbench::ops
