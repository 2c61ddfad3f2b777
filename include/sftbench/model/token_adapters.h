// What tuning adds to the embedding and to the output projection, which are no linears of the
// layers.
#pragma once

#include <torch/types.h>

#include <vector>

#include "sftbench/model/linear.h"

namespace sftbench {

class EmbeddingAdapter {
 public:
  virtual ~EmbeddingAdapter() = default;
  // rows [B, S, H] of the embedding, of ids [B, S] -> a new tensor, with what the adapter adds.
  virtual torch::Tensor add_to(const torch::Tensor& rows, const torch::Tensor& ids) const = 0;
  virtual void append_parameters(std::vector<NamedParameter>& parameters) = 0;
};

class OutputAdapter {
 public:
  // hidden [N, r] weight^T [r, V] is added to the logits.
  struct Product {
    torch::Tensor hidden, weight;
  };
  virtual ~OutputAdapter() = default;
  // Of what the output projection reads, [N, H], in its dtype.
  virtual Product product(const torch::Tensor& hidden) const = 0;
  virtual void append_parameters(std::vector<NamedParameter>& parameters) = 0;
};

}  // namespace sftbench
