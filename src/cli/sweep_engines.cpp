#include "cli/sweep_engines.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>

#include "cli/engine_paths.h"
#include "cli/number_checks.h"
#include "cli/own_model_check.h"
#include "cli/record.h"
#include "cli/sweep_end.h"
#include "cli/worker_options.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/campaign/engines.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/launch/interrupt.h"
#include "sftbench/plan/resolve.h"
#include "sftbench/results/store.h"
#include "sftbench/space/operation.h"
#include "sftbench/space/validity.h"
#include "sftbench/sweep/interrupt_signals.h"
#include "sftbench/translate/file_kind.h"

namespace sftbench {
namespace {

constexpr int64_t kMostCells = 1'000'000;  // that are looked at one by one
const std::vector<std::string> kDeviceProperties = {"gpu_model", "number_gpus", "number_nodes",
                                                    "enable_roce"};
// What starts workers is not theirs, and these are given to them in another way.
const std::vector<std::string> kOwnOptions = {
    "--on",      "--workers", "--nodes",   "--submit", "--slurm",  "--kubernetes", "--ray-address",
    "--program", "--env",     "--dry-run", "--output", "--format", "--help",       "--version"};

[[noreturn]] void refuse(const char* option, std::string message, std::string expected = {},
                         std::string nearest = {}) {
  throw InputError({{{}, 0, option, std::move(message), std::move(expected), std::move(nearest)}});
}

Recorded recorded(const ResultStore& store, const std::string& experiment, const std::string& key) {
  try {
    const std::optional<Status> status = store.status_of(experiment, key);
    if (!status) return Recorded::kNothing;
    return *status == Status::kFailed ? Recorded::kFailed : Recorded::kFinal;
  } catch (const InputError&) {  // a file that is no measurement: whoever measures it says so
    return Recorded::kNothing;
  }
}

std::optional<DeviceNeed> need_of(const Json& inputs, const ResolveOptions& options,
                                  int64_t cpu_nodes) {
  if (!validate(inputs, Catalog::shipped().models).empty()) return std::nullopt;
  DeviceNeed need;
  const auto gpus = inputs.at("number_gpus").get<int64_t>();
  if (gpus == 0) {
    need.nodes = cpu_nodes;
    if (cpu_nodes > 1) need.cpu_ranks = options.cpu_ranks / cpu_nodes;
    need.cores = options.cpu_ranks / cpu_nodes * options.threads;
    return need;
  }
  need.nodes = std::max<int64_t>(1, inputs.value("number_nodes", int64_t{1}));
  need.gpus_per_node = gpus / need.nodes;
  need.gpu_model = inputs.value("gpu_model", std::string());
  need.roce = need.nodes > 1 && inputs.value("enable_roce", false);
  return need;
}

// The cells of the walk, with what each needs and whether it is open.
class CellList {
 public:
  CellList(const LoadedSpace& loaded, const EngineSweep& sweep, int64_t cpu_nodes)
      : space_(loaded.space),
        options_(resolve_options(loaded, sweep.selection)),
        store_(sweep.output),
        sweep_(sweep),
        cpu_nodes_(cpu_nodes) {
    options_.backend = sweep.backend;
    refuse_own_mistakes(loaded, sweep.selection, options_);
    if (options_.cpu_ranks % cpu_nodes != 0)
      refuse("--ranks",
             std::to_string(options_.cpu_ranks) + " cannot be divided among " +
                 counted(cpu_nodes, "node") + " (--nodes)",
             "as many on each");
  }

  std::vector<CampaignCell> cells(Walk& walk) {
    std::vector<CampaignCell> all;
    while (const std::optional<WalkStep> step = walk.next()) {
      all.push_back(cell(*step));
      digest_.add(all.back().key.data(), all.back().key.size());
    }
    return all;
  }

  Recorded recorded_of(const WalkStep& step) const {
    const MeasurementRequest request = request_of(step);
    return recorded(store_, request.experiment, key_of(request));
  }

  std::string digest() const { return digest_.text(); }
  std::set<std::string> data_paths() const { return data_paths_; }

 private:
  MeasurementRequest request_of(const WalkStep& step) const {
    return make_request(space_.entity(step.entity), space_.experiments[step.experiment]);
  }

