#include "sftbench/ops/blockwise_quantize.h"

#include "ops/blockwise_quantize_impl.h"
#include "ops/checks.h"
#include "ops/cpu/kernels.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {

namespace baseline {
extern const BlockwiseKernels kBlockwiseKernels;
}
namespace avx2 {
extern const BlockwiseKernels kBlockwiseKernels;
}
namespace avx512 {
extern const BlockwiseKernels kBlockwiseKernels;
}

namespace {

using torch::Tensor;

void check_codes(const char* op, const QuantizedTensor& x, int64_t numel) {
  const int64_t bytes = has_four_bits(x.map) ? (numel + 1) / 2 : numel;
  const int64_t blocks = (numel + kQuantBlockNumel - 1) / kQuantBlockNumel;
  require(x.codes.scalar_type() == torch::kUInt8 && x.codes.numel() == bytes, op,
          "codes must be " + std::to_string(bytes) + " bytes", describe(x.codes));
  require(x.scales.scalar_type() == torch::kFloat32 && x.scales.numel() == blocks, op,
          "scales must be " + std::to_string(blocks) + " of float32", describe(x.scales));
}

}  // namespace

const BlockwiseKernels& blockwise_kernels() {
  switch (cpu_instructions()) {
    case CpuInstructions::kBaseline:
      return baseline::kBlockwiseKernels;
    case CpuInstructions::kAvx2:
      return avx2::kBlockwiseKernels;
    default:
      return avx512::kBlockwiseKernels;
  }
}

QuantizedTensor zero_quantized(QuantMap map, int64_t numel, torch::Device device) {
  const auto options = torch::TensorOptions().device(device);
  const int64_t bytes = has_four_bits(map) ? (numel + 1) / 2 : numel;
  const int64_t blocks = (numel + kQuantBlockNumel - 1) / kQuantBlockNumel;
  return {map, torch::zeros({bytes}, options.dtype(torch::kUInt8)),
          torch::zeros({blocks}, options.dtype(torch::kFloat32))};
}

QuantizedTensor quantize_blockwise(const Tensor& x, QuantMap map) {
  const torch::NoGradGuard no_grad;
  require(x.scalar_type() == torch::kFloat32 && x.is_contiguous(), "quantize_blockwise",
          "x must be float32 and contiguous", describe(x));
  const QuantizedTensor result = zero_quantized(map, x.numel(), x.device());
  if (!x.device().is_cpu()) {
    quantize_blockwise_aten(x, result);
    return result;
  }
  const BlockwiseKernels& kernels = blockwise_kernels();
  (has_four_bits(map) ? kernels.quantize4 : kernels.quantize8)(
      x.data_ptr<float>(), result.codes.data_ptr<uint8_t>(), result.scales.data_ptr<float>(),
      x.numel(), quant_tables(map));
  return result;
}

Tensor dequantize_blockwise(const QuantizedTensor& x, int64_t numel) {
  const torch::NoGradGuard no_grad;
  check_codes("dequantize_blockwise", x, numel);
  if (!x.codes.device().is_cpu()) return dequantize_blockwise_aten(x, numel);
  const Tensor result = torch::empty({numel}, torch::kFloat32);
  const BlockwiseKernels& kernels = blockwise_kernels();
  (has_four_bits(x.map) ? kernels.dequantize4 : kernels.dequantize8)(
      x.codes.data_ptr<uint8_t>(), x.scales.data_ptr<float>(), result.data_ptr<float>(), numel,
      quant_tables(x.map));
  return result;
}

}  // namespace sftbench::ops
