#include "sftbench/optim/offloaded.h"

#include <map>
#include <string>
#include <utility>

#include "optim/state_pager.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

using torch::Tensor;

constexpr int64_t kAlignmentBytes = 256;

// The tensors of a state, in the order in which it is visited.
class StateTensors : public OptimizerStateVisitor {
 public:
  void parameter(const std::string&) override {}
  void number(const char*, int64_t&) override {}
  void number(const char*, double&) override {}
  void values(const char*, const Tensor& values) override { tensors.push_back(values); }
  void quantized(const char*, const ops::QuantizedTensor& values) override {
    tensors.push_back(values.codes);
    tensors.push_back(values.scales);
  }
  void shaped(const char*, const Tensor& values) override { tensors.push_back(values); }

  std::vector<Tensor> tensors;
};

// An optimizer's own numbers, as its steps, are those of the first chunk.
class OneOptimizersNumbers : public OptimizerStateVisitor {
 public:
  explicit OneOptimizersNumbers(OptimizerStateVisitor& visitor) : visitor_(visitor) {}

  void begin_chunk() {
    ++chunk_;
    of_optimizer_ = true;
  }

  void parameter(const std::string& name) override {
    of_optimizer_ = false;
    visitor_.parameter(name);
  }
  void number(const char* name, int64_t& value) override { visit(name, value, integers_); }
  void number(const char* name, double& value) override { visit(name, value, numbers_); }
  void values(const char* name, const Tensor& values) override { visitor_.values(name, values); }
  void quantized(const char* name, const ops::QuantizedTensor& values) override {
    visitor_.quantized(name, values);
  }
  void shaped(const char* name, const Tensor& values) override { visitor_.shaped(name, values); }

 private:
  template <typename Number>
  void visit(const char* name, Number& value, std::map<std::string, Number>& first) {
    if (!of_optimizer_) return visitor_.number(name, value);
    if (chunk_ > 1) {
      value = first.at(name);
      return;
    }
    visitor_.number(name, value);
    first[name] = value;
  }

  OptimizerStateVisitor& visitor_;
  int chunk_ = 0;
  bool of_optimizer_ = true;
  std::map<std::string, int64_t> integers_;
  std::map<std::string, double> numbers_;
};

// Parameters whose states travel together, one behind the other in one array.
class Chunk {
 public:
  Chunk(OptimizerKind kind, ParameterGroup group, const OptimizerOptions& options, Offloaded what,
        const StatePager& pager)
      : parameters_(what == Offloaded::kStates ? std::vector<TrainableTensor>() : group.parameters),
        optimizer_(make_optimizer(kind, {std::move(group)}, options)) {
    const torch::NoGradGuard no_grad;
    for (const TrainableTensor& trainable : parameters_) {
      parameter_homes_.push_back(trainable.tensor.detach());
    }
    StateTensors states;
    optimizer_->visit_state(states);
    states_ = std::move(states.tensors);
    int64_t bytes = 0;
    for (const Tensor& state : states_) {
      begins_.push_back(bytes);
      const auto rounded = static_cast<int64_t>(state.nbytes()) + kAlignmentBytes - 1;
      bytes += rounded / kAlignmentBytes * kAlignmentBytes;
    }
    home_ = pager.to_host(torch::zeros({bytes}, torch::kUInt8));
    for (size_t i = 0; i < states_.size(); ++i) view(home_, i).copy_(states_[i]);
    point_to(home_);
  }

  Optimizer& optimizer() { return *optimizer_; }
  const Optimizer& optimizer() const { return *optimizer_; }

