#include "tuning/lora.h"

#include <algorithm>
#include <cmath>

#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/families/lora_fit.h"
#include "sftbench/ops/dora.h"
#include "sftbench/ops/low_rank.h"
#include "sftbench/ops/recomputation.h"
#include "sftbench/ops/row_tiles.h"
#include "tuning/adapter_tensors.h"

namespace sftbench {
namespace {

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr const char* kAllLinear = "all-linear";

// Whether one of the modules is `end`, or ends in it behind a dot.
bool ends_one_of(const std::vector<std::string>& modules, const std::string& end) {
  return std::any_of(modules.begin(), modules.end(), [&](const std::string& module) {
    return module == end || module.ends_with("." + end);
  });
}

double scale_of(const LoraOptions& options) {
  const auto rank = static_cast<double>(options.rank);
  return options.alpha / (options.rank_stabilized ? std::sqrt(rank) : rank);
}

// The adapters of the linears of one group that have one.
class LoraAdapter : public Adapter {
 public:
  struct Member {
    size_t output;     // of the group
    std::string name;  // of the linear
    ops::LowRankFactors factors;
    torch::Tensor magnitude;  // [out] of DoRA; undefined without
  };

  LoraAdapter(std::vector<Member> members, const LoraOptions& options, uint64_t stream,
              const ForwardPass& pass)
      : members_(std::move(members)),
        scale_(scale_of(options)),
        dropout_(options.dropout),
        has_magnitudes_(options.magnitudes),
        stream_(stream),
        pass_(pass) {}

  std::vector<torch::Tensor> forward(const LinearGroup& group, const torch::Tensor& x) override {
    return has_magnitudes_ ? with_magnitudes(group, x) : group.adapted(x);
  }

  std::vector<torch::Tensor> add_to(std::vector<torch::Tensor> outputs,
                                    const torch::Tensor& x) override {
    std::vector<torch::Tensor> adapted;
    std::vector<ops::LowRankFactors> factors;
    for (const Member& member : members_) {
      adapted.push_back(outputs[member.output]);
      factors.push_back(member.factors);
    }
    // Under autocast the residual stream may be wider than what linears compute in.
    const torch::Tensor input = x.to(adapted[0].scalar_type());
    adapted = ops::add_low_rank(input, std::move(adapted), factors, scale_, own_dropout(),
                                silent_rows(x));
    for (size_t i = 0; i < members_.size(); ++i) outputs[members_[i].output] = adapted[i];
    return outputs;
  }

  std::vector<torch::Tensor> with_frozen(const std::vector<ops::LinearOperands>& linears,
                                         const torch::Tensor& x) override {
    std::vector<ops::LinearAdapter> adapters;
    for (const Member& member : members_) adapters.push_back({member.output, member.factors});
    return ops::adapted_linears(x, linears, adapters, scale_, own_dropout(), silent_rows(x));
  }

  void begin_at_weights(const LinearGroup& group) override {
    const torch::NoGradGuard no_grad;
    for (Member& member : members_)
      if (has_magnitudes_) member.magnitude.copy_(norms(group, member));
  }

  void append_parameters(std::vector<NamedParameter>& parameters) override {
    for (Member& member : members_) {
      parameters.push_back({member.name + ".lora_A.weight", &member.factors.a});
      parameters.push_back({member.name + ".lora_B.weight", &member.factors.b});
      if (!has_magnitudes_) continue;
      parameters.push_back({.name = member.name + ".lora_magnitude_vector.weight",
                            .tensor = &member.magnitude,
                            .keeps_dtype = true});
    }
  }

 private:
  torch::Tensor norms(const LinearGroup& group, const Member& member) const {
    const Linear& linear = group.linear(member.output);
    const auto rows = [&](int64_t first, int64_t count) { return linear.dense_rows(first, count); };
    return ops::row_norms(rows, member.factors, scale_);
  }

