// What a property takes as its value, in which form results are keyed by it, and how errors say so.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/experiment.h"
#include "sftbench/catalog/gpus.h"

namespace sftbench {
namespace {

constexpr std::array<std::pair<PropertyKind, std::string_view>, 7> kKinds = {{
    {PropertyKind::kString, "string"},
    {PropertyKind::kInteger, "integer"},
    {PropertyKind::kNumber, "number"},
    {PropertyKind::kBoolean, "boolean"},
    {PropertyKind::kStringList, "string_list"},
    {PropertyKind::kModuleNames, "module_names"},
    {PropertyKind::kObject, "object"},
}};

// PyYAML reads 1e3 as text; a person means a number. Only whole, finite, unquoted literals count.
std::optional<Json> number_written_as_text(const YamlNode& node) {
  if (!node.plain || node.text.empty() ||
      node.text.find_first_not_of("+-.0123456789eE") != std::string::npos) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double value = std::strtod(node.text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value)) return std::nullopt;
  return Json(value);
}

std::optional<Json> accept_number(const PropertySpec& spec, const YamlNode& found) {
  std::optional<Json> number;
  if (found.value.is_number()) number = found.value;
  if (found.value.is_string()) number = number_written_as_text(found);
  if (!number) return std::nullopt;
  const double value = number->get<double>();
  if (!std::isfinite(value)) return std::nullopt;
  if (spec.kind == PropertyKind::kInteger && value != std::floor(value)) return std::nullopt;
  if (spec.range && !(spec.zero_is_invalid && value == 0)) {
    if (value < spec.range->lower || value >= spec.range->upper) return std::nullopt;
    if (spec.range->interval == 0) return number;
    const double steps = (value - spec.range->lower) / spec.range->interval;
    if (steps != std::floor(steps)) return std::nullopt;
  }
  return number;
}

std::optional<Json> accept_boolean(const YamlNode& found) {
  if (found.value.is_boolean() || found.value == 0 || found.value == 1) return found.value;
  return std::nullopt;
}

// Also the C1 controls, U+0080 to U+009F, which some terminals obey.
bool has_control_character(const std::string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) return true;
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0)
      return true;
  }
  return false;
}

// Names go into identifiers, tables and logs; none has a line end or an escape sequence in it.
bool is_legal_text(const PropertySpec& spec, const std::string& text) {
  if (has_control_character(text)) return false;
  if (std::find(spec.values.begin(), spec.values.end(), text) != spec.values.end()) return true;
  return spec.open && !text.empty();
}

// Which of the values a number stands for; none when they are not numbered, or there are fewer.
std::optional<std::string> numbered_value(const PropertySpec& spec, const Json& found) {
  if (!spec.numbered) return std::nullopt;
  for (size_t i = 0; i < spec.values.size(); ++i) {
    if (found == i + 1 || found == std::to_string(i + 1)) return spec.values[i];
  }
  return std::nullopt;
}

std::optional<Json> accept_text(const PropertySpec& spec, const YamlNode& found) {
  if (spec.escaped && found.value.is_string()) {
    const std::string text = escaped_text(found.value.get_ref<const std::string&>());
    if (text.empty() || text == "None") {
      return spec.nullable ? std::optional<Json>(text) : std::nullopt;
    }
    return has_control_character(text) ? std::nullopt : std::optional<Json>(text);
  }
  if (numbered_value(spec, found.value)) return found.value;
  if (found.value.is_string()) {
    const std::string given = found.value.get<std::string>();
    const std::string text = spec.one_line ? one_line_text(given) : given;
    if (is_legal_text(spec, text) || (spec.nullable && (text == "None" || text.empty())))
      return Json(text);
    return std::nullopt;
  }
  // `no` and 2.8 are a boolean and a number to YAML 1.1, but here the text as written can be what
  // is meant.
  if (found.plain && is_legal_text(spec, found.text)) return Json(found.text);
  return std::nullopt;
}

std::optional<Json> accept_list(const PropertySpec& spec, const YamlNode& found) {
  if (found.is_scalar()) {
    return spec.nullable && found.value == "None" ? std::optional(found.value) : std::nullopt;
  }
  if (!found.is_sequence() || static_cast<int64_t>(found.items.size()) != spec.length)
    return std::nullopt;
  Json list = Json::array();
  for (const YamlNode& item : found.items) {
    const bool legal =
        item.is_scalar() && (item.value.is_boolean() || is_legal_text(spec, item.text));
    if (!legal) return std::nullopt;
    list.push_back(item.value);
  }
  return list;
}

bool is_module_name(const std::string& text) {
  constexpr std::string_view kLegal =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  return !text.empty() && text.find_first_not_of(kLegal) == std::string::npos;
}

