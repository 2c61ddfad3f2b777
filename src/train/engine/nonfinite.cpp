#include "engine/nonfinite.h"

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "sftbench/base/quantity_text.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

bool is_finite(const torch::Tensor& values) {
  return torch::isfinite(values).all().item<bool>();
}

// What the forward pass is seen to compute, until the first value that is not finite.
class Watch {
 public:
  // `where`: what made `values`; its parameters' names begin with `parameters`.
  void see(const torch::Tensor& values, const std::string& where, const std::string& parameters) {
    if (found_ || is_finite(values)) return;
    found_ = Found{where, parameters};
  }

  struct Found {
    std::string where, parameters;
  };
  const std::optional<Found>& found() const { return found_; }

 private:
  std::optional<Found> found_;
};

// "model.layers.3.mlp.down_proj" -> "model.layers.3"; of a linear outside of the layers, its
// module.
std::string layer_of(const std::string& name, const ModelNames& names) {
  if (!name.starts_with(names.layer_prefix)) return name.substr(0, name.rfind('.'));
  return name.substr(0, name.find('.', std::string(names.layer_prefix).size()));
}

// What comes before the linears of a layer, by the name of the linear that reads it; the first row
// whose name the linear's begins with. "input_layernorm" and "post_attention_layernorm" stand for
// the norms before attention and MLP, whatever the family calls them.
struct Reader {
  const char* linear;
  std::string_view source;
};
constexpr std::string_view kBeforeAttention = "input_layernorm";
constexpr std::string_view kBeforeMlp = "post_attention_layernorm";
constexpr Reader kReaders[] = {
    {"self_attn.o_proj", "self_attn"},
    {"self_attn.", kBeforeAttention},
    {"attention.dense", "attention"},
    {"attention.", kBeforeAttention},
    {"mlp.down_proj", "mlp.act_fn"},
    {"mamba.out_proj", "mamba.norm"},
    {"mamba.", kBeforeAttention},
    {"shared_mlp.output_linear", "shared_mlp.activation"},
    {"shared_mlp.", kBeforeMlp},
    {"mlp.c_proj", "mlp.act"},
    {"mlp.dense_4h_to_h", "mlp.gelu_impl"},
    {"mlp.", kBeforeMlp},
    {"attn.c_proj", "attn"},
    {"attn.", kBeforeAttention},
    {"self_attention.dense", "self_attention"},
    {"self_attention.", kBeforeAttention},
};

// Where no norm stands before it, the layer.
std::string source_of_input(const std::string& linear, const std::string& layer,
                            const ModelConfig& config) {
  const LayerNormNames norms = norms_of(config);
  const bool one_norm = config.layer_form == LayerForm::kParallel;
  const std::string_view leaf = std::string_view(linear).substr(layer.size() + 1);
  for (const Reader& reader : kReaders) {
    if (!leaf.starts_with(reader.linear)) continue;
    const bool before_mlp = reader.source == kBeforeMlp && !one_norm;
    if (reader.source != kBeforeAttention && reader.source != kBeforeMlp)
      return layer + "." + std::string(reader.source);
    const char* norm = before_mlp ? norms.before_mlp : norms.before_attention;
    return norm == nullptr ? layer : layer + "." + norm;
  }
  return layer;
}

class WatchedLinear : public Linear {
 public:
  WatchedLinear(std::string name, std::string source, std::unique_ptr<Linear> linear, Watch& watch)
      : name_(std::move(name)),
        source_(std::move(source)),
        linear_(std::move(linear)),
        watch_(watch) {}

  torch::Tensor forward(const torch::Tensor& x) override {
    watch_.see(x, source_, source_ + ".");
    torch::Tensor y = linear_->forward(x);
    watch_.see(y, name_, name_ + ".");
    return y;
  }

  torch::Tensor dense_rows(int64_t first, int64_t count) const override {
    return linear_->dense_rows(first, count);
  }
  torch::Tensor bias() const override { return linear_->bias(); }
  int64_t in_features() const override { return linear_->in_features(); }
  int64_t out_features() const override { return linear_->out_features(); }
  void append_parameters(const std::string& name,
                         std::vector<NamedParameter>& parameters) override {
    linear_->append_parameters(name, parameters);
  }
  void set_compute_dtype(torch::Dtype dtype) override { linear_->set_compute_dtype(dtype); }

  std::unique_ptr<Linear> release() { return std::move(linear_); }

