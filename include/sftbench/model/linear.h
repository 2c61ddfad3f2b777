// The linear projections inside a model, as parts that tuning can replace or add to from outside.
// Linears that read the same input (q, k, v; gate, up; o and down alone) form a group: an adapter
// belongs to a group, so that its linears' adapters can share what they do with that input, and it
// knows nothing of what kind the linears are.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/ops/linear.h"

namespace sftbench {

// What a parameter starts from when weights are random.
enum class ParameterStart {
  kNormal,          // normal(0, initializer_range)
  kNormalResidual,  // the same / sqrt(2 layers): projections onto the residual stream of GPT-2's
                    // kin
  kOnes,
  kZeros,
  kLogOfPlace,  // log 1, log 2, ...: the decays of Mamba-2's heads
};

// A parameter under its Hugging Face name. `tensor` points into the model: replacing it replaces
// the parameter.
struct NamedParameter {
  std::string name;  // model.layers.0.self_attn.q_proj.weight
  torch::Tensor* tensor;
  ParameterStart start = ParameterStart::kNormal;
  // How many weights of the model it stands for, where that is not its number of elements: codes
  // are packed, scales belong to weights that are counted already, and other ranks have other
  // experts.
  int64_t weights = -1;
  // The experts of a mixture whose matrices it holds, in its first dimension where there are
  // several.
  int64_t first_expert = 0;
  int64_t experts = 0;

  bool packed = false;         // codes of quantized weights, or what belongs to them
  double stddev = 0;           // of a normal start, where it is not initializer_range
  bool unused = false;         // no loss depends on it: it gets no gradient, and nothing updates it
  bool of_layer_norm = false;  // torch.nn.LayerNorm's, which Trainer tells by class
  bool keeps_dtype = false;    // gathered in its own, whatever dtype products have

  int64_t weight_count() const { return weights < 0 ? tensor->numel() : weights; }
};

class Linear {
 public:
  virtual ~Linear() = default;

  // x [..., in] -> [..., out], contiguous and neither a view nor kept: an adapter adds to it in
  // place.
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;

  // Whether forward(x) is ops::linear() with operands(), of x in their dtype.
  virtual bool is_product() const { return false; }
  virtual ops::LinearOperands operands() const { return {}; }

  // Rows [first, first + count) of the weight [out, in] (ops/dora.h), and the bias or undefined,
  // both as they are kept. DoRA reads them: a kind of linear that has none is refused before.
  virtual torch::Tensor dense_rows(int64_t /*first*/, int64_t /*count*/) const { return {}; }
  virtual torch::Tensor bias() const { return {}; }

  virtual int64_t in_features() const = 0;
  virtual int64_t out_features() const = 0;

  // Appends its parameters as "<name>.weight", "<name>.bias", ...
  virtual void append_parameters(const std::string& name,
                                 std::vector<NamedParameter>& parameters) = 0;

  // Computes in `dtype` from now on, casting input and parameters as torch.autocast does.
  virtual void set_compute_dtype(torch::Dtype dtype) = 0;

  // Multiplies in float8 from now on (ops/fp8_linear.h) and gives its result in the compute dtype.
  // RunError(kUnsupported) naming the linear, `name`, if its kind or its shape does not allow that.
  virtual void multiply_in_fp8(const std::string& name);
};

class LinearGroup;

// What tuning adds to the outputs of a group.
class Adapter {
 public:
  virtual ~Adapter() = default;

  // outputs[i] is what linear i of the group made of x; it may be written to and is what is
  // returned, whole or changed.
  virtual std::vector<torch::Tensor> add_to(std::vector<torch::Tensor> outputs,
                                            const torch::Tensor& x) = 0;

  // The same of a group whose linears nothing trains, with their products. Empty: add_to() has to
  // be called.
  virtual std::vector<torch::Tensor> with_frozen(const std::vector<ops::LinearOperands>&,
                                                 const torch::Tensor&) {
    return {};
  }

  // The outputs of the group that it belongs to: through either of both, unless more than a sum is
  // made of them.
  virtual std::vector<torch::Tensor> forward(const LinearGroup& group, const torch::Tensor& x);

  // Sets what starts from the group's weights, which have their values now.
  virtual void begin_at_weights(const LinearGroup&) {}

  virtual void append_parameters(std::vector<NamedParameter>& parameters) = 0;
};

// Where a Linear sits. `slot` points into the model and is never null.
struct NamedLinear {
  std::string name;  // model.layers.0.self_attn.q_proj
  std::unique_ptr<Linear>* slot;
};

// Linears that read the same input, and what is added to their outputs.
class LinearGroup {
 public:
  // Leaf names of the linears ("q_proj"), in their order.
  LinearGroup(std::vector<std::string> names, std::vector<std::unique_ptr<Linear>> linears);

  // One output for each linear.
  std::vector<torch::Tensor> forward(const torch::Tensor& x) const;

  std::vector<NamedLinear> named_linears(const std::string& prefix);
  void append_parameters(const std::string& prefix, std::vector<NamedParameter>& parameters);

  // The linears of a group are one node of autograd, after which all their weights have gradients.
  // Kept apart, trained linears are a node each: an update in the backward pass then drops a
  // gradient before the next is computed.
  void keep_apart() { apart_ = true; }

  // What an Adapter reads of its group: the outputs with what it adds, and single linears.
  std::vector<torch::Tensor> adapted(const torch::Tensor& x) const {
    return outputs(x, adapter_.get());
  }
  Linear& linear(size_t index) const { return *linears_[index]; }
  size_t size() const { return linears_.size(); }

  // The weights have their values.
  void begin_adapter() {
    if (adapter_) adapter_->begin_at_weights(*this);
  }

  void set_adapter(std::unique_ptr<Adapter> adapter) { adapter_ = std::move(adapter); }
  std::unique_ptr<Adapter> take_adapter() { return std::move(adapter_); }  // null without

 private:
  // With what `adapter` adds; null: without.
  std::vector<torch::Tensor> outputs(const torch::Tensor& x, Adapter* adapter) const;

  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Linear>> linears_;
  std::unique_ptr<Adapter> adapter_;
  bool apart_ = false;
};

// Where a group sits.
struct NamedLinearGroup {
  LinearGroup* group;
  std::vector<NamedLinear> linears;
  bool takes_adapters = true;  // not those of quantized experts
};

}  // namespace sftbench
