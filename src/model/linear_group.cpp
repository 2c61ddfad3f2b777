#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/model/linear.h"

namespace sftbench {

void Linear::multiply_in_fp8(const std::string& name) {
  throw RunError(ReasonCode::kUnsupported,
                 name + " is of a kind that has no float8 product; mixed precision bf16 works");
}

LinearGroup::LinearGroup(std::vector<std::string> names,
                         std::vector<std::unique_ptr<Linear>> linears)
    : names_(std::move(names)), linears_(std::move(linears)) {}

std::vector<torch::Tensor> LinearGroup::forward(const torch::Tensor& x) const {
  std::vector<torch::Tensor> outputs;
  for (const auto& linear : linears_) outputs.push_back(linear->forward(x));
  return adapter_ ? adapter_->add_to(std::move(outputs), x) : outputs;
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