 private:
  std::string name_, source_;  // its own, and that of what it reads
  std::unique_ptr<Linear> linear_;
  Watch& watch_;
};

class WatchedAdapter : public Adapter {
 public:
  WatchedAdapter(const std::vector<NamedLinear>& linears, std::unique_ptr<Adapter> adapter,
                 Watch& watch)
      : adapter_(std::move(adapter)), watch_(watch) {
    for (const NamedLinear& linear : linears) names_.push_back(linear.name);
  }

  std::vector<torch::Tensor> add_to(std::vector<torch::Tensor> outputs,
                                    const torch::Tensor& x) override {
    outputs = adapter_->add_to(std::move(outputs), x);
    see(outputs);
    return outputs;
  }

  std::vector<torch::Tensor> forward(const LinearGroup& group, const torch::Tensor& x) override {
    std::vector<torch::Tensor> outputs = adapter_->forward(group, x);
    see(outputs);
    return outputs;
  }

  void append_parameters(std::vector<NamedParameter>& parameters) override {
    adapter_->append_parameters(parameters);
  }

  std::unique_ptr<Adapter> release() { return std::move(adapter_); }

 private:
  void see(const std::vector<torch::Tensor>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      watch_.see(outputs[i], "the adapter of " + names_[i], names_[i] + ".lora_");
    }
  }

  std::vector<std::string> names_;
  std::unique_ptr<Adapter> adapter_;
  Watch& watch_;
};

// Puts watchers into the model's slots, and takes them out again.
class WatchedModel {
 public:
  WatchedModel(CausalLm& model, Watch& watch) : groups_(model.linear_groups()) {
    for (NamedLinearGroup& group : groups_) {
      for (NamedLinear& linear : group.linears) {
        const std::string layer = layer_of(linear.name, model.names());
        *linear.slot = std::make_unique<WatchedLinear>(
            linear.name, source_of_input(linear.name, layer, model.config()),
            std::move(*linear.slot), watch);
      }
      if (std::unique_ptr<Adapter> adapter = group.group->take_adapter()) {
        group.group->set_adapter(
            std::make_unique<WatchedAdapter>(group.linears, std::move(adapter), watch));
      }
    }
  }

  ~WatchedModel() {
    for (NamedLinearGroup& group : groups_) {
      for (NamedLinear& linear : group.linears) {
        *linear.slot = static_cast<WatchedLinear&>(**linear.slot).release();
      }
      if (std::unique_ptr<Adapter> adapter = group.group->take_adapter()) {
        group.group->set_adapter(static_cast<WatchedAdapter&>(*adapter).release());
      }
    }
  }

  WatchedModel(const WatchedModel&) = delete;
  WatchedModel& operator=(const WatchedModel&) = delete;

 private:
  std::vector<NamedLinearGroup> groups_;
};

std::string dotted(const std::string& name) {
  return name + ".";
}

class WatchedLayers : public LayerRunner {
 public:
  WatchedLayers(Watch& watch, const ModelNames& names) : watch_(watch), names_(names) {}

  torch::Tensor run(int64_t layer_index, const Layer& layer, const torch::Tensor& hidden) override {
    if (layer_index == 0) watch_.see(hidden, names_.embedding, dotted(names_.embedding));
    torch::Tensor result = layer(hidden);
    // Its linears are finite, so the sum of the residual stream is not.
    const std::string name = names_.layer_prefix + std::to_string(layer_index);
    watch_.see(result, name, name + ".");
    return result;
  }

 private:
  Watch& watch_;
  const ModelNames& names_;
};

// "model.norm.weight holds 3 values that are not finite", of the first such parameter.
std::string blame_parameter(CausalLm& model, const std::string& prefix) {
  const std::string embedding = dotted(model.names().embedding);
  const bool tied_head = prefix == dotted(model.names().output) && model.is_tied();
  const std::string names = tied_head ? embedding : prefix;
  for (const NamedParameter& parameter : model.parameters()) {
    const bool asked = parameter.name.rfind(names, 0) == 0 ||
                       (names == embedding && parameter.name == "prompt_embeddings");
    if (!asked || is_finite(*parameter.tensor)) continue;
    const int64_t bad =
        parameter.tensor->numel() - torch::isfinite(*parameter.tensor).sum().item<int64_t>();
    return parameter.name + " holds " +
           counted(bad, "value that is not finite", "values that are not finite");
  }
  return {};
}

