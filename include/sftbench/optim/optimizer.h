// Optimizers behind one verb. An optimizer is one file in src/train/optim/ that implements
// Optimizer, and one row in variants/optimizer.h.
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/optim/optimizer_state.h"
#include "sftbench/variants/optimizer.h"
#include "sftbench/variants/optimizer_state_size.h"

namespace sftbench {

// A trainable tensor under its Hugging Face name, which decides whether it decays and what it is.
struct TrainableTensor {
  std::string name;
  torch::Tensor tensor;
  bool of_layer_norm = false;  // torch.nn.LayerNorm's: never decays, whatever its name
};

TrainedShape trained_shape(const TrainableTensor& trainable);

// Parameters that share a weight decay.
struct ParameterGroup {
  std::vector<TrainableTensor> parameters;
  double weight_decay = 0;
};

// Two groups, either possibly empty: what decays, and biases and norm weights, which never do.
// Source: Trainer.get_decay_parameter_names.
std::vector<ParameterGroup> group_by_decay(const std::vector<TrainableTensor>& tensors,
                                           double weight_decay);

// An update that a CUDA graph repeats: what changes from step to step is read from the device's
// memory.
class RecordedUpdate {
 public:
  virtual ~RecordedUpdate() = default;

  // Queues Optimizer::step() with `gradient_scale`, a float32 scalar on the device, for parameters
  // that have a gradient. Where it is NaN nothing changes. To be called while the graph is
  // captured.
  virtual void record(const torch::Tensor& gradient_scale) = 0;

  // The optimizer's next step, before each launch of a graph.
  virtual void advance(double learning_rate) = 0;
};

// One optimization step is, for each micro-batch: begin_backward(), the backward pass,
// end_backward(); then gradient_norm() and, unless loss scaling skips the update, step().
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One update of every parameter that has a gradient, which is read times `gradient_scale` and not
  // written: clipping and loss scaling cost no pass of their own. Kinds that update in the backward
  // have nothing left to do.
  virtual void step(double learning_rate, double gradient_scale) = 0;

  // What the tensors of the state hold, now: counted, not computed from a formula.
  virtual int64_t state_bytes() const = 0;

  // All that its next step depends on beside parameters and gradients.
  virtual void visit_state(OptimizerStateVisitor& visitor) = 0;

  // Kinds that update each parameter as soon as its gradient is complete, and free the gradient
  // there and then (update_in_backward.h): no set of all gradients ever exists, so there is nothing
  // to clip by its norm and no update to skip when loss scaling overflows.
  virtual bool updates_in_backward() const { return false; }
  virtual void begin_backward(double learning_rate, double gradient_scale);
  virtual void end_backward() {}

  // Null on CPUs, and for kinds whose host takes part in the update. Graphs that recorded it read
  // what belongs to this.
  virtual RecordedUpdate* recorded_update() { return nullptr; }

  // Of the step's gradients, before clipping. Kinds that update in the backward answer for those
  // that they consumed since the last call.
  virtual double gradient_norm(const std::vector<torch::Tensor>& gradients);
};

struct OptimizerOptions {
  std::array<double, 2> betas = {0.9, 0.999};
  double epsilon = 1e-8;
};

// Of those that run on the devices of this program, in alphabetical order.
std::vector<std::string> optimizer_names();

// RunError(kUnsupported) for one that needs another kind of device.
std::unique_ptr<Optimizer> make_optimizer(OptimizerKind kind, std::vector<ParameterGroup> groups,
                                          const OptimizerOptions& options);

}  // namespace sftbench
