#include "plan/lora_plan.h"

#include <set>
#include <vector>

#include "sftbench/checkpoint/module_pattern.h"
#include "sftbench/families/family.h"
#include "sftbench/families/lora_fit.h"

namespace sftbench {
namespace {

// Weights that are quantized lack some of them.
Json argument_or(const RequestReader& request, const char* name, Json otherwise) {
  return request.has_argument(name) ? request.argument(name) : std::move(otherwise);
}

std::string invocation_string(const RequestReader& request) {
  const Json asked = argument_or(request, "alora_invocation_string", nullptr);
  return asked.is_null() ? std::string() : unescaped_text(asked.get<std::string>());
}

// A text is no list of names, and is refused as the name that it is not.
std::vector<std::string> names(const Json& asked) {
  if (asked.is_null()) return {};
  return asked.is_array() ? asked.get<std::vector<std::string>>()
                          : std::vector<std::string>{asked.get<std::string>()};
}

// What a quantized model keeps packed: the matrices of its layers, but for routers.
std::set<std::string> packed_parameters(const KnownModel& model) {
  const std::string prefix = family_of(model.config).names.layer_prefix;
  std::set<std::string> packed;
  for (size_t i = 0; i < model.shape.layers.size(); ++i) {
    for (const TensorShape& tensor : model.shape.layers[i].tensors) {
      if (tensor.sizes.size() > 1 && !tensor.name.ends_with(".gate.weight"))
        packed.insert(prefix + std::to_string(i) + "." + tensor.name);
    }
  }
  return packed;
}

// Those of rank_pattern. Returns what is wrong with one of the patterns; empty: nothing is.
std::string give_ranks(const LoraPlan& plan, std::vector<AdaptedLinear>& linears) {
  std::vector<std::string> adapted;
  for (const AdaptedLinear& linear : linears)
    if (is_adapted(linear, plan.target_modules)) adapted.push_back(linear.name);
  const char* key = "rank_pattern ";
  try {
    const NumberPatterns ranks(plan.rank_pattern, /*whole=*/true);
    for (AdaptedLinear& linear : linears)
      linear.rank = static_cast<int64_t>(ranks.of(linear.name).value_or(0));
    std::string idle = ranks.idle(adapted);
    if (idle.empty()) {
      key = "alpha_pattern ";
      idle = NumberPatterns(plan.alpha_pattern, /*whole=*/false).idle(adapted);
    }
    // peft says nothing of it.
    if (!idle.empty()) return key + ("'" + idle + "' matches no linear that is adapted");
  } catch (const ModulePatternError& problem) {
    return std::string(key) + problem.what();
  }
  return {};
}

}  // namespace

LoraPlan lora_plan(const RequestReader& request) {
  return {.rank = request.integer("r"),
          .alpha = request.number("lora_alpha"),
          .dropout = request.number("lora_dropout"),
          .target_modules = {},
          .invocation_string = invocation_string(request),
          .use_rslora = request.argument("use_rslora").get<bool>(),
          .use_dora = argument_or(request, "use_dora", false).get<bool>(),
          .modules_to_save = names(request.argument("modules_to_save")),
          .rank_pattern = parse_json(request.argument_text("rank_pattern"), "rank_pattern"),
          .alpha_pattern = parse_json(request.argument_text("alpha_pattern"), "alpha_pattern")};
}

std::string adapters_refusal(const LoraPlan& plan, bool quantized, const KnownModel& model) {
  const std::set<std::string> packed =
      quantized ? packed_parameters(model) : std::set<std::string>();
  const std::string refusal =
      plan.modules_to_save.empty()
          ? std::string()
          : saved_modules_refusal(parameters_of(model.config, model.shape), plan.modules_to_save,
                                  [&](const std::string& name) { return packed.contains(name); });
  if (!refusal.empty()) return refusal;
  std::vector<AdaptedLinear> linears = linears_of(model.config, model.shape);
  std::erase_if(linears, [&](const AdaptedLinear& linear) {
    return is_saved_whole(linear.name + ".weight", plan.modules_to_save);
  });
  if (const std::string wrong = give_ranks(plan, linears); !wrong.empty()) return wrong;
  const bool plain = !plan.use_dora && plan.invocation_string.empty();
  const std::string misfit = token_adapters_refusal(linears, plan.target_modules, plain);
  return misfit.empty() ? lora_refusal(linears, plan.target_modules, plan.rank) : misfit;
}

}  // namespace sftbench
