#include "sftbench/translate/file_kind.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/text.h"
#include "sftbench/data/entry_form.h"
#include "translate/argument_names.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMostBytesOfKind = 4 << 20;

using Keys = std::initializer_list<const char*>;

bool has_all(const YamlNode& root, Keys keys) {
  return std::all_of(keys.begin(), keys.end(),
                     [&root](const char* key) { return root.find(key) != nullptr; });
}

bool has_any(const YamlNode& root, Keys keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&root](const char* key) { return root.find(key) != nullptr; });
}

bool looks_like_space(const YamlNode& root) {
  return has_any(root, {"entitySpace", "experiments"}) ||
         (has_all(root, {"config", "kind"}) && has_any(*root.find("config"), {"entitySpace"}));
}

bool looks_like_deepspeed(const YamlNode& root) {
  if (has_any(root, {"zero_optimization", "train_micro_batch_size_per_gpu", "steps_per_print",
                     "zero_allow_untested_optimizer"})) {
    return true;
  }
  const Keys blocks = {"fp16", "bf16", "optimizer", "scheduler"};
  return std::any_of(blocks.begin(), blocks.end(), [&root](const char* block) {
    const YamlNode* node = root.find(block);
    return node != nullptr && node->is_mapping();
  });
}

// A recipe names the class of each of its parts.
bool looks_like_torchtune(const YamlNode& root) {
  return std::any_of(root.members.begin(), root.members.end(), [](const YamlMember& member) {
    return has_any(member.node, {"_component_"});
  });
}

bool looks_like_actuator(const YamlNode& root) {
  return has_any(root, {"actuatorIdentifier"}) ||
         (root.members.size() == 1 && has_all(root, {"parameters"}));
}

bool looks_like_operation(const YamlNode& root) {
  return has_all(root, {"operation", "spaces"}) || has_all(root, {"operation", "context"});
}

bool looks_like_job(const YamlNode& root) {
  return has_all(root, {"model", "data", "batches", "optimizer"}) ||
         has_all(root, {"job", "extra"});
}

bool looks_like_model(const YamlNode& root) {
  return has_all(root, {"architectures", "model_type"});
}

bool looks_like_adapter(const YamlNode& root) {
  return has_all(root, {"peft_type", "base_model_name_or_path"});
}

bool looks_like_tokenizer(const YamlNode& root) {
  return has_any(root, {"tokenizer_class", "added_tokens_decoder"});
}

bool looks_like_arguments(const YamlNode& root) {
  const auto known =
      std::count_if(root.members.begin(), root.members.end(), [](const YamlMember& member) {
        return find_argument(member.key) != nullptr || is_section(member.key);
      });
  return known > 1 && 2 * known >= static_cast<std::ptrdiff_t>(root.members.size());
}

// One in a line.
bool looks_like_entries(const std::string& text) {
  const Json first =
      Json::parse(text.substr(0, text.find('\n')), nullptr, /*allow_exceptions=*/false);
  FoundForm form;
  Diagnostic problem;
  return first.is_object() && find_entry_form(first, form, problem) && !form.property.empty();
}

struct KindRow {
  FileKind kind;
  bool (*is)(const YamlNode&);
};

// The first that fits: what has keys of its own comes before what shares them.
constexpr KindRow kKindRows[] = {
    {{"a discovery space", "SPACE", "it as SPACE, without an option"}, looks_like_space},
    {{"an operation", "--operation", "--operation FILE of `sftbench sweep`"}, looks_like_operation},
    {{"an actuator configuration", "--config", "--config FILE"}, looks_like_actuator},
    {{"a training job or a result", "--job", "--job FILE of `sftbench run`"}, looks_like_job},
    {{"the config.json of a model", "--model", "--model with its folder"}, looks_like_model},
    {{"the adapter_config.json of an adapter", "adapter",
      "--model with the base model, or what `sftbench weights merge ADAPTER -o DIR` makes of both"},
     looks_like_adapter},
    {{"the configuration of a tokenizer", "--tokenizer", "--tokenizer with its folder"},
     looks_like_tokenizer},
    {{"a torchtune recipe", "torchtune",
      "arguments of trl, axolotl or LLaMA-Factory, or options (--model, --data, --learning-rate), "
      "with --stack torchtune of `sftbench predict`"},
     looks_like_torchtune},
    {{"a DeepSpeed configuration", "--deepspeed", "--deepspeed FILE"}, looks_like_deepspeed},
    {{"a file of training arguments", "--arguments", "--arguments FILE"}, looks_like_arguments},
};

}  // namespace

const FileKind* kind_of(const YamlNode& root) {
  if (!root.is_mapping()) return nullptr;
  for (const KindRow& row : kKindRows) {
    if (row.is(root)) return &row.kind;
  }
  return nullptr;
}

void refuse_other_kind(const std::string& where, const std::string& path,
                       const std::string& option) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMostBytesOfKind || error)
    return;
  YamlNode root;
  bool of_entries = false;
  try {
    const std::string text = read_file(path);
    of_entries = looks_like_entries(text);
    if (!of_entries && trimmed(text).starts_with('[')) return;
    if (!of_entries) root = parse_yaml(text, path);
  } catch (const InputError&) {  // said by who reads it
    return;
  }
  if (of_entries && option != "--data")
    throw InputError({{{}, 0, where, path + " holds entries to train on", "--data FILE", {}}});
  const FileKind* kind = of_entries ? nullptr : kind_of(root);
  if (kind == nullptr || kind->option == option) return;
  throw InputError({{{}, 0, where, path + " is " + kind->noun, kind->right, {}}});
}

}  // namespace sftbench
