#include "tuning/lora.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/checkpoint/module_pattern.h"
#include "sftbench/families/family.h"
#include "sftbench/families/lora_fit.h"
#include "sftbench/ops/dora.h"
#include "sftbench/ops/low_rank.h"
#include "sftbench/ops/recomputation.h"
#include "sftbench/ops/row_tiles.h"
#include "tuning/adapter_dropout.h"
#include "tuning/adapter_tensors.h"
#include "tuning/lora_tokens.h"

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

NumberPatterns patterns_of(const char* key, const Json& numbers, bool whole) {
  try {
    return NumberPatterns(numbers, whole);
  } catch (const ModulePatternError& problem) {
    throw RunError(ReasonCode::kUnsupported, std::string(key) + " " + problem.what());
  }
}

// The adapters of the linears of one group that have one.
class LoraAdapter : public Adapter {
 public:
  struct Member {
    size_t output;     // of the group
    std::string name;  // of the linear
    ops::LowRankFactors factors;
    torch::Tensor magnitude;  // [out] of DoRA; undefined without
    double scale;

    bool is_like(const Member& other) const {
      return scale == other.scale && factors.a.size(0) == other.factors.a.size(0);
    }
  };

  LoraAdapter(std::vector<Member> members, const LoraOptions& options, uint64_t stream,
              const ForwardPass& pass)
      : members_(std::move(members)),
        dropout_(options.dropout),
        has_magnitudes_(options.magnitudes),
        stream_(stream),
        pass_(pass) {
    for (const Member& member : members_) {
      const auto alike = std::find_if(
          sets_.begin(), sets_.end(),
          [&](const std::vector<const Member*>& set) { return set.front()->is_like(member); });
      alike == sets_.end() ? sets_.push_back({&member}) : alike->push_back(&member);
    }
  }

  std::vector<torch::Tensor> forward(const LinearGroup& group, const torch::Tensor& x) override {
    return has_magnitudes_ ? with_magnitudes(group, x) : group.adapted(x);
  }

  std::vector<torch::Tensor> add_to(std::vector<torch::Tensor> outputs,
                                    const torch::Tensor& x) override {
    for (const std::vector<const Member*>& set : sets_) {
      std::vector<torch::Tensor> adapted;
      std::vector<ops::LowRankFactors> factors;
      for (const Member* member : set) {
        adapted.push_back(outputs[member->output]);
        factors.push_back(member->factors);
      }
      // Under autocast the residual stream may be wider than what linears compute in.
      const torch::Tensor input = x.to(adapted[0].scalar_type());
      adapted = ops::add_low_rank(input, std::move(adapted), factors, set.front()->scale,
                                  own_dropout(), silent_rows(x));
      for (size_t i = 0; i < set.size(); ++i) outputs[set[i]->output] = adapted[i];
    }
    return outputs;
  }

  std::vector<torch::Tensor> with_frozen(const std::vector<ops::LinearOperands>& linears,
                                         const torch::Tensor& x) override {
    if (sets_.size() > 1) return {};
    std::vector<ops::LinearAdapter> adapters;
    for (const Member& member : members_) adapters.push_back({member.output, member.factors});
    return ops::adapted_linears(x, linears, adapters, members_.front().scale, own_dropout(),
                                silent_rows(x));
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
    return ops::row_norms(rows, member.factors, member.scale);
  }

  // As peft's DoRA does, dropout keeps from weight and adapter alike what the magnitude changes: W
  // x + (s - 1) W drop(x)
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

  ops::Dropout dropout() const { return adapter_dropout(dropout_, stream_, pass_); }

  // Of the rows of x, which are all that the pass reads, or a tile of them.
  torch::Tensor silent_rows(const torch::Tensor& x) const {
    if (!pass_.silent.defined()) return {};
    const int64_t count = x.numel() / x.size(-1), first = ops::first_row_of_tile();
    check(first + count <= pass_.silent.numel(), "an adapter's rows are those of the pass");
    return pass_.silent.flatten().narrow(0, first, count);
  }

  std::vector<Member> members_;
  std::vector<std::vector<const Member*>> sets_;  // of one rank and scale: their products are one
  double dropout_;
  bool has_magnitudes_;
  uint64_t stream_;
  const ForwardPass& pass_;  // of the model that this belongs to
};

