#include "model/nf4_linear.h"

#include "sftbench/base/torch.h"

namespace sftbench {

Nf4Linear::Nf4Linear(int64_t in_features, int64_t out_features, bool bias, const Nf4Config& config,
                     torch::TensorOptions options)
    : weight_(ops::empty_nf4(out_features, in_features, config.double_quantized, options.device())),
      dense_dtype_(c10::typeMetaToScalarType(options.dtype())) {
  if (bias) bias_ = torch::empty({out_features}, options);
}

torch::Tensor Nf4Linear::forward(const torch::Tensor& x) {
  const torch::Dtype dtype = compute_dtype_.value_or(x.scalar_type());
  return ops::nf4_linear(x.to(dtype), weight_, bias_.defined() ? bias_.to(dtype) : bias_);
}

torch::Tensor Nf4Linear::dense_rows(int64_t first, int64_t count) const {
  torch::Tensor rows =
      torch::empty({count, weight_.in}, weight_.codes.options().dtype(dense_dtype_));
  ops::dequantize_into(rows, weight_, {first, count}, {0, weight_.in});
  return rows;
}

void Nf4Linear::append_parameters(const std::string& name,
                                  std::vector<NamedParameter>& parameters) {
  const std::string weight = name + ".weight";
  const auto packed = [&](const char* end, torch::Tensor& tensor, int64_t weights) {
    parameters.push_back(
        {.name = weight + end, .tensor = &tensor, .weights = weights, .packed = true});
  };
  packed("", weight_.codes, weight_.in * weight_.out);
  packed(".absmax", weight_.absmax, 0);
  if (weight_.is_nested()) {
    packed(".nested_absmax", weight_.nested_absmax, 0);
    packed(".nested_offset", weight_.nested_offset, 0);
  }
  if (bias_.defined()) parameters.push_back({name + ".bias", &bias_, ParameterStart::kZeros});
}

}  // namespace sftbench
