// Optimizers whose updates happen inside the backward pass (LOMO, AdaLomo, layer-wise GaLore): a
// post hook on each parameter's AccumulateGrad node updates the parameter when the last
// contribution to its gradient is there, and drops the gradient. Operators that add into
// parameter.grad() themselves (ops/grad_accumulation.h) reach that node too.
//
// Embeddings are updated by end_backward(): their gradient is the last to be complete, and a tied
// one has a first part from the output projection, which may be a graph of its own under activation
// checkpointing.
#pragma once

#include <memory>
#include <vector>

#include "sftbench/optim/optimizer.h"

namespace sftbench {

// The rule and the state of one parameter.
class ParameterUpdate {
 public:
  virtual ~ParameterUpdate() = default;
  // Called without autograd; `gradient` is not written.
  virtual void update(const torch::Tensor& gradient, double learning_rate,
                      double gradient_scale) = 0;
  virtual int64_t state_bytes() const = 0;
  // As Optimizer's, of this parameter, which has been named.
  virtual void visit_state(OptimizerStateVisitor& visitor) = 0;
};

struct UpdatedParameter {
  TrainableTensor parameter;
  std::unique_ptr<ParameterUpdate> update;
};

// Every micro-batch updates: with gradient accumulation there are as many updates as micro-batches,
// as under transformers.
std::unique_ptr<Optimizer> update_in_backward(std::vector<UpdatedParameter> parameters);

}  // namespace sftbench
