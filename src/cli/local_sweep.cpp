#include "cli/local_sweep.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "cli/deadline.h"
#include "cli/hub_fetch.h"
#include "cli/own_model_check.h"
#include "cli/record.h"
#include "cli/sweep_cell_command.h"
#include "cli/sweep_end.h"
#include "cli/sweep_keeping.h"
#include "cli/sweep_search.h"
#include "cli/sweep_view.h"
#include "sftbench/base/build_info.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/launch/cores.h"
#include "sftbench/launch/memory_preflight.h"
#include "sftbench/measure/nvml.h"
#include "sftbench/space/operation.h"
#include "sftbench/sweep/interrupt_signals.h"
#include "sftbench/sweep/store_view.h"
#include "sftbench/translate/file_kind.h"

namespace sftbench {
namespace {

constexpr const char* kJobsExpected = "a number of measurements at a time, or auto";

int64_t jobs_at_a_time(const SweepArguments& arguments, const Operation& operation,
                       const Space& space) {
  if (arguments.jobs == "auto") return 0;
  if (arguments.jobs.empty()) {
    // As ado counts: batchSize entities at a time, each under every experiment.
    return operation.batch_size * static_cast<int64_t>(space.experiments.size());
  }
  int64_t jobs = 0;
  if (CLI::detail::lexical_cast(arguments.jobs, jobs) && jobs > 0) return jobs;
  throw InputError({{{}, 0, "--jobs", "found '" + arguments.jobs + "'", kJobsExpected, {}}});
}

// InputError where --ranks and --threads ask for what no node can give: no cell on CPUs could be
// measured.
void check_cores(const ResolveOptions& options, int64_t nodes, size_t cores) {
  if (options.cpu_ranks > 1 && options.cpu_ranks % nodes != 0) {
    throw InputError(
        {{{},
          0,
          "--ranks",
          counted(options.cpu_ranks, "rank") + " cannot be divided among " + counted(nodes, "node"),
          "as many on each",
          {}}});
  }
  const int64_t ranks = std::max<int64_t>(1, options.cpu_ranks / nodes);
  if (options.threads * ranks <= static_cast<int64_t>(cores)) return;
  throw InputError({{{},
                     0,
                     "--threads",
                     "found " + std::to_string(options.threads) + " for each of " +
                         counted(ranks, "rank") + (nodes > 1 ? " of a node" : ""),
                     "no more than the " + counted(cores, "core") +
                         " that this process may use: a sweep never gives one core to two",
                     {}}});
}

// Unix time: until when others say that there is time.
double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::optional<double> until_s(const SweepArguments& arguments) {
  std::optional<Deadline> deadline;
  if (!arguments.until.empty()) {
    deadline = parse_until(arguments.until, unix_seconds());
  } else if (arguments.options.worker) {
    deadline = launcher_deadline(process_environment(), unix_seconds());
  }
  if (!deadline) return std::nullopt;
  if (deadline->source != "--until") {
    spdlog::info("{} leaves {}", deadline->source, duration_text(std::max(0.0, deadline->left_s)));
  }
  return steady_seconds() + deadline->left_s;
}

// The space of one entity of it.
void narrow(Space& space, int64_t index) {
  const Entity entity = space.entity(index);
  for (size_t i = 0; i < space.dimensions.size(); ++i) {
    space.dimensions[i] = Dimension(&space.dimensions[i].property(), {entity.values[i].second});
  }
}

void warn_of(const std::vector<Diagnostic>& diagnostics) {
  for (const Diagnostic& diagnostic : diagnostics) spdlog::warn("{}", to_string(diagnostic));
}

Json code_of(const std::optional<ReasonCode>& code) {
  return code ? Json(to_string(*code)) : Json();
}

Table outcome_table(const SweepState& state) {
  Table table;
  table.columns = {"status", "reason", "measured_now", "measured_before"};
  for (const auto& [kind, count] : state.now) {
    table.rows.push_back({to_string(kind.first), code_of(kind.second), count, 0});
  }
  for (const auto& [status, count] : state.before) {
    table.rows.push_back({to_string(status), Json(), 0, count});
  }
  return table;
}

// Without progress: warnings alone.
class Silent : public SweepObserver {
 public:
  void on_warning(const Cell& cell, const std::string& warning) override {
    spdlog::warn("{}: {}", cell.request.entity_id, warning);
  }
  void on_settled(const Cell&, const Outcome& outcome) override {
    if (outcome.measurement == nullptr) return;
    for (const std::string& text : troubles_.fresh(*outcome.measurement)) spdlog::warn("{}", text);
  }

