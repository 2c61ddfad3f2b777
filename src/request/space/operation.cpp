// Reads ado's operation files: DiscoveryOperationResourceConfiguration, plain or wrapped as a
// resource, and the parameters of its random_walk operator.
#include "sftbench/space/operation.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/file.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/fields.h"
#include "space/operation_fields.h"
#include "space/ray_tune_operation.h"

namespace sftbench {
namespace {

const std::vector<std::string> kOperationTypes = {"characterize", "search", "compare", "modify",
                                                  "study",        "fuse",   "learn",   "query",
                                                  "export",       "script"};

const Spellings<Sampler> kSamplers = {{"selector", Sampler::kSelector},
                                      {"generator", Sampler::kGenerator}};
const Spellings<WalkOrder> kModes = {{"random", WalkOrder::kRandom},
                                     {"sequential", WalkOrder::kSequential},
                                     {"randomgrouped", WalkOrder::kRandomGrouped},
                                     {"sequentialgrouped", WalkOrder::kSequentialGrouped}};
const Spellings<EntityFilter> kFilters = {{"noFilter", EntityFilter::kNone},
                                          {"measured", EntityFilter::kMeasured},
                                          {"unmeasured", EntityFilter::kUnmeasured},
                                          {"partial", EntityFilter::kPartial}};
// The words of ado's documents where its code says measured and unmeasured.
const Spellings<EntityFilter> kOtherFilters = {{"sampled", EntityFilter::kMeasured},
                                               {"unsampled", EntityFilter::kUnmeasured}};

class OperationReader {
 public:
  explicit OperationReader(const std::string& origin) : diagnostics_(origin) {
    operation_.origin = origin;
    operation_.sampler = Sampler::kSelector;
    operation_.order = WalkOrder::kRandom;
    operation_.number_entities = 1;
  }

  Operation read(const YamlNode& root) {
    if (root.find("kind") != nullptr) {
      read_resource(root);
    } else if (root.is_mapping()) {
      read_body(root);
    } else {
      diagnostics_.error(root, {}, "found " + describe(root), "an operation: spaces and operation");
    }
    diagnostics_.throw_if_failed();
    operation_.warnings = diagnostics_.warnings();
    return std::move(operation_);
  }

 private:
  // `ado get operation` wraps the operation in a resource; only its config matters here.
  void read_resource(const YamlNode& root) {
    const YamlNode* kind = root.find("kind");
    if (kind->text != "operation") {
      diagnostics_.error(*kind, "kind", "this is a resource of kind " + describe(*kind),
                         "operation", nearest_spelling(kind->text, {"operation"}));
      return;
    }
    Fields fields(root, {}, diagnostics_);
    for (const char* key : {"kind", "version", "identifier", "created", "status", "metadata",
                            "provenance", "operationType", "operatorIdentifier"}) {
      fields.any(key, Presence::kOptional);
    }
    const YamlNode* config = fields.mapping("config");
    fields.reject_unknown();
    prefix_ = "config";
    if (config != nullptr) read_body(*config);
  }

  void read_body(const YamlNode& body) {
    Fields fields(body, prefix_, diagnostics_);
    operation_.spaces = fields.texts("spaces");
    if (const YamlNode* spaces = body.find("spaces");
        spaces != nullptr && spaces->is_sequence() && spaces->items.empty()) {
      diagnostics_.error(*spaces, fields.path("spaces"), "an empty list", "the id of a space");
    }
    operation_.actuator_configurations =
        fields.texts("actuatorConfigurationIdentifiers", Presence::kOptional);
    if (const YamlNode* list = body.find("actuatorConfigurationIdentifiers"))
      operation_.actuator_configurations_line = list->line;
    fields.mapping("metadata", Presence::kOptional);
    const YamlNode* operation = fields.mapping("operation");
    fields.reject_unknown();
    if (operation == nullptr) return;
    Fields members(*operation, fields.path("operation"), diagnostics_);
    const YamlNode* module = members.mapping("module");
    const YamlNode* parameters = members.mapping("parameters", Presence::kOptional);
    members.reject_unknown();
    // The parameters of another operator would only add errors that have nothing to say.
    if (module == nullptr) return;
    operation_.parameters_line = operation->line;
    switch (operator_of(*module, members.path("module"))) {
      case Operator::kOther:
        break;
      case Operator::kRandomWalk:
        if (parameters != nullptr) read_parameters(*parameters, members.path("parameters"));
        break;
      case Operator::kRayTune:
        read_ray_tune(parameters == nullptr ? *operation : *parameters, members.path("parameters"),
                      diagnostics_, operation_);
        break;
    }
  }

