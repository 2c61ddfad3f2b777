#include "sftbench/ops/vector_math.h"

#include <ATen/Context.h>

#include "sftbench/base/torch.h"

namespace sftbench::ops {

void settle_vector_math() {
  if (!at::hasMKL()) return;
  const torch::NoGradGuard no_grad;
  using Function = torch::Tensor (*)(const torch::Tensor&);
  // Those of IMPLEMENT_VML_MKL in ATen/cpu/vml.h.
  constexpr Function kFunctions[] = {at::acos, at::asin,   at::atan, at::cos,  at::erf,   at::erfc,
                                     at::exp,  at::erfinv, at::log,  at::log2, at::log10, at::sin,
                                     at::sqrt, at::tan,    at::tanh, at::trunc};
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    const torch::Tensor half = torch::full({1}, 0.5, dtype);
    for (const Function function : kFunctions) function(half);
  }
}

}  // namespace sftbench::ops