  StatePager::Visitor visitor() const {
    StatePager::Visitor visitor{{home_}};
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Tensor& gradient = parameters_[i].tensor.grad();
      if (!gradient.defined()) continue;
      visitor.states.push_back(parameter_homes_[i]);
      visitor.read.push_back(gradient);
    }
    return visitor;
  }

  // `here`: what the visitor has, on the device.
  void step(const std::vector<Tensor>& here, double learning_rate, double gradient_scale) {
    point_to(here.front());
    std::vector<Tensor> gradients;
    for (const TrainableTensor& trainable : parameters_) {
      if (trainable.tensor.grad().defined()) gradients.push_back(trainable.tensor.grad());
    }
    seat_parameters(here, gradients.size());
    optimizer_->step(learning_rate, gradient_scale);
    unseat_parameters(gradients);
    point_to(home_);
  }

 private:
  Tensor view(const Tensor& array, size_t i) const {
    return array.narrow(0, begins_[i], static_cast<int64_t>(states_[i].nbytes()))
        .view(states_[i].scalar_type())
        .view(states_[i].sizes());
  }
  // The optimizer's own tensors are handles of the same objects.
  void point_to(const Tensor& array) {
    for (size_t i = 0; i < states_.size(); ++i) states_[i].set_data(view(array, i));
  }

  // Behind the states: parameters that have a gradient, then their gradients.
  void seat_parameters(const std::vector<Tensor>& here, size_t count) {
    size_t seat = 1;
    for (const TrainableTensor& trainable : parameters_) {
      Tensor parameter = trainable.tensor;
      if (!parameter.grad().defined()) continue;
      parameter.mutable_grad().reset();
      parameter.set_data(here[seat]);
      parameter.mutable_grad() = here[count + seat++];
    }
  }
  void unseat_parameters(const std::vector<Tensor>& gradients) {
    size_t number = 0;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Tensor parameter = parameters_[i].tensor;
      if (!parameter.grad().defined()) continue;
      parameter.mutable_grad().reset();
      parameter.set_data(parameter_homes_[i]);
      parameter.mutable_grad() = gradients[number++];
    }
  }

  std::vector<TrainableTensor> parameters_;  // that come along
  std::vector<Tensor> parameter_homes_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Tensor> states_;
  std::vector<int64_t> begins_;  // in the array, bytes
  Tensor home_;
};

class ChunkedOptimizer : public OffloadedOptimizer {
 public:
  ChunkedOptimizer(OptimizerKind kind, const std::vector<ParameterGroup>& groups,
                   const OptimizerOptions& options, Offloaded what, torch::Device device)
      : pager_(device) {
    for (const ParameterGroup& group : groups) {
      ParameterGroup chunk{{}, group.weight_decay};
      int64_t elements = 0;
      const auto close = [&] {
        if (!chunk.parameters.empty()) chunks_.emplace_back(kind, chunk, options, what, pager_);
        chunk.parameters.clear();
        elements = 0;
      };
      for (const TrainableTensor& trainable : group.parameters) {
        if (elements + trainable.tensor.numel() > kOffloadedChunkElements) close();
        chunk.parameters.push_back(trainable);
        elements += trainable.tensor.numel();
      }
      close();
    }
  }

  void step(double learning_rate, double gradient_scale) override {
    std::vector<StatePager::Visitor> visitors;
    for (const Chunk& chunk : chunks_) visitors.push_back(chunk.visitor());
    pager_.visit(visitors, [&](size_t i, const std::vector<Tensor>& here) {
      chunks_[i].step(here, learning_rate, gradient_scale);
    });
    buffer_bytes_ = pager_.buffer_bytes();
    pager_.release();
  }

  int64_t state_bytes() const override {
    int64_t bytes = 0;
    for (const Chunk& chunk : chunks_) bytes += chunk.optimizer().state_bytes();
    return bytes;
  }

  void visit_state(OptimizerStateVisitor& visitor) override {
    OneOptimizersNumbers numbers(visitor);
    for (Chunk& chunk : chunks_) {
      numbers.begin_chunk();
      chunk.optimizer().visit_state(numbers);
    }
  }

  int64_t buffer_bytes() const override { return buffer_bytes_; }

 private:
  StatePager pager_;
  std::vector<Chunk> chunks_;
  int64_t buffer_bytes_ = 0;
};

}  // namespace

std::unique_ptr<OffloadedOptimizer> make_offloaded(OptimizerKind kind,
                                                   const std::vector<ParameterGroup>& groups,
                                                   const OptimizerOptions& options, Offloaded what,
                                                   torch::Device device) {
  check(row_of(kind).can_offload(), "states that are offloaded are those of their tensors");
  return std::make_unique<ChunkedOptimizer>(kind, groups, options, what, device);
}

}  // namespace sftbench
