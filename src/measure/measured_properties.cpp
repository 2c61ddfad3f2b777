#include "sftbench/measure/measured_properties.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>
#include <string>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

using Figure = std::function<std::optional<double>(const GpuReading&)>;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// One GPU's readings of one figure, those that could be taken.
std::vector<double> series(const std::vector<SystemReading>& samples, size_t gpu,
                           const Figure& figure) {
  std::vector<double> values;
  for (const SystemReading& sample : samples) {
    if (gpu >= sample.gpus.size()) continue;
    if (const std::optional<double> value = figure(sample.gpus[gpu])) values.push_back(*value);
  }
  return values;
}

// Per GPU; empty when one of them has no reading at all: a mean over the others would be another
// figure.
std::vector<std::vector<double>> all_series(const std::vector<ProcessSamples>& processes, int gpus,
                                            const Figure& figure) {
  std::vector<std::vector<double>> all;
  for (const ProcessSamples& process : processes) {
    const size_t own = process.samples.empty() ? 0 : process.samples.front().gpus.size();
    for (size_t gpu = 0; gpu < own; ++gpu) {
      all.push_back(series(process.samples, gpu, figure));
      if (all.back().empty()) return {};
    }
  }
  if (all.size() != static_cast<size_t>(gpus)) return {};
  return all;
}

void put_over_gpus(Json& properties, const std::string& name,
                   const std::vector<std::vector<double>>& gpus) {
  if (gpus.empty()) return;
  std::vector<double> means;
  for (const std::vector<double>& readings : gpus) means.push_back(mean(readings));
  properties[name + "_min"] = *std::min_element(means.begin(), means.end());
  properties[name + "_avg"] = mean(means);
  properties[name + "_max"] = *std::max_element(means.begin(), means.end());
}

std::optional<double> power_percent(const GpuReading& reading) {
  if (!reading.power_watts || reading.power_limit_watts.value_or(0) <= 0) return {};
  return 100 * *reading.power_watts / *reading.power_limit_watts;
}

void put_gpu_properties(Json& properties, const std::vector<ProcessSamples>& samples, int gpus) {
  const auto memory =
      all_series(samples, gpus, [](const GpuReading& r) { return r.memory_percent; });
  put_over_gpus(
      properties, "gpu_compute_utilization",
      all_series(samples, gpus, [](const GpuReading& r) { return r.utilization_percent; }));
  put_over_gpus(properties, "gpu_memory_utilization", memory);
  if (!memory.empty()) {
    double peak = 0;
    for (const std::vector<double>& readings : memory) {
      peak = std::max(peak, *std::max_element(readings.begin(), readings.end()));
    }
    properties["gpu_memory_utilization_peak"] = peak;
  }
  put_over_gpus(properties, "gpu_power_watts",
                all_series(samples, gpus, [](const GpuReading& r) { return r.power_watts; }));
  put_over_gpus(properties, "gpu_power_percent", all_series(samples, gpus, power_percent));
}

std::optional<double> cpu_percent(const std::vector<SystemReading>& samples) {
  if (samples.empty() || samples.back().time_s <= samples.front().time_s) return {};
  return 100 * (samples.back().cpu_seconds - samples.front().cpu_seconds) /
         (samples.back().time_s - samples.front().time_s);
}

std::optional<double> mean_of(const std::vector<SystemReading>& samples,
                              double SystemReading::*figure) {
  if (samples.empty()) return {};
  double sum = 0;
  for (const SystemReading& sample : samples) sum += sample.*figure;
  return sum / static_cast<double>(samples.size());
}

std::optional<double> mean_over_nodes(const std::map<int, double>& of_nodes) {
  if (of_nodes.empty()) return {};
  double sum = 0;
  for (const auto& [node, figure] : of_nodes) sum += figure;
  return sum / static_cast<double>(of_nodes.size());
}

// Means over nodes: of the CPU time and of the memory of all processes of a node.
void put_cpu_properties(Json& properties, const std::vector<ProcessSamples>& processes) {
  std::map<int, double> compute, memory;
  for (const ProcessSamples& process : processes) {
    if (const std::optional<double> percent = cpu_percent(process.samples))
      compute[process.node] += *percent;
    if (const auto percent = mean_of(process.samples, &SystemReading::memory_percent))
      memory[process.node] = std::min(100.0, memory[process.node] + *percent);  // shared pages
  }
  if (const auto percent = mean_over_nodes(compute))
    properties["cpu_compute_utilization"] = *percent;
  if (const auto percent = mean_over_nodes(memory)) properties["cpu_memory_utilization"] = *percent;
}

bool is_gpu_property(std::string_view name) {
  return name.substr(0, 4) == "gpu_";
}

}  // namespace

std::string_view measured_unit(std::string_view property) {
  const auto contains = [property](std::string_view part) {
    return property.find(part) != std::string_view::npos;
  };
  if (contains("_watts")) return "W";
  if (contains("_utilization") || contains("_percent")) return "%";
  if (property == "train_runtime") return "s";
  if (contains("samples_per_second")) return "samples/s";
  if (contains("steps_per_second")) return "steps/s";
  if (contains("per_gpu")) return "tokens/s per GPU";
  if (contains("tokens_per_second")) return "tokens/s";
  return "";
}

Json measured_properties(const MeasuredSpan& span, const std::vector<SystemReading>& samples,
                         int number_gpus, bool stopped_by_time) {
  return measured_properties_of(span, {{0, samples}}, number_gpus, stopped_by_time);
}

