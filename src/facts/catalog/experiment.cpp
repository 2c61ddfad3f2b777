#include "sftbench/catalog/experiment.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "sftbench/base/text.h"
#include "sftbench/catalog/fields.h"

namespace sftbench {
namespace {

// Reads one experiment file; the values of properties that say values_from come from the other
// catalogs.
class ExperimentReader {
 public:
  ExperimentReader(const std::string& path, const std::vector<std::string>& models,
                   const std::vector<std::string>& gpus, int bases = 2)
      : path_(path), diagnostics_(path), models_(models), gpus_(gpus), bases_(bases) {}

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

  // A table that is scattered over more than three files is no longer one to read.
  Experiment based_on(Fields& fields) {
    Experiment nothing;
    nothing.hardcoded = Json::object();
    const YamlNode* base = fields.any("based_on", Presence::kOptional);
    if (base == nullptr) return nothing;
    const std::filesystem::path file =
        std::filesystem::path(path_).parent_path() / (base->text + ".yaml");
    const YamlNode root = read_yaml_file(file.string());
    if (bases_ == 1 && root.find("based_on") != nullptr) {
      diagnostics_.error(*base, "based_on", "'" + base->text + "' is itself based on another one",
                         "an experiment that says everything");
      diagnostics_.throw_if_failed();
    }
    return ExperimentReader(file.string(), models_, gpus_, bases_ - 1).read(root);
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
    spec.one_line = fields.boolean("one_line", false);
    spec.without_effect = fields.boolean("without_effect", false);
    spec.numbered = fields.boolean("numbered", false);
    spec.values = fields.texts("values", Presence::kOptional);
    spec.values_from = fields.text("values_from", Presence::kOptional);
    if (spec.values_from == "models") spec.values = models_;
    if (spec.values_from == "gpus") spec.values = gpus_;
    spec.length = fields.integer("length", Presence::kOptional).value_or(0);
    spec.range = range(fields, node, identifier);
    spec.zero_is_invalid = fields.boolean("zero_is_invalid", false);
    spec.unit = fields.text("unit", Presence::kOptional);
    spec.help = fields.text("help");
    const bool fixed = section == "arguments" && fixed_.contains(identifier);
    if (!spec.required && !fixed) default_value(fields, spec);
    fields.reject_unknown();
    return spec;
  }

  PropertyKind kind(const std::string& text, const YamlNode& node, const std::string& identifier) {
    if (const std::optional<PropertyKind> known = find_property_kind(text)) return *known;
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
  int bases_;                           // that may stand below this one, one on another
  std::vector<std::string> described_;  // properties of this file
  Json fixed_ = Json::object();         // that is hard-coded
};

}  // namespace

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