 private:
  TrackerTroubles troubles_;
};

[[noreturn]] void refuse_search(const char* option) {
  throw InputError({{{},
                     0,
                     option,
                     "has no place beside a search, where results choose the next cell",
                     "one of them",
                     {}}});
}

// Passes all on, notes which keys have a result, and tells a search what it was.
class NotesKeys : public SweepObserver {
 public:
  NotesKeys(SweepObserver& next, SearchChooser* search) : next_(next), search_(search) {}

  void on_begin(const SweepState& state) override { next_.on_begin(state); }
  void on_start(const Cell& cell, const Share& share) override { next_.on_start(cell, share); }
  void on_warning(const Cell& cell, const std::string& warning) override {
    next_.on_warning(cell, warning);
  }
  void on_settled(const Cell& cell, const Outcome& outcome) override {
    if (outcome.status == Status::kValid) keys_.insert(cell.key);
    if (search_ != nullptr) search_->tell(cell, outcome);
    next_.on_settled(cell, outcome);
  }
  void on_sample(const Cell& cell, const Outcome& outcome) override {
    next_.on_sample(cell, outcome);
  }
  void on_retry(const Cell& cell, const Outcome& outcome) override {
    next_.on_retry(cell, outcome);
  }
  void on_busy(const Cell& cell, const std::string& holder) override {
    next_.on_busy(cell, holder);
  }
  void on_lost(const Cell& cell, const std::string& why) override { next_.on_lost(cell, why); }
  void on_note(const std::string& note) override { next_.on_note(note); }
  void on_tick(const SweepState& state) override { next_.on_tick(state); }
  double tick_s() const override { return next_.tick_s(); }

  const std::set<std::string>& keys() const { return keys_; }

 private:
  SweepObserver& next_;
  SearchChooser* search_;  // none where the walk alone says what comes next
  std::set<std::string> keys_;
};

// Everything that a sweep is made of, in the order in which it can be made.
class Campaign {
 public:
  explicit Campaign(const SweepArguments& arguments)
      : arguments_(arguments),
        prices_(device_prices(arguments.prices)),
        loaded_(load(arguments.selection)),
        operation_(read_operation(arguments, loaded_.space)),
        resolve_options_(resolving(loaded_, arguments)),
        nvml_(Nvml::load(&no_nvml_)),
        machine_(affinity_cores(), nvml_ ? nvml_->gpus() : std::vector<GpuIdentity>(),
                 Catalog::shipped().gpus, jobs_at_a_time(arguments, operation_, loaded_.space)),
        store_(arguments.output),
        planner_({loaded_.space, loaded_.settings, resolve_options_, Catalog::shipped(), machine_,
                  nvml_.get(), no_nvml_, reachable_nodes(arguments.nodes, process_environment()),
                  nodes_of_cpu_ranks(arguments.nodes, process_environment())}),
        options_(sweeping(arguments, operation_, nvml_.get())),
        stored_(store_, options_),
        walk_(loaded_.space, operation_, seed(arguments, operation_),
              [this](int64_t entity, size_t experiment) {
                return recorded({entity, experiment});
              }) {
    check_cores(resolve_options_, planner_.context().cpu_nodes, machine_.cores());
    if (options_.worker) walk_.jump(static_cast<double>(std::random_device()()) / 0x1p32);
    for (const TrackerSpec& spec :
         chosen_trackers(arguments.track, loaded_.settings, loaded_.file, true)) {
      options_.trackers.push_back(spec.text());
    }
    options_.keep = keeping(with_file(arguments.save, loaded_.file), arguments.output,
                            arguments.backend.name());
  }

  // Prints what a sweep would do.
  int preview(OutputFormat format) {
    if (operation_.search) refuse_search("--dry-run");
    Table table;
    table.columns = {"action", "reason", "sample", "entity_id", "experiment_id", "key"};
    int64_t begun = 0;
    while (const std::optional<WalkStep> step = walk_.next()) {
      Cell cell = planner_.name(*step);
      stored_.count_samples(cell);
      const std::optional<Status> status = stored_.settled(cell);
      if (!status && options_.limit > 0 && begun++ == options_.limit) break;
      table.rows.push_back(preview_row(cell, status));
    }
    for (const std::string& problem : stored_.take_problems()) spdlog::warn("{}", problem);
    warn_of_fewer();
    print_table(table, format);
    return 0;
  }