  std::string key_of(const MeasurementRequest& request) const {
    return measurement_key(request.experiment, effective_inputs(request, options_));
  }

  CampaignCell cell(const WalkStep& step) {
    const MeasurementRequest request = request_of(step);
    add_data_paths(request, data_paths_);
    CampaignCell cell;
    cell.key = key_of(request);
    cell.entity_id = request.entity_id;
    cell.experiment_id = request.experiment_id;
    cell.need = need_of(request.inputs, options_, cpu_nodes_);
    for (const std::string& property : kDeviceProperties) {
      if (request.inputs.contains(property)) cell.devices[property] = request.inputs.at(property);
    }
    const Recorded before = recorded(store_, request.experiment, cell.key);
    cell.open = before == Recorded::kNothing ||
                (before == Recorded::kFailed && sweep_.retry_failed) ||
                (before == Recorded::kFinal && sweep_.repeats);
    return cell;
  }

  const Space& space_;
  ResolveOptions options_;
  ResultStore store_;
  const EngineSweep& sweep_;
  int64_t cpu_nodes_;
  StreamingDigest digest_;
  std::set<std::string> data_paths_;
};

struct Cells {
  std::vector<CampaignCell> all;
  std::string digest;
  std::set<std::string> data_paths;  // as the inputs spell them
};

Cells list_cells(const LoadedSpace& loaded, const EngineSweep& sweep, int64_t cpu_nodes) {
  CellList list(loaded, sweep, cpu_nodes);
  Operation operation;
  refuse_other_kind("--operation", sweep.operation_path, "--operation");
  if (!sweep.operation_path.empty()) operation = read_operation_file(sweep.operation_path);
  if (operation.search) {
    refuse("--operation", "is a search, whose next cell depends on the results of the others",
           "a walk, or the search without --on");
  }
  const bool random =
      operation.order == WalkOrder::kRandom || operation.order == WalkOrder::kRandomGrouped;
  if (random && operation.number_entities && !sweep.seed) {
    refuse("--seed", "each worker would draw entities of its own", "--seed N, the same for all");
  }
  Walk walk(loaded.space, operation, sweep.seed.value_or(0),
            [&list](int64_t entity, size_t experiment) {
              return list.recorded_of({entity, experiment});
            });
  const int64_t most =
      walk.entities_left_at_most() * static_cast<int64_t>(loaded.space.experiments.size());
  if (most > kMostCells) {
    refuse("SPACE",
           "has " + std::to_string(most) + " cells, and each is looked at for what it needs",
           "at most " + std::to_string(kMostCells) + ": --set PROPERTY=VALUE, or --operation");
  }
  Cells cells;
  cells.all = list.cells(walk);
  if (const std::string why = walk.why_fewer(sweep.output); !why.empty()) spdlog::warn("{}", why);
  cells.digest = list.digest();
  cells.data_paths = list.data_paths();
  return cells;
}

// Positions in a space or an operation do not mean the same in a part of the space.
std::vector<std::string> narrowed_by(const Space& space, const EngineSweep& sweep) {
  std::vector<std::string> properties;
  if (!sweep.operation_path.empty() || !sweep.selection.entity.empty()) return properties;
  for (const Dimension& dimension : space.dimensions) {
    const std::string& name = dimension.property().identifier;
    const bool of_devices = std::find(kDeviceProperties.begin(), kDeviceProperties.end(), name) !=
                            kDeviceProperties.end();
    if (of_devices && dimension.size() > 1) properties.push_back(name);
  }
  return properties;
}

std::vector<std::string> gpu_models(const std::vector<WorkerGroup>& groups) {
  std::set<std::string> models;
  for (const WorkerGroup& group : groups) {
    if (!group.need.gpu_model.empty()) models.insert(group.need.gpu_model);
  }
  return {models.begin(), models.end()};
}

std::string ray_address(const EngineOptions& options) {
  if (!options.ray_address.empty()) return options.ray_address;
  const char* given = std::getenv("RAY_API_SERVER_ADDRESS");  // as Ray's own command reads it
  return given == nullptr ? "" : given;
}

std::unique_ptr<CampaignEngine> choose_engine(const EngineOptions& options,
                                              const std::vector<WorkerGroup>& groups,
                                              std::optional<InterruptSignals>& signals) {
  const CampaignLog log = {[](const std::string& text) { spdlog::info("{}", text); },
                           [](const std::string& text) { spdlog::warn("{}", text); }};
  if (options.engine == "slurm") {
    return make_slurm_engine({options.slurm, options.submit, gpu_models(groups)}, log);
  }
  if (options.engine == "kubernetes") {
    return make_kubernetes_engine(options.kubernetes, Catalog::shipped().gpus);
  }
  signals.emplace();  // these wait for the workers, and pass Ctrl-C on to them
  if (options.engine == "ray") {
    RaySettings settings;
    settings.address = ray_address(options);
    settings.interrupt_fd = signals->fd();
    return make_ray_engine(std::move(settings), log);
  }
  return make_local_engine(signals->fd(), log);
}

Table group_table(const std::vector<WorkerGroup>& groups) {
  Table table;
  table.columns = {"group", "devices", "cells", "workers", "of_the_space"};
  for (const WorkerGroup& group : groups) {
    std::vector<std::string> parts;
    for (const auto& [property, value] : group.narrowing) parts.push_back(property + "=" + value);
    table.rows.push_back({group.name, to_string(group.need),
                          static_cast<int64_t>(group.cells.size()), group.workers,
                          parts.empty() ? Json() : Json(join(parts, " "))});
  }
  return table;
}

std::string campaign_name(const Selection& selection) {
  const std::string& of_file = selection.space_path;
  return dns_label(of_file.empty() ? selection.experiment
                                   : std::filesystem::path(of_file).stem().string());
}

// As a sweep of one process ends. The folder may be one that only the workers see.
void say_best_of(const Cells& cells, const EngineSweep& sweep) {
  std::error_code error;
  const bool is_here = std::filesystem::is_directory(sweep.output, error);
  if (!is_here || !spdlog::should_log(spdlog::level::info)) return;
  std::set<std::string> keys;
  for (const CampaignCell& cell : cells.all) keys.insert(cell.key);
  say_what_is_best(sweep.output, keys, sweep.prices);
}

CampaignPlan make_plan(const CLI::App& command, const EngineOptions& options,
                       const EngineSweep& sweep, const LoadedSpace& loaded, Cells& cells) {
  CampaignPlan plan;
  plan.name = campaign_name(sweep.selection);
  plan.digest = std::move(cells.digest);
  plan.options = worker_options(command, kOwnOptions);
  const bool shared = options.engine != "local";
  if (shared) require_no_secrets(plan.options);
  WorkerEnvironment environment = worker_environment(options.environment, shared);
  plan.environment = std::move(environment.values);
  plan.secrets = std::move(environment.secrets);
  const bool starts_here = options.engine == "local" || options.submit;
  for (const std::string& name : plan.secrets) {
    if (starts_here && std::getenv(name.c_str()) == nullptr)
      refuse("--env", name + " is not set", name + " in the environment, or --env NAME=VALUE");
  }
  if (loaded.settings.hf_home) plan.environment.emplace("HF_HOME", *loaded.settings.hf_home);
  if (const char* file = std::getenv("SFTTRAINER_PARAMETERS_FILE"); file != nullptr)
    plan.parameters_file = file;
  plan.output = sweep.output;
  if (shared && options.engine != "slurm") require_no_secrets(files_of(plan));
  place_paths(options.engine, loaded, sweep.selection, cells.data_paths, plan);
  plan.simulated = sweep.backend == kBackendSimulate;
  int64_t workers = options.workers;
  if (workers == 0 && options.engine == "local") workers = 1;
  plan.groups = group_cells(cells.all, {narrowed_by(loaded.space, sweep), workers});
  return plan;
}

}  // namespace

void add_engine_options(CLI::App& command, EngineOptions& options) {
  command
      .add_option("--on", options.engine,
                  "have workers measure the cells: print a script for Slurm or manifests for "
                  "Kubernetes, submit jobs to Ray, or start processes here")
      ->type_name("slurm|ray|kubernetes|local");
  command
      .add_option("--workers", options.workers,
                  "with --on: workers of each group of cells that need the same devices; default: "
                  "one for each cell, at most 8; local: 1")
      ->type_name("N")
      ->transform(whole_number(1, 100'000));
  command
      .add_option("--nodes", options.nodes,
                  "with --on: nodes among which the ranks of each cell on the CPU are divided "
                  "(--ranks)")
      ->type_name("N")
      ->transform(whole_number(1, 100'000));
  command.add_flag("--submit", options.submit, "with --on slurm: submit the script through sbatch");
  command
      .add_option("--slurm", options.slurm,
                  "an option of sbatch, as partition=gpu; L40S:constraint=ada is for cells of that "
                  "gpu_model alone")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      .add_option("--kubernetes", options.kubernetes,
                  "names in the manifests: namespace, image, claim, queue, gpu-label, "
                  "roce-resource and more (docs/guide/engines.md)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      .add_option("--ray-address", options.ray_address,
                  "with --on ray: the cluster's dashboard; default: RAY_API_SERVER_ADDRESS")
      ->type_name("http://HOST:8265");
  command
      .add_option("--program", options.program,
                  "with --on: sftbench as workers call it; slurm and local: this file, else "
                  "sftbench")
      ->type_name("PATH");
  command
      .add_option("--env", options.environment,
                  "with --on: an environment variable of the workers; NAME alone for a secret, "
                  "which stays out of scripts and manifests")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false);
}

void check_engine_options(const EngineOptions& options) {
  const std::vector<std::string>& names = campaign_engine_names();
  const bool none = options.engine.empty();
  if (!none && std::find(names.begin(), names.end(), options.engine) == names.end()) {
    refuse("--on", "unknown engine '" + options.engine + "'", join(names, ", "),
           nearest_spelling(options.engine, names));
  }
  const auto needs = [&](bool given, const char* option, const std::string& engine) {
    if (given && options.engine != engine)
      refuse(option, "has no effect" + (none ? std::string() : " on " + options.engine),
             "--on " + engine + " with it");
  };
  needs(options.submit, "--submit", "slurm");
  needs(!options.slurm.empty(), "--slurm", "slurm");
  needs(!options.kubernetes.empty(), "--kubernetes", "kubernetes");
  needs(!options.ray_address.empty(), "--ray-address", "ray");
  for (const auto& [given, option] :
       {std::pair(options.workers > 0, "--workers"), std::pair(options.nodes > 1, "--nodes"),
        std::pair(!options.program.empty(), "--program"),
        std::pair(!options.environment.empty(), "--env")}) {
    if (given && none) refuse(option, "has no effect", "--on ENGINE with it");
  }
}

int sweep_on_engine(const CLI::App& command, const EngineOptions& options, const EngineSweep& sweep,
                    OutputFormat format) {
  for (const char* of_one_process : {"--limit", "--worker"}) {
    const CLI::Option* option = command.get_option_no_throw(of_one_process);
    if (option != nullptr && option->count() > 0)
      refuse(of_one_process, "is of one process, and --on starts several",
             "no " + std::string(of_one_process) + "; --operation says which cells are wanted");
  }
  const LoadedSpace loaded = load_space(sweep.selection);
  for (const Diagnostic& warning : loaded.warnings) spdlog::warn("{}", to_string(warning));
  Cells cells = list_cells(loaded, sweep, options.nodes);
  CampaignPlan plan = make_plan(command, options, sweep, loaded, cells);
  if (plan.groups.empty()) {
    spdlog::info("every cell is settled in {}: there is nothing to start", sweep.output);
    say_best_of(cells, sweep);
    return 0;
  }
  std::optional<InterruptSignals> signals;
  const std::unique_ptr<CampaignEngine> engine = choose_engine(options, plan.groups, signals);
  if (sweep.dry_run) {
    print_table(group_table(plan.groups), format);
    return 0;
  }
  plan.program = options.program.empty() ? engine->default_program() : options.program;
  const int status = engine->start(plan, std::cout);
  if (engine->waits_for_workers() && status != kInterruptedExitCode) say_best_of(cells, sweep);
  return status;
}

}  // namespace sftbench
