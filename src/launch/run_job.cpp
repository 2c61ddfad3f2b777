#include "sftbench/launch/run_job.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "sftbench/base/clock.h"
#include "sftbench/base/build_info.h"
#include "sftbench/launch/devices.h"
#include "sftbench/cluster/launcher_environment.h"
#include "sftbench/measure/host_info.h"
#include "sftbench/measure/rank_metrics.h"
#include "sftbench/measure/run_record.h"
#include "sftbench/measure/stop_rules.h"
#include "sftbench/measure/system_sampler.h"
#include "sftbench/plan/classify_error.h"
#include "sftbench/plan/job_file.h"
#include "sftbench/plan/resolve.h"

namespace sftbench {
namespace {

template <typename Number>
Json series(const RunRecord& record, Number number) {
  Json values = Json::array();
  for (const StepEvent& step : record.steps) values.push_back(number(step));
  return values;
}

Json tokens_json(const TokenCounts& tokens) {
  return {{"padded", tokens.padded},
          {"dataset", tokens.dataset},
          {"loss_bearing", tokens.loss_bearing}};
}

Json memory_json(const TrainEnd& end) {
  Json bytes = {{"device_peak_allocated", end.device_peak_allocated_bytes},
                {"device_peak_reserved", end.device_peak_reserved_bytes},
                {"host_peak_rss", end.host_peak_rss_bytes}};
  for (const RankReport& rank : end.ranks) {
    bytes["parameters"].push_back(rank.parameter_bytes);
    bytes["optimizer_state"].push_back(rank.optimizer_state_bytes);
  }
  return bytes;
}

Json extra_json(const RunRecord& record, const MeasuredSpan& span, int64_t warmup_steps,
                const std::vector<ProcessSamples>& processes, int devices, const DevicePeak& peak) {
  const TrainBegin& begin = record.begin;
  Json joules = Json::array();
  size_t samples = 0;
  for (const ProcessSamples& process : processes) {
    for (Json& of_gpu : gpu_energy_joules(process.samples)) joules.push_back(std::move(of_gpu));
    samples += process.samples.size();
  }
  return {
      {"tokens", tokens_json(span.tokens)},
      {"token_rates", token_rates(span, devices)},
      {"warmup_steps", warmup_steps},
      {"loss", series(record, [](const StepEvent& s) { return s.loss; })},
      {"grad_norm", series(record, [](const StepEvent& s) { return s.grad_norm; })},
      {"skipped_updates", std::count_if(record.steps.begin(), record.steps.end(),
                                        [](const StepEvent& s) { return s.update_skipped; })},
      {"learning_rate", series(record, [](const StepEvent& s) { return s.learning_rate; })},
      {"step_seconds", series(record, [](const StepEvent& s) { return s.end_s - s.begin_s; })},
      {"parameters",
       {{"total", begin.parameters_total}, {"trainable", begin.parameters_trainable}}},
      {"compute_dtype", begin.compute_dtype},
      {"padding", begin.padding},
      {"padding_fraction",
       static_cast<double>(span.tokens.padding) / static_cast<double>(span.tokens.padded)},
      {"warnings", begin.warnings},
      {"tokenizer", begin.tokenizer},
      {"mfu", model_flops_utilization(begin, span, devices, peak)},
      {"memory_bytes", memory_json(record.end)},
      {"gpu_energy_joules", std::move(joules)},
      {"host_memory_percent", host_memory_percent(processes)},
      {"run_queue_wait_share", run_queue_wait_share(processes)},
      {"system_samples", samples},
      {"startup_seconds",
       {{"weights", begin.weights_seconds},
        {"tokenize", begin.tokenize_seconds},
        {"first_step", record.first_step_process_age_s}}},
  };
}

// How the ranks shared the work, and what the fullest of them holds.
Json sharding_json(const TrainingJob& job, const std::vector<RankReport>& ranks) {
  const auto most = [&ranks](int64_t RankReport::*bytes) {
    int64_t largest = 0;
    for (const RankReport& rank : ranks) largest = std::max(largest, rank.*bytes);
    return largest;
  };
  const ParallelPlan& plan = job.parallel;
  return {{"strategy", plan.strategy},
          {"ranks", ranks.size()},
          {"nodes", job.device.nodes},
          {"gradient_sync", plan.gradient_sync},
          {"reduce_dtype", plan.reduce_dtype.empty() ? Json() : Json(plan.reduce_dtype)},
          {"parameter_bytes", most(&RankReport::parameter_bytes)},
          {"gradient_bytes", most(&RankReport::gradient_bytes)},
          {"optimizer_state_bytes", most(&RankReport::optimizer_state_bytes)},
          {"gathered_peak_bytes", most(&RankReport::gathered_peak_bytes)}};
}

void put_ranks(Json& extra, const TrainingJob& job, const std::vector<RankReport>& ranks,
               int64_t warmup_steps) {
  if (!is_distributed(job) || ranks.empty()) return;
  extra["ranks"] = ranks_json(ranks, warmup_steps);
  extra["communication"] = communication_json(ranks, warmup_steps);
  extra["sharding"] = sharding_json(job, ranks);
}

// Files that the run wrote, or went on from.
void put_files(Json& extra, const RunRecord& record) {
  if (!record.begin.resumed_from.empty()) {
    extra["resumed"] = {{"from", record.begin.resumed_from}, {"step", record.begin.resumed_step}};
  }
  if (record.end.saved.empty()) return;
  Json& saved = extra["saved"] = Json::array();
  for (const SavedFolder& folder : record.end.saved) {
    saved.push_back({{"path", folder.path},
                     {"format", folder.format},
                     {"step", folder.step},
                     {"bytes", folder.bytes},
                     {"seconds", folder.seconds}});
  }
}

// What this process and those of other ranks have sampled of the measured steps, each by its own
// clock.
std::vector<ProcessSamples> samples_of_span(const RunRecord& record, const MeasuredSpan& span,
                                            int64_t warmup_steps,
                                            std::vector<SystemReading> own_samples,
                                            std::vector<ProcessSamples> others) {
  std::vector<ProcessSamples> processes = {{0, std::move(own_samples)}};
  std::move(others.begin(), others.end(), std::back_inserter(processes));
  if (warmup_steps == 0) return processes;
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    const double begin_s =
        rank == 0 ? span.begin_s
                  : record.end.ranks.at(rank).steps.at(static_cast<size_t>(warmup_steps)).begin_s;
    processes[rank].samples = samples_since(processes[rank].samples, begin_s);
  }
  return processes;
}

// Trains, and fills in what a valid measurement has.
void train(const TrainingJob& job, Engine& engine, const RunSettings& settings,
           Measurement& measurement) {
  const int nodes = static_cast<int>(std::max<int64_t>(1, job.device.nodes));
  const bool on_gpus = job.device.kind == "cuda";
  const int ranks = static_cast<int>(job.device.ranks);
  // Fewer than ranks where ranks share them; those that are only simulated are not looked for.
  const int local_gpus = settings.system_source ? (on_gpus ? ranks / nodes : 0)
                                                : static_cast<int>(gpus_in_use(job, settings.nvml));
  const int gpus = local_gpus * nodes;
  const std::unique_ptr<SystemSource> source = settings.system_source
                                                   ? settings.system_source(local_gpus)
                                                   : make_system_source(settings.nvml, local_gpus);
  SystemSampler sampler(*source, job.sample_period_s);
  RunRecorder recorder;
  StopRules rules(job.batches.stop_after_seconds, job.batches.auto_stop_method,
                  [&sampler] { sampler.sample_now(); });
  std::vector<TrainObserver*> observers = {&recorder, &rules, &sampler};
  observers.insert(observers.end(), settings.observers.begin(), settings.observers.end());

  engine.train(job, observers, settings.interrupted);

  const RunRecord& record = recorder.record();
  if (!record.complete || record.steps.empty()) {
    throw RunError(ReasonCode::kInternal, "the engine ended without having trained a step");
  }
  const int64_t warmup_steps = rules.warmup_steps();
  const MeasuredSpan span = measured_span(record, warmup_steps);
  const std::vector<ProcessSamples> samples =
      samples_of_span(record, span, warmup_steps, sampler.samples(), settings.other_ranks());
  measurement.measured =
      measured_properties_of(span, samples, gpus, job.batches.stop_after_seconds > 0);
  measurement.extra = extra_json(record, span, warmup_steps, samples, on_gpus ? gpus : ranks,
                                 settings.peak(record.begin.compute_dtype));
  if (std::string note = busy_machine_note(measurement.extra["run_queue_wait_share"]);
      !note.empty()) {
    measurement.extra["warnings"].push_back(std::move(note));
  }
  put_ranks(measurement.extra, job, record.end.ranks, warmup_steps);
  put_files(measurement.extra, record);
  measurement.status = Status::kValid;
}

}  // namespace

