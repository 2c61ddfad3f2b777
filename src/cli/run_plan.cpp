#include "cli/run_plan.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/hub_fetch.h"
#include "cli/own_model_check.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/data/dataset_catalog.h"
#include "sftbench/launch/devices.h"
#include "sftbench/launch/memory_preflight.h"
#include "sftbench/plan/job_file.h"
#include "sftbench/plan/resolve.h"
#include "sftbench/results/measurement.h"
#include "sftbench/space/validity.h"
#include "sftbench/translate/file_kind.h"

namespace sftbench {
namespace {

void warn(const std::vector<Diagnostic>& diagnostics) {
  for (const Diagnostic& diagnostic : diagnostics) spdlog::warn("{}", to_string(diagnostic));
}

// Before model and data are looked for, so that they are found. A job that is printed alone fetches
// nothing.
void fetch_what_is_absent(const RunArguments& arguments, const MeasurementRequest& request,
                          const ActuatorSettings& settings, const ResolveOptions& options) {
  if (!settings.fetch_weights || arguments.dry_run) return;
  const FetchProblems problems =
      fetch_absent(absent_from_hub(request, settings, options, Catalog::shipped()),
                   settings.hf_home, arguments.selection.shows_progress);
  if (!problems.models.empty()) throw RunError(ReasonCode::kWeights, join(problems.models, "; "));
  if (!problems.datasets.empty()) throw RunError(ReasonCode::kData, join(problems.datasets, "; "));
}

RunPlan plan_from_space(const RunArguments& arguments) {
  const Catalog& catalog = Catalog::shipped();
  LoadedSpace loaded = load_space(arguments.selection);
  loaded.settings.fetch_weights = loaded.settings.fetch_weights || arguments.selection.fetch;
  warn(loaded.warnings);
  const MeasurementRequest request = choose_request(loaded.space, arguments.selection);
  ResolveOptions options = resolve_options(loaded, arguments.selection);
  options.sample_period_s = arguments.sample_period_s;
  options.backend = arguments.backend.name();
  refuse_own_mistakes(loaded, arguments.selection, options);

  RunPlan plan;
  plan.save = with_file(arguments.save, loaded.file);
  plan.trackers = chosen_trackers(arguments.track, loaded.settings, loaded.file, false);
  plan.job.experiment = request.experiment;
  plan.job.experiment_id = request.experiment_id;
  plan.job.entity_id = request.entity_id;
  plan.job.entity = request.entity;
  plan.job.inputs = effective_inputs(request, options);
  plan.job.backend = options.backend;
  const std::vector<Violation> violations = validate(request.inputs, catalog.models);
  for (const Violation& violation : violations) {
    spdlog::warn("{}: {}", to_string(violation.code), violation.message);
  }
  if (!violations.empty()) {
    plan.ending = ErrorClass{violations.front().code, violations.front().message, {}};
    return plan;
  }
  try {
    fetch_what_is_absent(arguments, request, loaded.settings, options);
    Resolution resolution = resolve(request, loaded.settings, options, catalog);
    for (const std::string& note : resolution.notes)
      spdlog::info("{}", in_given_words(note, loaded, arguments.selection));
    plan.job = std::move(resolution.job);
    plan.generate_dataset = resolution.generate_dataset;
  } catch (const RunError& error) {
    plan.ending = classify_exception(error, plan.job);
  }
  return plan;
}

RunPlan plan_from_job(const RunArguments& arguments) {
  RunPlan plan;
  plan.save = arguments.save;
  plan.trackers = chosen_trackers(arguments.track, {}, {}, false);
  refuse_other_kind("--job", arguments.job_path, "--job");
  JobFile file = read_job_file(arguments.job_path);
  if (file.gathers) {
    throw InputError({{arguments.job_path,
                       0,
                       std::string(kFormerRotation),
                       "is not done any more",
                       "ring, in which keys and values travel",
                       {}}});
  }
  plan.job = std::move(file.job);
  // The machine's matter, not the job's: a launcher gives it for the node that it has chosen.
  if (const int64_t threads = arguments.selection.threads; threads > 0) {
    plan.job.device.threads = threads;
  }
  if (!file.edited.empty()) {
    spdlog::info("{} was edited: {}; inputs and key of the result say so", arguments.job_path,
                 join(file.edited));
  }
  if (!file.renewed.empty()) {
    spdlog::info(
        "since {} was printed, other content is in {}; inputs and key of the result say so",
        arguments.job_path, join(file.renewed));
  }
  const std::string& asked = arguments.backend.backend;
  const std::string& made_for = plan.job.backend;
  if (!asked.empty() && asked != made_for) {
    throw InputError({{{},
                       0,
                       "--backend",
                       arguments.job_path + " was made for " + made_for,
                       "no --backend, or a job that --backend " + asked + " --dry-run printed",
                       {}}});
  }
  plan.generate_dataset = made_for != kBackendSimulate &&
                          is_default_dataset(plan.job.data.dataset_id, plan.job.data.path);
  try {
    if (made_for != kBackendSimulate) refuse_unfit_model(plan.job, arguments.job_path);
  } catch (const RunError& error) {
    plan.ending = classify_exception(error, plan.job);
    return plan;
  }
  if (made_for != kBackendSimulate) refuse_job_mistakes(plan.job, arguments.job_path);
  return plan;
}

// What could not be written in the end is said before anything is measured.
void require_folder_of(const std::string& trace) {
  if (trace.empty()) return;
  const std::filesystem::path folder = std::filesystem::absolute(trace).parent_path();
  const bool writable = std::filesystem::is_directory(folder) &&
                        ::access(folder.c_str(), W_OK) == 0 &&
                        !std::filesystem::is_directory(trace);
  if (writable) return;
  throw InputError({{{},
                     0,
                     "--trace",
                     "cannot write " + trace,
                     "a file in a folder that exists and may be written to",
                     {}}});
}

// A job may be printed for another machine: what `sweep --dry-run` says of this one is a note here.
void note_what_is_not_here(const TrainingJob& job) {
  if (job.backend == kBackendSimulate) return;
  std::string no_nvml;
  const std::unique_ptr<Nvml> nvml = Nvml::load(&no_nvml);
  try {
    check_devices(job, nvml.get(), no_nvml, Catalog::shipped().gpus);
  } catch (const RunError& error) {
    spdlog::warn("not on this machine: {}: {}", to_string(error.code()), error.what());
  }
  if (const auto warning = memory_warning(job, memory_room(job, nvml.get()))) {
    spdlog::warn("on this machine: {}", *warning);
  }
}

}  // namespace

RunPlan make_run_plan(const RunArguments& arguments) {
  RunPlan plan = arguments.job_path.empty() ? plan_from_space(arguments) : plan_from_job(arguments);
  if (!arguments.trace.empty()) plan.job.trace_path = arguments.trace;
  require_folder_of(plan.job.trace_path);
  apply_save_options(plan.save, arguments.output, plan.job);
  if (!plan.ending) apply_generation_options(arguments.generation, plan.job);
  return plan;
}

void refuse_beside_job(const CLI::App& command) {
  std::vector<Diagnostic> idle;
  std::vector<const char*> options = {"SPACE",
                                      "--set",
                                      "--experiment",
                                      "--method",
                                      "--entity",
                                      "--model",
                                      "--arguments",
                                      "--deepspeed",
                                      "--config",
                                      "--ado-ids",
                                      "--weights",
                                      "--fetch",
                                      "--padding",
                                      "--largest-batch-first",
                                      "--stop-at-precision",
                                      "--ranks",
                                      "--gradient-sync",
                                      "--reduce-dtype",
                                      "--communication-timeout",
                                      "--sample-period"};
  for (const ArgumentOption& argument : argument_options()) options.push_back(argument.option);
  for (const char* option : options) {
    if (command.count(option) == 0) continue;
    idle.push_back({{},
                    0,
                    option,
                    "has no effect on a job, which is resolved already",
                    "--job alone; edit the job, or measure a space",
                    {}});
  }
  if (!idle.empty()) throw InputError(std::move(idle));
}

int print_job(const RunPlan& plan) {
  if (!plan.ending) {
    std::cout << json_text(job_file(plan.job), 2) << "\n" << std::flush;
    note_what_is_not_here(plan.job);
    return 0;
  }
  spdlog::error("{}", reason_text(plan.ending->code, plan.ending->message, plan.ending->evidence));
  return exit_code(makes_invalid(plan.ending->code) ? Status::kInvalid : Status::kFailed);
}

}  // namespace sftbench
