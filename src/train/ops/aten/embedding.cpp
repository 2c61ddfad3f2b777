#include "ops/embedding_impl.h"
#include "ops/shapes.h"

#include "sftbench/base/torch.h"

namespace sftbench::ops {

using torch::Tensor;

void add_rows_by_token_aten(Tensor target, const Tensor& ids, const Tensor& rows) {
  // Only the tokens that occur, so that the wide sum stays small.
  const auto [tokens, slot] = at::_unique(ids, /*sorted=*/true, /*return_inverse=*/true);
  const auto wide = wide_dtype(target);
  Tensor sums = target.index_select(0, tokens).to(wide);
  sums.index_add_(0, slot, rows.to(wide));
  target.index_copy_(0, tokens, sums.to(target.scalar_type()));
}

}  // namespace sftbench::ops
