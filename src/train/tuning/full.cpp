#include "tuning/full.h"

namespace sftbench {
namespace {

class FullTuning : public Tuning {
 public:
  std::vector<NamedParameter> apply(CausalLm& model) const override {
    std::vector<NamedParameter> parameters = model.parameters();
    for (const NamedParameter& parameter : parameters)
      parameter.tensor->requires_grad_(!parameter.unused);
    return parameters;
  }

  Json peft_config(CausalLm& /*model*/) const override { return nullptr; }
};

}  // namespace

std::unique_ptr<Tuning> make_full_tuning(const TuningOptions&) {
  return std::make_unique<FullTuning>();
}

}  // namespace sftbench
