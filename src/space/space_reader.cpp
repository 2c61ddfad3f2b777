// Reads discovery space files: the grammar of ado (core/discoveryspace/config.py), with the keys
// that this program adds (weights, padding, actuatorConfiguration), and --set from the command
// line.
#include <algorithm>
#include <limits>
#include <utility>

#include "sftbench/base/file.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/fields.h"
#include "sftbench/space/space.h"
#include "sftbench/variants/padding.h"
#include "space/assignments.h"
#include "space/domain.h"

namespace sftbench {
namespace {

constexpr int64_t kMaxEntities = std::numeric_limits<int64_t>::max() / 2;

class SpaceReader {
 public:
  SpaceReader(const std::string& origin, const Catalog& catalog, const SpaceOptions& options)
      : catalog_(catalog), options_(options), diagnostics_(origin), assignments_(options) {
    space_.origin = origin;
    space_.ids = options.ids;
    models_ = options.extra_models;
  }

  Space read(const YamlNode& root) {
    const YamlNode* body = unwrap(root);
    if (body != nullptr) read_body(*body);
    return finish();
  }

  Space read_assignments_only() {
    ExperimentReference reference{nullptr, {}, options_.ids};
    reference.experiment = known_experiment(options_.experiment, {}, "--experiment");
    if (reference.experiment != nullptr) space_.experiments.push_back(reference);
    return finish();
  }

 private:
  // `ado get space` wraps the space in a resource; its own keys carry nothing that matters here.
  const YamlNode* unwrap(const YamlNode& root) {
    if (root.find("kind") == nullptr) return &root;
    Fields fields(root, {}, diagnostics_);
    const std::string kind = fields.text("kind");
    if (kind != "discoveryspace") {
      diagnostics_.error(root, "kind", "this is a resource of kind '" + kind + "'",
                         "discoveryspace", nearest_spelling(kind, {"discoveryspace"}));
    }
    for (const char* key :
         {"version", "identifier", "created", "status", "metadata", "provenance"}) {
      fields.any(key, Presence::kOptional);
    }
    const YamlNode* config = fields.mapping("config");
    prefix_ = "config.";
    if (kind == "discoveryspace") fields.reject_unknown();
    return kind == "discoveryspace" ? config : nullptr;
  }

  void read_body(const YamlNode& body) {
    if (!body.is_mapping()) {
      diagnostics_.error(body, {}, "found " + describe(body),
                         "a discovery space: entitySpace and experiments");
      return;
    }
    line_ = body.line;
    Fields fields(body, prefix_.empty() ? prefix_ : "config", diagnostics_);
    space_.label = fields.text("sampleStoreIdentifier", Presence::kOptional);
    if (const YamlNode* store = body.find("sampleStoreIdentifier"); store && store->is_null()) {
      diagnostics_.warning(store->line, prefix_ + "sampleStoreIdentifier",
                           "found nothing; ado would refuse this space", "text, or no such key");
    }
    fields.mapping("metadata", Presence::kOptional);
    space_.weights = choice(fields, "weights", {"auto", "random"});
    space_.padding = choice(fields, "padding", names_of<Padding>());
    if (const YamlNode* actuator = fields.mapping("actuatorConfiguration", Presence::kOptional)) {
      space_.actuator_configuration = *actuator;
      add_models_of(*actuator);
    }
    read_experiments(fields.any("experiments"));
    if (const YamlNode* dimensions = fields.sequence("entitySpace", Presence::kOptional)) {
      line_ = dimensions->line;
      read_dimensions(*dimensions);
    }
    fields.reject_unknown();
  }

  std::string choice(Fields& fields, const std::string& key,
                     const std::vector<std::string>& known) {
    const YamlNode* node = fields.any(key, Presence::kOptional);
    if (node == nullptr) return {};
    if (node->is_scalar() && std::find(known.begin(), known.end(), node->text) != known.end())
      return node->text;
    diagnostics_.error(*node, prefix_ + key, "found " + describe(*node), join(known, " or "),
                       node->is_scalar() ? nearest_spelling(node->text, known) : std::string());
    return {};
  }

  void add_models_of(const YamlNode& actuator) {
    const YamlNode* parameters = actuator.find("parameters");
    const YamlNode* map = (parameters != nullptr ? *parameters : actuator).find("model_map");
    if (map == nullptr) return;
    for (const std::string& name : map->keys()) models_.push_back(name);
  }

