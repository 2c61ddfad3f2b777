#include "cli/run.h"

#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>

#include "cli/hub_fetch.h"
#include "cli/launched_run.h"
#include "cli/node_options.h"
#include "cli/number_checks.h"
#include "cli/repeat_command.h"
#include "cli/result_place.h"
#include "cli/result_teller.h"
#include "cli/run_plan.h"
#include "cli/run_view.h"
#include "cli/series_view.h"
#include "sftbench/base/build_info.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/cli/app.h"
#include "sftbench/launch/interrupt.h"
#include "sftbench/launch/measure_job.h"
#include "sftbench/results/store.h"
#include "sftbench/sweep/interrupt_signals.h"

namespace sftbench {
namespace {

// Other programs read the formats that are not for people: nothing is added to these unasked.
DevicePrices prices_for(const RunArguments& arguments, OutputFormat format) {
  const bool shown = format == OutputFormat::kTable || arguments.price.given();
  return shown ? device_prices(arguments.price) : DevicePrices();
}

// What one measurement is made of, made in this order. `plan` and `watcher` must outlive it.
struct RunParts {
  // Throws InputError, or KeyBusy when another process measures the key. `one_of_ranks`: a launcher
  // started the ranks.
  RunParts(const RunArguments& run_arguments, const CommonOptions& common, const RunPlan& run_plan,
           OutputFormat format, bool one_of_ranks, InterruptWatcher& interrupts)
      : arguments(run_arguments),
        plan(run_plan),
        watcher(interrupts),
        shows_progress(!common.no_progress && spdlog::should_log(spdlog::level::info)),
        place(arguments.output, plan.job, watcher),
        backend(choose_backend(plan.job, {arguments.backend.simulate, place.sample()},
                               one_of_ranks ? std::nullopt : std::optional(ranked()))),
        teller(place, watcher, format, prices_for(run_arguments, format)) {}

  RankedSpec ranked() const {
    RankedSpec spec;
    spec.log = place.growing_log();
    spec.final_log = place.log().string();
    spec.inherited_fds = place.inherited_fds();
    return spec;
  }

