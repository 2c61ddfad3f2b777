#include "sftbench/results/trained_extra.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "sftbench/base/quantity_text.h"
#include "sftbench/measure/rank_metrics.h"

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
    if (rank.host_peak_tensor_bytes >= 0)
      bytes["host_peak_tensors"].push_back(rank.host_peak_tensor_bytes);
    if (rank.allocation_retries >= 0)
      bytes["allocation_retries"].push_back(rank.allocation_retries);
  }
  return bytes;
}

// Empty where memory was never short.
std::string short_memory_note(const std::vector<RankReport>& ranks) {
  int64_t retries = 0;
  for (const RankReport& rank : ranks) retries = std::max(retries, rank.allocation_retries);
  if (retries <= 0) return {};
  return "GPU memory ran short " + std::to_string(retries) +
         " times: the allocator gave its cache back to the device and asked again, which makes "
         "steps slower than they would be with more memory";
}

// What of the data is not used, and steps that had nothing to learn from.
Json data_json(const RunRecord& record) {
  Json data = record.begin.data;
  data["steps_without_loss"] =
      std::count_if(record.steps.begin(), record.steps.end(),
                    [](const StepEvent& step) { return step.tokens.loss_bearing == 0; });
  return data;
}

// Empty where every step had some.
std::string steps_without_loss_note(const Json& data) {
  const int64_t steps = data["steps_without_loss"].get<int64_t>();
  if (steps == 0) return {};
  return counted(steps, "step has", "steps have") +
         " no position that bears loss: the loss and the gradients are 0";
}

Json extra_of_steps(const TrainedRun& run) {
  const RunRecord& record = run.record;
  const MeasuredSpan& span = run.span;
  const TrainBegin& begin = record.begin;
  Json joules = Json::array();
  size_t samples = 0;
  for (const ProcessSamples& process : run.processes) {
    for (Json& of_gpu : gpu_energy_joules(process.samples)) joules.push_back(std::move(of_gpu));
    samples += process.samples.size();
  }
  return {
      {"tokens", tokens_json(span.tokens)},
      {"token_rates", token_rates(span, run.devices)},
      {"warmup_steps", run.warmup_steps},
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
      {"data", data_json(record)},
      {"tokenizer", begin.tokenizer},
      {"mfu", model_flops_utilization(begin, span, run.devices, run.peak)},
      {"memory_bytes", memory_json(record.end)},
      {"gpu_energy_joules", std::move(joules)},
      {"host_memory_percent", host_memory_percent(run.processes)},
      {"run_queue_wait_share", run_queue_wait_share(run.processes)},
      {"system_samples", samples},
      {"startup_seconds",
       {{"weights", begin.weights_seconds},
        {"tokenize", begin.tokenize_seconds},
        {"first_step", record.first_step_process_age_s}}},
  };
}

// Means over the measured steps. Nothing where a step was not timed.
void put_phases(Json& extra, const std::vector<StepEvent>& steps, int64_t warmup_steps) {
  const auto first = steps.begin() + std::min<int64_t>(warmup_steps, std::ssize(steps));
  const auto count = static_cast<double>(steps.end() - first);
  if (first == steps.end() || std::any_of(first, steps.end(), [](const StepEvent& step) {
        return step.phases.forward_s < 0;
      })) {
    return;
  }
  Json seconds;
  double rest = 0;
  for (auto step = first; step != steps.end(); ++step)
    rest += (step->end_s - step->begin_s) / count;
  const std::pair<const char*, double StepPhases::*> phases[] = {
      {"data", &StepPhases::data_s},
      {"forward", &StepPhases::forward_s},
      {"backward", &StepPhases::backward_s},
      {"optimizer", &StepPhases::update_s}};
  for (const auto& [name, phase] : phases) {
    double mean = 0;
    for (auto step = first; step != steps.end(); ++step) mean += step->phases.*phase / count;
    seconds[name] = mean;
    rest -= mean;
  }
  seconds["rest"] = std::max(rest, 0.0);
  extra["phase_seconds"] = std::move(seconds);
}

