// Causal grouped-query attention that never holds the S x S scores of all heads: tiles of queries and keys with a
// running softmax (Dao et al. 2022). Softmax in float32, as in Hugging Face's attention.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace sftbench::ops {

// q [B, S, H, D]; k, v [B, S, K, D] with K dividing H: query head h reads key/value head h / (H / K).
// scale: factor on the scores. window: number of keys that a query sees, itself included (Mistral's sliding
// window); 0 means all. Position i sees positions j with j <= i and i - j < window. Returns [B, S, H, D].
// No padding mask: with right padding and causality no real position sees a padded one.
// Differentiable in q, k, v. Keeps q, k, v, the output and one float32 (log-sum-exp) per query and head.
torch::Tensor causal_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, double scale,
                               int64_t window = 0);

}  // namespace sftbench::ops
