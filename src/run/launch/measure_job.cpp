#include "sftbench/launch/measure_job.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "sftbench/base/build_info.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/cluster/launcher_environment.h"
#include "sftbench/data/dataset_catalog.h"
#include "sftbench/measure/host_info.h"
#include "sftbench/measure/run_record.h"
#include "sftbench/measure/stop_rules.h"
#include "sftbench/measure/system_sampler.h"
#include "sftbench/plan/job_file.h"
#include "sftbench/plan/resolve.h"
#include "sftbench/results/sample_series.h"
#include "sftbench/results/trained_extra.h"

namespace sftbench {
namespace {

// What this process and those of other ranks have sampled of the measured steps, each by its own
// clock.
std::vector<ProcessSamples> samples_of_span(const RunRecord& record, const MeasuredSpan& span,
                                            int64_t warmup_steps,
                                            std::vector<ProcessSamples> processes) {
  if (warmup_steps == 0) return processes;
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    const double begin_s =
        rank == 0 ? span.begin_s
                  : record.end.ranks.at(rank).steps.at(static_cast<size_t>(warmup_steps)).begin_s;
    processes[rank].samples = samples_since(processes[rank].samples, begin_s);
  }
  return processes;
}

std::vector<TrainObserver*> joined(std::vector<TrainObserver*> first,
                                   const std::vector<TrainObserver*>& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

void set_outcome_of(Measurement& measurement, const ErrorClass& error, const std::string& log) {
  set_outcome(measurement, makes_invalid(error.code) ? Status::kInvalid : Status::kFailed,
              {error.code, error.message, error.evidence, log});
}

// A measurement is worth as much without it: what keeps it from being written is a warning.
void keep_series(Measurement& measurement, const std::filesystem::path& path,
                 const RunRecord& record, const std::vector<ProcessSamples>& processes,
                 int64_t warmup_steps) {
  if (path.empty()) return;
  try {
    measurement.extra["series"] =
        write_sample_series(path, sample_series(record, processes, warmup_steps));
  } catch (const InputError& error) {
    measurement.extra["warnings"].push_back("the samples over time are not kept: " +
                                            std::string(error.what()));
  }
}

// Fills in the figures of a run that has ended well.
void set_valid(Measurement& measurement, const TrainingJob& job, Backend& backend,
               const RunRecord& record, const StopRules& rules,
               std::vector<SystemReading> own_samples, const std::filesystem::path& series) {
  if (!record.complete || record.steps.empty()) {
    throw RunError(ReasonCode::kInternal, "the engine ended without having trained a step");
  }
  // Fewer GPUs than ranks where ranks share them.
  const auto nodes = static_cast<int>(std::max<int64_t>(1, job.device.nodes));
  const int gpus = backend.local_gpus() * nodes;
  const auto ranks = static_cast<int>(job.device.ranks);
  const int64_t warmup_steps = rules.warmup_steps();
  TrainedRun run{record, warmup_steps,      measured_span(record, warmup_steps), {}, ranks,
                 {},     rules.known_rate()};
  std::vector<ProcessSamples> processes = {{0, std::move(own_samples)}};
  std::vector<ProcessSamples> others = backend.other_ranks();
  std::move(others.begin(), others.end(), std::back_inserter(processes));
  run.processes = samples_of_span(record, run.span, warmup_steps, processes);
  if (job.device.kind == "cuda") run.devices = gpus;
  run.peak = backend.peak(record.begin.compute_dtype);
  measurement.measured =
      measured_properties_of(run.span, run.processes, gpus, job.batches.stop_after_seconds > 0);
  measurement.extra = trained_extra(job, run);
  if (backend.nvml() != nullptr && backend.nvml()->driver_version() == "phantom") {
    measurement.extra["warnings"].push_back(
        "measured on the phantom device: no GPU has computed this, and the host's time passed");
  }
  keep_series(measurement, series, record, processes, warmup_steps);
  measurement.status = Status::kValid;
}

}  // namespace

void prepare_job(const TrainingJob& job, const Backend& backend, bool generate_dataset,
                 const std::function<void(const std::string&)>& announce) {
  backend.check_devices();
  if (generate_dataset) {
    ensure_named_dataset(named_dataset(job.data.dataset_id), job.data.path, announce);
  }
}

Measurement measure_job(const TrainingJob& job, Backend& backend, const MeasureOptions& options) {
  Measurement measurement = begin_measurement(job, options.command, backend.nvml());
  try {
    Engine& engine = backend.engine();
    // Asked again after training: only then are CUDA, its libraries and the threads what they were.
    measurement.environment = environment_json(job, engine.environment(), backend.nvml());
    options.begun(measurement);

    const std::unique_ptr<SystemSource> source = backend.system_source(backend.local_gpus());
    SystemSampler sampler(*source, job.sample_period_s, options.sampled);
    RunRecorder recorder;
    StopRules rules(
        job.batches.stop_after_seconds, job.batches.auto_stop_method,
        [&sampler] { sampler.sample_now(); }, job.batches.stop_when_known);
    engine.train_job(job, *make_single_rank(),
                     joined({&recorder, &rules, &sampler}, options.observers), options.interrupted);

    set_valid(measurement, job, backend, recorder.record(), rules, sampler.samples(),
              options.series);
    measurement.environment = environment_json(job, engine.environment(), backend.nvml());
  } catch (const std::exception& error) {
    if (options.interrupted()) throw RunInterrupted();
    set_outcome_of(measurement, classify_exception(error, job), options.log);
  } catch (...) {
    set_outcome_of(measurement,
                   {ReasonCode::kInternal, "the run ended with an exception of unknown type", {}},
                   options.log);
  }
  measurement.finished_at = utc_now_iso8601();
  return measurement;
}

RankRecord follow_job(const TrainingJob& job, Backend& backend, const RankPlace& place,
                      const MeasureOptions& options) {
  // One rank of each node reads its GPUs.
  const bool reads_gpus = job.device.kind == "cuda" && place.local_rank == 0;
  const std::unique_ptr<SystemSource> source =
      backend.system_source(reads_gpus ? backend.local_gpus() : 0);
  SystemSampler sampler(*source, job.sample_period_s);
  backend.engine().train_job(job, *make_single_rank(), joined({&sampler}, options.observers),
                             options.interrupted);
  return {place.node, sampler.samples()};
}

Measurement begin_measurement(const TrainingJob& job, const std::string& command,
                              const Nvml* nvml) {
  Measurement measurement;
  measurement.key = measurement_key(job.experiment, job.inputs);
  measurement.experiment = job.experiment;
  measurement.experiment_id = job.experiment_id;
  measurement.entity_id = job.entity_id;
  measurement.entity = job.entity;
  measurement.inputs = job.inputs;
  measurement.job = job_in_result(job);
  measurement.command = command;
  measurement.environment = environment_json(job, {{"backend", job.backend}}, nvml);
  measurement.started_at = utc_now_iso8601();
  return measurement;
}

Measurement ended_measurement(const TrainingJob& job, const ErrorClass& error,
                              const MeasureOptions& options, const Nvml* nvml) {
  Measurement measurement = begin_measurement(job, options.command, nvml);
  set_outcome_of(measurement, error, options.log);
  measurement.finished_at = utc_now_iso8601();
  return measurement;
}

Json environment_json(const TrainingJob& job, const Json& engine, const Nvml* nvml) {
  const BuildInfo& build = build_info();
  static const HostInfo kHost = read_host_info();
  Json environment = {{"version", build.version},
                      {"commit", build.commit},
                      {"build_type", build.build_type},
                      {"compiler", build.compiler},
                      {"sanitizers", build.sanitizers.empty() ? Json() : Json(build.sanitizers)},
                      {"backend", kBackendLibtorch},
                      {"libtorch", nullptr},
                      {"blas", nullptr},
                      {"onednn", nullptr},
                      {"products", nullptr},
                      {"cuda", nullptr},
                      {"nccl", nullptr},
                      {"driver", nvml != nullptr ? Json(nvml->driver_version()) : Json()},
                      {"gpus", Json::array()},
                      {"threads", nullptr},
                      {"cpu", kHost.cpu},
                      {"cores", kHost.cores},
                      {"memory_bytes", kHost.memory_bytes},
                      {"kernel", kHost.kernel},
                      {"host", kHost.name},
                      {"concurrent_cells", 0},
                      {"launcher", launcher_name(process_environment())}};
  for (const auto& [key, value] : engine.items()) {
    if (!value.is_null()) environment[key] = value;
  }
  if (!job.dashboard_url.empty()) environment["aim_dashboard_url"] = job.dashboard_url;
  return environment;
}

}  // namespace sftbench
