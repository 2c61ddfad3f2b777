// Reads ado's operation files: DiscoveryOperationResourceConfiguration, plain or wrapped as a
// resource, and the parameters of its random_walk and ray_tune operators (ado-ray-tune 2.2.1).
#include "sftbench/space/operation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sftbench/base/file.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/fields.h"

namespace sftbench {
namespace {

const std::vector<std::string> kOperationTypes = {"characterize", "search", "compare", "modify",
                                                  "study",        "fuse",   "learn",   "query",
                                                  "export",       "script"};

// The names of an enumeration as ado spells them; letter case matters there.
template <typename T>
using Spellings = std::vector<std::pair<const char*, T>>;

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

const Spellings<bool> kObjectives = {{"min", false}, {"max", true}};
const std::vector<std::string> kAlgorithms = {
    "random", "variant_generator", "lhu_sampler", "bayesopt", "ax", "optuna"};
const std::vector<std::string> kStoppers = {"MaxSamplesStopper", "SimpleStopper"};

template <typename T>
std::optional<T> spelled(const Spellings<T>& spellings, const std::string& text) {
  for (const auto& [name, value] : spellings) {
    if (text == name) return value;
  }
  return std::nullopt;
}

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
        read_ray_tune(parameters == nullptr ? *operation : *parameters, members.path("parameters"));
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

  // --- ray_tune ----------------------------------------------------------------------------------
  void read_ray_tune(const YamlNode& node, const std::string& path) {
    operation_.search.emplace();
    operation_.sampler = Sampler::kGenerator;
    operation_.order = WalkOrder::kShared;
    operation_.number_entities.reset();
    operation_.parameters_line = node.line;
    Fields fields(node, path, diagnostics_);
    if (const YamlNode* tune = fields.mapping("tuneConfig"))
      read_tune(*tune, fields.path("tuneConfig"));
    if (const YamlNode* runtime = fields.mapping("runtimeConfig", Presence::kOptional))
      read_runtime(*runtime, fields.path("runtimeConfig"));
    if (const YamlNode* ado = fields.mapping("orchestratorConfig", Presence::kOptional))
      read_orchestrator(*ado, fields.path("orchestratorConfig"));
    fields.reject_unknown();
  }

  void read_tune(const YamlNode& node, const std::string& path) {
    Fields fields(node, path, diagnostics_);
    for (const char* key : {"metric", "mode"}) {
      const YamlNode* found = node.find(key);
      if (found == nullptr || !found->is_sequence()) continue;
      fields.any(key);
      diagnostics_.error(*found, fields.path(key), "several objectives", "one, as a text");
    }
    SearchPlan& plan = *operation_.search;
    if (const YamlNode* metric = node.find("metric"); metric == nullptr || !metric->is_sequence())
      plan.metric = fields.text("metric");
    if (const YamlNode* mode = node.find("mode"); mode == nullptr || !mode->is_sequence())
      choose(fields, node, "mode", kObjectives, plan.maximize);
    count(fields, node, "max_concurrent_trials", 1, operation_.batch_size);
    read_samples(fields, node);
    for (const char* key : {"scheduler", "time_budget_s"}) {
      const YamlNode* found = fields.any(key, Presence::kOptional);
      if (found == nullptr || found->is_null()) continue;
      const bool time = key == std::string("time_budget_s");
      diagnostics_.error(*found, fields.path(key), "is not supported",
                         time ? "sweep --until, which takes a duration"
                              : "a search without one: a trial is one measurement");
    }
    not_used(fields, node, {"reuse_actors", "trial_name_creator", "trial_dirname_creator"});
    if (const YamlNode* algorithm = fields.mapping("search_alg"))
      read_algorithm(*algorithm, fields.path("search_alg"));
    fields.reject_unknown();
  }

