#include "ops/aten/library_attention.h"

#if SFTBENCH_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

#include <mutex>
#include <stdexcept>
#include <vector>

#include "sftbench/base/torch.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench::ops {

#if SFTBENCH_TORCH_2
namespace {

using torch::Tensor;

// FlashAttention 2 wants half precision, heads of at most 256 and an Ampere or later.
bool has_flash_attention([[maybe_unused]] const Tensor& q) {
#if SFTBENCH_CUDA
  const bool half = q.scalar_type() == torch::kBFloat16 || q.scalar_type() == torch::kFloat16;
  return q.is_cuda() && half && q.size(3) <= 256 && q.size(3) % 8 == 0 &&
         at::cuda::getDeviceProperties(q.get_device())->major >= 8;
#else
  return false;
#endif
}

void seed_generator(const Tensor& q, uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(q.device());
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

Tensor flash_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                       int64_t window, const PackedSequences& packed, double dropout) {
  std::optional<int64_t> keys_before;
  if (window > 0) keys_before = window - 1;
  const auto output = at::_flash_attention_forward(
      q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), packed.cumulative, packed.cumulative,
      packed.longest, packed.longest, dropout, /*is_causal=*/true,
      /*return_debug_mask=*/false, std::optional<double>(scale), keys_before);
  return std::get<0>(output).unsqueeze(0);
}

// [B, S, heads, D]
Tensor causal_sdpa(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                   double dropout) {
  return at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                          /*attn_mask=*/{}, dropout, /*is_causal=*/true, scale,
                                          /*enable_gqa=*/true)
      .transpose(1, 2);
}

}  // namespace

bool has_library_attention(const Tensor& q, int64_t window, const PackedSequences& packed) {
  if (!q.is_cuda()) return false;
  if (!packed.empty() && has_flash_attention(q)) return true;
  const int64_t longest = packed.empty() ? q.size(1) : packed.longest;
  return window == 0 || window >= longest;
}

Tensor library_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                         int64_t window, const PackedSequences& packed, const Dropout& dropout) {
  const double p = dropout.probability;
  if (p > 0) seed_generator(q, dropout.seed);
  if (packed.empty()) return causal_sdpa(q, k, v, scale, p);
  if (has_flash_attention(q)) return flash_attention(q, k, v, scale, window, packed, p);
  std::vector<Tensor> outputs;
  for (size_t i = 0; i + 1 < packed.offsets.size(); ++i) {
    const auto sequence = [&](const Tensor& x) {
      return x.slice(1, packed.offsets[i], packed.offsets[i + 1]);
    };
    outputs.push_back(causal_sdpa(sequence(q), sequence(k), sequence(v), scale, p));
  }
  return torch::cat(outputs, 1);
}

#else

bool has_library_attention(const torch::Tensor&, int64_t, const PackedSequences&) {
  return false;
}

torch::Tensor library_attention(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                double, int64_t, const PackedSequences&, const Dropout&) {
  throw std::logic_error("library_attention: libtorch 1.13 has none");
}

#endif

}  // namespace sftbench::ops