  // --- experiments -------------------------------------------------------------------------------
  void read_experiments(const YamlNode* node) {
    if (node == nullptr) return;
    std::string path = prefix_ + "experiments";
    bool full = false;
    if (node->is_mapping()) {  // the form in which ado stores them: whole experiments
      Fields fields(*node, path, diagnostics_);
      node = fields.sequence("experiments");
      fields.reject_unknown();
      path += ".experiments";
      full = true;
      if (node == nullptr) return;
    }
    if (!node->is_sequence() || node->items.empty()) {
      diagnostics_.error(*node, path, "found " + describe(*node), "a list of experiments");
      return;
    }
    for (size_t i = 0; i < node->items.size(); ++i) {
      read_experiment_reference(node->items[i], path + "[" + std::to_string(i) + "]", full);
    }
  }

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
    ExperimentReference reference{nullptr, {}, options_.ids};
    reference.experiment = known_experiment(identifier, node.find(key), path + "." + key);
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
    for (const ExperimentReference& other : space_.experiments) {
      if (!is_same(other, reference)) continue;
      diagnostics_.warning(node.line, path,
                           "the experiment '" + experiment_id(reference) +
                               "' stands in the list before; taken once");
      return;
    }
    space_.experiments.push_back(std::move(reference));
  }

  // Whatever the order of the parameters is.
  static bool is_same(ExperimentReference a, ExperimentReference b) {
    a.ids = b.ids = AdoIds::k18;
    return experiment_id(a) == experiment_id(b);
  }

  void note_unused(const YamlNode& node, const std::string& path,
                   const std::vector<std::string>& known, const std::string& what) {
    for (const auto& [key, member] : node.members) {
      if (std::find(known.begin(), known.end(), key) == known.end() && !member.is_null())
        diagnostics_.warning(member.line, path + "." + key, "unknown key, " + what);
    }
  }

  const Experiment* known_experiment(const std::string& identifier, const YamlNode* node,
                                     const std::string& path) {
    const Experiment* experiment = catalog_.experiment(identifier);
    if (experiment == nullptr) {
      const std::vector<std::string> names = catalog_.experiment_names();
      Diagnostics& where = node == nullptr ? assignments_.diagnostics() : diagnostics_;
      where.error(node == nullptr ? 0 : node->line, path, "unknown experiment '" + identifier + "'",
                  "one of " + join(names), nearest_spelling(identifier, names));
    }
    return experiment;
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
        known_property(identifier, value.line, path + ".property", {reference.experiment});
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
        read_value(value, path + ".value", widened(*spec), diagnostics_);
    if (!accepted) return;
    if (spec->canonical(*accepted) == spec->default_value) {
      diagnostics_.warning(value.line, path,
                           "equals the default of '" + identifier + "'; ado would refuse this");
    }
    note_without_effect(*spec, *reference.experiment, value.line, path);
    reference.parameterization.emplace_back(identifier, *accepted);
  }

  void note_without_effect(const PropertySpec& spec, const Experiment& experiment, int line,
                           const std::string& path) {
    if (!spec.without_effect) return;
    diagnostics_.warning(line, path,
                         "'" + spec.identifier + "' has no effect on " + experiment.identifier +
                             "; what differs in it alone is measured once");
  }

  // --- entity space ------------------------------------------------------------------------------
  void read_dimensions(const YamlNode& list) {
    for (size_t i = 0; i < list.items.size(); ++i) {
      const YamlNode& node = list.items[i];
      const std::string path = prefix_ + "entitySpace[" + std::to_string(i) + "]";
      Fields fields(node, path, diagnostics_);
      const std::string identifier = fields.text("identifier");
      fields.any("metadata", Presence::kOptional);
      const YamlNode* domain = fields.mapping("propertyDomain", Presence::kOptional);
      const std::string type = fields.text("propertyType", Presence::kOptional);
      if (!type.empty() && type != "CONSTITUTIVE_PROPERTY_TYPE") {
        diagnostics_.error(node, path + ".propertyType", "found '" + type + "'",
                           "CONSTITUTIVE_PROPERTY_TYPE");
      }
      fields.reject_unknown();
      if (identifier.empty()) continue;
      read_dimension(identifier, node, domain, path);
    }
  }