  // --- which operator ----------------------------------------------------------------------------
  enum class Operator { kOther, kRandomWalk, kRayTune };

  Operator operator_of(const YamlNode& module, const std::string& path) {
    Fields fields(module, path, diagnostics_);
    const bool is_class = module.find("moduleClass") != nullptr;
    const std::string name = fields.text(is_class ? "moduleClass" : "operatorName");
    if (is_class) {
      for (const char* key : {"moduleName", "modulePath", "moduleType"}) {
        fields.text(key, Presence::kOptional);
      }
    } else {
      check_type(module, name, fields.text("operationType"), fields.path("operationType"));
      fields.any("operatorVersion", Presence::kOptional);
    }
    fields.reject_unknown();
    const std::vector<std::string> known = {is_class ? "RandomWalk" : "random_walk",
                                            is_class ? "RayTune" : "ray_tune"};
    if (name.empty()) return Operator::kOther;
    if (name == known[0]) return Operator::kRandomWalk;
    if (name == known[1]) return Operator::kRayTune;
    const std::string key = is_class ? "moduleClass" : "operatorName";
    diagnostics_.error(*module.find(key), fields.path(key),
                       "the operator '" + name + "' is not supported", join(known, " or "),
                       nearest_spelling(name, known));
    return Operator::kOther;
  }

  void check_type(const YamlNode& module, const std::string& name, const std::string& type,
                  const std::string& path) {
    if (type.empty() || type == "search" || type == "explore") return;  // up to 1.7, from 2.0 on
    const bool known =
        std::find(kOperationTypes.begin(), kOperationTypes.end(), type) != kOperationTypes.end();
    diagnostics_.error(
        *module.find("operationType"), path,
        known ? name + " is no operation of type '" + type + "'" : "unknown type '" + type + "'",
        "search", nearest_spelling(type, {"search"}));
  }

  // --- random_walk -------------------------------------------------------------------------------
  void read_parameters(const YamlNode& node, const std::string& path) {
    Fields fields(node, path, diagnostics_);
    operation_.parameters_line = node.line;
    const YamlNode* sampler = fields.mapping("samplerConfig", Presence::kOptional);
    if (node.find("mode") != nullptr) {
      if (sampler != nullptr) {
        diagnostics_.warning(sampler->line, fields.path("samplerConfig"),
                             "not used, since mode stands beside it (as in ado)");
      }
      read_sampler(fields, node);
    } else if (sampler != nullptr) {
      Fields members(*sampler, fields.path("samplerConfig"), diagnostics_);
      read_sampler(members, *sampler);
      members.reject_unknown();
    }
    number_entities(fields);
    count(diagnostics_, fields, node, "batchSize", 1, operation_.batch_size);
    operation_.single_measurement = fields.boolean("singleMeasurement", true);
    count(diagnostics_, fields, node, "maxRetries", 0, operation_.max_retries);
    if (const YamlNode* filter = fields.mapping("filter", Presence::kOptional)) {
      Fields members(*filter, fields.path("filter"), diagnostics_);
      read_filter(members, *filter);
      members.reject_unknown();
    }
    fields.reject_unknown();
    const std::optional<int64_t>& number = operation_.number_entities;
    if (number && operation_.batch_size > *number) {
      diagnostics_.error(node, fields.path("batchSize"),
                         "found " + std::to_string(operation_.batch_size),
                         "at most numberEntities, " + std::to_string(*number));
    }
  }

