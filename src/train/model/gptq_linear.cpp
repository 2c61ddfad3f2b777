#include "model/gptq_linear.h"

#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {

GptqLinear::GptqLinear(int64_t in_features, int64_t out_features, bool bias,
                       const GptqConfig& config, torch::TensorOptions options)
    : config_(config) {
  check(in_features % kGptqPackedCodes == 0 && out_features % kGptqPackedCodes == 0,
        "quantized linears have sizes that codes can be packed along");
  const torch::TensorOptions codes = options.dtype(torch::kInt32);
  weight_.bits = static_cast<int>(config.bits);
  weight_.zeros_less_one = config.zeros_less_one;
  weight_.qweight = torch::empty(config.qweight_shape(in_features, out_features), codes);
  weight_.qzeros = torch::empty(config.qzeros_shape(in_features, out_features), codes);
  weight_.scales =
      torch::empty(config.scales_shape(in_features, out_features), options.dtype(torch::kFloat16));
  weight_.g_idx = torch::empty({in_features}, codes);
  if (bias) bias_ = torch::empty({out_features}, options);
}

torch::Tensor GptqLinear::forward(const torch::Tensor& x) {
  const torch::Dtype dtype = compute_dtype_.value_or(x.scalar_type());
  return ops::gptq_linear(x.to(dtype), weight_, bias_.defined() ? bias_.to(dtype) : bias_);
}

void GptqLinear::append_parameters(const std::string& name,
                                   std::vector<NamedParameter>& parameters) {
  parameters.push_back({.name = name + ".qweight",
                        .tensor = &weight_.qweight,
                        .weights = in_features() * out_features(),
                        .packed = true});
  const auto beside = [&](const char* end, torch::Tensor& tensor) {
    parameters.push_back({.name = name + end, .tensor = &tensor, .weights = 0, .packed = true});
  };
  beside(".qzeros", weight_.qzeros);
  beside(".scales", weight_.scales);
  beside(".g_idx", weight_.g_idx);
  if (bias_.defined()) parameters.push_back({name + ".bias", &bias_, ParameterStart::kZeros});
}

}  // namespace sftbench