  int sweep(OutputFormat format, bool quiet) {
    if (arguments_.selection.fetch || loaded_.settings.fetch_weights) fetch(!quiet);
    for (const ExperimentReference& reference : loaded_.space.experiments) {
      store_.probe(reference.experiment->identifier);
    }
    const InterruptSignals signals;  // before the thread that renews claims
    const ClaimChoice choice = choose_claims(arguments_.output, arguments_.claims);
    const auto claims = make_claims(arguments_.output, choice.kind, arguments_.lease_s);
    Silent silent;
    SweepView view(
        std::cerr, ::isatty(STDERR_FILENO) != 0,
        [this](const Cell& cell) { return cell_label(loaded_.space, cell); }, to_string(choice));
    const std::unique_ptr<SearchChooser> search = make_search();
    WalkSource& cells = search ? static_cast<WalkSource&>(*search) : walk_;
    NotesKeys noting(quiet ? silent : static_cast<SweepObserver&>(view), search.get());
    Sweep sweep(cells, planner_, machine_, store_, *claims, options_, noting, signals.fd());
    const SweepEnd end = sweep.run();
    view.close();
    say_how_it_ended(end, sweep, options_, arguments_.output);
    if (search && end == SweepEnd::kComplete) search->say_how_it_went();
    if (!search && end == SweepEnd::kComplete) warn_of_fewer();
    const bool to_its_end =
        end == SweepEnd::kComplete || end == SweepEnd::kLimit || end == SweepEnd::kDeadline;
    if (to_its_end && spdlog::should_log(spdlog::level::info))
      say_what_is_best(arguments_.output, noting.keys(), prices_);
    print_table(outcome_table(sweep.state()), format);
    return sweep_exit_code(end, sweep, options_);
  }

 private:
  void warn_of_fewer() const {
    const std::string why = walk_.why_fewer(arguments_.output);
    if (!why.empty()) spdlog::warn("{}", why);
  }

  // Nothing where the walk alone says what comes next.
  std::unique_ptr<SearchChooser> make_search() {
    if (!operation_.search) return nullptr;
    // What --jobs auto means is the machine's.
    return std::make_unique<SearchChooser>(planner_, operation_, seed(arguments_, operation_),
                                           arguments_.output, machine_.most_at_a_time());
  }

  // Models and datasets of all cells, before the first is measured. One that cannot be had is its
  // cells' matter.
  void fetch(bool shows_progress) const {
    Space space = loaded_.space;
    for (Dimension& dimension : space.dimensions) {
      const std::string& name = dimension.property().identifier;
      const bool names_files = name == "model_name" || name == "tokenizer_name_or_path" ||
                               name == "training_data_path" || name == "validation_data_path" ||
                               name == "data_mixture";
      if (names_files || dimension.size() == 0) continue;
      dimension = Dimension(&dimension.property(), {dimension.value(0)});
    }
    std::map<std::string, FetchRequest> absent;
    for (int64_t entity = 0; entity < space.entity_count(); ++entity) {
      for (const ExperimentReference& experiment : space.experiments) {
        const MeasurementRequest request = make_request(space.entity(entity), experiment);
        for (const FetchRequest& found :
             absent_from_hub(request, loaded_.settings, resolve_options_, Catalog::shipped())) {
          absent.emplace(found.name, found);
        }
      }
    }
    std::vector<FetchRequest> requests;
    for (const auto& [name, request] : absent) requests.push_back(request);
    const FetchProblems problems = fetch_absent(requests, loaded_.settings.hf_home, shows_progress);
    for (const std::string& problem : problems.models) spdlog::error("{}", problem);
    for (const std::string& problem : problems.datasets) spdlog::error("{}", problem);
  }

  static LoadedSpace load(const Selection& selection) {
    LoadedSpace loaded = load_space(selection);
    warn_of(loaded.warnings);
    if (const auto chosen = chosen_entity(loaded.space, selection)) narrow(loaded.space, *chosen);
    return loaded;
  }

