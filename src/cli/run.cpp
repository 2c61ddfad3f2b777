#include "sftbench/cli/run.h"

#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <mutex>
#include <optional>

#include "cli/launched_run.h"
#include "cli/measuring_session.h"
#include "cli/number_checks.h"
#include "cli/repeat_command.h"
#include "cli/result_place.h"
#include "cli/run_log.h"
#include "cli/run_plan.h"
#include "cli/series_view.h"
#include "sftbench/base/error.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/base/text.h"
#include "sftbench/cli/app.h"
#include "sftbench/cli/progress.h"
#include "sftbench/base/build_info.h"
#include "sftbench/launch/interrupt.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace {

BackendChoice backend_of(const RunArguments& arguments, const TrainingJob& job, int sample = 1) {
  return {job.inputs.value("backend", kBackendLibtorch), arguments.backend.simulate, sample};
}

// A measurement with its files, log and progress.
class Session {
 public:
  Session(const RunArguments& arguments, const CommonOptions& common, InterruptWatcher& watcher,
          RunPlan plan)
      : arguments_(arguments),
        common_(common),
        watcher_(watcher),
        plan_(std::move(plan)),
        place_(arguments.output, plan_.job, watcher),
        measuring_(plan_.job, backend_of(arguments, plan_.job, place_.sample())) {
    measuring_.settings().command = repeat_command();
    measuring_.settings().interrupted = [this] { return watcher_.requested(); };
  }

  // This process leads ranks that an outside launcher started, and all foresee this ending. Should
  // one of them fail, the launcher may ask this process to end before it has told so: it is told
  // nevertheless.
  void lead(LaunchedRun* launched, const std::optional<ErrorClass>& ending, OutputFormat format) {
    launched_ = launched;
    plan_.ending = ending;
    if (launched == nullptr) return;
    measuring_.settings().interrupted = [this] {
      return watcher_.requested() && !launched_->failure();
    };
    watcher_.set_last_words({[launched] { return launched->failure().has_value(); },
                             [this, format] {
                               const int status =
                                   tell(measuring_.ended(*launched_->failure()), format);
                               place_.give_back();
                               return status;
                             }});
    watcher_.set_graceful(true);
  }

