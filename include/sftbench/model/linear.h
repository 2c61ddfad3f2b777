// A linear projection inside a model, as a part that tuning can replace or wrap from outside: LoRA
// takes the Linear out of its slot and puts one in that holds it.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

namespace sftbench {

// A parameter under its Hugging Face name. `tensor` points into the model: replacing it replaces
// the parameter.
struct NamedParameter {
  std::string name;  // model.layers.0.self_attn.q_proj.weight
  torch::Tensor* tensor;
};

class Linear {
 public:
  virtual ~Linear() = default;

  // x [..., in] -> [..., out]
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;

  // Appends its parameters as "<name>.weight", "<name>.bias", ...
  virtual void append_parameters(const std::string& name,
                                 std::vector<NamedParameter>& parameters) = 0;

  // Computes in `dtype` from now on, casting input and parameters as torch.autocast does.
  virtual void set_compute_dtype(torch::Dtype dtype) = 0;
};

// Where a Linear sits. `slot` points into the model and is never null.
struct NamedLinear {
  std::string name;  // model.layers.0.self_attn.q_proj
  std::unique_ptr<Linear>* slot;
};

}  // namespace sftbench