  const RunArguments& arguments;
  const RunPlan& plan;
  InterruptWatcher& watcher;
  const bool shows_progress;
  const std::string command = repeat_command();
  ResultPlace place;
  const std::unique_ptr<Backend> backend;
  ResultTeller teller;
};

// Before anything is measured: devices, dataset and, of a launcher's ranks, their network and
// engine. Returns the backend that trains in the launcher's group.
std::unique_ptr<Backend> prepare(const RunParts& parts, LaunchedRun* launched) {
  const auto announce = [](const std::string& line) { spdlog::info("{}", line); };
  const RunPlan& plan = parts.plan;
  if (const auto warning = parts.backend->memory_warning()) spdlog::warn("{}", *warning);
  if (launched != nullptr) {
    return launched->prepare(*parts.backend, plan.job, plan.generate_dataset, announce);
  }
  prepare_job(plan.job, *parts.backend, plan.generate_dataset, announce);
  return nullptr;
}

// This process leads ranks that an outside launcher started. Should one of them fail, the launcher
// may ask this process to end before it has told so: it tells nevertheless.
void tell_whatever_happens(RunParts& parts, const LaunchedRun& launched, const std::string& log) {
  parts.watcher.set_last_words({[&launched] { return launched.failure().has_value(); },
                                [&parts, &launched, log] {
                                  return parts.teller.tell_at_the_end(
                                      ended_measurement(parts.plan.job, *launched.failure(),
                                                        {.command = parts.command, .log = log},
                                                        parts.backend->nvml()));
                                }});
  parts.watcher.set_graceful(true);
}

void remove_logs_when_interrupted(const RunParts& parts, const Backend& backend) {
  const std::filesystem::path log = parts.place.growing_log();
  parts.watcher.remove_when_interrupted(log);
  parts.watcher.remove_when_interrupted(parts.place.growing_series());
  if (!backend.starts_ranks()) return;
  for (int rank = 0; rank < parts.plan.job.device.ranks; ++rank) {
    parts.watcher.remove_when_interrupted(log_of_rank(log, rank));
  }
}

// Several runs, each in a process of its own: whatever ends one does not end the others. Throws
// RunInterrupted.
Measurement measure_in_children(const RunParts& parts) {
  InterruptWatcher& watcher = parts.watcher;
  const TrainingJob& job = parts.plan.job;
  ChildSpec spec;
  spec.job = job;
  spec.command = parts.command;
  spec.simulate = parts.arguments.backend.simulate;
  spec.sample = parts.place.sample();
  spec.log = parts.place.growing_log();
  spec.final_log = parts.place.log().string();
  spec.inherited_fds = parts.place.inherited_fds();
  spec.timeout_s = parts.arguments.timeout_s;
  spec.stall_timeout_s = parts.arguments.stall_timeout_s;
  watcher.remove_when_interrupted(spec.log);
  watcher.remove_when_interrupted(log_of_run(spec.log));
  spdlog::info("measuring {} with {}, {} runs", job.entity_id, job.experiment_id, job.runs);
  const SeriesDisplay display = !parts.shows_progress          ? SeriesDisplay::kNothing
                                : ::isatty(STDERR_FILENO) != 0 ? SeriesDisplay::kTerminal
                                                               : SeriesDisplay::kLines;
  watcher.set_graceful(true);
  Measurement measurement = measure_series(std::move(spec), std::cerr, display,
                                           [&watcher] { return watcher.requested(); });
  watcher.set_graceful(false);
  if (watcher.requested()) throw RunInterrupted();
  return measurement;
}

void warn_of_what_has_no_effect(const RunArguments& arguments, const RunPlan& plan) {
  const TrainingJob& job = plan.job;
  if (const std::string unfit = unfit_for_measuring(); !unfit.empty()) {
    spdlog::warn("this sftbench was {}: its figures say nothing about a release build", unfit);
  }
  if (job.runs == 1 && (arguments.timeout_s > 0 || arguments.stall_timeout_s > 0)) {
    spdlog::warn("--timeout and --stall-timeout have no effect: {} is one run, in this process",
                 job.experiment);
  }
  if (job.runs > 1 && !plan.trackers.empty()) {
    spdlog::warn("trackers follow one run, and {} consists of {}: nothing is tracked",
                 job.experiment, job.runs);
  }
}

// Measures, writes and prints. `ending` is known already, if there is one; `launched` is null
// unless this process leads ranks that a launcher started. Returns the exit status.
int measure_and_keep(RunParts& parts, std::optional<ErrorClass> ending, LaunchedRun* launched) {
  const TrainingJob& job = parts.plan.job;
  InterruptWatcher& watcher = parts.watcher;
  const MeasureOptions without_log = {.command = parts.command};
  if (launched != nullptr) tell_whatever_happens(parts, *launched, {});
  watcher.set_parting_text([&job] { return interrupted_text(job.save); });
  try {
    std::unique_ptr<Backend> in_group;
    try {
      if (!ending) in_group = prepare(parts, launched);
    } catch (const RunError& error) {
      ending = classify_exception(error, job);
    }
    if (ending) {
      return parts.teller.tell(ended_measurement(job, *ending, without_log, parts.backend->nvml()));
    }
    if (job.runs > 1) return parts.teller.tell(measure_in_children(parts));

    Backend& backend = in_group ? *in_group : *parts.backend;
    remove_logs_when_interrupted(parts, backend);
    std::optional<RunView> view(std::in_place, job, backend, parts.place.growing_log(),
                                parts.shows_progress);
    MeasureOptions options = {.command = parts.command,
                              .log = parts.place.log().string(),
                              .observers = view->observers(),
                              .interrupted = [&] {
                                return watcher.requested() &&
                                       (launched == nullptr || !launched->failure());
                              }};
    if (job.backend != kBackendSimulate) options.series = parts.place.growing_series();
    TrackedMeasurement tracked(parts.plan.trackers, job, parts.place.sample(), parts.command);
    tracked.add_to(options);
    if (launched != nullptr) tell_whatever_happens(parts, *launched, options.log);
    view->begin();
    watcher.set_graceful(true);
    Measurement measurement = measure_job(job, backend, options);
    if (options.interrupted()) throw RunInterrupted();
    if (launched == nullptr) watcher.set_graceful(false);
    if (launched != nullptr) launched->put_warnings(measurement);
    tracked.finish(measurement);
    view->end(measurement);
    view.reset();
    return parts.teller.tell(measurement);
  } catch (const RunInterrupted&) {
    watcher.remove_files();
    spdlog::error("{}", interrupted_text(job.save));
    return kInterruptedExitCode;
  } catch (const InputError&) {
    watcher.remove_files();
    throw;
  }
}

// The job, as this rank of it understands its arguments. InputError.
RunPlan plan_for_place(const RunArguments& arguments, const RankPlace& place) {
  RunPlan plan = make_run_plan(arguments);
  if (plan.job.device.kind == "cpu") plan.job.device.nodes = place.nodes;
  if (!plan.ending) require_fit(plan.job, place);
  return plan;
}

// As one of several ranks that an outside launcher started. What a rank stumbles over before they
// meet is told to the others, and by rank 0 to the user.
int run_launched(const RunArguments& arguments, const CommonOptions& common,
                 const RankPlace& place) {
  const bool leads = place.rank == 0;
  if (!leads) spdlog::default_logger()->sinks().front()->set_level(spdlog::level::off);
  if (arguments.dry_run) return leads ? print_job(make_run_plan(arguments)) : 0;
  InterruptWatcher watcher;
  RunPlan plan;
  std::optional<LaunchedRun> launched;
  std::optional<RunParts> parts;
  try {
    const OutputFormat format = output_format(arguments.format);
    check_backend(arguments.backend);
    plan = plan_for_place(arguments, place);
    if (leads) {
      warn_of_what_has_no_effect(arguments, plan);
      parts.emplace(arguments, common, plan, format, /*one_of_ranks=*/true, watcher);
    }
  } catch (const KeyBusy& error) {
    decline(place, error);
    return kBusyExitCode;
  } catch (const InputError& error) {
    return decline(place, error);
  }
  std::optional<ErrorClass> ending = plan.ending;
  try {
    launched.emplace(place, plan.job);
    ending = launched->agree(plan.job, plan.ending);
  } catch (const InputError& error) {
    if (leads) return report(error);
    let_rank0_speak();
    return kUsageExitCode;
  } catch (const RunError& error) {
    if (!leads) let_rank0_speak();
    if (!leads) throw;
    ending = classify_exception(error, plan.job);
  }
  if (leads) {
    const int status = measure_and_keep(*parts, ending, launched ? &*launched : nullptr);
    watcher.set_done();  // a launcher may end all ranks as soon as the first has left
    return launched ? launched->leave(status) : status;
  }
  const ResultStore store(arguments.output);
  const std::string key = measurement_key(plan.job.experiment, plan.job.inputs);
  const FollowerLog log = {
      log_of_rank(store.growing_log_path(plan.job.experiment, key), place.rank),
      log_of_rank(store.log_path(plan.job.experiment, key), place.rank)};
  return launched->follow(watcher, plan.job, ending, plan.generate_dataset,
                          {arguments.backend.simulate}, log);
}

// Rank 0 says what there is to say of the job.
RunPlan make_run_plan_quietly(const RunArguments& arguments) {
  struct Level {
    spdlog::level::level_enum before = spdlog::get_level();
    Level() { spdlog::set_level(spdlog::level::off); }
    ~Level() { spdlog::set_level(before); }
  } const off;
  return make_run_plan(arguments);
}

// A job of several nodes where something says which: how its ranks are started.
std::optional<NodeLaunch> launch_of(const RunArguments& arguments, const Environment& environment) {
  const bool in_allocation = environment.count("SLURM_JOB_ID") != 0;
  if (!arguments.nodes.given() && !in_allocation) return std::nullopt;
  const RunPlan plan = make_run_plan_quietly(arguments);
  if (plan.ending || plan.job.backend == kBackendSimulate) return std::nullopt;
  if (plan.job.runs > 1) {
    if (arguments.nodes.given()) pass_on(arguments.nodes);  // to the child of each run
    return std::nullopt;
  }
  const auto launch = plan_node_launch(plan.job, arguments.nodes, environment);
  if (!launch) {
    if (arguments.nodes.given()) {
      spdlog::warn("--launcher and --hosts have no effect: the job is one node's (number_nodes)");
    }
    return std::nullopt;
  }
  if (environment.count(kOnNodesVariable) != 0) {
    throw InputError(launch->launcher +
                     " has started this command as one of several ranks, and left no variables "
                     "that say which one");
  }
  return launch;
}

std::vector<std::string> own_words() {
  const std::string line = read_file("/proc/self/cmdline");  // each word ends with a zero byte
  std::vector<std::string> words;
  for (size_t begin = line.find('\0') + 1; begin < line.size();) {
    const size_t end = line.find('\0', begin);
    words.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

int run(const RunArguments& arguments, const CommonOptions& common) {
  const Environment environment = process_environment();
  if (const std::optional<RankPlace> place = launcher_place(environment))
    return run_launched(arguments, common, *place);
  if (const auto launch = arguments.dry_run ? std::nullopt : launch_of(arguments, environment)) {
    const InterruptSignals signals;
    return run_on_nodes(*launch, own_words(), environment, signals.fd());
  }
  const OutputFormat format = output_format(arguments.format);
  check_backend(arguments.backend);
  const RunPlan plan = make_run_plan(arguments);
  if (arguments.dry_run) return print_job(plan);
  warn_of_what_has_no_effect(arguments, plan);
  InterruptWatcher watcher;  // before all that starts threads
  RunParts parts(arguments, common, plan, format, /*one_of_ranks=*/false, watcher);
  return measure_and_keep(parts, plan.ending, nullptr);
}

void add_limit_options(CLI::App& command, RunArguments& arguments) {
  command
      .add_option("--timeout", arguments.timeout_s,
                  "time that each run of a stability experiment may take; 0: any")
      ->transform(duration(0, kMostSeconds))
      ->option_text("DURATION=0");
  command
      .add_option("--stall-timeout", arguments.stall_timeout_s,
                  "time that each run of a stability experiment may go without a step; 0: any")
      ->transform(duration(0, kMostSeconds))
      ->option_text("DURATION=0");
}

}  // namespace

void add_run_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  CLI::App* command = app.add_subcommand("run", "measure one entity and print its properties");
  const auto arguments = std::make_shared<RunArguments>();
  add_selection_options(*command, arguments->selection);
  add_fetch_option(*command, arguments->selection.fetch);
  add_backend_options(*command, arguments->backend);
  command
      ->add_option(
          "--job", arguments->job_path,
          "repeat a training job that --dry-run printed, edited or not, or that of a result")
      ->type_name("FILE");
  command
      ->add_option(
          "--trace", arguments->trace,
          "write a timeline of the first steps, computation and communication of every rank, for "
          "ui.perfetto.dev")
      ->type_name("FILE");
  add_save_options(*command, arguments->save);
  add_generation_options(*command, arguments->generation);
  add_price_option(*command, arguments->price);
  add_track_option(*command, arguments->track);
  add_node_options(*command, arguments->nodes);
  command->add_flag("--dry-run", arguments->dry_run, "print the training job as JSON and stop");
  command->add_option("-o,--output", arguments->output, "folder of the results")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  command
      ->add_option("--sample-period", arguments->sample_period_s,
                   "time between samples of GPUs, CPU and memory")
      ->transform(duration(0.01, 3600))
      ->option_text("DURATION=1s");
  add_limit_options(*command, *arguments);
  command->footer(R"(
A valid result is never replaced: a valid repeat becomes <key>.2.json, a failure
<key>.json.failed. A key that another process measures is refused with exit
status 5.

Examples:
  sftbench run experiments/spaces/quickstart.yaml
  sftbench run space.yaml --entity 3 --set max_steps=8 --format json
  sftbench run space.yaml --entity 3 --output-dir out --save-model-dir out/model
  sftbench run --model ./m --data pairs.json --eval-split 20 --generate 5
  sftbench run space.yaml --entity 3 --price 2.5
  sftbench run space.yaml --entity 3 --hosts n1,n2
  sftbench run space.yaml --entity 3 --dry-run >job.json
  sftbench run --job job.json)");
  command->callback([arguments, command, &common, &exit_code] {
    if (!arguments->job_path.empty()) refuse_beside_job(*command);
    arguments->selection.shows_progress = !common.no_progress;
    arguments->selection.measures = !arguments->dry_run;
    exit_code = run(*arguments, common);
  });
}

}  // namespace sftbench