Json measured_properties_of(const MeasuredSpan& span, const std::vector<ProcessSamples>& processes,
                            int number_gpus, bool stopped_by_time) {
  const double seconds = span.seconds();
  check(seconds > 0, "the measured steps took time");
  const double gpus = std::max(1, number_gpus);
  const double positions = span.per_second([](const RankSpan& r) { return r.tokens.padded; });
  const double dataset = span.per_second([](const RankSpan& r) { return r.tokens.dataset; });

  Json properties = Json::object();
  if (number_gpus > 0) {
    put_gpu_properties(properties, processes, number_gpus);
  } else {
    for (const std::string_view name : kMeasuredProperties) {
      if (is_gpu_property(name)) properties[std::string(name)] = 0.0;
    }
  }
  put_cpu_properties(properties, processes);
  properties["train_runtime"] = seconds;
  properties["train_samples_per_second"] =
      span.per_second([](const RankSpan& r) { return r.samples; });
  properties["train_steps_per_second"] = static_cast<double>(span.steps.size()) / seconds;
  if (!stopped_by_time) {
    properties["train_tokens_per_second"] = positions;
    properties["train_tokens_per_gpu_per_second"] = positions / gpus;
  }
  properties["dataset_tokens_per_second"] = dataset;
  properties["dataset_tokens_per_second_per_gpu"] = dataset / gpus;
  properties["is_valid"] = 1;
  return properties;
}

Json host_memory_percent(const std::vector<ProcessSamples>& processes) {
  std::map<int, double> of_nodes;
  for (const ProcessSamples& process : processes) {  // any of a node's processes reads the same
    if (const auto percent = mean_of(process.samples, &SystemReading::host_memory_percent))
      of_nodes[process.node] = *percent;
  }
  const std::optional<double> percent = mean_over_nodes(of_nodes);
  return percent ? Json(*percent) : Json();
}

// A single turn of another process (4 ms and more) is a large part of less.
constexpr double kLeastThreadSeconds = 0.1;

namespace {

// What the threads of a node's processes had, and what other processes used of the node meanwhile.
struct NodeThreads {
  double ran_s = 0, waited_s = 0;
  double own_cpu_s = 0, host_cpu_s = 0;  // the host's as the process saw it that saw the most

  void add(const SystemReading& first, const SystemReading& last) {
    if (!first.threads_ran_s || !last.threads_ran_s || !first.threads_waited_s ||
        !last.threads_waited_s) {
      return;
    }
    ran_s += *last.threads_ran_s - *first.threads_ran_s;
    waited_s += *last.threads_waited_s - *first.threads_waited_s;
    own_cpu_s += last.cpu_seconds - first.cpu_seconds;
    if (first.host_cpu_seconds && last.host_cpu_seconds)
      host_cpu_s = std::max(host_cpu_s, *last.host_cpu_seconds - *first.host_cpu_seconds);
  }

  // A run's threads wait for one another, too: ranks that compute for those that exchange. For
  // others they wait no longer than these have run. The kernel counts the host's time by ticks, a
  // tenth off, and a host that seems to have run for less than half of the run's time does not
  // tell.
  double waited_for_others_s() const {
    constexpr double kLeastTold = 0.5;
    if (host_cpu_s < kLeastTold * own_cpu_s || host_cpu_s == 0) return waited_s;
    return std::min(waited_s, std::max(0.0, host_cpu_s - own_cpu_s));
  }
};

}  // namespace

Json run_queue_wait_share(const std::vector<ProcessSamples>& processes) {
  std::map<int, NodeThreads> nodes;
  for (const ProcessSamples& process : processes) {
    if (!process.samples.empty())
      nodes[process.node].add(process.samples.front(), process.samples.back());
  }
  double could_run_s = 0, waited_s = 0;
  for (const auto& [node, threads] : nodes) {
    could_run_s += threads.ran_s + threads.waited_s;
    waited_s += threads.waited_for_others_s();
  }
  if (could_run_s < kLeastThreadSeconds) return {};
  return waited_s / could_run_s;
}

std::string busy_machine_note(const Json& run_queue_wait_share) {
  if (!run_queue_wait_share.is_number()) return {};
  const auto share = run_queue_wait_share.get<double>();
  if (share < kBusyShare) return {};
  std::array<char, 32> percent{};
  std::snprintf(percent.data(), percent.size(), "%.0f %%", 100 * share);
  return std::string("this machine was busy: threads waited ") + percent.data() +
         " of the training time for a processor; speed is too low, and times are too high";
}

std::vector<SystemReading> samples_since(const std::vector<SystemReading>& samples,
                                         double begin_s) {
  std::vector<SystemReading> kept;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(kept),
               [begin_s](const SystemReading& sample) { return sample.time_s >= begin_s; });
  return kept;
}

Json token_rates(const MeasuredSpan& span, int devices) {
  const double positions = span.per_second([](const RankSpan& r) { return r.tokens.padded; });
  return {{"padded_tokens_per_second", positions},
          {"dataset_tokens_per_second",
           span.per_second([](const RankSpan& r) { return r.tokens.dataset; })},
          {"loss_bearing_tokens_per_second",
           span.per_second([](const RankSpan& r) { return r.tokens.loss_bearing; })},
          {"padded_tokens_per_second_per_device", positions / std::max(1, devices)}};
}

Json gpu_energy_joules(const std::vector<SystemReading>& samples) {
  Json joules = Json::array();
  if (samples.empty()) return joules;
  const std::vector<GpuReading>& first = samples.front().gpus;
  const std::vector<GpuReading>& last = samples.back().gpus;
  for (size_t gpu = 0; gpu < std::min(first.size(), last.size()); ++gpu) {
    const bool counted = first[gpu].energy_joules && last[gpu].energy_joules;
    joules.push_back(counted ? Json(*last[gpu].energy_joules - *first[gpu].energy_joules) : Json());
  }
  return joules;
}

}  // namespace sftbench
