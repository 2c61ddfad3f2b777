#include "sftbench/catalog/fields.h"

#include <utility>

namespace sftbench {

Fields::Fields(const YamlNode& node, std::string path, Diagnostics& diagnostics)
    : node_(node), path_(std::move(path)), diagnostics_(diagnostics) {
  if (!node_.is_mapping()) {
    diagnostics_.error(node_, path_, "found " + describe(node_), "a mapping");
  }
}

const YamlNode* Fields::any(const std::string& key, Presence presence) {
  known_.push_back(key);
  const YamlNode* member = node_.find(key);
  if (member == nullptr && presence == Presence::kRequired && node_.is_mapping()) {
    diagnostics_.error(node_, path(key), "missing");
  }
  return member;
}

const YamlNode* Fields::mapping(const std::string& key, Presence presence) {
  const YamlNode* member = any(key, presence);
  if (member == nullptr || member->is_mapping()) return member;
  if (presence == Presence::kRequired || !member->is_null()) wrong_type(key, *member, "a mapping");
  return nullptr;
}

const YamlNode* Fields::sequence(const std::string& key, Presence presence) {
  const YamlNode* member = any(key, presence);
  if (member == nullptr || member->is_sequence()) return member;
  if (presence == Presence::kRequired || !member->is_null()) wrong_type(key, *member, "a list");
  return nullptr;
}

std::string Fields::text(const std::string& key, Presence presence) {
  const YamlNode* member = any(key, presence);
  if (member == nullptr || (presence == Presence::kOptional && member->is_null())) return {};
  if (member->is_scalar() && !member->is_null()) return member->text;
  wrong_type(key, *member, "text");
  return {};
}

std::vector<std::string> Fields::texts(const std::string& key, Presence presence) {
  std::vector<std::string> texts;
  const YamlNode* list = sequence(key, presence);
  if (list == nullptr) return texts;
  for (size_t i = 0; i < list->items.size(); ++i) {
    const YamlNode& item = list->items[i];
    if (item.is_scalar() && !item.is_null()) {
      texts.push_back(item.text);
    } else {
      wrong_type(key + "[" + std::to_string(i) + "]", item, "text");
    }
  }
  return texts;
}

std::optional<double> Fields::number(const std::string& key, Presence presence) {
  const YamlNode* member = any(key, presence);
  if (member == nullptr || (presence == Presence::kOptional && member->is_null()))
    return std::nullopt;
  if (member->is_scalar() && member->value.is_number()) return member->value.get<double>();
  wrong_type(key, *member, "a number");
  return std::nullopt;
}

std::optional<int64_t> Fields::integer(const std::string& key, Presence presence) {
  const YamlNode* member = any(key, presence);
  if (member == nullptr || (presence == Presence::kOptional && member->is_null()))
    return std::nullopt;
  if (member->is_scalar() && member->value.is_number_integer()) return member->value.get<int64_t>();
  wrong_type(key, *member, "an integer");
  return std::nullopt;
}

bool Fields::boolean(const std::string& key, bool otherwise) {
  const YamlNode* member = any(key, Presence::kOptional);
  if (member == nullptr || member->is_null()) return otherwise;
  if (member->is_scalar() && member->value.is_boolean()) return member->value.get<bool>();
  wrong_type(key, *member, "true or false");
  return otherwise;
}

void Fields::reject_unknown() {
  diagnostics_.unknown_keys(node_, path_, known_);
}

void Fields::wrong_type(const std::string& key, const YamlNode& found,
                        const std::string& expected) {
  diagnostics_.error(found, path(key), "found " + describe(found), expected);
}

}  // namespace sftbench
