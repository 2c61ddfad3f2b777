// GaLore (Zhao et al. 2024, package galore-torch) as Trainer makes it: gradients of the linear
// weights of attention and MLP are projected to rank 128 with the singular vectors of the gradient
// of every 200th step, an inner optimizer steps there, and a quarter of its update is projected
// back. All other tensors get the inner optimizer itself.
// The inner step runs on a tensor of zeros in place of the parameter and leaves its update there.
#include <algorithm>
#include <cmath>
#include <utility>

#include "optim/quantized.h"
#include "optim/quantized_kinds.h"
#include "optim/state_tensors.h"
#include "optim/update_in_backward.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/adafactor.h"
#include "sftbench/ops/matmul.h"
#include "sftbench/ops/update.h"

namespace sftbench {
namespace {

using ops::RuleFactors;
using ops::UpdateRule;
using torch::Tensor;

constexpr int64_t kUpdatesPerBasis = 200;
constexpr double kScale = 0.25;

// --- inner optimizers: one step of `target`, with states of their own ----------------------------

class Inner {
 public:
  virtual ~Inner() = default;
  virtual void step(const Tensor& target, const Tensor& gradient, double learning_rate,
                    double gradient_scale) = 0;
  virtual int64_t state_bytes() const = 0;
  // `of_elements`: its targets are a parameter's elements, and not those of a projection.
  virtual void visit_state(OptimizerStateVisitor& visitor, bool of_elements) = 0;
};

void visit_tensors(OptimizerStateVisitor& visitor, const std::vector<Tensor>& states,
                   bool of_elements) {
  const std::vector<const char*>& names = state_names(UpdateRule::kAdamW);
  for (size_t k = 0; k < states.size(); ++k) {
    if (of_elements) {
      visitor.values(names[k], states[k]);
    } else {
      visitor.shaped(names[k], states[k]);
    }
  }
}

RuleFactors<double> adamw_factors(int64_t step, double learning_rate, double gradient_scale) {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.999;  // the library's; Trainer passes the rate alone
  RuleFactors<double> factors;
  factors.gradient_scale = gradient_scale;
  factors.beta1 = kBeta1;
  factors.one_minus_beta1 = 1.0 - kBeta1;
  factors.beta2 = kBeta2;
  factors.one_minus_beta2 = 1.0 - kBeta2;
  factors.step_size = learning_rate / (1.0 - std::pow(kBeta1, static_cast<double>(step)));
  factors.root_factor = 1.0 / std::sqrt(1.0 - std::pow(kBeta2, static_cast<double>(step)));
  return factors;
}

// Epsilon joins the uncorrected root, as in adamw_hf.
class AdamW : public Inner {
 public:
  explicit AdamW(const Tensor& like) : states_{state_like(like), state_like(like)} {}

  void step(const Tensor& target, const Tensor& gradient, double learning_rate,
            double gradient_scale) override {
    RuleFactors<double> factors = adamw_factors(++step_, learning_rate, gradient_scale);
    factors.epsilon = 1e-6 * factors.root_factor;
    ops::update(UpdateRule::kAdamW, {{target, gradient, states_}}, factors);
  }

  int64_t state_bytes() const override { return bytes_of(states_); }

  void visit_state(OptimizerStateVisitor& visitor, bool of_elements) override {
    visitor.number("step", step_);
    visit_tensors(visitor, states_, of_elements);
  }

 private:
  std::vector<Tensor> states_;
  int64_t step_ = 0;
};

// bitsandbytes' AdamW. galore-torch registers no exception for embeddings.
class AdamW8bit : public Inner {
 public:
  AdamW8bit(const Tensor& like, double weight_decay) : weight_decay_(weight_decay) {
    if (like.numel() >= kLeastQuantizedElements) {
      quantized_ = ops::zero_states(UpdateRule::kAdamW, ops::StateBits::k8, like);
    } else {
      wide_ = {state_like(like, torch::kFloat32), state_like(like, torch::kFloat32)};
    }
  }