  void read_dimension(const std::string& identifier, const YamlNode& node, const YamlNode* domain,
                      const std::string& path) {
    if (std::find(named_.begin(), named_.end(), identifier) != named_.end()) {
      diagnostics_.error(node, path,
                         "the property '" + identifier + "' stands twice in entitySpace");
      return;
    }
    named_.push_back(identifier);
    const std::vector<const Experiment*> experiments = all_experiments();
    if (experiments.empty()) return;  // there are errors already, and nothing to check against
    const PropertySpec* spec =
        known_property(identifier, node.line, path + ".identifier", experiments);
    if (spec == nullptr) return;
    for (const ExperimentReference& reference : space_.experiments) {
      for (const auto& parameter : reference.parameterization) {
        if (parameter.first != identifier) continue;
        diagnostics_.error(node, path,
                           "'" + identifier +
                               "' stands in entitySpace and in the parameterization of '" +
                               experiment_id(reference) + "'",
                           "it in one of them");
      }
    }
    if (assignments_.has(identifier)) {  // --set replaces the domain, whatever it says
      add_assigned(identifier);
      return;
    }
    if (domain == nullptr) {
      diagnostics_.error(node, path + ".propertyDomain", "missing",
                         "values, or domainRange and interval");
      return;
    }
    note_where_missing(identifier, node.line, path, experiments);
    add_dimension(identifier, experiments, [&](const PropertySpec& accepts, bool again) {
      Diagnostics scratch(diagnostics_.file());  // what is worth a warning was said the first time
      auto dimension = read_domain(*domain, path + ".propertyDomain", accepts, spec, options_.ids,
                                   again ? scratch : diagnostics_);
      if (again) diagnostics_.add_errors(scratch);
      return dimension;
    });
  }

  // A domain has to lie within the property's own under every experiment; `read(accepts, again)`
  // checks it against one of them. The first that it does not fit ends the matter.
  template <typename Read>
  void add_dimension(const std::string& identifier,
                     const std::vector<const Experiment*>& experiments, Read read) {
    std::optional<Dimension> dimension;
    for (const Experiment* experiment : experiments) {
      const PropertySpec* spec = experiment->find(identifier);
      if (spec == nullptr) continue;
      PropertySpec accepts = widened(*spec);
      if (experiments.size() > 1) accepts.identifier += " of " + experiment->identifier;
      std::optional<Dimension> accepted = read(accepts, dimension.has_value());
      if (!accepted) return;
      if (!dimension) dimension = std::move(accepted);
    }
    if (dimension) space_.dimensions.push_back(std::move(*dimension));
  }

  void note_where_missing(const std::string& identifier, int line, const std::string& path,
                          const std::vector<const Experiment*>& experiments) {
    for (const Experiment* experiment : experiments) {
      if (const PropertySpec* spec = experiment->find(identifier)) {
        note_without_effect(*spec, *experiment, line, path);
        continue;
      }
      diagnostics_.warning(line, path,
                           experiment->identifier + " has no '" + identifier +
                               "', entities that differ in it alone are one there; ado would "
                               "refuse this");
    }
  }

  // Each once, however often it is parameterised.
  std::vector<const Experiment*> all_experiments() const {
    std::vector<const Experiment*> experiments;
    for (const ExperimentReference& reference : space_.experiments) {
      if (std::find(experiments.begin(), experiments.end(), reference.experiment) ==
          experiments.end())
        experiments.push_back(reference.experiment);
    }
    return experiments;
  }

  const PropertySpec* known_property(const std::string& identifier, int line,
                                     const std::string& path,
                                     const std::vector<const Experiment*>& experiments) {
    std::vector<std::string> names;
    for (const Experiment* experiment : experiments) {
      if (const PropertySpec* spec = experiment->find(identifier)) return spec;
      for (std::string& name : experiment->names()) names.push_back(std::move(name));
    }
    Diagnostics& where = line == 0 ? assignments_.diagnostics() : diagnostics_;
    where.error(line, path, "unknown property '" + identifier + "'",
                "a property of " + experiments.front()->identifier,
                nearest_spelling(identifier, names));
    return nullptr;
  }

  // The property's domain with the models that an actuator configuration adds.
  PropertySpec widened(const PropertySpec& spec) const {
    PropertySpec wide = spec;
    if (spec.values_from == "models")
      wide.values.insert(wide.values.end(), models_.begin(), models_.end());
    return wide;
  }

  // --- command line ------------------------------------------------------------------------------
  void add_assigned(const std::string& identifier) {
    const std::vector<const Experiment*> experiments = all_experiments();
    const std::string source = assignments_.source(identifier);
    const PropertySpec* spec = known_property(identifier, 0, source, experiments);
    note_where_missing(identifier, 0, source, experiments);
    add_dimension(identifier, experiments, [&](const PropertySpec& accepts, bool) {
      return assignments_.dimension(identifier, accepts, spec);
    });
  }

