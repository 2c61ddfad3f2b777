#include "sftbench/ops/embedding.h"

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/embedding_impl.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/grad_accumulation.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor lookup(const Tensor& ids, const Tensor& weight) {
  return at::embedding(weight, ids);
}

AddRowsByToken add_rows_for(const Tensor& target, [[maybe_unused]] const Tensor& rows) {
#if SFTBENCH_CUDA
  const bool plain =
      target.scalar_type() == rows.scalar_type() || target.dtype() == torch::kFloat32;
  if (has_cuda_kernels(rows) && plain && target.is_contiguous()) return add_rows_by_token_cuda;
#endif
  return has_cpu_kernels(target) && target.is_contiguous() ? add_rows_by_token_cpu
                                                           : add_rows_by_token_aten;
}

class Embedding : public torch::autograd::Function<Embedding> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& ids, const Tensor& weight) {
    ctx->save_for_backward({ids, weight});
    return lookup(ids, weight);
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor& weight = saved[1];
    const Tensor ids = saved[0].reshape(-1);
    const Tensor rows = output_gradients[0].reshape({-1, weight.size(1)}).contiguous();
    return {Tensor(), accumulate_gradient(weight, [&](Tensor& target, double beta) {
              if (beta == 0.0) target.zero_();
              add_rows_for(target, rows)(target, ids, rows);
            })};
  }
};

}  // namespace

Tensor embedding(const Tensor& ids, const Tensor& weight) {
  require_float(weight, "embedding", "weight");
  require(weight.dim() == 2, "embedding", "weight must be [V, H]", describe(weight));
  require(ids.defined() && ids.scalar_type() == torch::kInt64 && ids.dim() == 2 &&
              ids.device() == weight.device(),
          "embedding", "ids must be int64 [B, S] on " + weight.device().str(), describe(ids));
  const bool differentiable = torch::GradMode::is_enabled() && weight.requires_grad();
  return differentiable ? Embedding::apply(ids, weight) : lookup(ids, weight);
}

}  // namespace sftbench::ops