  static Operation read_operation(const SweepArguments& arguments, const Space& space) {
    if (arguments.operation_path.empty()) return {};
    refuse_other_kind("--operation", arguments.operation_path, "--operation");
    Operation operation = read_operation_file(arguments.operation_path);
    warn_of(operation.warnings);
    if (operation.search && arguments.options.worker) refuse_search("--worker");
    const std::string& config = arguments.selection.config_path;
    if (!config.empty() || !space.actuator_configuration)
      warn_of(notes_on_actuator_configurations(operation, config));
    return operation;
  }

  static ResolveOptions resolving(const LoadedSpace& loaded, const SweepArguments& arguments) {
    ResolveOptions options = resolve_options(loaded, arguments.selection);
    options.backend = arguments.backend.name();
    refuse_own_mistakes(loaded, arguments.selection, options);
    return options;
  }

  static SweepOptions sweeping(const SweepArguments& arguments, const Operation& operation,
                               const Nvml* nvml) {
    SweepOptions options = arguments.options;
    options.until_s = until_s(arguments);
    options.simulate = arguments.backend.simulate;
    options.max_retries = arguments.max_retries.value_or(operation.max_retries);
    options.single_measurement = operation.single_measurement;
    options.command = [&arguments](const Cell& cell) {
      return sweep_cell_command(arguments, cell);
    };
    if (arguments.backend.name() == kBackendSimulate) return options;
    options.preflight = [nvml, limit = options.host_memory_bytes](const TrainingJob& job,
                                                                  const Share& share) {
      return memory_warning(job, memory_room(job, nvml, limit, share.gpus));
    };
    return options;
  }

  // A random order that nobody can repeat would be no record of what was done.
  static uint64_t seed(const SweepArguments& arguments, const Operation& operation) {
    if (arguments.seed) return *arguments.seed;
    if (operation.search && operation.search->seed) return *operation.search->seed;
    const bool random =
        operation.order == WalkOrder::kRandom || operation.order == WalkOrder::kRandomGrouped;
    if (!random && !operation.search) return 0;
    const uint64_t drawn = std::random_device()();
    if (random) spdlog::info("random order; --seed {} repeats it", drawn);
    return drawn;
  }

  Recorded recorded(const WalkStep& step) {
    Cell cell = planner_.name(step);
    const auto status = stored_.status_of(cell, 1);
    if (!status) return Recorded::kNothing;
    return *status == Status::kFailed ? Recorded::kFailed : Recorded::kFinal;
  }

  std::vector<Json> preview_row(const Cell& cell, const std::optional<Status>& status) {
    std::string action = status ? std::string(to_string(*status)) : "measure";
    Json reason;
    if (!status) {
      const CellPlan plan = planner_.plan(cell);
      for (const std::string& note : plan.notes) {
        if (notes_.insert(note).second) spdlog::info("{}", note);
      }
      if (options_.worker && plan.elsewhere) {
        action = "leave to others";
        reason = *plan.elsewhere;
      } else if (plan.settled) {
        action = makes_invalid(plan.settled->code) ? "record as invalid" : "record as failed";
        reason = std::string(to_string(plan.settled->code)) + ": " + plan.settled->message;
      }
    }
    return {action,  reason, cell.sample, cell.request.entity_id, cell.request.experiment_id,
            cell.key};
  }

  const SweepArguments& arguments_;
  std::set<std::string> notes_;  // that a preview has said
  const DevicePrices prices_;    // of what is best
  LoadedSpace loaded_;
  Operation operation_;
  ResolveOptions resolve_options_;
  std::string no_nvml_;
  std::unique_ptr<Nvml> nvml_;
  Machine machine_;
  ResultStore store_;
  CellPlanner planner_;
  SweepOptions options_;
  StoreView stored_;
  Walk walk_;
};

}  // namespace

int preview_sweep(const SweepArguments& arguments, OutputFormat format) {
  return Campaign(arguments).preview(format);
}

int sweep_here(const SweepArguments& arguments, OutputFormat format, bool quiet) {
  Campaign campaign(arguments);
  if (arguments.backend.name() == kBackendSimulate) {
    spdlog::warn("simulated: nothing is trained, every result says so");
  } else if (const std::string unfit = unfit_for_measuring(); !unfit.empty()) {
    spdlog::warn("this sftbench was {}: its figures say nothing about a release build", unfit);
  }
  return campaign.sweep(format, quiet);
}

}  // namespace sftbench