Json environment_json(const Json& engine, const Nvml* nvml) {
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
                      {"neighbours", 0},
                      {"launcher", launcher_name(process_environment())}};
  for (const auto& [key, value] : engine.items()) {
    if (!value.is_null()) environment[key] = value;
  }
  return environment;
}

Measurement begin_measurement(const TrainingJob& job, const RunSettings& settings) {
  Measurement measurement;
  measurement.key = measurement_key(job.experiment, job.inputs);
  measurement.experiment = job.experiment;
  measurement.experiment_id = job.experiment_id;
  measurement.entity_id = job.entity_id;
  measurement.entity = job.entity;
  measurement.inputs = job.inputs;
  measurement.job = job_in_result(job);
  measurement.command = settings.command;
  measurement.environment = environment_json({{"backend", settings.backend}}, settings.nvml);
  measurement.started_at = utc_now_iso8601();
  return measurement;
}

Measurement run_job(const TrainingJob& job, const std::function<Engine&()>& load,
                    const RunSettings& settings) {
  Measurement measurement = begin_measurement(job, settings);
  const auto end_with = [&](const ErrorClass& error) {
    const Status status = makes_invalid(error.code) ? Status::kInvalid : Status::kFailed;
    set_outcome(measurement, status, {error.code, error.message, error.evidence, settings.log});
  };
  try {
    Engine& engine = load();
    // Asked again after training: only then are CUDA, its libraries and the threads what they were.
    measurement.environment = environment_json(engine.environment(), settings.nvml);
    settings.begun(measurement);
    train(job, engine, settings, measurement);
    measurement.environment = environment_json(engine.environment(), settings.nvml);
  } catch (const std::exception& error) {
    if (settings.interrupted()) throw RunInterrupted();
    end_with(classify_exception(error, job));
  } catch (...) {
    end_with({ReasonCode::kInternal, "the run ended with an exception of unknown type", {}});
  }
  measurement.finished_at = utc_now_iso8601();
  return measurement;
}

}  // namespace sftbench
