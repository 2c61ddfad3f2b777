#include "model/router_balance.h"

#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Hands logits on, and adds the balance's gradient to theirs.
class WatchFunction : public torch::autograd::Function<WatchFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& logits, const Tensor& choices,
                        int64_t layer, int64_t balance_address) {
    auto* balance = reinterpret_cast<RouterBalance*>(balance_address);
    const Tensor probabilities = torch::softmax(logits, -1);
    balance->note(layer, probabilities.to(torch::kFloat32), choices);
    context->save_for_backward({probabilities});
    context->saved_data["balance"] = balance_address;
    return logits.clone();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto* balance = reinterpret_cast<RouterBalance*>(context->saved_data["balance"].toInt());
    const Tensor probabilities = context->get_saved_variables()[0].to(torch::kFloat32);
    const Tensor wanted = balance->probability_gradient().unsqueeze(0);
    Tensor extra = probabilities * (wanted - (probabilities * wanted).sum(-1, /*keepdim=*/true));
    const Tensor mask = balance->rows_mask(probabilities);
    if (mask.defined()) extra = extra * mask.unsqueeze(1);
    return {gradients[0] + extra.to(gradients[0].scalar_type()), {}, {}, {}};
  }
};

// The loss's place in the graph: learns what its gradient is before any layer's backward pass runs,
// since autograd begins with what was recorded last.
class BalanceFunction : public torch::autograd::Function<BalanceFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& /*anchor*/, const Tensor& loss,
                        int64_t balance_address) {
    context->saved_data["balance"] = balance_address;
    return loss.clone();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto* balance = reinterpret_cast<RouterBalance*>(context->saved_data["balance"].toInt());
    balance->upstream_ = gradients[0].to(torch::kFloat32);
    return {{}, {}, {}};
  }
};

RouterBalance::RouterBalance(int64_t layers, int64_t experts, double coefficient)
    : layers_(static_cast<size_t>(layers)), experts_(experts), coefficient_(coefficient) {}

void RouterBalance::begin(const Tensor& mask, const ContextPart* part) {
  mask_ = mask;
  part_ = part;
  upstream_ = Tensor();
  for (Layer& layer : layers_) layer = Layer();
}

Tensor RouterBalance::watch(int64_t layer, const Tensor& logits, const Tensor& choices) {
  return WatchFunction::apply(logits, choices, layer, reinterpret_cast<int64_t>(this));
}

Tensor RouterBalance::rows_mask(const Tensor& logits) const {
  return mask_.defined() ? mask_.flatten().to(logits.device(), torch::kFloat32) : Tensor();
}

// A layer that is recomputed notes the same sums again.
void RouterBalance::note(int64_t layer, const Tensor& probabilities, const Tensor& choices) {
  const Tensor mask = rows_mask(probabilities);
  const Tensor weights = mask.defined() ? mask.unsqueeze(1).expand({-1, choices.size(1)}).flatten()
                                        : torch::ones({choices.numel()}, probabilities.options());
  Layer& noted = layers_[static_cast<size_t>(layer)];
  noted.chosen = torch::zeros({experts_}, probabilities.options())
                     .index_add_(0, choices.flatten(), weights.contiguous());
  noted.probabilities = mask.defined() ? mask.matmul(probabilities) : probabilities.sum(0);
  noted.rows = mask.defined() ? mask.sum().item<double>() : static_cast<double>(choices.size(0));
}

RouterBalance::Sums RouterBalance::sums() const {
  Sums sums;
  for (const Layer& layer : layers_) {
    if (!layer.chosen.defined()) continue;  // it has no experts
    sums.chosen = sums.chosen.defined() ? sums.chosen + layer.chosen : layer.chosen;
    sums.probabilities = sums.probabilities.defined() ? sums.probabilities + layer.probabilities
                                                      : layer.probabilities;
    sums.rows += layer.rows;
  }
  if (part_ == nullptr) return sums;
  const Tensor all = torch::cat({sums.chosen, sums.probabilities,
                                 torch::full({1}, sums.rows, sums.chosen.options())})
                         .to(torch::kFloat64);
  part_->group->all_reduce(all);
  const auto of = [&](int64_t begin, int64_t end) {
    return all.slice(0, begin, end).to(sums.chosen.scalar_type());
  };
  return {of(0, experts_), of(experts_, 2 * experts_), all[2 * experts_].item<double>()};
}

Tensor RouterBalance::loss(const Tensor& anchor) {
  pass_ = sums();
  const double factor = coefficient_ * static_cast<double>(experts_) / (pass_.rows * pass_.rows);
  const Tensor value = (pass_.chosen * pass_.probabilities).sum() * factor;
  const double sharers = part_ == nullptr ? 1 : static_cast<double>(part_->layout.ranks());
  return BalanceFunction::apply(anchor, value / sharers, reinterpret_cast<int64_t>(this));
}

// Of the whole loss: a rank's share of it says nothing of the other ranks' rows.
Tensor RouterBalance::probability_gradient() const {
  check(upstream_.defined(), "the auxiliary loss goes backward before the layers do");
  return pass_.chosen * upstream_ *
         (coefficient_ * static_cast<double>(experts_) / (pass_.rows * pass_.rows));
}

}  // namespace sftbench