  void step(const Tensor& target, const Tensor& gradient, double learning_rate,
            double gradient_scale) override {
    RuleFactors<double> factors = adamw_factors(++step_, learning_rate, gradient_scale);
    factors.epsilon = 1e-8;
    factors.decay = 1.0 - learning_rate * weight_decay_;
    if (quantized_.empty()) {
      ops::update(UpdateRule::kAdamW, {{target, gradient, wide_}}, factors);
    } else {
      ops::blockwise_update(UpdateRule::kAdamW, {{target, gradient, quantized_}}, factors);
    }
  }

  int64_t state_bytes() const override {
    int64_t bytes = bytes_of(wide_);
    for (const ops::QuantizedTensor& state : quantized_) {
      bytes += bytes_of(state.codes) + bytes_of(state.scales);
    }
    return bytes;
  }

  void visit_state(OptimizerStateVisitor& visitor, bool of_elements) override {
    visitor.number("step", step_);
    visit_tensors(visitor, wide_, of_elements);
    const std::vector<const char*>& names = state_names(UpdateRule::kAdamW);
    for (size_t k = 0; k < quantized_.size(); ++k) {
      if (of_elements) {
        visitor.quantized(names[k], quantized_[k]);
        continue;
      }
      const std::string name = names[k];
      visitor.shaped((name + ".codes").c_str(), quantized_[k].codes);
      visitor.shaped((name + ".scales").c_str(), quantized_[k].scales);
    }
  }

 private:
  double weight_decay_;
  std::vector<ops::QuantizedTensor> quantized_;
  std::vector<Tensor> wide_;
  int64_t step_ = 0;
};

class FactoredInner : public Inner {
 public:
  explicit FactoredInner(const Tensor& like) : squares_(ops::make_factored_squares(like)) {}

  void step(const Tensor& target, const Tensor& gradient, double learning_rate,
            double gradient_scale) override {
    const double beta2 = 1.0 - std::pow(static_cast<double>(++step_), -0.8);
    ops::adafactor_step(
        target, gradient, squares_,
        {.learning_rate = learning_rate, .beta2 = beta2, .gradient_scale = gradient_scale});
  }

  int64_t state_bytes() const override { return bytes_of(squares_); }

  void visit_state(OptimizerStateVisitor& visitor, bool of_elements) override {
    visitor.number("step", step_);
    visit_squares(visitor, squares_, of_elements);
  }

 private:
  ops::FactoredSquares squares_;
  int64_t step_ = 0;
};

// What the three kinds differ in.
struct GaloreKind {
  const char* name;
  std::unique_ptr<Inner> (*make_inner)(const Tensor& like, double weight_decay);
  double weight_decay = 0;      // GaLore's groups take none of the configured one
  bool float32_inside = false;  // gradients are widened before they are projected
  bool quantized = false;
};

// --- the projection ------------------------------------------------------------------------------

// The basis spans the side that is not longer: of `right`, rows [rank, columns of the weight], else
// columns [rows of the weight, rank].
class Projection {
 public:
  // REQUIRES: gradients come with `options`.
  Projection(const TrainableTensor& target, const torch::TensorOptions& options)
      : name_(target.name), right_(target.tensor.size(0) >= target.tensor.size(1)) {
    const int64_t rank = rank_of(target.tensor);
    basis_ = right_ ? torch::zeros({rank, target.tensor.size(1)}, options)
                    : torch::zeros({target.tensor.size(0), rank}, options);
  }

  Tensor project(const Tensor& gradient) {
    if (step_++ % kUpdatesPerBasis == 0) find_basis(gradient);
    return right_ ? ops::matmul(gradient, basis_.t()) : ops::matmul(basis_.t(), gradient);
  }

  Tensor project_back(const Tensor& low_rank) const {
    return right_ ? ops::matmul(low_rank, basis_) : ops::matmul(basis_, low_rank);
  }

  static std::vector<int64_t> projected_sizes(const Tensor& weight) {
    const int64_t rank = rank_of(weight);
    if (weight.size(0) >= weight.size(1)) return {weight.size(0), rank};
    return {rank, weight.size(1)};
  }