  // Ray's default is one sample, and -1 goes on until somebody stops it.
  void read_samples(Fields& fields, const YamlNode& node) {
    const std::optional<int64_t> samples = fields.integer("num_samples", Presence::kOptional);
    operation_.search->samples = samples.value_or(1);
    if (!samples) {
      diagnostics_.warning(node.line, fields.path("num_samples"), "missing, which is one sample",
                           "how many to measure");
    } else if (*samples == 0 || *samples < -1) {
      diagnostics_.error(*node.find("num_samples"), fields.path("num_samples"),
                         "found " + std::to_string(*samples), "an integer above 0, or -1 for all");
    }
  }

  void not_used(Fields& fields, const YamlNode& node, const std::vector<const char*>& keys) {
    for (const char* key : keys) {
      if (fields.any(key, Presence::kOptional) == nullptr) continue;
      diagnostics_.warning(node.find(key)->line, fields.path(key), "not used here");
    }
  }

  void read_algorithm(const YamlNode& node, const std::string& path) {
    Fields fields(node, path, diagnostics_);
    const std::string name = fields.text("name");
    const YamlNode* parameters = fields.mapping("params", Presence::kOptional);
    fields.reject_unknown();
    if (name.empty()) return;
    static const YamlNode kNone = parse_yaml("{}", "");
    const YamlNode& params = parameters == nullptr ? kNone : *parameters;
    Fields members(params, fields.path("params"), diagnostics_);
    if (!choose_method(name, *node.find("name"), fields.path("name"), members, params)) return;
    read_given(members);
    members.reject_unknown();
  }

  // Reads what only this algorithm has. False, with an error, where it has no equal.
  bool choose_method(const std::string& name, const YamlNode& at, const std::string& path,
                     Fields& members, const YamlNode& params) {
    SearchPlan& plan = *operation_.search;
    if (name == "random" || name == "variant_generator") {
      plan.method = SearchMethod::kRandom;
      read_seed(members, params, "random_state");
      not_used(members, params, {"constant_grid_search", "max_concurrent"});
      return true;
    }
    if (name == "lhu_sampler") {
      plan.method = SearchMethod::kLatinHypercube;
      return true;
    }
    if (name == "bayesopt") {
      plan.method = SearchMethod::kBayesian;
      read_seed(members, params, "random_state");
      count(members, params, "random_search_steps", 1, plan.first);
      not_used(members, params, {"verbose", "skip_duplicate", "analysis", "patience"});
      read_utility(members, params);
      return true;
    }
    if (name == "ax") {
      plan.method = SearchMethod::kBayesian;
      return true;
    }
    if (name == "optuna") return choose_optuna(at, path, members, params);
    diagnostics_.error(at, path, "the search algorithm '" + name + "' has no equal here",
                       "one of " + join(kAlgorithms), nearest_spelling(name, kAlgorithms));
    return false;
  }

  bool choose_optuna(const YamlNode& at, const std::string& path, Fields& members,
                     const YamlNode& params) {
    SearchPlan& plan = *operation_.search;
    const std::string sampler = members.text("sampler", Presence::kOptional);
    if (sampler == "GPSampler") {
      plan.method = SearchMethod::kBayesian;
    } else if (sampler == "RandomSampler") {
      plan.method = SearchMethod::kRandom;
    } else {
      const YamlNode* found = params.find("sampler");
      diagnostics_.error(
          found == nullptr ? at : *found, path,
          "optuna's " + (sampler.empty() ? "TPESampler" : sampler) + " has no equal here",
          "optuna with GPSampler or RandomSampler, or one of " + join(kAlgorithms));
      return false;
    }
    const YamlNode* own = members.mapping("sampler_parameters", Presence::kOptional);
    if (own == nullptr) return true;
    Fields fields(*own, members.path("sampler_parameters"), diagnostics_);
    read_seed(fields, *own, "seed");
    if (plan.method == SearchMethod::kBayesian)
      count(fields, *own, "n_startup_trials", 1, plan.first);
    not_used(fields, *own, {"deterministic_objective", "independent_sampler"});
    fields.reject_unknown();
    return true;
  }