std::string weight_of(const char* module) {
  return std::string(module) + ".weight";
}

AdaptedLinear embedding_of(CausalLm& model) {
  const torch::Tensor& weight = model.embedding();
  return {.name = model.names().embedding,
          .in = weight.size(0),
          .out = weight.size(1),
          .of_tokens = true};
}

AdaptedLinear output_of(CausalLm& model) {
  const torch::Tensor& weight = model.output_weight();
  return {
      .name = model.names().output, .in = weight.size(1), .out = weight.size(0), .of_tokens = true};
}

// Those that adapters can go to.
std::vector<NamedLinearGroup> adaptable_groups(CausalLm& model) {
  std::vector<NamedLinearGroup> groups = model.linear_groups();
  std::erase_if(groups, [](const NamedLinearGroup& group) { return !group.takes_adapters; });
  return groups;
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
  explicit LoraTuning(const TuningOptions& options)
      : options_(options.lora),
        ranks_(patterns_of("rank_pattern", options_.rank_pattern, /*whole=*/true)),
        alphas_(patterns_of("alpha_pattern", options_.alpha_pattern, /*whole=*/false)),
        seed_(options.seed) {
    if (!options_.magnitudes || options_.invocation.empty()) return;
    throw RunError(
        ReasonCode::kUnsupported,
        "lora.use_dora beside lora.invocation_string: peft has no activated DoRA; one of "
        "them works");
  }

  bool begins_at_embedding(CausalLm& model) const override {
    return model.is_tied() && (is_saved(weight_of(model.names().embedding)) ||
                               is_saved(weight_of(model.names().output)));
  }

  std::vector<NamedParameter> apply(CausalLm& model) const override {
    if (begins_at_embedding(model)) model.untie_output();
    train_whole_modules(model);
    require_fit(model);
    const torch::TensorOptions tensors = adapter_options(model);
    for (const NamedLinearGroup& group : adaptable_groups(model)) {
      std::vector<LoraAdapter::Member> members = make_members(group, tensors);
      if (members.empty()) continue;
      const uint64_t stream = stream_seed(seed_, "dropout of " + members[0].name);
      group.group->set_adapter(
          std::make_unique<LoraAdapter>(std::move(members), options_, stream, model.pass()));
    }
    adapt_tokens(model, tensors);
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
    if (is_text_part_family(family_of(model.config()).model_type))
      config["exclude_modules"] = R"((model\.)?(vision_tower|multi_modal_projector)\..*)";
    if (options_.magnitudes) config["use_dora"] = true;
    if (!options_.modules_to_save.empty()) config["modules_to_save"] = options_.modules_to_save;
    if (!options_.invocation.empty()) config["alora_invocation_tokens"] = options_.invocation;
    if (!options_.rank_pattern.empty()) config["rank_pattern"] = options_.rank_pattern;
    if (!options_.alpha_pattern.empty()) config["alpha_pattern"] = options_.alpha_pattern;
    return config;
  }

 private:
  int64_t rank_of(const std::string& linear) const {
    return static_cast<int64_t>(ranks_.of(linear).value_or(static_cast<double>(options_.rank)));
  }

  double scale_of(const std::string& linear) const {
    const auto rank = static_cast<double>(rank_of(linear));
    return alphas_.of(linear).value_or(options_.alpha) /
           (options_.rank_stabilized ? std::sqrt(rank) : rank);
  }

  bool is_saved(const std::string& parameter) const {
    return is_saved_whole(parameter, options_.modules_to_save);
  }

  void train_whole_modules(CausalLm& model) const {
    std::vector<std::string> names;
    std::set<std::string> quantized;
    for (const NamedParameter& parameter : model.parameters()) {
      names.push_back(parameter.name);
      if (parameter.packed) quantized.insert(parameter.name);
    }
    if (model.is_tied()) names.push_back(weight_of(model.names().output));
    const std::string refusal =
        saved_modules_refusal(names, options_.modules_to_save,
                              [&](const std::string& name) { return quantized.contains(name); });
    if (!refusal.empty()) throw RunError(ReasonCode::kUnsupported, refusal);
    for (const NamedParameter& parameter : model.parameters())
      if (is_saved(parameter.name)) parameter.tensor->requires_grad_(true);
  }

  std::vector<AdaptedLinear> adaptable(CausalLm& model) const {
    std::vector<AdaptedLinear> linears;
    for (const NamedLinearGroup& group : adaptable_groups(model)) {
      for (const NamedLinear& linear : group.linears)
        linears.push_back(
            {linear.name, (*linear.slot)->in_features(), (*linear.slot)->out_features()});
    }
    linears.push_back(embedding_of(model));
    linears.push_back(output_of(model));
    std::erase_if(linears,
                  [&](const AdaptedLinear& linear) { return is_saved(linear.name + ".weight"); });
    for (AdaptedLinear& linear : linears) linear.rank = rank_of(linear.name);
    return linears;
  }

  void require_fit(CausalLm& model) const {
    const std::vector<AdaptedLinear> linears = adaptable(model);
    const std::vector<std::string>& targets = options_.target_modules;
    std::string refusal = token_adapters_refusal(
        linears, targets, !options_.magnitudes && options_.invocation.empty());
    if (refusal.empty()) refusal = lora_refusal(linears, targets, options_.rank);
    if (!refusal.empty()) throw RunError(ReasonCode::kUnsupported, refusal);
  }

  bool adapts(const AdaptedLinear& linear) const {
    return !is_saved(linear.name + ".weight") && is_adapted(linear, options_.target_modules);
  }

  void adapt_tokens(CausalLm& model, const torch::TensorOptions& tensors) const {
    if (const AdaptedLinear embedding = embedding_of(model); adapts(embedding)) {
      const int64_t rank = rank_of(embedding.name);
      torch::Tensor b = torch::empty({embedding.out, rank}, torch::kFloat32);
      b.normal_(0, 1, cpu_generator(seed_, embedding.name + ".lora_embedding_B"));
      const ops::LowRankFactors factors = {
          torch::zeros({rank, embedding.in}, tensors).requires_grad_(true),
          b.to(tensors).requires_grad_(true)};
      model.set_embedding_adapter(make_embedding_adapter(embedding.name, factors,
                                                         scale_of(embedding.name),
                                                         model.config().pad_token_id.value_or(-1)));
    }
    if (const AdaptedLinear output = output_of(model); adapts(output)) {
      model.set_output_adapter(make_output_adapter(
          output.name, make_factors(output, tensors), scale_of(output.name), options_.dropout,
          stream_seed(seed_, "dropout of " + output.name), model.pass()));
    }
  }

  // The targets by names that peft finds the same linears by: it compares ends of names, and
  // expands "all-linear" to what it takes for linears, the router and the experts of a mixture
  // among it.
  std::vector<std::string> adapted_names(CausalLm& model) const {
    std::vector<std::string> adapted, others;
    for (const AdaptedLinear& linear : adaptable(model))
      (adapts(linear) ? adapted : others).push_back(linear.name);
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
      const Linear& own = **group.linears[i].slot;
      const AdaptedLinear linear = {group.linears[i].name, own.in_features(), own.out_features()};
      if (!adapts(linear)) continue;
      members.push_back({i, linear.name, make_factors(linear, tensors), {}, scale_of(linear.name)});
      if (!options_.magnitudes) continue;
      members.back().magnitude = torch::ones({linear.out}, tensors).requires_grad_(true);
    }
    return members;
  }

  ops::LowRankFactors make_factors(const AdaptedLinear& linear,
                                   const torch::TensorOptions& tensors) const {
    const double bound = 1.0 / std::sqrt(static_cast<double>(linear.in));
    const int64_t rank = rank_of(linear.name);
    const at::Generator generator = cpu_generator(seed_, linear.name + ".lora_A.weight");
    torch::Tensor a = torch::empty({rank, linear.in}, torch::kFloat32);
    a.uniform_(-bound, bound, generator);
    return {a.to(tensors).requires_grad_(true),
            torch::zeros({linear.out, rank}, tensors).requires_grad_(true)};
  }

  LoraOptions options_;
  NumberPatterns ranks_, alphas_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<Tuning> make_lora_tuning(const TuningOptions& options) {
  return std::make_unique<LoraTuning>(options);
}

}  // namespace sftbench