  int64_t state_bytes() const { return bytes_of(basis_); }

  void visit_state(OptimizerStateVisitor& visitor) {
    visitor.number("projected", step_);
    visitor.shaped("basis", basis_);
  }

 private:
  static int64_t rank_of(const Tensor& weight) {
    return std::min({kGaloreRank, weight.size(0), weight.size(1)});
  }

  // Singular vectors in float32, on the CPU: once in 200 steps, by LAPACK on every device.
  void find_basis(const Tensor& gradient) {
    if (!gradient.isfinite().all().item<bool>()) {
      throw RunError(
          ReasonCode::kInternal,
          "the gradient of " + name_ + " is not finite, and GaLore takes its basis from it");
    }
    const auto [u, s, vh] =
        torch::linalg_svd(gradient.to(torch::kCPU, torch::kFloat32), /*full_matrices=*/false);
    const int64_t rank = std::min(kGaloreRank, s.numel());
    const Tensor vectors = right_ ? vh.narrow(0, 0, rank) : u.narrow(1, 0, rank);
    basis_.copy_(vectors);
  }

  std::string name_;
  bool right_;
  Tensor basis_;
  int64_t step_ = 0;
};

class PlainUpdate : public ParameterUpdate {
 public:
  PlainUpdate(Tensor parameter, const GaloreKind& kind)
      : parameter_(std::move(parameter)), inner_(kind.make_inner(parameter_, kind.weight_decay)) {}

  void update(const Tensor& gradient, double learning_rate, double gradient_scale) override {
    inner_->step(parameter_, gradient, learning_rate, gradient_scale);
  }
  int64_t state_bytes() const override { return inner_->state_bytes(); }
  void visit_state(OptimizerStateVisitor& visitor) override {
    inner_->visit_state(visitor, /*of_elements=*/true);
  }

 private:
  Tensor parameter_;
  std::unique_ptr<Inner> inner_;
};

class ProjectedUpdate : public ParameterUpdate {
 public:
  ProjectedUpdate(const TrainableTensor& target, const GaloreKind& kind)
      : parameter_(target.tensor),
        kind_(kind),
        options_(torch::TensorOptions()
                     .device(parameter_.device())
                     .dtype(kind.float32_inside ? torch::kFloat32 : parameter_.scalar_type())),
        projection_(target, options_) {
    inner_ = kind.make_inner(torch::empty(Projection::projected_sizes(parameter_), options_),
                             /*weight_decay=*/0);
  }

  void update(const Tensor& gradient, double learning_rate, double gradient_scale) override {
    const Tensor low_rank = projection_.project(gradient.to(options_));
    const Tensor change = torch::zeros_like(low_rank);
    inner_->step(change, low_rank, learning_rate, gradient_scale);
    parameter_.add_(projection_.project_back(change), kScale);
    if (kind_.weight_decay != 0) parameter_.mul_(1.0 - learning_rate * kind_.weight_decay);
  }

  int64_t state_bytes() const override { return projection_.state_bytes() + inner_->state_bytes(); }

  void visit_state(OptimizerStateVisitor& visitor) override {
    projection_.visit_state(visitor);
    inner_->visit_state(visitor, /*of_elements=*/false);
  }

 private:
  Tensor parameter_;
  GaloreKind kind_;
  torch::TensorOptions options_;
  Projection projection_;
  std::unique_ptr<Inner> inner_;
};

// --- both forms ----------------------------------------------------------------------------------

class UpdateInStep : public Optimizer {
 public:
  explicit UpdateInStep(std::vector<UpdatedParameter> parameters)
      : parameters_(std::move(parameters)) {}

  void step(double learning_rate, double gradient_scale) override {
    const torch::NoGradGuard no_grad;
    for (const UpdatedParameter& updated : parameters_) {
      const Tensor& gradient = updated.parameter.tensor.grad();
      if (gradient.defined()) updated.update->update(gradient, learning_rate, gradient_scale);
    }
  }

