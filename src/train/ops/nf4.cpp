#include "sftbench/ops/nf4.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/dequantize_impl.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/blockwise_quantize.h"

namespace sftbench::ops {

namespace {

using torch::Tensor;

constexpr const char* kNf4 = "nf4";

int64_t blocks_of(int64_t elements) {
  return (elements + kNf4Block - 1) / kNf4Block;
}

void check_nf4(const Nf4Weight& weight) {
  const int64_t elements = weight.out * weight.in, blocks = blocks_of(elements);
  require(weight.absmax.sizes() == at::IntArrayRef({blocks}), kNf4,
          "absmax of " + std::to_string(blocks) + " blocks", describe(weight.absmax));
  require_like(weight.codes, kNf4, "codes", {(elements + 1) / 2}, weight.codes);
  require(weight.codes.scalar_type() == torch::kUInt8, kNf4, "codes of uint8",
          describe(weight.codes));
  const Tensor& floats = weight.is_nested() ? weight.nested_absmax : weight.absmax;
  require(floats.scalar_type() == torch::kFloat32, kNf4, "magnitudes of float32", describe(floats));
  if (weight.is_nested()) {
    require_like(weight.nested_offset, kNf4, "nested_offset", {1}, floats);
    require(weight.absmax.scalar_type() == torch::kUInt8, kNf4, "codes of uint8",
            describe(weight.absmax));
  }
  for (const Tensor& tensor : {weight.codes, weight.absmax, floats})
    require(tensor.is_contiguous(), kNf4, "contiguous tensors", describe(tensor));
}

void check_features(const FeatureRange& range, int64_t features) {
  require(range.begin >= 0 && range.begin + range.count <= features, kNf4,
          "a range within " + std::to_string(features) + " features",
          std::to_string(range.begin) + " + " + std::to_string(range.count));
}

// What codes mean by halves between values: the number of these that are below.
std::array<float, 15> midpoints() {
  std::array<float, 15> between;
  for (size_t i = 0; i < between.size(); ++i) between[i] = (kNf4Values[i] + kNf4Values[i + 1]) / 2;
  return between;
}

// A block of at most 64 elements, two codes a byte. Returns the largest magnitude.
float quantize_block(const float* x, int64_t count, uint8_t* codes) {
  static const std::array<float, 15> kMidpoints = midpoints();
  float absmax = 0;
  for (int64_t i = 0; i < count; ++i) absmax = std::max(absmax, std::abs(x[i]));
  const float scale = 1.0f / std::max(absmax, 1e-38f);
  std::array<int32_t, kNf4Block> found = {};
  for (const float middle : kMidpoints)
    for (int64_t i = 0; i < count; ++i) found[static_cast<size_t>(i)] += x[i] * scale > middle;
  if (count % 2 != 0) found[static_cast<size_t>(count)] = 7;  // of the 0 that fills the byte
  for (int64_t i = 0; i < (count + 1) / 2; ++i) {
    const auto at = static_cast<size_t>(2 * i);
    codes[i] = static_cast<uint8_t>(found[at] << 4 | found[at + 1]);
  }
  return absmax;
}

// Elements [first, first + count) of the weight into out, one at a time: what is no whole block.
template <class T>
void dequantize_elements(const uint8_t* codes, const float* absmax, int64_t first, int64_t count,
                         T* out) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i;
    const uint8_t pair = codes[at / 2];
    const float value = kNf4Values[at % 2 == 0 ? pair >> 4 : pair & 15];
    out[i] = static_cast<T>(value * absmax[at / kNf4Block]);
  }
}

template <class T>
void dequantize_row(const Nf4Loop loop, const uint8_t* codes, const float* absmax, int64_t first,
                    int64_t count, T* out) {
  const int64_t end = first + count;
  const int64_t head = std::min(end, blocks_of(first) * kNf4Block);
  const int64_t tail = std::max(head, end / kNf4Block * kNf4Block);
  dequantize_elements(codes, absmax, first, head - first, out);
  if (tail > head) {
    loop({codes + head / 2, absmax + head / kNf4Block, kNf4Values.data(), (tail - head) / kNf4Block,
          out + (head - first)});
  }
  dequantize_elements(codes, absmax, tail, end - tail, out + (tail - first));
}

void dequantize_nf4_cpu(Tensor& target, const Nf4Weight& weight, const Tensor& absmax,
                        FeatureRange out, FeatureRange in) {
  const auto* codes = weight.codes.data_ptr<uint8_t>();
  const float* scales = absmax.data_ptr<float>();
  const auto run = [&](const Nf4Loop loop, auto* values) {
    const int64_t grain = std::max<int64_t>(1, 16384 / in.count);
    at::parallel_for(0, out.count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        dequantize_row(loop, codes, scales, (out.begin + row) * weight.in + in.begin, in.count,
                       values + row * in.count);
      }
    });
  };
  const DequantizeKernels& kernels = dequantize_kernels();
  switch (target.scalar_type()) {
    case torch::kBFloat16:
      return run(kernels.nf4[static_cast<int>(CpuType::kBFloat16)],
                 target.data_ptr<at::BFloat16>());
    case torch::kFloat16:
      return run(kernels.nf4[static_cast<int>(CpuType::kFloat16)], target.data_ptr<at::Half>());
    default:
      return run(kernels.nf4[static_cast<int>(CpuType::kFloat32)], target.data_ptr<float>());
  }
}