  ~Session() { watcher_.set_last_words({}); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Throws RunInterrupted.
  Measurement measure() {
    if (plan_.ending) return measuring_.ended(*plan_.ending);
    const auto announce = [](const std::string& line) { spdlog::info("{}", line); };
    if (const auto warning = measuring_.memory_warning()) spdlog::warn("{}", *warning);
    try {
      if (launched_ != nullptr) {
        launched_->prepare(measuring_, plan_.job, plan_.generate_dataset, announce);
      } else {
        measuring_.prepare(plan_.generate_dataset, announce);
      }
    } catch (const RunError& error) {
      return measuring_.ended(classify_exception(error, plan_.job));
    }
    return plan_.job.runs > 1 ? train_in_children() : train();
  }

  // Writes and prints it, once, whichever thread is the first. The exit status.
  int tell(const Measurement& measurement, OutputFormat format) {
    const std::lock_guard lock(told_mutex_);
    if (told_) return *told_;
    if (const auto& reason = measurement.reason; reason && format != OutputFormat::kTable) {
      spdlog::error("{}", reason_text(reason->code, reason->message, reason->evidence));
    }
    // Kept before it is printed: who reads the standard output may be gone.
    const std::optional<ResultPlace::Kept> kept = keep(measurement);
    const std::string text = render(measurement, format);
    const size_t columns = format == OutputFormat::kTable ? terminal_columns(STDOUT_FILENO) : 0;
    std::cout << wrapped(text, columns) << std::flush;
    if (kept) kept->tell();
    told_ = kept && !kept->lost ? exit_code(measurement.status) : kFailedExitCode;
    return *told_;
  }

  void discard() { watcher_.remove_files(); }

 private:
  // Nothing when the measurement cannot be written: nothing of it is left then.
  std::optional<ResultPlace::Kept> keep(const Measurement& measurement) {
    try {
      return place_.write(measurement);
    } catch (const InputError& error) {
      discard();
      spdlog::error("{}; the measurement is printed, but not kept", error.what());
      return std::nullopt;
    }
  }

  Measurement train() {
    const std::filesystem::path log_path = place_.growing_log();
    watcher_.remove_when_interrupted(log_path);
    const RunLog log(log_path);
    StepLog step_log(log);
    RunSettings& settings = measuring_.settings();
    settings.log = place_.log().string();
    settings.observers = {&step_log};
    measuring_.ranked().log = log_path;
    measuring_.ranked().final_log = settings.log;
    measuring_.ranked().inherited_fds = {place_.lock_fd()};
    for (int rank = 0; measuring_.starts_ranks() && rank < plan_.job.device.ranks; ++rank) {
      watcher_.remove_when_interrupted(log_of_rank(log_path, rank));
    }
    std::optional<Progress> progress;
    std::optional<ClearsProgress> clears_progress;
    if (shows_progress()) {
      progress.emplace(std::cerr, ::isatty(STDERR_FILENO) != 0, plan_.job, settings.peak);
      clears_progress.emplace(*progress);
      settings.observers = {&*clears_progress, &step_log, &*progress};
    }
    spdlog::info("measuring {} with {}", plan_.job.entity_id, plan_.job.experiment_id);
    if (progress) {
      progress->phase(measuring_.starts_ranks()
                          ? "starting " + std::to_string(plan_.job.device.ranks) + " ranks"
                          : "starting the engine");
    }
    watcher_.set_graceful(true);
    Measurement measurement = measuring_.train();
    if (settings.interrupted()) throw RunInterrupted();
    if (launched_ == nullptr) watcher_.set_graceful(false);
    if (launched_ != nullptr) launched_->put_transport(plan_.job, measurement);
    if (measurement.reason) {
      log.line("error", reason_text(measurement.reason->code, measurement.reason->message,
                                    measurement.reason->evidence));
    }
    return measurement;
  }

  // Several runs, each in a process of its own: whatever ends one does not end the others.
  Measurement train_in_children() {
    ChildSpec spec;
    spec.job = plan_.job;
    spec.command = measuring_.settings().command;
    spec.backend = plan_.job.inputs.value("backend", kBackendLibtorch);
    spec.simulate = arguments_.backend.simulate;
    spec.sample = place_.sample();
    spec.log = place_.growing_log();
    spec.final_log = place_.log().string();
    spec.inherited_fds = {place_.lock_fd()};
    spec.timeout_s = arguments_.timeout_s;
    spec.stall_timeout_s = arguments_.stall_timeout_s;
    watcher_.remove_when_interrupted(spec.log);
    watcher_.remove_when_interrupted(log_of_run(spec.log));
    spdlog::info("measuring {} with {}, {} runs", plan_.job.entity_id, plan_.job.experiment_id,
                 plan_.job.runs);
    const SeriesDisplay display = !shows_progress()              ? SeriesDisplay::kNothing
                                  : ::isatty(STDERR_FILENO) != 0 ? SeriesDisplay::kTerminal
                                                                 : SeriesDisplay::kLines;
    watcher_.set_graceful(true);
    Measurement measurement = measure_series(std::move(spec), std::cerr, display,
                                             [this] { return watcher_.requested(); });
    watcher_.set_graceful(false);
    if (watcher_.requested()) throw RunInterrupted();
    return measurement;
  }

  bool shows_progress() const {
    return !common_.no_progress && spdlog::should_log(spdlog::level::info);
  }

  const RunArguments& arguments_;
  const CommonOptions& common_;
  InterruptWatcher& watcher_;
  RunPlan plan_;
  ResultPlace place_;
  MeasuringSession measuring_;
  LaunchedRun* launched_ = nullptr;
  std::mutex told_mutex_;
  std::optional<int> told_;  // the exit status
};

void warn_of_what_has_no_effect(const RunArguments& arguments, const TrainingJob& job) {
  if (const std::string unfit = unfit_for_measuring(); !unfit.empty()) {
    spdlog::warn("this sftbench was {}: its figures say nothing about a release build", unfit);
  }
  if (job.runs == 1 && (arguments.timeout_s > 0 || arguments.stall_timeout_s > 0)) {
    spdlog::warn("--timeout and --stall-timeout have no effect: {} is one run, in this process",
                 job.experiment);
  }
}

// The exit status.
int measure_and_keep(Session& session, OutputFormat format) {
  try {
    return session.tell(session.measure(), format);
  } catch (const RunInterrupted&) {
    session.discard();
    spdlog::error("interrupted; nothing was kept");
    return kInterruptedExitCode;
  } catch (const InputError&) {
    session.discard();
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
  OutputFormat format{};
  RunPlan plan;
  std::optional<LaunchedRun> launched;
  std::optional<Session> session;
  try {
    format = output_format(arguments.format);
    check_backend(arguments.backend);
    plan = plan_for_place(arguments, place);
    if (leads) {
      warn_of_what_has_no_effect(arguments, plan.job);
      session.emplace(arguments, common, watcher, plan);
    }
  } catch (const KeyBusy& error) {
    decline(place, error);
    return kBusyExitCode;
  } catch (const InputError& error) {
    return decline(place, error);
  }
  try {
    launched.emplace(place, plan.job);
    plan.ending = launched->agree(plan.job, plan.ending);
  } catch (const InputError& error) {
    if (leads) return report(error);
    let_rank0_speak();
    return kUsageExitCode;
  } catch (const RunError& error) {
    if (!leads) let_rank0_speak();
    if (!leads) throw;
    plan.ending = classify_exception(error, plan.job);
  }
  if (leads) {
    session->lead(launched ? &*launched : nullptr, plan.ending, format);
    const int status = measure_and_keep(*session, format);
    watcher.set_done();  // a launcher may end all ranks as soon as the first has left
    return launched ? launched->leave(status) : status;
  }
  const ResultStore store(arguments.output);
  const std::string key = measurement_key(plan.job.experiment, plan.job.inputs);
  const FollowerLog log = {
      log_of_rank(store.growing_log_path(plan.job.experiment, key), place.rank),
      log_of_rank(store.log_path(plan.job.experiment, key), place.rank)};
  return launched->follow(watcher, plan.job, plan.ending, plan.generate_dataset,
                          backend_of(arguments, plan.job), log);
}

int run(const RunArguments& arguments, const CommonOptions& common) {
  if (const std::optional<RankPlace> place = launcher_place(process_environment()))
    return run_launched(arguments, common, *place);
  const OutputFormat format = output_format(arguments.format);
  check_backend(arguments.backend);
  RunPlan plan = make_run_plan(arguments);
  if (arguments.dry_run) return print_job(plan);
  warn_of_what_has_no_effect(arguments, plan.job);
  InterruptWatcher watcher;  // before all that starts threads
  Session session(arguments, common, watcher, std::move(plan));
  return measure_and_keep(session, format);
}

}  // namespace

void add_run_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  CLI::App* command = app.add_subcommand("run", "measure one entity and print its properties");
  const auto arguments = std::make_shared<RunArguments>();
  add_selection_options(*command, arguments->selection);
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
  command->add_flag("--dry-run", arguments->dry_run, "print the training job as JSON and stop");
  command->add_option("-o,--output", arguments->output, "folder of the results")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  command
      ->add_option("--sample-period", arguments->sample_period_s,
                   "seconds between samples of GPUs, CPU and memory")
      ->check(CLI::Range(0.01, 3600.0))
      ->option_text("S=1");
  command
      ->add_option("--timeout", arguments->timeout_s,
                   "seconds that each run of a stability experiment may take; 0: any")
      ->check(at_least_zero())
      ->option_text("S=0");
  command
      ->add_option("--stall-timeout", arguments->stall_timeout_s,
                   "seconds that each run of a stability experiment may go without a step; 0: any")
      ->check(at_least_zero())
      ->option_text("S=0");
  command->footer(R"(
A valid result is never replaced: a valid repeat becomes <key>.2.json, a failure
<key>.json.failed. A key that another process measures is refused with exit
status 5.

Examples:
  sftbench run experiments/spaces/quickstart.yaml
  sftbench run space.yaml --entity 3 --set max_steps=8 --format json
  sftbench run space.yaml --entity 3 --dry-run >job.json
  sftbench run --job job.json)");
  command->callback([arguments, command, &common, &exit_code] {
    if (!arguments->job_path.empty()) refuse_beside_job(*command);
    exit_code = run(*arguments, common);
  });
}

}  // namespace sftbench
