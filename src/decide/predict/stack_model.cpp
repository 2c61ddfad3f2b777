#include "sftbench/predict/stack_model.h"

#include <algorithm>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/text.h"
#include "sftbench/base/yaml.h"
#include "sftbench/catalog/fields.h"

namespace sftbench {
namespace {

constexpr double kMicroseconds = 1e-6;
constexpr double kMilli = 1e-3;
constexpr double kMiB = 1 << 20;

Passes read_passes(Fields& fields, const std::string& key, Diagnostics& diagnostics) {
  const YamlNode* node = fields.sequence(key);
  if (node == nullptr) return {};
  if (node->items.size() == 2 && node->items[0].value.is_number() &&
      node->items[1].value.is_number()) {
    return {node->items[0].value.get<double>(), node->items[1].value.get<double>()};
  }
  diagnostics.error(*node, fields.path(key), "found " + std::to_string(node->items.size()),
                    "two numbers: of the forward and of the backward pass");
  return {};
}

void read_all_passes(Fields& fields, Diagnostics& diagnostics, StackModel& stack) {
  const std::vector<std::pair<const char*, Passes*>> all = {
      {"norm", &stack.norm},
      {"norm_fused", &stack.norm_fused},
      {"rope", &stack.rope},
      {"rope_fused", &stack.rope_fused},
      {"activation", &stack.activation},
      {"residual", &stack.residual},
      {"loss", &stack.loss},
      {"loss_fused", &stack.loss_fused},
      {"adapter_in", &stack.adapter_in},
      {"adapter_out", &stack.adapter_out},
      {"dequantize", &stack.dequantize},
      {"quantized_in", &stack.quantized_in},
      {"quantized_out", &stack.quantized_out},
      {"launches", &stack.launches},
      {"adapter_launches", &stack.adapter_launches}};
  for (const auto& [key, passes] : all) *passes = read_passes(fields, key, diagnostics);
}

void read_numbers(Fields& fields, StackModel& stack) {
  struct Number {
    const char* key;
    double unit;
    double* value;
  };
  const std::vector<Number> all = {{"attention_scale", 1, &stack.attention_scale},
                                   {"adapter_slowdown", 1, &stack.adapter_slowdown},
                                   {"fp8_bytes", 1, &stack.fp8_bytes},
                                   {"update_scale", 1, &stack.update_scale},
                                   {"update_copies", 1, &stack.update_copies},
                                   {"kept_scale", 1, &stack.kept_scale},
                                   {"kept_scale_fused", 1, &stack.kept_scale_fused},
                                   {"kept_waiting", 1, &stack.kept_waiting},
                                   {"sharded_checkpoints", 1, &stack.sharded_checkpoints},
                                   {"fragmentation", 1, &stack.fragmentation},
                                   {"fragmentation_recomputed", 1, &stack.fragmentation_recomputed},
                                   {"contention", 1, &stack.contention},
                                   {"logit_bytes", 1, &stack.logit_bytes},
                                   {"logit_bytes_fused", 1, &stack.logit_bytes_fused},
                                   {"logit_tile_rows", 1, &stack.logit_tile_rows},
                                   {"logit_tile_columns", 1, &stack.logit_tile_columns},
                                   {"narrow_logits", 1, &stack.narrow_logits},
                                   {"narrow_logits_fused", 1, &stack.narrow_logits_fused},
                                   {"expert_launches", 1, &stack.expert_launches},
                                   {"quantized_bytes", 1, &stack.quantized_bytes},
                                   {"quantized_us", kMicroseconds, &stack.quantized_s},
                                   {"adapter_unit_us", kMicroseconds, &stack.adapter_unit_s},
                                   {"launch_us", kMicroseconds, &stack.launch_s},
                                   {"unit_us", kMicroseconds, &stack.unit_s},
                                   {"step_ms", kMilli, &stack.step_s},
                                   {"context_mib", kMiB, &stack.context_bytes},
                                   {"communicator_mib", kMiB, &stack.communicator_bytes}};
  for (const Number& number : all) {
    *number.value = fields.number(number.key).value_or(0) * number.unit;
  }
}

StackModel read_stack(const YamlNode& node, const std::string& path, Diagnostics& diagnostics) {
  Fields fields(node, path, diagnostics);
  StackModel stack;
  stack.name = fields.text("name");
  read_all_passes(fields, diagnostics, stack);
  read_numbers(fields, stack);
  stack.recomputes_all_layers = fields.boolean("recomputes_all_layers", false);
  stack.frees_gradients = fields.boolean("frees_gradients", false);
  stack.reduces_each_micro_batch = fields.boolean("reduces_each_micro_batch", false);
  stack.upcasts_shards = fields.boolean("upcasts_shards", false);
  stack.adapters_in_float32 = fields.boolean("adapters_in_float32", false);
  stack.flat_gradients = fields.boolean("flat_gradients", false);
  stack.keeps_master_weights = fields.boolean("keeps_master_weights", false);
  stack.fused_by_default = fields.boolean("fused_by_default", false);
  stack.widens_beside_quantized = fields.boolean("widens_beside_quantized", false);
  stack.updates_in_backward = fields.boolean("updates_in_backward", false);
  stack.keys = fields.text("keys", Presence::kOptional);
  fields.text("source");
  fields.reject_unknown();
  return stack;
}

std::vector<StackModel> read_stacks() {
  const std::string path = (resource_directory() / "config" / "stacks.yaml").string();
  const YamlNode root = read_yaml_file(path);
  Diagnostics diagnostics(path);
  Fields fields(root, {}, diagnostics);
  std::vector<StackModel> stacks;
  if (const YamlNode* list = fields.sequence("stacks")) {
    for (size_t i = 0; i < list->items.size(); ++i) {
      stacks.push_back(
          read_stack(list->items[i], "stacks[" + std::to_string(i) + "]", diagnostics));
    }
  }
  fields.reject_unknown();
  diagnostics.throw_if_failed();
  return stacks;
}

const std::vector<StackModel>& shipped_stacks() {
  static const std::vector<StackModel> kStacks = read_stacks();
  return kStacks;
}

}  // namespace

std::vector<std::string> StackModel::names() {
  std::vector<std::string> names;
  for (const StackModel& stack : shipped_stacks()) names.push_back(stack.name);
  return names;
}

std::string stack_with(const std::string& stack, const std::string& loss) {
  const std::vector<std::string> names = StackModel::names();
  const std::string name = stack + loss;
  return std::find(names.begin(), names.end(), name) == names.end() ? stack : name;
}

std::string stack_beside(const std::string& stack, TuningMethod method) {
  if (!row_of(method).quantizes) return stack;
  for (const std::string loss : {"", kLigerLoss, kTrlLoss})
    if (stack == kPeoplesStack + loss) return kNf4Stack + loss;
  return stack;
}

StackModel StackModel::named(const std::string& name) {
  for (const StackModel& stack : shipped_stacks()) {
    if (stack.name == name) return stack;
  }
  throw InputError({{{},
                     0,
                     "--stack",
                     "unknown stack '" + name + "'",
                     join(names(), " or "),
                     nearest_spelling(name, names())}});
}

}  // namespace sftbench