// float32 [blocks]
Tensor magnitudes(const Nf4Weight& weight) {
  if (!weight.is_nested()) return weight.absmax;
  return dequantize_blockwise({QuantMap::kSigned8, weight.absmax, weight.nested_absmax},
                              weight.absmax.numel()) +
         weight.nested_offset;
}

}  // namespace

Nf4Weight empty_nf4(int64_t out_features, int64_t in_features, bool double_quantized,
                    const torch::Device& device) {
  const int64_t elements = out_features * in_features, blocks = blocks_of(elements);
  const auto options = torch::TensorOptions().device(device);
  const auto bytes = options.dtype(torch::kUInt8), floats = options.dtype(torch::kFloat32);
  const Tensor codes = torch::empty({(elements + 1) / 2}, bytes);
  if (!double_quantized)
    return {out_features, in_features, codes, torch::empty({blocks}, floats), {}, {}};
  return {out_features,
          in_features,
          codes,
          torch::empty({blocks}, bytes),
          torch::empty({(blocks + kQuantBlockNumel - 1) / kQuantBlockNumel}, floats),
          torch::empty({1}, floats)};
}

void nf4_quantize(const Tensor& weight, Nf4Weight& into) {
  const torch::NoGradGuard no_grad;
  check_nf4(into);
  require(weight.device().is_cpu() && weight.is_contiguous() &&
              weight.sizes() == at::IntArrayRef({into.out, into.in}),
          kNf4, "a contiguous weight on the CPU of the same sizes", describe(weight));
  require_float(weight, kNf4, "weight");
  const int64_t elements = weight.numel(), blocks = blocks_of(elements);
  const Tensor flat = weight.view(-1);
  const Tensor codes = torch::empty({(elements + 1) / 2}, torch::kUInt8);
  const Tensor absmax = torch::empty({blocks}, torch::kFloat32);
  constexpr int64_t kAtOnce = 256;  // blocks that are widened together
  at::parallel_for(0, (blocks + kAtOnce - 1) / kAtOnce, 1, [&](int64_t begin, int64_t end) {
    const torch::NoGradGuard on_this_thread;
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = part * kAtOnce, last = std::min(first + kAtOnce, blocks);
      const Tensor wide = flat.slice(0, first * kNf4Block, std::min(last * kNf4Block, elements))
                              .to(torch::kFloat32);
      const float* x = wide.data_ptr<float>();
      for (int64_t block = first; block < last; ++block) {
        absmax.data_ptr<float>()[block] = quantize_block(
            x + (block - first) * kNf4Block, std::min(kNf4Block, elements - block * kNf4Block),
            codes.data_ptr<uint8_t>() + block * kNf4Block / 2);
      }
    }
  });
  into.codes.copy_(codes);
  if (!into.is_nested()) {
    into.absmax.copy_(absmax);
    return;
  }
  const Tensor offset = absmax.mean();
  const QuantizedTensor nested = quantize_blockwise(absmax - offset, QuantMap::kSigned8);
  into.absmax.copy_(nested.codes);
  into.nested_absmax.copy_(nested.scales);
  into.nested_offset.copy_(offset.view({1}));
}

void dequantize_into(Tensor target, const Nf4Weight& weight, FeatureRange out, FeatureRange in) {
  const torch::NoGradGuard no_grad;
  check_nf4(weight);
  check_features(out, weight.out);
  check_features(in, weight.in);
  require_float(target, kNf4, "target");
  require(target.is_contiguous() && target.sizes() == at::IntArrayRef({out.count, in.count}), kNf4,
          "a contiguous target of the ranges' sizes", describe(target));
  if (target.numel() == 0) return;
  const Tensor absmax = magnitudes(weight);
  if (has_cpu_kernels(target)) return dequantize_nf4_cpu(target, weight, absmax, out, in);
#if SFTBENCH_CUDA
  if (has_cuda_kernels(target)) return dequantize_nf4_cuda(target, weight, absmax, out, in);
#endif
  dequantize_nf4_aten(target, weight, absmax, out, in);
}

Tensor dequantize(const Nf4Weight& weight, torch::Dtype dtype) {
  Tensor target = torch::empty({weight.out, weight.in}, weight.codes.options().dtype(dtype));
  dequantize_into(target, weight, {0, weight.out}, {0, weight.in});
  return target;
}

}  // namespace sftbench::ops
