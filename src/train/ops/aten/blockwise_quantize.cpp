// The same arithmetic with stock operators: any device, any strides.
#include <cmath>

#include "ops/blockwise_quantize_impl.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/update.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

Tensor on_device(const std::vector<float>& values, torch::Device device) {
  return torch::tensor(values, torch::kFloat32).to(device);
}

// [ceil(n / 256), 256], the last row filled up with zeros.
Tensor in_blocks(const Tensor& flat) {
  const int64_t missing = (kQuantBlockNumel - flat.numel() % kQuantBlockNumel) % kQuantBlockNumel;
  return torch::constant_pad_nd(flat, {0, missing}).view({-1, kQuantBlockNumel});
}

}  // namespace

void quantize_blockwise_aten(const Tensor& x, const QuantizedTensor& into) {
  const int64_t numel = x.numel();
  if (numel == 0) return;
  const Tensor blocks = in_blocks(x.reshape({-1}));
  const Tensor magnitudes = torch::where(blocks.isnan(), torch::zeros_like(blocks), blocks.abs());
  Tensor scales = magnitudes.amax(1);
  if (has_four_bits(into.map)) scales = scales.clamp_min(1e-12);
  const Tensor units = (blocks / scales.unsqueeze(1)).view({-1}).slice(0, 0, numel);
  Tensor codes = torch::bucketize(units, on_device(quant_boundaries(into.map), x.device()),
                                  /*out_int32=*/true, /*right=*/true);
  if (into.map == QuantMap::kSigned8) {
    codes = codes - (torch::signbit(units) & (units == 0)).to(torch::kInt32);
  }
  codes = torch::where(units.isnan(),
                       torch::full_like(codes, static_cast<int64_t>(quantize_one(into.map, NAN))),
                       codes);
  if (has_four_bits(into.map)) {
    const Tensor pairs = torch::constant_pad_nd(codes, {0, numel % 2}).view({-1, 2});
    codes = pairs.select(1, 0) * 16 + pairs.select(1, 1);
  }
  into.codes.copy_(codes);
  into.scales.copy_(scales);
}

Tensor dequantize_blockwise_aten(const QuantizedTensor& x, int64_t numel) {
  if (numel == 0) return torch::zeros({0}, x.scales.options());
  Tensor codes = x.codes.to(torch::kInt64);
  if (has_four_bits(x.map)) {
    const Tensor high = torch::bitwise_right_shift(codes, 4);
    codes = torch::stack({high, codes - high * 16}, 1).view({-1}).slice(0, 0, numel);
  }
  const Tensor values =
      on_device(quant_map_values(x.map), codes.device()).index_select(0, codes.view({-1}));
  return (in_blocks(values) * x.scales.unsqueeze(1)).view({-1}).slice(0, 0, numel);
}

void blockwise_update_aten(UpdateRule rule, const BlockwiseTensor& tensor,
                           const RuleFactors<double>& factors) {
  const Tensor& parameter = tensor.parameter;
  const bool guarded = tensor.states.size() > 1 && !has_four_bits(tensor.states.front().map);
  const Tensor finite =
      guarded ? (tensor.gradient.to(torch::kFloat32) * factors.gradient_scale).isfinite()
              : Tensor();
  const Tensor before = guarded ? parameter.clone() : Tensor();
  UpdatedTensor wide{parameter, tensor.gradient, {}};
  for (const QuantizedTensor& state : tensor.states) {
    wide.states.push_back(
        dequantize_blockwise_aten(state, parameter.numel()).view(parameter.sizes()));
  }
  update(rule, {wide}, factors);
  if (guarded) {
    parameter.copy_(torch::where(finite, parameter, before));
    for (Tensor& state : wide.states) state = torch::where(finite, state, torch::zeros_like(state));
  }
  for (size_t k = 0; k < wide.states.size(); ++k) {
    quantize_blockwise_aten(wide.states[k], tensor.states[k]);
  }
}

}  // namespace sftbench::ops
