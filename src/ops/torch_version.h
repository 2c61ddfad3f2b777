// What differs between libtorch 1.13 (Debian, CPU) and 2.x (PyTorch wheels, CUDA): here and nowhere
// else.
#pragma once

#include <cstdint>
#include <stdexcept>

#include <torch/types.h>
#include <torch/version.h>

#if TORCH_VERSION_MAJOR >= 2
#define SFTBENCH_TORCH_2 1
#else
#define SFTBENCH_TORCH_2 0
#endif

namespace sftbench::ops {

#if SFTBENCH_TORCH_2
using OptionalTensor = std::optional<torch::Tensor>;
#else
using OptionalTensor = c10::optional<torch::Tensor>;
#endif

// libtorch 2.x brings FlashAttention and cuDNN's attention for GPUs; it exposes neither with a
// sliding window.
inline bool has_library_attention([[maybe_unused]] const torch::Tensor& q,
                                  [[maybe_unused]] int64_t window) {
  return SFTBENCH_TORCH_2 && q.is_cuda() && (window == 0 || window >= q.size(1));
}

// Causal attention of the library, differentiable by itself; shapes as in attention.h.
inline torch::Tensor library_attention([[maybe_unused]] const torch::Tensor& q,
                                       [[maybe_unused]] const torch::Tensor& k,
                                       [[maybe_unused]] const torch::Tensor& v,
                                       [[maybe_unused]] double scale) {
#if SFTBENCH_TORCH_2
  return at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                          /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true,
                                          scale,
                                          /*enable_gqa=*/true)
      .transpose(1, 2);
#else
  throw std::logic_error("library_attention: libtorch 1.13 has none");
#endif
}

}  // namespace sftbench::ops