  // samplerConfig, or its older form: the same fields among the parameters themselves.
  void read_sampler(Fields& fields, const YamlNode& node) {
    if (const YamlNode* module = fields.any("module", Presence::kOptional)) {
      fields.any("parameters", Presence::kOptional);
      diagnostics_.error(*module, fields.path("module"),
                         "custom samplers are Python classes and not supported",
                         "samplerType and mode");
      return;
    }
    choose(diagnostics_, fields, node, "samplerType", kSamplers, operation_.sampler);
    choose(diagnostics_, fields, node, "mode", kModes, operation_.order);
    operation_.grouping = fields.texts("grouping", Presence::kOptional);
    const bool grouped = operation_.order == WalkOrder::kRandomGrouped ||
                         operation_.order == WalkOrder::kSequentialGrouped;
    if (grouped && operation_.grouping.empty()) {
      diagnostics_.error(node, fields.path("grouping"), "missing",
                         "the properties that are equal within a group");
    } else if (!grouped && !operation_.grouping.empty()) {
      diagnostics_.warning(node.line, fields.path("grouping"),
                           "no effect, since the mode is not a grouped one");
    }
  }

  void read_filter(Fields& fields, const YamlNode& node) {
    const YamlNode* mode = node.find("filterMode");
    if (mode != nullptr && mode->is_scalar()) {
      if (const auto filter = spelled(kOtherFilters, mode->text)) {
        fields.any("filterMode");
        operation_.filter = *filter;
        diagnostics_.warning(mode->line, fields.path("filterMode"),
                             "ado would refuse '" + mode->text + "' for '" +
                                 (*filter == EntityFilter::kMeasured ? "measured" : "unmeasured") +
                                 "'");
        return;
      }
    }
    choose(diagnostics_, fields, node, "filterMode", kFilters, operation_.filter);
  }

  void number_entities(Fields& fields) {
    const YamlNode* node = fields.any("numberEntities", Presence::kOptional);
    if (node == nullptr) return;
    if (node->is_scalar() && node->value == "all") {
      operation_.number_entities.reset();
    } else if (node->is_scalar() && node->value.is_number_integer() && node->value > 0) {
      operation_.number_entities = node->value.get<int64_t>();
    } else {
      diagnostics_.error(*node, fields.path("numberEntities"), "found " + describe(*node),
                         "an integer above 0, or all", nearest_spelling(node->text, {"all"}));
    }
  }

  Diagnostics diagnostics_;
  Operation operation_;
  std::string prefix_;  // "config" inside a resource
};

}  // namespace

std::vector<Diagnostic> notes_on_actuator_configurations(const Operation& operation,
                                                         const std::string& config_path) {
  const std::vector<std::string>& named = operation.actuator_configurations;
  if (named.empty()) return {};
  Diagnostics notes(operation.origin);
  const auto note = [&](const std::string& message, const std::string& expected) {
    notes.warning(operation.actuator_configurations_line, "actuatorConfigurationIdentifiers",
                  message, expected);
  };
  if (config_path.empty()) {
    note(join(named) + " in ado's store is not used; measured with the defaults",
         "--config FILE, from `ado get actuatorconfiguration ID -o yaml`");
    return notes.warnings();
  }
  const YamlNode config = read_yaml_file(config_path);
  const YamlNode* identifier = config.find("identifier");
  if (identifier == nullptr || !identifier->is_scalar() || identifier->is_null()) return {};
  if (std::find(named.begin(), named.end(), identifier->text) == named.end()) {
    note("names " + join(named) + ", and " + config_path + " is " + identifier->text +
             ", which is used",
         {});
  }
  return notes.warnings();
}

Operation parse_operation(std::string_view text, const std::string& origin) {
  return OperationReader(origin).read(parse_yaml(text, origin));
}

Operation read_operation_file(const std::string& path) {
  return parse_operation(read_file(path), path);
}

}  // namespace sftbench