  // One value replaces a parameter in its place; several make it a dimension.
  bool replace_parameter(const std::string& identifier, const PropertySpec& spec) {
    bool found = false;
    for (ExperimentReference& reference : space_.experiments) {
      auto& parameters = reference.parameterization;
      const auto parameter =
          std::find_if(parameters.begin(), parameters.end(),
                       [&](const auto& entry) { return entry.first == identifier; });
      if (parameter == parameters.end()) continue;
      const auto dimension = assignments_.dimension(identifier, widened(spec), &spec);
      if (!dimension) return true;
      found = dimension->size() == 1;
      if (found) {
        parameter->second = dimension->value(0);
      } else {
        parameters.erase(parameter);
      }
    }
    return found;
  }

  void apply_assignments() {
    const std::vector<const Experiment*> experiments = all_experiments();
    if (experiments.empty()) return;
    for (const std::string& identifier : assignments_.identifiers()) {
      if (std::find(named_.begin(), named_.end(), identifier) != named_.end()) continue;
      const PropertySpec* spec =
          known_property(identifier, 0, assignments_.source(identifier), experiments);
      if (spec == nullptr || replace_parameter(identifier, *spec)) continue;
      named_.push_back(identifier);
      add_assigned(identifier);
    }
    drop_equal_experiments();
  }

  // Experiments that differed only in what --set has replaced are one now.
  void drop_equal_experiments() {
    std::vector<ExperimentReference> kept;
    for (ExperimentReference& reference : space_.experiments) {
      const bool again =
          std::any_of(kept.begin(), kept.end(),
                      [&](const ExperimentReference& other) { return is_same(other, reference); });
      if (!again) kept.push_back(std::move(reference));
    }
    space_.experiments = std::move(kept);
  }

  void keep_chosen_experiment() {
    if (options_.experiment.empty() || space_.experiments.empty()) return;
    std::vector<std::string> names;
    std::vector<ExperimentReference> kept;
    const Experiment* alias = catalog_.experiment(options_.experiment);
    for (const ExperimentReference& reference : space_.experiments) {
      names.push_back(experiment_id(reference));
      if (reference.experiment == alias || is_experiment_id(reference, options_.experiment))
        kept.push_back(reference);
    }
    if (kept.empty()) {
      assignments_.diagnostics().error(
          0, "--experiment", "'" + options_.experiment + "' is not in this space",
          "one of " + join(names), nearest_spelling(options_.experiment, names));
      return;
    }
    space_.experiments = std::move(kept);
  }

  // --- whole space -------------------------------------------------------------------------------
  void check_required() {
    for (const Experiment* experiment : all_experiments()) {
      for (const PropertySpec& spec : experiment->properties) {
        if (!spec.required ||
            std::find(named_.begin(), named_.end(), spec.identifier) != named_.end())
          continue;
        named_.push_back(spec.identifier);
        diagnostics_.error(
            line_, space_.origin.empty() ? std::string() : prefix_ + "entitySpace",
            "the required property '" + spec.identifier + "' is missing",
            spec.expectation() +
                (space_.origin.empty() ? " (--set " + spec.identifier + "=...)" : ""));
      }
    }
  }

  void check_size() {
    double count = static_cast<double>(space_.experiments.size());
    for (const Dimension& dimension : space_.dimensions)
      count *= static_cast<double>(dimension.size());
    if (count > static_cast<double>(kMaxEntities)) {
      diagnostics_.error(line_, prefix_ + "entitySpace", "has more entities than can be counted");
    }
  }

  Space finish() {
    keep_chosen_experiment();
    apply_assignments();
    check_required();
    check_size();
    std::vector<Diagnostic> errors = diagnostics_.errors();
    const std::vector<Diagnostic>& more = assignments_.diagnostics().errors();
    errors.insert(errors.end(), more.begin(), more.end());
    if (!errors.empty()) throw InputError(std::move(errors));
    space_.warnings = diagnostics_.warnings();
    return std::move(space_);
  }

  const Catalog& catalog_;
  const SpaceOptions& options_;
  Diagnostics diagnostics_;
  Assignments assignments_;
  Space space_;
  std::vector<std::string> models_;  // names beyond the catalog's
  std::vector<std::string> named_;   // properties that have a dimension, or had an error instead
  std::string prefix_;               // "config." inside a resource
  int line_ = 0;                     // of entitySpace
};

}  // namespace

Space parse_space(std::string_view text, const std::string& origin, const Catalog& catalog,
                  const SpaceOptions& options) {
  return SpaceReader(origin, catalog, options).read(parse_yaml(text, origin));
}

Space read_space_file(const std::string& path, const Catalog& catalog,
                      const SpaceOptions& options) {
  return parse_space(read_file(path), path, catalog, options);
}

Space space_from_assignments(const Catalog& catalog, const SpaceOptions& options) {
  return SpaceReader({}, catalog, options).read_assignments_only();
}

}  // namespace sftbench
