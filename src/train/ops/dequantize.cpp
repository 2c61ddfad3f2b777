#include "sftbench/ops/dequantize.h"

#include <algorithm>
#include <vector>

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/dequantize_impl.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {

namespace {

using torch::Tensor;

constexpr const char* kDequantize = "dequantize";

void check_weight(const GptqWeight& weight) {
  const int64_t bits = weight.bits, in = weight.in_features(), out = weight.out_features();
  const int64_t groups = weight.scales.size(0);
  require(bits == 2 || bits == 3 || bits == 4 || bits == 8, kDequantize, "2, 3, 4 or 8 bits",
          std::to_string(bits));
  require(in % kPackedCodes == 0 && out % kPackedCodes == 0, kDequantize,
          "features in multiples of 32", std::to_string(in) + " to " + std::to_string(out));
  require_like(weight.qweight, kDequantize, "qweight", {in / kPackedCodes * bits, out},
               weight.g_idx);
  require_like(weight.qzeros, kDequantize, "qzeros", {groups, out / kPackedCodes * bits},
               weight.g_idx);
  require(weight.g_idx.scalar_type() == torch::kInt32, kDequantize, "codes and groups of int32",
          describe(weight.g_idx));
  require(weight.scales.scalar_type() == torch::kFloat16, kDequantize, "scales of float16",
          describe(weight.scales));
  for (const Tensor& tensor : {weight.qweight, weight.qzeros, weight.scales, weight.g_idx})
    require(tensor.is_contiguous(), kDequantize, "contiguous tensors", describe(tensor));
}

void check_range(const FeatureRange& range, int64_t features) {
  require(range.begin % kPackedCodes == 0 && range.count % kPackedCodes == 0 && range.begin >= 0 &&
              range.begin + range.count <= features,
          kDequantize, "a range of whole words within " + std::to_string(features) + " features",
          std::to_string(range.begin) + " + " + std::to_string(range.count));
}

// Scales, and zeros times scales, of groups [first, first + count) and a range of output features,
// in float32: both are exact.
struct GroupTables {
  Tensor scales, scaled_zeros;  // [count, O]
  int32_t first;
};

GroupTables make_tables(const GptqWeight& weight, FeatureRange in, FeatureRange out) {
  const int32_t* groups = weight.g_idx.data_ptr<int32_t>() + in.begin;
  const auto [least, most] = std::minmax_element(groups, groups + in.count);
  const int64_t first = *least, count = *most - first + 1;
  GroupTables tables = {torch::empty({count, out.count}, torch::kFloat32),
                        torch::empty({count, out.count}, torch::kFloat32), *least};
  const auto* zeros = reinterpret_cast<const uint32_t*>(weight.qzeros.data_ptr<int32_t>());
  const auto* scales = weight.scales.data_ptr<at::Half>();
  float* table = tables.scales.data_ptr<float>();
  float* scaled = tables.scaled_zeros.data_ptr<float>();
  const int bits = weight.bits;
  const bool less_one = weight.zeros_less_one;
  at::parallel_for(0, count, 1 + 16384 / out.count, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const uint32_t* row = zeros + (first + g) * weight.qzeros.size(1);
      const at::Half* scale = scales + (first + g) * weight.out_features() + out.begin;
      for (int64_t o = 0; o < out.count; ++o) {
        const auto value = static_cast<float>(scale[o]);
        table[g * out.count + o] = value;
        scaled[g * out.count + o] =
            value * static_cast<float>(zero_code(row, out.begin + o, bits, less_one));
      }
    }
  });
  return tables;
}

void dequantize_cpu(Tensor& target, const GptqWeight& weight, FeatureRange in, FeatureRange out) {
  const CpuType type = target.scalar_type() == torch::kBFloat16  ? CpuType::kBFloat16
                       : target.scalar_type() == torch::kFloat16 ? CpuType::kFloat16
                                                                 : CpuType::kFloat32;
  const DequantizeLoop loop = dequantize_kernels().loops[static_cast<int>(type)][weight.bits];
  const GroupTables tables = make_tables(weight, in, out);
  const int64_t stride = weight.out_features(), table_shift = tables.first * out.count;
  const auto* codes = reinterpret_cast<const uint32_t*>(weight.qweight.data_ptr<int32_t>());
  at::parallel_for(0, in.count / kPackedCodes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t feature = in.begin + block * kPackedCodes;
      loop({.codes = codes + feature / kPackedCodes * weight.bits * stride + out.begin,
            .code_stride = stride,
            .groups = weight.g_idx.data_ptr<int32_t>() + feature,
            .scales = tables.scales.data_ptr<float>() - table_shift,
            .scaled_zeros = tables.scaled_zeros.data_ptr<float>() - table_shift,
            .table_stride = out.count,
            .out = element(target, block * kPackedCodes * out.count),
            .out_stride = out.count,
            .columns = out.count});
    }
  });
}

}  // namespace

const DequantizeKernels& dequantize_kernels() {
  switch (cpu_instructions()) {
    case CpuInstructions::kBaseline:
      return baseline::kDequantizeKernels;
    case CpuInstructions::kAvx2:
      return avx2::kDequantizeKernels;
    case CpuInstructions::kAvx512:
      return avx512::kDequantizeKernels;
    default:
      return avx512_bf16::kDequantizeKernels;
  }
}

void dequantize_into(Tensor target, const GptqWeight& weight, FeatureRange in, FeatureRange out) {
  const torch::NoGradGuard no_grad;
  check_weight(weight);
  check_range(in, weight.in_features());
  check_range(out, weight.out_features());
  require_float(target, kDequantize, "target");
  require(target.is_contiguous() && target.sizes() == at::IntArrayRef({in.count, out.count}),
          kDequantize, "a contiguous target of the ranges' sizes", describe(target));
  if (target.numel() == 0) return;
  if (has_cpu_kernels(target)) return dequantize_cpu(target, weight, in, out);
#if SFTBENCH_CUDA
  if (target.is_cuda() && target.scalar_type() != torch::kFloat64)
    return dequantize_cuda(target, weight, in, out);
#endif
  dequantize_aten(target, weight, in, out);
}

Tensor dequantize(const GptqWeight& weight, torch::Dtype dtype) {
  const int64_t in = weight.in_features(), out = weight.out_features();
  Tensor target = torch::empty({in, out}, weight.scales.options().dtype(dtype));
  dequantize_into(target, weight, {0, in}, {0, out});
  return target;
}

torch::Dtype float16_compute_dtype(const torch::Device& device) {
  if (!device.is_cpu()) return torch::kFloat16;
  return cpu_instructions() >= CpuInstructions::kAvx512Bf16 ? torch::kBFloat16 : torch::kFloat32;
}

int64_t dequantize_workspace_numel(const torch::Device& device) {
  return device.is_cpu() ? int64_t{4} << 20 : int64_t{64} << 20;
}

}  // namespace sftbench::ops
