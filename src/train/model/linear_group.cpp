#include <algorithm>

#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/model/linear.h"

namespace sftbench {

void Linear::multiply_in_fp8(const std::string& name) {
  throw RunError(ReasonCode::kUnsupported,
                 name + " is of a kind that has no float8 product; mixed precision bf16 works");
}

std::vector<torch::Tensor> Adapter::forward(const LinearGroup& group, const torch::Tensor& x) {
  return group.adapted(x);
}

namespace {

bool is_frozen(const ops::LinearOperands& linear) {
  const auto& [weight, bias] = linear;
  return !weight.requires_grad() && !(bias.defined() && bias.requires_grad());
}

}  // namespace

LinearGroup::LinearGroup(std::vector<std::string> names,
                         std::vector<std::unique_ptr<Linear>> linears)
    : names_(std::move(names)), linears_(std::move(linears)) {}

std::vector<torch::Tensor> LinearGroup::forward(const torch::Tensor& x) const {
  return adapter_ ? adapter_->forward(*this, x) : outputs(x, nullptr);
}

std::vector<torch::Tensor> LinearGroup::outputs(const torch::Tensor& x, Adapter* adapter) const {
  const bool products =
      (adapter != nullptr || linears_.size() > 1) &&
      std::all_of(linears_.begin(), linears_.end(), [](const auto& l) { return l->is_product(); });
  std::vector<torch::Tensor> outputs;
  if (products) {
    std::vector<ops::LinearOperands> operands;
    for (const auto& linear : linears_) operands.push_back(linear->operands());
    const torch::Tensor input = x.to(operands[0].weight.scalar_type());
    const bool frozen = std::all_of(operands.begin(), operands.end(), is_frozen);
    if (adapter != nullptr && frozen) outputs = adapter->with_frozen(operands, input);
    if (!outputs.empty()) return outputs;
    if (frozen || !apart_) outputs = ops::linears(input, operands);
  }
  if (outputs.empty()) {
    for (const auto& linear : linears_) outputs.push_back(linear->forward(x));
  }
  return adapter != nullptr ? adapter->add_to(std::move(outputs), x) : outputs;
}

std::vector<NamedLinear> LinearGroup::named_linears(const std::string& prefix) {
  std::vector<NamedLinear> linears;
  for (size_t i = 0; i < linears_.size(); ++i)
    linears.push_back({prefix + "." + names_[i], &linears_[i]});
  return linears;
}

void LinearGroup::append_parameters(const std::string& prefix,
                                    std::vector<NamedParameter>& parameters) {
  for (const NamedLinear& linear : named_linears(prefix))
    (*linear.slot)->append_parameters(linear.name, parameters);
  if (adapter_) adapter_->append_parameters(parameters);
}

}  // namespace sftbench