  void read_seed(Fields& fields, const YamlNode& node, const char* key) {
    const std::optional<int64_t> seed = fields.integer(key, Presence::kOptional);
    if (!seed) return;
    if (*seed < 0) {
      diagnostics_.error(*node.find(key), fields.path(key), "found " + std::to_string(*seed),
                         "at least 0");
    } else {
      operation_.search->seed = static_cast<uint64_t>(*seed);
    }
  }

  void read_utility(Fields& members, const YamlNode& params) {
    const YamlNode* utility = members.mapping("utility_kwargs", Presence::kOptional);
    if (utility == nullptr) {
      diagnostics_.warning(params.line, members.path("utility_kwargs"),
                           "missing, which is the upper confidence bound in Ray and expected "
                           "improvement here");
      return;
    }
    Fields fields(*utility, members.path("utility_kwargs"), diagnostics_);
    const std::string kind = fields.text("kind");
    if (!kind.empty() && kind != "ei") {
      diagnostics_.error(*utility->find("kind"), fields.path("kind"),
                         "'" + kind + "' has no equal here", "ei: expected improvement");
    }
    not_used(fields, *utility, {"kappa", "xi"});
    fields.reject_unknown();
  }

  void read_given(Fields& members) {
    const YamlNode* given = members.sequence("points_to_evaluate", Presence::kOptional);
    if (given == nullptr) return;
    for (const YamlNode& point : given->items) {
      if (!point.is_mapping()) {
        diagnostics_.error(point, members.path("points_to_evaluate"), "found " + describe(point),
                           "a mapping of properties to values");
        continue;
      }
      Json entity = Json::object();
      for (const auto& member : point.members) entity[member.key] = member.node.value;
      operation_.search->given.push_back(std::move(entity));
    }
  }

  void read_orchestrator(const YamlNode& node, const std::string& path) {
    Fields fields(node, path, diagnostics_);
    fields.text("metric_format", Presence::kOptional);
    operation_.single_measurement = fields.boolean("single_measurement_per_property", true);
    not_used(fields, node, {"result_dump"});
    const YamlNode* failed = fields.any("failed_metric_value", Presence::kOptional);
    fields.reject_unknown();
    if (failed == nullptr || !failed->value.is_number()) return;  // not a number: a failure
    const double value = failed->value.get<double>();
    if (std::isfinite(value)) operation_.search->failed_value = value;
  }

  void read_runtime(const YamlNode& node, const std::string& path) {
    Fields fields(node, path, diagnostics_);
    const YamlNode* stops = fields.sequence("stop", Presence::kOptional);
    not_used(fields, node,
             {"name", "storage_path", "storage_filesystem", "failure_config", "checkpoint_config",
              "sync_config", "verbose", "log_to_file", "progress_reporter", "callbacks"});
    fields.reject_unknown();
    if (stops == nullptr) return;
    for (const YamlNode& stop : stops->items) {
      if (stop.is_mapping()) {
        read_stop(stop, fields.path("stop"));
      } else {
        diagnostics_.error(stop, fields.path("stop"), "found " + describe(stop),
                           "a mapping with the name of a stopper");
      }
    }
  }

  // Arguments by position or by name.
  void read_stop(const YamlNode& node, const std::string& path) {
    Fields fields(node, path, diagnostics_);
    const std::string name = fields.text("name");
    const YamlNode* positional = fields.sequence("positionalParams", Presence::kOptional);
    const YamlNode* named = fields.mapping("keywordParams", Presence::kOptional);
    fields.reject_unknown();
    if (name.empty()) return;
    std::vector<std::string> names;
    if (name == "MaxSamplesStopper") names = {"max_samples"};
    if (name == "SimpleStopper")
      names = {"mode",          "metric",         "experiment_key", "min_trials",
               "buffer_states", "stop_on_repeat", "count_nan"};
    if (names.empty()) {
      diagnostics_.error(*node.find("name"), fields.path("name"),
                         "the stopper '" + name + "' has no equal here",
                         "one of " + join(kStoppers), nearest_spelling(name, kStoppers));
      return;
    }
    std::map<std::string, const YamlNode*> arguments;
    for (size_t i = 0; positional != nullptr && i < positional->items.size(); ++i) {
      if (i < names.size()) {
        arguments[names[i]] = &positional->items[i];
      } else {
        diagnostics_.error(positional->items[i], fields.path("positionalParams"), "one too many",
                           "at most " + std::to_string(names.size()));
      }
    }
    if (named != nullptr) {
      Fields members(*named, fields.path("keywordParams"), diagnostics_);
      for (const std::string& key : names) {
        if (const YamlNode* found = members.any(key, Presence::kOptional)) arguments[key] = found;
      }
      members.reject_unknown();
    }
    use_stop(name, arguments, node, fields.path("name"));
  }