  // As peft's DoRA does, dropout keeps from weight and adapter alike what the magnitude changes: W x + (s - 1) W drop(x)
  // + s scale B A drop(x), which is W (x - drop(x)) + s (W + scale B A) drop(x).
  std::vector<torch::Tensor> with_magnitudes(const LinearGroup& group, const torch::Tensor& x) {
    const ops::Dropout dropped = dropout();
    std::vector<torch::Tensor> outputs(group.size()), rest(group.size());
    if (dropped.probability == 0) {
      const ops::ReadProduct for_magnitudes;
      outputs = group.adapted(x);
    } else {
      const torch::Tensor kept = ops::dropout(x, dropped), others = x - kept;
      for (const Member& member : members_) {
        Linear& linear = group.linear(member.output);
        rest[member.output] = linear.forward(others);
        const ops::ReadProduct for_magnitudes;
        outputs[member.output] = linear.forward(kept);
      }
      outputs = add_to(std::move(outputs), kept);
      for (size_t i = 0; i < outputs.size(); ++i)
        if (!outputs[i].defined()) outputs[i] = group.linear(i).forward(x);
    }
    for (const Member& member : members_) {
      torch::Tensor& output = outputs[member.output];
      output = ops::with_magnitude(output, member.magnitude, norms(group, member),
                                   group.linear(member.output).bias(), rest[member.output]);
    }
    return outputs;
  }

  // Of the adapter alone; with magnitudes its input has gone through it.
  ops::Dropout own_dropout() const { return has_magnitudes_ ? ops::Dropout{} : dropout(); }

  ops::Dropout dropout() const {
    if (!pass_.training) return {};
    constexpr uint64_t kOdd =
        0xD1B54A32D192ED03U;  // spreads the numbers of the passes over 64 bits
    const uint64_t seed = stream_ ^ (static_cast<uint64_t>(pass_.number) * kOdd);
    const uint64_t tile = ops::current_row_tile();
    return {dropout_, tile == 0 ? seed : ops::derived_seed(seed, tile)};
  }

  // Of the rows of x, which are all that the pass reads, or a tile of them.
  torch::Tensor silent_rows(const torch::Tensor& x) const {
    if (!pass_.silent.defined()) return {};
    const int64_t count = x.numel() / x.size(-1), first = ops::first_row_of_tile();
    check(first + count <= pass_.silent.numel(), "an adapter's rows are those of the pass");
    return pass_.silent.flatten().narrow(0, first, count);
  }

  std::vector<Member> members_;
  double scale_, dropout_;
  bool has_magnitudes_;
  uint64_t stream_;
  const ForwardPass& pass_;  // of the model that this belongs to
};

// Those that adapters can go to.
std::vector<NamedLinearGroup> adaptable_groups(CausalLm& model) {
  std::vector<NamedLinearGroup> groups = model.linear_groups();
  std::erase_if(groups, [](const NamedLinearGroup& group) { return !group.takes_adapters; });
  return groups;
}

std::vector<NamedLinear> adaptable_linears(CausalLm& model) {
  std::vector<NamedLinear> linears;
  for (const NamedLinearGroup& group : adaptable_groups(model))
    linears.insert(linears.end(), group.linears.begin(), group.linears.end());
  return linears;
}

void require_fit(const std::vector<NamedLinear>& all, const LoraOptions& options) {
  std::vector<AdaptedLinear> linears;
  for (const NamedLinear& linear : all)
    linears.push_back({linear.name, (*linear.slot)->in_features(), (*linear.slot)->out_features()});
  const std::string refusal = lora_refusal(linears, options.target_modules, options.rank);
  if (!refusal.empty()) throw RunError(ReasonCode::kUnsupported, refusal);
}

// The shortest end of the linear's name that none of the others has.
std::string own_end(const std::string& linear, const std::vector<std::string>& others) {
  size_t begin = linear.rfind('.') + 1;
  while (begin > 0 && ends_one_of(others, linear.substr(begin)))
    begin = begin == 1 ? 0 : linear.rfind('.', begin - 2) + 1;
  return linear.substr(begin);
}

class LoraTuning : public Tuning {
 public:
  explicit LoraTuning(const TuningOptions& options) : options_(options.lora), seed_(options.seed) {
    if (!options_.magnitudes || options_.invocation.empty()) return;
    throw RunError(
        ReasonCode::kUnsupported,
        "lora.use_dora beside lora.invocation_string: peft has no activated DoRA; one of "
        "them works");
  }