  int64_t state_bytes() const override {
    int64_t bytes = 0;
    for (const UpdatedParameter& updated : parameters_) bytes += updated.update->state_bytes();
    return bytes;
  }

  void visit_state(OptimizerStateVisitor& visitor) override {
    for (const UpdatedParameter& updated : parameters_) {
      visitor.parameter(updated.parameter.name);
      updated.update->visit_state(visitor);
    }
  }

 private:
  std::vector<UpdatedParameter> parameters_;
};

std::vector<UpdatedParameter> updates_of(std::vector<ParameterGroup> groups,
                                         const GaloreKind& kind) {
  const torch::NoGradGuard no_grad;
  std::vector<UpdatedParameter> updates;
  int64_t targets = 0;
  for (ParameterGroup& group : groups) {
    for (TrainableTensor& trainable : group.parameters) {
      if (kind.quantized) require_quantizable(kind.name, trainable);
      std::unique_ptr<ParameterUpdate> update;
      if (is_galore_target(trained_shape(trainable))) {
        ++targets;
        update = std::make_unique<ProjectedUpdate>(trainable, kind);
      } else {
        update = std::make_unique<PlainUpdate>(trainable.tensor, kind);
      }
      updates.push_back({std::move(trainable), std::move(update)});
    }
  }
  if (targets > 0) return updates;
  throw RunError(ReasonCode::kUnsupported,
                 std::string("optim ") + kind.name +
                     ": it projects the gradients of the linear weights of attention and MLP, and "
                     "none of these is trained; adamw_torch works");
}

const GaloreKind kAdamW = {"galore_adamw",
                           [](const Tensor& like, double) -> std::unique_ptr<Inner> {
                             return std::make_unique<AdamW>(like);
                           }};

const GaloreKind kAdamW8bit = {
    "galore_adamw_8bit",
    [](const Tensor& like, double weight_decay) -> std::unique_ptr<Inner> {
      return std::make_unique<AdamW8bit>(like, weight_decay);
    },
    /*weight_decay=*/0.01, /*float32_inside=*/false, /*quantized=*/true};

const GaloreKind kAdafactor = {"galore_adafactor",
                               [](const Tensor& like, double) -> std::unique_ptr<Inner> {
                                 return std::make_unique<FactoredInner>(like);
                               },
                               /*weight_decay=*/0, /*float32_inside=*/true};

std::unique_ptr<Optimizer> in_step(std::vector<ParameterGroup> groups, const GaloreKind& kind) {
  return std::make_unique<UpdateInStep>(updates_of(std::move(groups), kind));
}

std::unique_ptr<Optimizer> layerwise(std::vector<ParameterGroup> groups, const GaloreKind& kind) {
  return update_in_backward(updates_of(std::move(groups), kind));
}

}  // namespace

std::unique_ptr<Optimizer> make_galore_adamw(std::vector<ParameterGroup> groups,
                                             const OptimizerOptions&) {
  return in_step(std::move(groups), kAdamW);
}
std::unique_ptr<Optimizer> make_galore_adamw_8bit(std::vector<ParameterGroup> groups,
                                                  const OptimizerOptions&) {
  return in_step(std::move(groups), kAdamW8bit);
}
std::unique_ptr<Optimizer> make_galore_adafactor(std::vector<ParameterGroup> groups,
                                                 const OptimizerOptions&) {
  return in_step(std::move(groups), kAdafactor);
}
std::unique_ptr<Optimizer> make_galore_adamw_layerwise(std::vector<ParameterGroup> groups,
                                                       const OptimizerOptions&) {
  return layerwise(std::move(groups), kAdamW);
}
std::unique_ptr<Optimizer> make_galore_adamw_8bit_layerwise(std::vector<ParameterGroup> groups,
                                                            const OptimizerOptions&) {
  return layerwise(std::move(groups), kAdamW8bit);
}
std::unique_ptr<Optimizer> make_galore_adafactor_layerwise(std::vector<ParameterGroup> groups,
                                                           const OptimizerOptions&) {
  return layerwise(std::move(groups), kAdafactor);
}

}  // namespace sftbench
