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
#include "space/experiment_list.h"
#include "space/space_names.h"

namespace sftbench {
namespace {

constexpr int64_t kMaxEntities = std::numeric_limits<int64_t>::max() / 2;

class SpaceReader {
 public:
  SpaceReader(const std::string& origin, const Catalog& catalog, const SpaceOptions& options)
      : catalog_(catalog),
        options_(options),
        diagnostics_(origin),
        assignments_(options),
        names_(catalog, diagnostics_, assignments_.diagnostics()) {
    space_.origin = origin;
    space_.ids = options.ids;
    for (const std::string& model : options.extra_models) names_.add_model(model);
  }

  Space read(const YamlNode& root) {
    const YamlNode* body = unwrap(root);
    if (body != nullptr) read_body(*body);
    return finish();
  }

  Space read_assignments_only() {
    ExperimentReference reference{nullptr, {}, options_.ids};
    reference.experiment = names_.experiment(options_.experiment, {}, options_.experiment_option);
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
    if (const YamlNode* experiments = fields.any("experiments")) {
      space_.experiments = read_experiment_list(*experiments, prefix_ + "experiments", options_.ids,
                                                names_, diagnostics_);
    }
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
    for (const std::string& name : map->keys()) names_.add_model(name);
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
        names_.property(identifier, node.line, path + ".identifier", experiments);
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
      PropertySpec accepts = names_.widened(*spec);
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
        note_without_effect(*spec, *experiment, line, path, diagnostics_);
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

  // --- command line ------------------------------------------------------------------------------
  void add_assigned(const std::string& identifier) {
    const std::vector<const Experiment*> experiments = all_experiments();
    const std::string source = assignments_.source(identifier);
    const PropertySpec* spec = names_.property(identifier, 0, source, experiments);
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
      const auto dimension = assignments_.dimension(identifier, names_.widened(spec), &spec);
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
          names_.property(identifier, 0, assignments_.source(identifier), experiments);
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
          0, options_.experiment_option, "'" + options_.experiment + "' is not in this space",
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
  SpaceNames names_;
  Space space_;
  std::vector<std::string> named_;  // properties that have a dimension, or had an error instead
  std::string prefix_;              // "config." inside a resource
  int line_ = 0;                    // of entitySpace
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