  std::vector<NamedParameter> apply(CausalLm& model) const override {
    require_fit(adaptable_linears(model), options_);
    const torch::TensorOptions tensors = adapter_options(model);
    for (const NamedLinearGroup& group : adaptable_groups(model)) {
      std::vector<LoraAdapter::Member> members = make_members(group, tensors);
      if (members.empty()) continue;
      const uint64_t stream = stream_seed(seed_, "dropout of " + members[0].name);
      group.group->set_adapter(
          std::make_unique<LoraAdapter>(std::move(members), options_, stream, model.pass()));
    }
    std::vector<NamedParameter> trained;
    for (const NamedParameter& parameter : model.parameters()) {
      if (!parameter.tensor->requires_grad()) continue;
      trained.push_back(parameter);
      if (parameter.unused) parameter.tensor->requires_grad_(false);
    }
    return trained;
  }

  Json peft_config(CausalLm& model) const override {
    Json config = {{"peft_type", "LORA"},
                   {"task_type", "CAUSAL_LM"},
                   {"inference_mode", true},
                   {"r", options_.rank},
                   {"lora_alpha", options_.alpha},
                   {"lora_dropout", options_.dropout},
                   {"target_modules", adapted_names(model)},
                   {"bias", "none"},
                   {"fan_in_fan_out", model.config().transposed_linears},
                   {"init_lora_weights", true},
                   {"use_rslora", options_.rank_stabilized}};
    if (options_.magnitudes) config["use_dora"] = true;
    if (!options_.invocation.empty()) config["alora_invocation_tokens"] = options_.invocation;
    return config;
  }

 private:
  bool is_adapted(const std::string& linear) const {
    return std::any_of(options_.target_modules.begin(), options_.target_modules.end(),
                       [&](const auto& target) { return is_lora_target(linear, target); });
  }

  // The targets by names that peft finds the same linears by: it compares ends of names, and expands "all-linear" to
  // what it takes for linears, the router and the experts of a mixture among it.
  std::vector<std::string> adapted_names(CausalLm& model) const {
    std::vector<std::string> adapted, others;
    for (const NamedLinear& linear : adaptable_linears(model))
      (is_adapted(linear.name) ? adapted : others).push_back(linear.name);
    for (const NamedParameter& parameter : model.parameters()) {
      const std::string module = parameter.name.substr(0, parameter.name.rfind('.'));
      if (!is_in(adapted, module)) others.push_back(module);
    }
    std::vector<std::string> names;
    for (const std::string& target : options_.target_modules) {
      if (target != kAllLinear && !ends_one_of(others, target)) {
        if (!is_in(names, target)) names.push_back(target);
        continue;
      }
      for (const std::string& linear : adapted) {
        const std::string name = own_end(linear, others);
        if (is_lora_target(linear, target) && !is_in(names, name)) names.push_back(name);
      }
    }
    return names;
  }

  std::vector<LoraAdapter::Member> make_members(const NamedLinearGroup& group,
                                                const torch::TensorOptions& tensors) const {
    std::vector<LoraAdapter::Member> members;
    for (size_t i = 0; i < group.linears.size(); ++i) {
      const NamedLinear& linear = group.linears[i];
      if (!is_adapted(linear.name)) continue;
      members.push_back({i, linear.name, make_factors(linear, tensors), {}});
      if (!options_.magnitudes) continue;
      const int64_t out = (*linear.slot)->out_features();
      members.back().magnitude = torch::ones({out}, tensors).requires_grad_(true);
    }
    return members;
  }

  ops::LowRankFactors make_factors(const NamedLinear& linear,
                                   const torch::TensorOptions& tensors) const {
    const int64_t in = (*linear.slot)->in_features(), out = (*linear.slot)->out_features();
    const double bound = 1.0 / std::sqrt(static_cast<double>(in));
    const at::Generator generator = cpu_generator(seed_, linear.name + ".lora_A.weight");
    torch::Tensor a = torch::empty({options_.rank, in}, torch::kFloat32);
    a.uniform_(-bound, bound, generator);
    return {a.to(tensors).requires_grad_(true),
            torch::zeros({out, options_.rank}, tensors).requires_grad_(true)};
  }

  LoraOptions options_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<Tuning> make_lora_tuning(const TuningOptions& options) {
  return std::make_unique<LoraTuning>(options);
}

}  // namespace sftbench
