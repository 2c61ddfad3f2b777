#include "engine/activation_checkpoint.h"

#include <utility>
#include <vector>

#include "engine/host_inputs.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/recomputation.h"

namespace sftbench {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The same values as a leaf that collects its gradient: where one piece of graph ends and the next
// begins.
torch::Tensor leaf_of(const torch::Tensor& hidden) {
  return hidden.detach().set_requires_grad(true);
}

// What a layer is recomputed from. Below the first trained tensor (a frozen embedding under LoRA)
// nothing asks for a gradient, and none is computed.
torch::Tensor input_of(const torch::Tensor& hidden, bool needs_gradient) {
  return needs_gradient ? leaf_of(hidden) : hidden.detach();
}

// The layer's graph; what stands in its output is not its output (recomputation.h).
torch::Tensor recompute(const LayerRunner::Layer& layer, const torch::Tensor& input) {
  const ops::Recomputation without_last_product;
  return layer(input);
}

struct GradientCapsule : torch::CustomClassHolder {
  explicit GradientCapsule(torch::Tensor to_hand_over) : gradient(std::move(to_hand_over)) {}
  torch::Tensor gradient;
};

// A root above a graph, whose backward pass gives the graph its gradient.
class Handover : public torch::autograd::Function<Handover> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& output,
                               const c10::intrusive_ptr<GradientCapsule>& capsule) {
    context->saved_data["capsule"] = c10::IValue::make_capsule(capsule);
    return torch::empty({0}, output.options());
  }

  static variable_list backward(AutogradContext* context, const variable_list&) {
    const auto capsule = context->saved_data["capsule"].toCapsule();
    return {std::move(static_cast<GradientCapsule&>(*capsule).gradient), torch::Tensor()};
  }
};

// As torch::autograd::backward(), which would hold both tensors until it ends: two of the residual
// stream's size beside whatever the layer holds at its peak. Nobody looks at the output, and a
// gradient that nobody holds is added to in place.
void send_back(torch::Tensor output, torch::Tensor gradient) {
  const torch::Tensor root =
      Handover::apply(output, c10::make_intrusive<GradientCapsule>(std::move(gradient)));
  output.reset();
  torch::autograd::backward({root}, {torch::empty_like(root)});
}

class KeepActivations : public ActivationPolicy {
 public:
  void backward(const torch::Tensor& loss) override { loss.backward(); }
};

// --- reentrant -----------------------------------------------------------------------------------

struct LayerCapsule : torch::CustomClassHolder {
  explicit LayerCapsule(LayerRunner::Layer run_layer) : run(std::move(run_layer)) {}
  LayerRunner::Layer run;
};

class CheckpointFunction : public torch::autograd::Function<CheckpointFunction> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& hidden,
                               const c10::intrusive_ptr<LayerCapsule>& layer, bool needs_gradient) {
    context->save_for_backward({hidden});
    context->saved_data["needs_gradient"] = needs_gradient;
    context->saved_data["layer"] = c10::IValue::make_capsule(layer);
    return layer->run(hidden);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const torch::Tensor input =
        input_of(context->get_saved_variables()[0], context->saved_data["needs_gradient"].toBool());
    const auto capsule = context->saved_data["layer"].toCapsule();
    const torch::AutoGradMode recording(true);
    torch::Tensor output = recompute(static_cast<LayerCapsule&>(*capsule).run, input);
    if (output.requires_grad()) send_back(std::move(output), output_gradients[0]);
    return {input.grad(), torch::Tensor(), torch::Tensor()};
  }
};

class ReentrantCheckpoint : public ActivationPolicy {
 public:
  explicit ReentrantCheckpoint(int64_t layer_count) : last_layer_(layer_count - 1) {}

  torch::Tensor run(int64_t layer_index, const Layer& layer, const torch::Tensor& hidden) override {
    if (layer_index == last_layer_) return layer(hidden);
    // Without this, frozen embeddings would hide the trained layers behind them from autograd.
    const torch::Tensor input = hidden.requires_grad() ? hidden : leaf_of(hidden);
    return CheckpointFunction::apply(input, c10::make_intrusive<LayerCapsule>(layer),
                                     hidden.requires_grad());
  }

  void backward(const torch::Tensor& loss) override { loss.backward(); }

 private:
  int64_t last_layer_;
};

// --- segments ------------------------------------------------------------------------------------

class SegmentCheckpoint : public ActivationPolicy {
 public:
  SegmentCheckpoint(int64_t layer_count, std::unique_ptr<HostInputs> inputs)
      : last_layer_(layer_count - 1), host_inputs_(std::move(inputs)) {}

  torch::Tensor run(int64_t layer_index, const Layer& layer, const torch::Tensor& hidden) override {
    if (layer_index == 0) {
      segments_.clear();
      if (host_inputs_) host_inputs_->clear();
      embedded_ = hidden;
    }
    const torch::Tensor input = input_of(hidden, layer_index > 0 || hidden.requires_grad());
    const bool leaves = host_inputs_ && layer_index > 0 && layer_index < last_layer_;
    if (leaves) host_inputs_->put(hidden);
    segments_.push_back({layer, leaves ? torch::Tensor() : input});
    if (layer_index == last_layer_) return layer(input);
    const torch::NoGradGuard not_recording;
    return layer(input);
  }

  void backward(const torch::Tensor& loss) override {
    check(!segments_.empty(), "a backward pass follows the forward pass through its runner");
    if (host_inputs_) host_inputs_->begin_backward();
    loss.backward();
    torch::Tensor gradient = take_input_gradient();
    while (!segments_.empty()) {
      torch::Tensor& input = segments_.back().input;
      if (!input.defined()) input = leaf_of(host_inputs_->take());
      torch::Tensor output = recompute(segments_.back().layer, input);
      if (output.requires_grad()) send_back(std::move(output), std::move(gradient));
      gradient = take_input_gradient();
    }
    if (embedded_.requires_grad()) torch::autograd::backward({embedded_}, {gradient});
    embedded_.reset();
  }

 private:
  struct Segment {
    Layer layer;
    torch::Tensor input;  // undefined: it is on the host
  };

  torch::Tensor take_input_gradient() {
    // The loss still has the last layer's graph, and with it this input: the gradient must not stay
    // there.
    torch::Tensor gradient = std::move(segments_.back().input.mutable_grad());
    segments_.pop_back();
    return gradient;
  }

  int64_t last_layer_;
  std::unique_ptr<HostInputs> host_inputs_;  // null: all stay
  std::vector<Segment> segments_;
  torch::Tensor embedded_;
};

}  // namespace

std::unique_ptr<ActivationPolicy> keep_activations() {
  return std::make_unique<KeepActivations>();
}

std::unique_ptr<ActivationPolicy> checkpoint_reentrant(int64_t layer_count) {
  return std::make_unique<ReentrantCheckpoint>(layer_count);
}

std::unique_ptr<ActivationPolicy> checkpoint_segments(int64_t layer_count) {
  return std::make_unique<SegmentCheckpoint>(layer_count, nullptr);
}

std::unique_ptr<ActivationPolicy> checkpoint_on_host(int64_t layer_count, torch::Device device) {
  return std::make_unique<SegmentCheckpoint>(layer_count, std::make_unique<HostInputs>(device));
}

}  // namespace sftbench