NonFiniteOrigin origin_of(CausalLm& model, const Watch::Found& found) {
  std::string blamed = blame_parameter(model, found.parameters);
  const bool of_parameter = !blamed.empty();
  if (of_parameter) return {found.where, std::move(blamed), true};
  // A norm's result is bounded: what it read, the residual stream behind the attention, is not.
  const bool is_sum =
      found.where.ends_with(".post_attention_layernorm") || found.where.ends_with(".ln_2");
  return {is_sum ? layer_of(found.where, model.names()) : found.where,
          "no parameter is to blame, the result is beyond the range of its dtype", false};
}

// Without the sign that some NaNs have.
std::string text_of(double value) {
  return std::isnan(value) ? "nan" : std::to_string(value);
}

std::string rank_of(const TrainingRun& run) {
  return " on rank " + std::to_string(run.mesh->world().rank());
}

RunError nonfinite_shard(const TrainingRun& run, const std::string& what, double own_loss,
                         int64_t step) {
  for (const OwnedTensor& owned : run.parameters->owned()) {
    if (is_finite(owned.tensor)) continue;
    return {step == 1 ? ReasonCode::kWeights : ReasonCode::kInternal,
            what + "; this shard of " + owned.name + " is not finite" + rank_of(run), owned.name};
  }
  const char* own = std::isfinite(own_loss) ? "; its own part is finite" : "; its own part is not";
  return {ReasonCode::kInternal, what + own + rank_of(run)};
}

}  // namespace

NonFiniteOrigin find_nonfinite(CausalLm& model, const TokenRows& rows, const torch::Tensor& labels,
                               double denominator) {
  const torch::NoGradGuard no_grad;
  Watch watch;
  const WatchedModel watched(model, watch);
  const ModelNames& names = model.names();
  WatchedLayers layers(watch, names);
  watch.see(model.hidden_states(rows, layers), names.final_norm, dotted(names.final_norm));
  if (!watch.found()) {
    watch.see(model.loss(rows, labels, denominator, layers), names.output, dotted(names.output));
  }
  return watch.found() ? origin_of(model, *watch.found()) : NonFiniteOrigin{};
}

RunError nonfinite_loss(TrainingRun& run, const StepBatches& batches, double loss, double own_loss,
                        int64_t step) {
  const std::string what = "the loss of step " + std::to_string(step) + " is " + text_of(loss);
  if (!run.parameters->whole_in_step()) return nonfinite_shard(run, what, own_loss, step);
  const auto denominator = static_cast<double>(loss_positions(batches));
  for (const DeviceBatch& batch : batches.micro_batches) {
    const NonFiniteOrigin origin =
        find_nonfinite(*run.model, run.batches->rows(batch), batch.labels, denominator);
    if (origin.where.empty()) continue;
    const bool came_so = origin.of_parameter && step == 1;
    return {
        came_so ? ReasonCode::kWeights : ReasonCode::kInternal,
        what + rank_of(run) + "; the first module whose result is not finite is " + origin.where,
        origin.where + ": " + origin.why};
  }
  return {ReasonCode::kInternal, what + "; every module's results are finite" + rank_of(run)};
}

RunError nonfinite_gradient(const TrainingRun& run, double norm, int64_t step) {
  std::string first;
  int64_t affected = 0, with_gradient = 0;
  const std::vector<OwnedTensor>& owned = run.parameters->owned();
  for (size_t i = owned.size(); i-- > 0;) {
    const torch::Tensor& gradient = owned[i].tensor.grad();
    if (!gradient.defined()) continue;
    ++with_gradient;
    if (is_finite(gradient)) continue;
    if (++affected == 1) first = owned[i].name;
  }
  std::string what = "the gradient norm of step " + std::to_string(step) + " is " + text_of(norm) +
                     rank_of(run) + ", though the loss is finite";
  if (with_gradient == 0) return {ReasonCode::kInternal, what};
  if (affected == 0) {
    return {ReasonCode::kInternal,
            what + "; every gradient is finite, but the sum of their squares is not"};
  }
  return {ReasonCode::kInternal,
          what + "; the first gradient of the backward pass that is not finite is that of " + first,
          std::to_string(affected) + " of " +
              counted(with_gradient, "parameter has", "parameters have") +
              " a gradient that is not finite"};
}

}  // namespace sftbench
