#include "sftbench/catalog/experiment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/fields.h"

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
  if (spec.range) {
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
    const std::string text = found.value.get<std::string>();
    if (is_legal_text(spec, text) || (spec.nullable && (text == "None" || text.empty())))
      return found.value;
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

// Reads one experiment file; the values of properties that say values_from come from the other
// catalogs.
class ExperimentReader {
 public:
  ExperimentReader(const std::string& path, const std::vector<std::string>& models,
                   const std::vector<std::string>& gpus)
      : path_(path), diagnostics_(path), models_(models), gpus_(gpus) {}

  Experiment read(const YamlNode& root) {
    Fields fields(root, {}, diagnostics_);
    Experiment experiment = based_on(fields);
    const bool whole = experiment.identifier.empty();
    experiment.identifier = fields.text("identifier");
    experiment.actuator = fields.text("actuator");
    experiment.tuning = tuning(fields);
    experiment.summary = fields.text("summary");
    experiment.aliases = fields.texts("aliases", Presence::kOptional);
    experiment.runs = fields.integer("runs", Presence::kOptional).value_or(1);
    without(fields, experiment);
    const Presence presence = whole ? Presence::kRequired : Presence::kOptional;
    properties(fields, "required", presence, experiment);
    properties(fields, "optional", presence, experiment);
    if (const YamlNode* hardcoded = fields.mapping("hardcoded", presence))
      experiment.hardcoded.update(to_json(*hardcoded));
    arguments(fields, experiment);
    measured(fields, presence, experiment);
    fields.reject_unknown();
    diagnostics_.throw_if_failed();
    return experiment;
  }

 private:
  TuningMethod tuning(Fields& fields) {
    const std::string name = fields.text("tuning");
    const std::optional<TuningMethod> method = find_named<TuningMethod>(name);
    const YamlNode* node = fields.any("tuning", Presence::kOptional);
    if (!method && node != nullptr && node->is_scalar()) {
      const std::vector<std::string> names = names_of<TuningMethod>();
      diagnostics_.error(*node, "tuning", "found " + describe(*node), "one of " + join(names),
                         nearest_spelling(name, names));
    }
    return method.value_or(TuningMethod::kFull);
  }

  // One level only: a table that is scattered over three files is no longer one to read.
  Experiment based_on(Fields& fields) {
    Experiment nothing;
    nothing.hardcoded = Json::object();
    const YamlNode* base = fields.any("based_on", Presence::kOptional);
    if (base == nullptr) return nothing;
    const std::filesystem::path file =
        std::filesystem::path(path_).parent_path() / (base->text + ".yaml");
    const YamlNode root = read_yaml_file(file.string());
    if (root.find("based_on") != nullptr) {
      diagnostics_.error(*base, "based_on", "'" + base->text + "' is itself based on another one",
                         "an experiment that says everything");
      diagnostics_.throw_if_failed();
    }
    return ExperimentReader(file.string(), models_, gpus_).read(root);
  }

  void without(Fields& fields, Experiment& experiment) {
    for (const std::string& identifier : fields.texts("without", Presence::kOptional)) {
      auto& specs = experiment.properties;
      const auto left = std::remove_if(specs.begin(), specs.end(), [&](const PropertySpec& spec) {
        return spec.identifier == identifier;
      });
      if (left == specs.end()) {
        diagnostics_.error(0, "without", "'" + identifier + "' is no property of based_on", {},
                           nearest_spelling(identifier, experiment.property_names()));
      }
      specs.erase(left, specs.end());
    }
  }

  // A property of the base is replaced in its place, a new one follows at the end.
  void properties(Fields& fields, const std::string& section, Presence presence,
                  Experiment& experiment) {
    const YamlNode* table = fields.mapping(section, presence);
    if (table == nullptr) return;
    for (const auto& [identifier, node] : table->members) {
      describe_once(identifier, node);
      put(property(identifier, section, node), experiment.properties);
    }
  }

  // What `hardcoded` has of that name is the default; what it has not, has one of its own.
  void arguments(Fields& fields, Experiment& experiment) {
    fixed_ = experiment.hardcoded;
    if (const YamlNode* table = fields.mapping("arguments", Presence::kOptional)) {
      for (const auto& [identifier, node] : table->members) {
        describe_once(identifier, node);
        PropertySpec spec = property(identifier, "arguments", node);
        spec.argument = true;
        put(std::move(spec), experiment.arguments);
      }
    }
    for (PropertySpec& spec : experiment.arguments) {
      if (!fixed_.contains(spec.identifier)) continue;
      const Json& fixed = fixed_.at(spec.identifier);
      spec.default_value = spec.canonical(
          spec.escaped && fixed.is_string() ? Json(escaped_text(fixed.get<std::string>())) : fixed);
    }
  }

  void describe_once(const std::string& identifier, const YamlNode& node) {
    if (std::find(described_.begin(), described_.end(), identifier) != described_.end())
      diagnostics_.error(node, identifier, "described twice");
    described_.push_back(identifier);
  }

  static void put(PropertySpec spec, std::vector<PropertySpec>& specs) {
    const auto old = std::find_if(specs.begin(), specs.end(), [&](const PropertySpec& other) {
      return other.identifier == spec.identifier;
    });
    if (old == specs.end()) {
      specs.push_back(std::move(spec));
    } else {
      *old = std::move(spec);
    }
  }

  PropertySpec property(const std::string& identifier, const std::string& section,
                        const YamlNode& node) {
    Fields fields(node, section + "." + identifier, diagnostics_);
    PropertySpec spec;
    spec.identifier = identifier;
    spec.required = section == "required";
    spec.kind = kind(fields.text("kind"), node, identifier);
    spec.nullable = fields.boolean("nullable", false);
    spec.open = fields.boolean("open", false);
    spec.escaped = fields.boolean("escaped", false);
    spec.without_effect = fields.boolean("without_effect", false);
    spec.numbered = fields.boolean("numbered", false);
    spec.values = fields.texts("values", Presence::kOptional);
    spec.values_from = fields.text("values_from", Presence::kOptional);
    if (spec.values_from == "models") spec.values = models_;
    if (spec.values_from == "gpus") spec.values = gpus_;
    spec.length = fields.integer("length", Presence::kOptional).value_or(0);
    spec.range = range(fields, node, identifier);
    spec.unit = fields.text("unit", Presence::kOptional);
    spec.help = fields.text("help");
    const bool fixed = section == "arguments" && fixed_.contains(identifier);
    if (!spec.required && !fixed) default_value(fields, spec);
    fields.reject_unknown();
    return spec;
  }

  PropertyKind kind(const std::string& text, const YamlNode& node, const std::string& identifier) {
    for (const auto& [value, name] : kKinds) {
      if (text == name) return value;
    }
    diagnostics_.error(
        node, identifier + ".kind", "found '" + text + "'",
        "one of string, integer, number, boolean, string_list, module_names, object");
    return PropertyKind::kString;
  }

  std::optional<NumberRange> range(Fields& fields, const YamlNode& node,
                                   const std::string& identifier) {
    const YamlNode* limits = fields.sequence("range", Presence::kOptional);
    const double interval = fields.number("interval", Presence::kOptional).value_or(1);
    if (limits == nullptr) return std::nullopt;
    const bool legal = limits->items.size() == 2 && limits->items[0].value.is_number() &&
                       limits->items[1].value.is_number() && interval >= 0;
    if (!legal) {
      diagnostics_.error(node, identifier + ".range", "found " + describe(*limits),
                         "[lower, upper)");
      return std::nullopt;
    }
    return NumberRange{limits->items[0].value.get<double>(), limits->items[1].value.get<double>(),
                       interval};
  }

  void default_value(Fields& fields, PropertySpec& spec) {
    const YamlNode* node = fields.any("default");
    if (node == nullptr) return;
    const std::optional<Json> value = spec.accept(*node);
    if (value) {
      spec.default_value = spec.canonical(*value);
    } else {
      diagnostics_.error(*node, fields.path("default"), "found " + describe(*node),
                         spec.expectation());
    }
  }

  void measured(Fields& fields, Presence presence, Experiment& experiment) {
    const YamlNode* list = fields.sequence("measured", presence);
    if (list == nullptr) return;
    experiment.measured.clear();
    for (size_t i = 0; i < list->items.size(); ++i) {
      Fields members(list->items[i], "measured[" + std::to_string(i) + "]", diagnostics_);
      experiment.measured.push_back(
          {members.text("identifier"), members.text("unit"), members.text("help")});
      members.reject_unknown();
    }
  }

  std::string path_;
  Diagnostics diagnostics_;
  const std::vector<std::string>& models_;
  const std::vector<std::string>& gpus_;
  std::vector<std::string> described_;  // properties of this file
  Json fixed_ = Json::object();         // that is hard-coded
};

}  // namespace

