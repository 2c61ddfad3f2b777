#include "space/experiment_list.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/text.h"
#include "space/domain.h"

namespace sftbench {
namespace {

class ExperimentListReader {
 public:
  ExperimentListReader(AdoIds ids, SpaceNames& names, Diagnostics& diagnostics)
      : ids_(ids), names_(names), diagnostics_(diagnostics) {}

  std::vector<ExperimentReference> read(const YamlNode* node, std::string path) {
    bool full = false;
    if (node->is_mapping()) {  // the form in which ado stores them: whole experiments
      Fields fields(*node, path, diagnostics_);
      node = fields.sequence("experiments");
      fields.reject_unknown();
      path += ".experiments";
      full = true;
      if (node == nullptr) return {};
    }
    if (!node->is_sequence() || node->items.empty()) {
      diagnostics_.error(*node, path, "found " + describe(*node), "a list of experiments");
      return {};
    }
    for (size_t i = 0; i < node->items.size(); ++i) {
      read_experiment_reference(node->items[i], path + "[" + std::to_string(i) + "]", full);
    }
    return std::move(experiments_);
  }

 private:
  void read_experiment_reference(const YamlNode& node, const std::string& path, bool full) {
    Fields fields(node, path, diagnostics_);
    const std::string key = full ? "identifier" : "experimentIdentifier";
    const std::string identifier = fields.text(key);
    const std::string actuator = fields.text("actuatorIdentifier");
    const YamlNode* parameterization = fields.sequence("parameterization", Presence::kOptional);
    if (!full) {
      note_unused(node, path, {key, "actuatorIdentifier", "parameterization"},
                  "not used; ado would refuse this");
    }
    if (!node.is_mapping() || identifier.empty()) return;
    ExperimentReference reference{nullptr, {}, ids_};
    reference.experiment = names_.experiment(identifier, node.find(key), path + "." + key);
    if (reference.experiment == nullptr) return;
    if (identifier != reference.experiment->identifier) {
      diagnostics_.warning(
          node.find(key)->line, path + "." + key,
          "taken as '" + reference.experiment->identifier + "', which is how ado's code spells it");
    }
    if (!actuator.empty() && actuator != reference.experiment->actuator) {
      diagnostics_.error(*node.find("actuatorIdentifier"), path + ".actuatorIdentifier",
                         "unknown actuator '" + actuator + "'", reference.experiment->actuator,
                         nearest_spelling(actuator, {reference.experiment->actuator}));
    }
    if (parameterization != nullptr) read_parameterization(*parameterization, path, reference);
    for (const ExperimentReference& other : experiments_) {
      if (!is_same(other, reference)) continue;
      diagnostics_.warning(node.line, path,
                           "the experiment '" + experiment_id(reference) +
                               "' stands in the list before; taken once");
      return;
    }
    experiments_.push_back(std::move(reference));
  }

  void note_unused(const YamlNode& node, const std::string& path,
                   const std::vector<std::string>& known, const std::string& what) {
    for (const auto& [key, member] : node.members) {
      if (std::find(known.begin(), known.end(), key) == known.end() && !member.is_null())
        diagnostics_.warning(member.line, path + "." + key, "unknown key, " + what);
    }
  }

  void read_parameterization(const YamlNode& list, const std::string& experiment_path,
                             ExperimentReference& reference) {
    for (size_t i = 0; i < list.items.size(); ++i) {
      const std::string path = experiment_path + ".parameterization[" + std::to_string(i) + "]";
      const YamlNode& node = list.items[i];
      Fields fields(node, path, diagnostics_);
      const YamlNode* property = fields.mapping("property");
      const YamlNode* value = fields.any("value");
      note_unused(node, path, {"property", "value", "valueType", "uncertainty"},
                  "not used (as in ado)");
      note_value_type(node, path);
      if (property == nullptr || value == nullptr) continue;
      Fields members(*property, path + ".property", diagnostics_);
      const std::string identifier = members.text("identifier");
      if (!identifier.empty()) read_parameter(identifier, *value, path, reference);
    }
  }

  void note_value_type(const YamlNode& node, const std::string& path) {
    const YamlNode* type = node.find("valueType");
    const YamlNode* value = node.find("value");
    if (type == nullptr || type->is_null() || value == nullptr) return;
    const Json& found = value->value;
    const bool number = value->is_scalar() && (found.is_number() || found.is_boolean());
    const bool fits =
        (type->text == "NUMERIC_VALUE_TYPE" && (number || value->is_null())) ||
        (type->text == "VECTOR_VALUE_TYPE" && value->is_sequence()) ||
        (type->text == "STRING_VALUE_TYPE" && value->is_scalar() && found.is_string());
    if (fits) return;
    diagnostics_.warning(
        type->line, path + ".valueType",
        describe(*value) + " is no " + describe(*type) + "; not used, and ado would refuse this");
  }

  void read_parameter(const std::string& identifier, const YamlNode& value, const std::string& path,
                      ExperimentReference& reference) {
    const PropertySpec* spec =
        names_.property(identifier, value.line, path + ".property", {reference.experiment});
    if (spec == nullptr) return;
    if (spec->required) {
      diagnostics_.error(value, path,
                         "'" + identifier + "' is a required property of the experiment",
                         "it in entitySpace");
      return;
    }
    for (const auto& other : reference.parameterization) {
      if (other.first == identifier)
        diagnostics_.error(value, path, "'" + identifier + "' is set twice");
    }
    const std::optional<Json> accepted =
        read_value(value, path + ".value", names_.widened(*spec), diagnostics_);
    if (!accepted) return;
    if (spec->canonical(*accepted) == spec->default_value) {
      diagnostics_.warning(value.line, path,
                           "equals the default of '" + identifier + "'; ado would refuse this");
    }
    note_without_effect(*spec, *reference.experiment, value.line, path, diagnostics_);
    reference.parameterization.emplace_back(identifier, *accepted);
  }

  const AdoIds ids_;
  SpaceNames& names_;
  Diagnostics& diagnostics_;
  std::vector<ExperimentReference> experiments_;
};

}  // namespace

std::vector<ExperimentReference> read_experiment_list(const YamlNode& node, const std::string& path,
                                                      AdoIds ids, SpaceNames& names,
                                                      Diagnostics& diagnostics) {
  return ExperimentListReader(ids, names, diagnostics).read(&node, path);
}

bool is_same(ExperimentReference a, ExperimentReference b) {
  a.ids = b.ids = AdoIds::k18;
  return experiment_id(a) == experiment_id(b);
}

}  // namespace sftbench