  void use_stop(const std::string& name, const std::map<std::string, const YamlNode*>& arguments,
                const YamlNode& node, const std::string& path) {
    SearchPlan& plan = *operation_.search;
    const auto whole = [&](const char* key, int64_t least) -> std::optional<int64_t> {
      const auto found = arguments.find(key);
      if (found == arguments.end()) return std::nullopt;
      const Json& value = found->second->value;
      if (value.is_number_integer() && value.get<int64_t>() >= least) return value.get<int64_t>();
      diagnostics_.error(*found->second, path + " " + key, "found " + describe(*found->second),
                         "an integer of at least " + std::to_string(least));
      return std::nullopt;
    };
    if (name == "MaxSamplesStopper") {
      const std::optional<int64_t> most = whole("max_samples", 1);
      if (arguments.count("max_samples") == 0)
        diagnostics_.error(node, path, "without max_samples", "an integer above 0");
      if (most) plan.samples = plan.samples < 0 ? *most : std::min(plan.samples, *most);
      return;
    }
    plan.patience_begins = whole("min_trials", 0).value_or(5);
    plan.patience = whole("buffer_states", 0).value_or(2);
    for (const auto& [key, own] : {std::pair<const char*, std::string>("metric", plan.metric),
                                   {"mode", plan.maximize ? "max" : "min"}}) {
      const auto found = arguments.find(key);
      if (found == arguments.end() || found->second->text == own) continue;
      diagnostics_.error(*found->second, path + " " + key, "found " + describe(*found->second),
                         own + ", as in tuneConfig");
    }
    const auto counts = arguments.find("count_nan");
    if (counts != arguments.end() && counts->second->value.is_boolean())
      plan.counts_failures = counts->second->value.get<bool>();
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
    count(fields, node, "batchSize", 1, operation_.batch_size);
    operation_.single_measurement = fields.boolean("singleMeasurement", true);
    count(fields, node, "maxRetries", 0, operation_.max_retries);
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
    choose(fields, node, "samplerType", kSamplers, operation_.sampler);
    choose(fields, node, "mode", kModes, operation_.order);
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
    choose(fields, node, "filterMode", kFilters, operation_.filter);
  }

  template <typename T>
  void choose(Fields& fields, const YamlNode& node, const std::string& key,
              const Spellings<T>& spellings, T& value) {
    const std::string text = fields.text(key, Presence::kOptional);
    if (text.empty()) return;
    if (const std::optional<T> known = spelled(spellings, text)) {
      value = *known;
      return;
    }
    std::vector<std::string> names;
    for (const auto& [name, unused] : spellings) names.emplace_back(name);
    const YamlNode& found = *node.find(key);
    diagnostics_.error(found, fields.path(key), "found " + describe(found), "one of " + join(names),
                       nearest_spelling(text, names));
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

  void count(Fields& fields, const YamlNode& node, const std::string& key, int64_t least,
             int64_t& value) {
    const std::optional<int64_t> found = fields.integer(key, Presence::kOptional);
    if (!found) return;
    value = *found;
    if (*found < least) {
      diagnostics_.error(*node.find(key), fields.path(key), "found " + std::to_string(*found),
                         "at least " + std::to_string(least));
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