// Names of modules, as a list or with commas between them; else a regular expression, as peft has
// it.
std::optional<Json> accept_module_names(const YamlNode& found) {
  Json names = Json::array();
  if (found.is_sequence()) {
    for (const YamlNode& item : found.items) {
      if (!item.is_scalar() || !is_module_name(item.text)) return std::nullopt;
      names.push_back(item.text);
    }
    return names.empty() ? std::nullopt : std::optional<Json>(names);
  }
  if (!found.is_scalar() || found.text.empty() || has_control_character(found.text)) {
    return std::nullopt;
  }
  if (found.text == "None") return Json(found.text);
  for (size_t begin = 0; begin <= found.text.size();) {
    const size_t end = std::min(found.text.find(',', begin), found.text.size());
    std::string name(trimmed(std::string_view(found.text).substr(begin, end - begin)));
    if (!is_module_name(name)) return Json(found.text);
    names.push_back(std::move(name));
    begin = end + 1;
  }
  return names;
}

// A mapping, or its JSON as a text.
std::optional<Json> accept_object(const YamlNode& found) {
  if (found.is_mapping()) return Json(json_text(to_json(found)));
  if (!found.is_scalar() || !found.value.is_string()) return std::nullopt;
  const Json object = Json::parse(found.text, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? std::optional<Json>(json_text(object)) : std::nullopt;
}

std::string number_text(double value) {
  return value == std::floor(value) ? std::to_string(static_cast<int64_t>(value))
                                    : json_text(Json(value));
}

}  // namespace

std::string_view to_string(PropertyKind kind) {
  return kKinds.at(static_cast<size_t>(kind)).second;
}

std::optional<PropertyKind> find_property_kind(std::string_view name) {
  for (const auto& [kind, kind_name] : kKinds) {
    if (name == kind_name) return kind;
  }
  return std::nullopt;
}

std::optional<Json> PropertySpec::accept(const YamlNode& found) const {
  if (found.is_null()) return nullable ? std::optional<Json>(nullptr) : std::nullopt;
  if (kind == PropertyKind::kStringList) return accept_list(*this, found);
  if (kind == PropertyKind::kModuleNames) return accept_module_names(found);
  if (kind == PropertyKind::kObject) return accept_object(found);
  if (!found.is_scalar()) return std::nullopt;
  switch (kind) {
    case PropertyKind::kInteger:
    case PropertyKind::kNumber:
      return accept_number(*this, found);
    case PropertyKind::kBoolean:
      return accept_boolean(found);
    default:
      return accept_text(*this, found);
  }
}

Json PropertySpec::canonical(const Json& value) const {
  if (nullable && (value == "None" || value == "")) return nullptr;
  if (value.is_null()) return value;
  switch (kind) {
    case PropertyKind::kInteger:
      return static_cast<int64_t>(value.get<double>());
    case PropertyKind::kNumber:
      return value.get<double>();
    case PropertyKind::kBoolean:
      return value == true || value == 1;
    case PropertyKind::kStringList: {
      Json list = Json::array();
      for (const Json& item : value) {
        list.push_back(item.is_boolean() ? Json(item.get<bool>() ? "True" : "False") : item);
      }
      return list;
    }
    case PropertyKind::kString:
      if (const auto text = numbered_value(*this, value)) return *text;
      if (values_from == "gpus" && value.is_string()) return product_name(value.get<std::string>());
      return value;
    case PropertyKind::kModuleNames:
    case PropertyKind::kObject:
      return value;
  }
  return value;
}

std::string PropertySpec::expectation() const {
  constexpr size_t kListed = 16;
  std::string text;
  switch (kind) {
    case PropertyKind::kInteger:
    case PropertyKind::kNumber:
      text = kind == PropertyKind::kInteger ? "an integer" : "a number";
      if (range) {
        const bool any = range->interval == 0;
        text += " from " + number_text(range->lower) + (any ? " to below " : " to ") +
                number_text(range->upper - range->interval);
        text += kind == PropertyKind::kNumber && !any
                    ? " in steps of " + number_text(range->interval)
                    : "";
      }
      break;
    case PropertyKind::kBoolean:
      text = "true or false";
      break;
    case PropertyKind::kModuleNames:
      text = "all-linear, names of modules with commas between them, or a regular expression";
      break;
    case PropertyKind::kObject:
      text = "a JSON object";
      break;
    case PropertyKind::kStringList:
      text = "a list of " + std::to_string(length) + " of " + join(values, " or ");
      break;
    case PropertyKind::kString:
      if (open) {
        text = values_from == "gpus" ? "the product name of a GPU (`sftbench gpus`)"
                                     : "a text without control characters";
      } else if (values_from == "models") {
        text = "a model (`sftbench models`; any other goes with --model DIR|ID)";
      } else if (values.size() > kListed) {
        text = "one of " + std::to_string(values.size()) + " values (`sftbench experiments ID`)";
      } else {
        text = "one of " + join(values);
      }
      break;
  }
  return nullable ? text + " or None" : text;
}

}  // namespace sftbench
