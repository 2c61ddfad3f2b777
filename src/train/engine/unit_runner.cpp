#include "engine/unit_runner.h"

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

// Of "model.layers.12.mlp.up_proj.weight", where `layers` is "model.layers.": 12.
std::optional<int64_t> layer_number(const std::string& name, std::string_view layers) {
  const size_t at = name.find(layers);
  if (at == std::string::npos) return {};
  int64_t layer = 0;
  const char* first = name.data() + at + layers.size();
  const auto parsed = std::from_chars(first, name.data() + name.size(), layer);
  check(parsed.ec == std::errc(), "layers are numbered");
  return layer;
}

// Tells a timeline what the computing thread does: one thing after the other, each until the next.
class Watch {
 public:
  explicit Watch(Timeline* timeline) : timeline_(timeline) {}

  void now(std::string name) {
    if (timeline_ == nullptr) return;
    const double now_s = steady_seconds();
    if (!name_.empty()) timeline_->add("compute", name_, begin_s_, now_s);
    name_ = std::move(name);
    begin_s_ = now_s;
  }

 private:
  Timeline* timeline_;
  std::string name_;
  double begin_s_ = 0;
};

class UnitRunner : public ActivationPolicy {
 public:
  UnitRunner(std::unique_ptr<ActivationPolicy> activations, bool recomputes,
             ParallelParameters& parameters, Timeline* timeline)
      : activations_(std::move(activations)),
        recomputes_(recomputes),
        parameters_(parameters),
        watch_(timeline) {}

  torch::Tensor run(int64_t layer_index, const Layer& layer, const torch::Tensor& hidden) override {
    const Layer gathered = [this, layer_index, layer](const torch::Tensor& x) {
      return run_gathered(layer_index, layer, x);
    };
    return activations_->run(layer_index, gathered, hidden);
  }

  void backward(const torch::Tensor& loss) override {
    watch_.now("backward root");
    backward_ = true;
    parameters_.begin_backward();
    activations_->backward(loss);
    watch_.now("wait for reductions");
    parameters_.end_backward();
    backward_ = false;
    watch_.now("");
  }

 private:
  torch::Tensor run_gathered(int64_t layer_index, const Layer& layer, const torch::Tensor& x) {
    const std::string number = std::to_string(layer_index);
    watch_.now("wait for layer " + number);
    parameters_.before_forward(layer_index);
    watch_.now((backward_ ? "recompute layer " : "forward layer ") + number);
    torch::Tensor output = layer(x);
    if (output.requires_grad()) {
      output.register_hook([this, layer_index](const torch::Tensor& gradient) {
        before_backward(layer_index);
        return gradient;
      });
    }
    watch_.now("loss");
    parameters_.expect_backward(layer_index, recomputes_ || output.requires_grad());
    parameters_.after_forward(layer_index);
    return output;
  }

  void before_backward(int64_t layer_index) {
    const std::string number = std::to_string(layer_index);
    watch_.now("wait for layer " + number);
    parameters_.before_backward(layer_index);
    watch_.now("backward layer " + number);
  }

  std::unique_ptr<ActivationPolicy> activations_;
  bool recomputes_;
  ParallelParameters& parameters_;
  Watch watch_;
  bool backward_ = false;
};

}  // namespace

std::vector<ParameterUnit> parameter_units(CausalLm& model) {
  const ModelNames& names = model.names();
  const std::string norm = std::string(names.final_norm) + ".";
  const std::string output = std::string(names.output) + ".";
  std::vector<ParameterUnit> units(static_cast<size_t>(model.layer_count()) + 1);
  units.front().name = "root";
  for (int64_t layer = 0; layer < model.layer_count(); ++layer) {
    units[static_cast<size_t>(layer) + 1].name = names.layer_prefix + std::to_string(layer);
  }
  for (const NamedParameter& parameter : model.parameters()) {
    const int64_t unit = layer_number(parameter.name, names.layer_prefix).value_or(-1) + 1;
    const bool behind = parameter.name.starts_with(norm) || parameter.name.starts_with(output);
    units[static_cast<size_t>(unit)].tensors.push_back(
        {parameter.name, parameter.tensor, behind, parameter.packed || parameter.keeps_dtype});
  }
  return units;
}

std::unique_ptr<ActivationPolicy> run_units(std::unique_ptr<ActivationPolicy> activations,
                                            bool recomputes, ParallelParameters& parameters,
                                            Timeline* timeline) {
  return std::make_unique<UnitRunner>(std::move(activations), recomputes, parameters, timeline);
}

}  // namespace sftbench