std::string escaped_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '\n':
        escaped += "\\n";
        break;
      case '\t':
        escaped += "\\t";
        break;
      case '\r':
        escaped += "\\r";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

namespace {

void append_utf8(std::string& text, uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | (code >> 6));
    text += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    text += static_cast<char>(0xE0 | (code >> 12));
    text += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// The code of \x41 or \u0041 behind its letter; nothing where the digits are missing, or are half
// of a pair.
std::optional<uint32_t> escaped_code(std::string_view digits, size_t count) {
  if (digits.size() < count) return std::nullopt;
  uint32_t code = 0;
  const char* end = digits.data() + count;
  const auto [stop, error] = std::from_chars(digits.data(), end, code, 16);
  if (error != std::errc() || stop != end || (code >= 0xD800 && code < 0xE000)) return std::nullopt;
  return code;
}

}  // namespace

std::string unescaped_text(std::string_view text) {
  constexpr std::string_view kLetters = "ntr\\'\"abfv0", kMeanings("\n\t\r\\'\"\a\b\f\v\0", 11);
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    const char letter = text[i + 1];
    const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 0;
    const size_t known = kLetters.find(letter);
    if (known != std::string_view::npos) {
      plain += kMeanings[known];
      ++i;
    } else if (const auto code =
                   digits > 0 ? escaped_code(text.substr(i + 2), digits) : std::nullopt) {
      append_utf8(plain, *code);
      i += 1 + digits;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::string_view to_string(PropertyKind kind) {
  return kKinds.at(static_cast<size_t>(kind)).second;
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
        text = "a model (`sftbench models`)";
      } else if (values.size() > kListed) {
        text = "one of " + std::to_string(values.size()) + " values (`sftbench experiments ID`)";
      } else {
        text = "one of " + join(values);
      }
      break;
  }
  return nullable ? text + " or None" : text;
}

const PropertySpec* Experiment::find(std::string_view property) const {
  for (const auto* specs : {&properties, &arguments}) {
    for (const PropertySpec& spec : *specs) {
      if (spec.identifier == property) return &spec;
    }
  }
  return nullptr;
}

std::vector<std::string> Experiment::names() const {
  std::vector<std::string> names = property_names();
  for (const PropertySpec& spec : arguments) names.push_back(spec.identifier);
  return names;
}

std::vector<std::string> Experiment::property_names() const {
  std::vector<std::string> names;
  for (const PropertySpec& spec : properties) names.push_back(spec.identifier);
  return names;
}

Experiment read_experiment(const std::string& path, const std::vector<std::string>& model_names,
                           const std::vector<std::string>& gpu_names) {
  return ExperimentReader(path, model_names, gpu_names).read(read_yaml_file(path));
}

}  // namespace sftbench