// Nothing where nothing was evaluated.
void put_evaluation(Json& extra, const RunRecord& record) {
  if (record.evaluations.empty()) return;
  const auto column = [&record](auto number) {
    Json values = Json::array();
    for (const EvaluationEvent& event : record.evaluations) values.push_back(number(event));
    return values;
  };
  const EvaluationEvent& last = record.evaluations.back();
  const auto perplexity = [](const EvaluationEvent& event) { return std::exp(event.token_loss); };
  extra["evaluation"] = {
      {"entries", last.entries},
      {"tokens", last.tokens},
      {"loss", last.loss},
      {"perplexity", perplexity(last)},
      {"best_step", record.end.best_step},
      {"best_loss", record.end.best_loss},
      {"seconds", column([](const EvaluationEvent& event) { return event.seconds; })},
      {"steps", column([](const EvaluationEvent& event) { return event.step; })},
      {"losses", column([](const EvaluationEvent& event) { return event.loss; })},
      {"perplexities", column(perplexity)}};
}

// How the ranks shared the work, and what the fullest of them holds.
Json sharding_json(const TrainingJob& job, const std::vector<RankReport>& ranks) {
  const auto most = [&ranks](int64_t RankReport::*bytes) {
    int64_t largest = 0;
    for (const RankReport& rank : ranks) largest = std::max(largest, rank.*bytes);
    return largest;
  };
  const ParallelPlan& plan = job.parallel;
  return {{"strategy", name_of(plan.strategy)},
          {"ranks", ranks.size()},
          {"nodes", job.device.nodes},
          {"gradient_sync", name_of(plan.gradient_sync)},
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

void put_experts(Json& extra, const ExpertLoad& load) {
  if (load.count == 0) return;
  extra["experts"] = {{"count", load.count},
                      {"per_token", load.per_token},
                      {"ranks", load.ranks},
                      {"tokens_per_expert", load.tokens_per_expert},
                      {"imbalance", load.imbalance},
                      {"worst_imbalance", load.worst_imbalance},
                      {"busiest_share", load.busiest_share},
                      {"rank_imbalance", load.rank_imbalance},
                      {"tokens_by_layer", load.tokens_by_layer}};
}

// Files that the run wrote, or went on from.
void put_files(Json& extra, const RunRecord& record) {
  if (!record.begin.resumed_from.empty()) {
    extra["resumed"] = {{"from", record.begin.resumed_from}, {"step", record.begin.resumed_step}};
  }
  for (const UnsavedFolder& folder : record.end.unsaved) {
    extra["unsaved"].push_back(
        {{"path", folder.path}, {"step", folder.step}, {"problem", folder.problem}});
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

}  // namespace

Json trained_extra(const TrainingJob& job, const TrainedRun& run) {
  Json extra = extra_of_steps(run);
  if (std::string note = busy_machine_note(extra["run_queue_wait_share"]); !note.empty()) {
    extra["warnings"].push_back(std::move(note));
  }
  if (std::string note = short_memory_note(run.record.end.ranks); !note.empty()) {
    extra["warnings"].push_back(std::move(note));
  }
  if (std::string note = steps_without_loss_note(extra["data"]); !note.empty()) {
    extra["warnings"].push_back(std::move(note));
  }
  if (run.known_rate) {
    extra["stopped_when_known"] = {{"within_percent", run.known_rate->within_percent},
                                   {"steps", run.known_rate->steps},
                                   {"planned_steps", run.record.begin.total_steps}};
  }
  put_phases(extra, run.record.steps, run.warmup_steps);
  put_evaluation(extra, run.record);
  put_ranks(extra, job, run.record.end.ranks, run.warmup_steps);
  put_experts(extra, run.record.end.experts);
  put_files(extra, run.record);
  return extra;
}

}  // namespace sftbench
