// The measured properties of the documents, computed from what a run recorded.
//
// GPU figures: gpu_*_{min,avg,max} are the min, mean and max over GPUs of each GPU's mean over
// time; gpu_memory_utilization_peak is the max over GPUs of the max over time; power percent is
// power over enforced limit. All are 0.0 when the run uses no GPU, and absent when NVML could not
// be read. CPU: cpu_compute_utilization is CPU time over wall time (100 = one core busy
// throughout), which is the mean of the samples' percentages weighted by their lengths.
// cpu_memory_utilization is the mean share of the machine's memory that the run's processes hold
// (the documents: "of the training process"). Rates divide exact counts by the time from the start
// of the first measured step to the end of the last. Each rank's time is that of its own clock, and
// the rates are summed over ranks. train_runtime is that time on rank 0. Hugging Face estimates
// some of them. `per GPU` divides by max(1, GPUs). Source: documentation of the SFTTrainer
// actuator, "Measured properties"; order: ado's CSV.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/measure/run_record.h"
#include "sftbench/measure/system_source.h"

namespace sftbench {

// All of them, in ado's order.
inline constexpr std::array<std::string_view, 23> kMeasuredProperties = {
    "gpu_compute_utilization_min",
    "gpu_compute_utilization_avg",
    "gpu_compute_utilization_max",
    "gpu_memory_utilization_min",
    "gpu_memory_utilization_avg",
    "gpu_memory_utilization_max",
    "gpu_memory_utilization_peak",
    "gpu_power_watts_min",
    "gpu_power_watts_avg",
    "gpu_power_watts_max",
    "gpu_power_percent_min",
    "gpu_power_percent_avg",
    "gpu_power_percent_max",
    "cpu_compute_utilization",
    "cpu_memory_utilization",
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
    "train_tokens_per_second",
    "train_tokens_per_gpu_per_second",
    "dataset_tokens_per_second",
    "dataset_tokens_per_second_per_gpu",
    "is_valid",
};

// What a property is counted in: "s", "%", "W", "tokens/s", ...; empty for is_valid.
std::string_view measured_unit(std::string_view property);

// name -> number, in ado's order, each only if it was measured. `samples` are those of the span,
// taken by the process that trains or that started the ranks. With `stopped_by_time`
// (stop_after_seconds > 0) the two train_tokens properties are left out, as the documents say.
Json measured_properties(const MeasuredSpan& span, const std::vector<SystemReading>& samples,
                         int number_gpus, bool stopped_by_time);

// The samples of the span that one of several processes took, by its own clock: where an outside
// launcher started the ranks, each counts its own CPU time, and one of each node reads the GPUs.
struct ProcessSamples {
  int node = 0;
  std::vector<SystemReading> samples;
};

// The same for several processes: GPUs of all nodes are put together; CPU time is summed over the
// processes of a node, and both CPU figures are means over nodes.
Json measured_properties_of(const MeasuredSpan& span, const std::vector<ProcessSamples>& processes,
                            int number_gpus, bool stopped_by_time);

// The samples that belong to the span: those taken at or after its begin.
std::vector<SystemReading> samples_since(const std::vector<SystemReading>& samples, double begin_s);

// Four token rates, by name: padded, dataset, loss-bearing tokens per second, and padded tokens per
// second and device. Unlike the properties they are always given, since they are always exact.
Json token_rates(const MeasuredSpan& span, int devices);

// Percent of the machine's memory in use by anybody, the mean over time and nodes; null without a
// sample.
Json host_memory_percent(const std::vector<ProcessSamples>& processes);

// Of the time in which the run's threads could run, the part that they waited for a processor which
// other processes had: 0 on a machine that is the run's alone, however many of its threads wait for
// one another. Null where the kernel does not tell, or the threads ran for less than 0.1 s.
Json run_queue_wait_share(const std::vector<ProcessSamples>& processes);

// From this share on a machine is called busy. Where it came from: docs/reference/results.md.
inline constexpr double kBusyShare = 0.1;

// "This machine was busy: ..."; empty when it was not.
std::string busy_machine_note(const Json& run_queue_wait_share);

// Energy that each GPU drew over the samples, from its counter, joules; null where it has none.
Json gpu_energy_joules(const std::vector<SystemReading>& samples);

}  // namespace sftbench
