// The yardstick: a Llama that trains with stock libtorch operators in the order in which Hugging
// Face's eager implementation calls them (LlamaForCausalLM, attn_implementation="eager"), and
// torch::optim::AdamW. Nothing of sftbench is in it.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace sftbench::bench {

struct LlamaShape {
  int64_t vocabulary = 49152, hidden = 576, intermediate = 1536, layers = 30;
  int64_t heads = 9, kv_heads = 3, head_dim = 64;
  double rope_theta = 100000.0, norm_epsilon = 1e-5;
};

class PlainLlama {
 public:
  PlainLlama(const LlamaShape& shape, torch::Dtype dtype);

  // input_ids, labels [B, S] -> mean cross-entropy of the next tokens, over whole float32 logits.
  torch::Tensor loss(const torch::Tensor& input_ids, const torch::Tensor& labels) const;

  std::vector<torch::Tensor> parameters() const;

 private:
  struct Layer {
    torch::Tensor q, k, v, o, gate, up, down, input_norm, post_attention_norm;
  };

  torch::Tensor attention(const Layer& layer, const torch::Tensor& x_BSH, const torch::Tensor& cos,
                          const torch::Tensor& sin, const torch::Tensor& mask) const;

  LlamaShape shape_;
  torch::Tensor embedding_;
  std::vector<Layer> layers_;
  torch::Tensor final_norm_;
};

}  // namespace sftbench::bench
