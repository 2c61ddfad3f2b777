#include "translate/foreign_datasets.h"

#include <algorithm>
#include <set>

#include "sftbench/base/dataset_part.h"
#include "sftbench/base/text.h"
#include "sftbench/data/conversation.h"
#include "sftbench/data/entry_template.h"
#include "sftbench/translate/argument_options.h"
#include "translate/argument_names.h"
#include "translate/argument_reasons.h"

namespace sftbench {
namespace {

std::string text_at(const YamlNode& mapping, const char* key) {
  const YamlNode* node = mapping.find(key);
  return node != nullptr && node->is_scalar() && !node->is_null() ? node->text : std::string();
}

// Of a dataset of the hub, or a path.
std::string place_of_data(const std::string& id, const std::string& config,
                          const std::string& split) {
  if (config.empty() && split.empty()) return id;
  DatasetPart part;
  part.config = config;
  if (!split.empty()) set_split(part, split);
  return id + text_of(part);
}

YamlNode at_line(YamlNode node, int line) {
  node.line = line;
  return node;
}

void refuse_keys(const YamlNode& set, const std::string& path, const std::set<std::string>& known,
                 Diagnostics& diagnostics) {
  for (const auto& [key, node] : set.members) {
    if (known.count(key) > 0 || says_nothing(node)) continue;
    diagnostics.error(node, path + "." + key, "has no equal here", kOtherData,
                      nearest_spelling(key, {known.begin(), known.end()}));
  }
}

std::optional<double> read_handbook_set(const YamlNode& set, const std::string& path,
                                        Diagnostics& diagnostics, const TakeValue& take) {
  const std::string id = text_at(set, "id");
  if (id.empty()) {
    diagnostics.error(set, path, "has no id", "a dataset of the hub");
    return std::nullopt;
  }
  refuse_keys(set, path, {"id", "config", "revision", "split", "columns", "weight"}, diagnostics);
  take("training_data_path",
       at_line(text_node(place_of_data(id, text_at(set, "config"), text_at(set, "split"))),
               set.line),
       path + ".id");
  if (const YamlNode* columns = set.find("columns"); columns != nullptr) {
    for (const YamlNode& column : columns->items) {
      if (column.text == kConversationField)
        take("conversation_column", text_node(kConversationField), path + ".columns");
    }
  }
  // So much of its entries is trained on.
  const YamlNode* weight = set.find("weight");
  if (weight == nullptr || says_nothing(*weight) || is_value(*weight, "1")) return std::nullopt;
  const double share = weight->value.is_number() ? weight->value.get<double>() : 0;
  if (share > 0 && share < 1) {
    take("train_split", scalar_node(json_text(Json(share))), path + ".weight");
  } else {
    diagnostics.error(*weight, path + ".weight", "found " + describe(*weight),
                      "a share of the set's entries, above 0 and at most 1");
  }
  return std::nullopt;
}

bool is_one_of(const YamlNode& node, const std::vector<std::string>& values) {
  return std::any_of(values.begin(), values.end(),
                     [&](const std::string& value) { return is_value(node, value); });
}

// A scalar or a list of some of them.
bool are_of(const YamlNode& node, const std::vector<std::string>& values) {
  if (node.is_scalar()) return is_one_of(node, values);
  return !node.items.empty() &&
         std::all_of(node.items.begin(), node.items.end(),
                     [&](const YamlNode& item) { return is_one_of(item, values); });
}

// Keys that choose what bears loss, and where a message has its role and its words: what is done
// here, or an error.
void require_usual_messages(const YamlNode& set, const std::string& path,
                            Diagnostics& diagnostics) {
  using Values = std::vector<std::string>;
  const Values roles = {"role", "from"}, words = {"content", "value"};
  const auto require = [&](const YamlNode& within, const std::string& place, const char* key,
                           const Values& values) {
    const YamlNode* node = within.find(key);
    if (node == nullptr || says_nothing(*node) || are_of(*node, values)) return;
    diagnostics.error(*node, place + "." + key,
                      "found " + describe(*node) + ", which has no equal here", join(values));
  };
  if (const YamlNode* trained = set.find("roles_to_train");
      trained != nullptr && !trained->is_null() && trained->items.empty() && !trained->is_scalar())
    diagnostics.error(*trained, path + ".roles_to_train", "found an empty list", "assistant");
  require(set, path, "roles_to_train", {"assistant", "gpt"});
  require(set, path, "train_on_eos", {"turn"});
  require(set, path, "message_field_role", roles);
  require(set, path, "message_field_content", words);
  const std::pair<const char*, std::vector<std::pair<const char*, Values>>> mappings[] = {
      {"message_property_mappings", {{"role", roles}, {"content", words}}},
      {"roles",
       {{"user", {"user", "human"}},
        {"assistant", {"assistant", "gpt"}},
        {"system", {"system"}},
        {"tool", {"tool"}}}}};
  for (const auto& [name, members] : mappings) {
    const YamlNode* node = set.find(name);
    if (node == nullptr || says_nothing(*node)) continue;
    std::set<std::string> known;
    for (const auto& [key, values] : members) {
      require(*node, path + "." + name, key, values);
      known.insert(key);
    }
    refuse_keys(*node, path + "." + name, known, diagnostics);
    if (node->members.empty()) {
      diagnostics.error(*node, path + "." + name, "found " + describe(*node), "a mapping");
    }
  }
}

std::optional<double> read_axolotl_set(const YamlNode& set, const std::string& path,
                                       Diagnostics& diagnostics, const TakeValue& take) {
  static const std::set<std::string> kKnown = {"path",
                                               "name",
                                               "split",
                                               "type",
                                               "ds_type",
                                               "data_files",
                                               "columns",
                                               "field_messages",
                                               "field",
                                               "trust_remote_code",
                                               "roles_to_train",
                                               "train_on_eos",
                                               "chat_template",
                                               "conversation",
                                               "message_property_mappings",
                                               "message_field_role",
                                               "message_field_content",
                                               "roles"};
  refuse_keys(set, path, kKnown, diagnostics);
  require_usual_messages(set, path, diagnostics);
  const std::string type = text_at(set, "type"), split = text_at(set, "split");
  std::string place = text_at(set, "path");
  const YamlNode* files = set.find("data_files");
  if (files != nullptr && !says_nothing(*files)) {
    const bool one = files->is_scalar() || files->items.size() == 1;
    if (!one) diagnostics.error(*files, path + ".data_files", "lists several", "a folder of them");
    place = files->is_scalar() || files->items.empty() ? files->text : files->items.front().text;
  }
  take("training_data_path",
       at_line(text_node(place_of_data(place, text_at(set, "name"),
                                       split == "train" ? std::string() : split)),
               set.line),
       path + ".path");
  if (type == "chat_template" || type == "sharegpt") {
    const std::string field = text_at(set, "field_messages");
    const char* usual = type == "sharegpt" ? "conversations" : kConversationField;
    take("conversation_column", text_node(field.empty() ? usual : field), path + ".type");
  } else if (type == "completion") {
    const std::string field = text_at(set, "field");
    take("dataset_text_field", text_node(field.empty() ? "text" : field), path + ".type");
    take("response_template", text_node("None"), path + ".type");
  } else if (type == kAlpacaForm) {
    take("data_formatter_template", text_node(type), path + ".type");
  } else if (const YamlNode* node = set.find("type")) {  // trl's sets have none
    diagnostics.error(*node, path + ".type",
                      "found " + describe(*node) + ", which has no equal here",
                      "chat_template, completion or alpaca, or --data FILE and --template TEXT");
  }
  return std::nullopt;
}

}  // namespace

void read_handbook_mixture(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                           const TakeValue& take) {
  const YamlNode* sets = node.find("datasets");
  if (sets == nullptr) return diagnostics.error(node, path, "has no datasets", "a list of them");
  for (const auto& [key, value] : node.members) {
    if (says_nothing(value) || key == "datasets") continue;
    if (key == "seed") {
      take("sampling_seed", value, path + "." + key);
    } else if (key == "test_split_size") {
      take("eval_split", value, path + "." + key);
    } else {
      diagnostics.error(value, path + "." + key, "has no equal here",
                        "datasets, seed, test_split_size");
    }
  }
  read_sets(*sets, path + ".datasets", diagnostics, take, read_handbook_set);
}

void read_axolotl_datasets(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                           const TakeValue& take) {
  read_sets(node, path, diagnostics, take, read_axolotl_set);
}

}  // namespace sftbench
