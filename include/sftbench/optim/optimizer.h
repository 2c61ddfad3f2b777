// Optimisers behind one verb. An optimiser is one file in src/optim/ that implements Optimizer, and
// one row in the table of optimizer.cpp; names are those of Hugging Face's `optim` argument.
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sftbench {

// Parameters that share a weight decay.
struct ParameterGroup {
  std::vector<torch::Tensor> parameters;
  double weight_decay = 0;
};

// A trainable tensor under its Hugging Face name, which decides whether it decays.
struct TrainableTensor {
  std::string name;
  torch::Tensor tensor;
};

// Two groups, either possibly empty: what decays, and biases and norm weights, which never do.
// Source: Trainer.get_decay_parameter_names.
std::vector<ParameterGroup> group_by_decay(const std::vector<TrainableTensor>& tensors,
                                           double weight_decay);

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One update of every parameter that has a gradient, which is read times `gradient_scale` and not
  // written: clipping and loss scaling cost no pass of their own.
  virtual void step(double learning_rate, double gradient_scale) = 0;
};

struct OptimizerOptions {
  std::array<double, 2> betas = {0.9, 0.999};
  double epsilon = 1e-8;
};

// The optimiser of this name. RunError(kUnsupported) naming it, what there is and the nearest
// spelling.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          std::vector<ParameterGroup> groups,
                                          const OptimizerOptions& options);

}  // namespace sftbench
