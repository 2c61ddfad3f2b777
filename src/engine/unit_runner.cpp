#include "engine/unit_runner.h"

#include <torch/torch.h>

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

constexpr std::string_view kLayers = "model.layers.";

// Of "model.layers.12.mlp.up_proj.weight": 12.
std::optional<int64_t> layer_number(const std::string& name) {
  const size_t at = name.find(kLayers);
  if (at == std::string::npos) return {};
  int64_t layer = 0;
  const char* first = name.data() + at + kLayers.size();
  const auto parsed = std::from_chars(first, name.data() + name.size(), layer);
  check(parsed.ec == std::errc(), "layers are numbered");
  return layer;
}

class UnitRunner : public ActivationPolicy {
 public:
  UnitRunner(std::unique_ptr<ActivationPolicy> activations, bool recomputes,
             ParallelParameters& parameters)
      : activations_(std::move(activations)), recomputes_(recomputes), parameters_(parameters) {}

  torch::Tensor run(int64_t layer_index, const Layer& layer, const torch::Tensor& hidden) override {
    const Layer gathered = [this, layer_index, layer](const torch::Tensor& x) {
      return run_gathered(layer_index, layer, x);
    };
    return activations_->run(layer_index, gathered, hidden);
  }

  void backward(const torch::Tensor& loss) override {
    parameters_.begin_backward();
    activations_->backward(loss);
    parameters_.end_backward();
  }

 private:
  torch::Tensor run_gathered(int64_t layer_index, const Layer& layer, const torch::Tensor& x) {
    parameters_.before_forward(layer_index);
    torch::Tensor output = layer(x);
    if (output.requires_grad()) {
      output.register_hook([this, layer_index](const torch::Tensor& gradient) {
        parameters_.before_backward(layer_index);
        return gradient;
      });
    }
    parameters_.expect_backward(layer_index, recomputes_ || output.requires_grad());
    parameters_.after_forward(layer_index);
    return output;
  }

  std::unique_ptr<ActivationPolicy> activations_;
  bool recomputes_;
  ParallelParameters& parameters_;
};

}  // namespace

std::vector<ParameterUnit> parameter_units(CausalLm& model) {
  std::vector<ParameterUnit> units(static_cast<size_t>(model.layer_count()) + 1);
  units.front().name = "root";
  for (int64_t layer = 0; layer < model.layer_count(); ++layer) {
    units[static_cast<size_t>(layer) + 1].name = std::string(kLayers) + std::to_string(layer);
  }
  for (const NamedParameter& parameter : model.parameters()) {
    const int64_t unit = layer_number(parameter.name).value_or(-1) + 1;
    const bool behind =
        parameter.name.rfind("model.norm.", 0) == 0 || parameter.name.rfind("lm_head.", 0) == 0;
    units[static_cast<size_t>(unit)].tensors.push_back({parameter.name, parameter.tensor, behind});
  }
  return units;
}

std::unique_ptr<ActivationPolicy> run_units(std::unique_ptr<ActivationPolicy> activations,
                                            bool recomputes, ParallelParameters& parameters) {
  return std::make_unique<UnitRunner>(std::move(activations), recomputes, parameters);
}

}  // namespace sftbench
