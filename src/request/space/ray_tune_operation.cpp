#include "space/ray_tune_operation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sftbench/base/text.h"
#include "space/operation_fields.h"

namespace sftbench {
namespace {

const Spellings<bool> kObjectives = {{"min", false}, {"max", true}};
const std::vector<std::string> kAlgorithms = {
    "random", "variant_generator", "lhu_sampler", "bayesopt", "ax", "optuna"};
const std::vector<std::string> kStoppers = {"MaxSamplesStopper", "SimpleStopper"};

class RayTuneReader {
 public:
  RayTuneReader(Diagnostics& diagnostics, Operation& operation)
      : diagnostics_(diagnostics), operation_(operation) {}

  void read(const YamlNode& node, const std::string& path) {
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

 private:
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
      choose(diagnostics_, fields, node, "mode", kObjectives, plan.maximize);
    count(diagnostics_, fields, node, "max_concurrent_trials", 1, operation_.batch_size);
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
      count(diagnostics_, members, params, "random_search_steps", 1, plan.first);
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
      count(diagnostics_, fields, *own, "n_startup_trials", 1, plan.first);
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

  Diagnostics& diagnostics_;
  Operation& operation_;
};

}  // namespace

void read_ray_tune(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                   Operation& operation) {
  RayTuneReader(diagnostics, operation).read(node, path);
}

}  // namespace sftbench
