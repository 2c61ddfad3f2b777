#include "cli/predict_exact.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/data/dataset_catalog.h"
#include "sftbench/families/model_config.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

constexpr double kBytesOfGib = 1 << 30;
// What a second try gets, to say how much is missing.
constexpr int64_t kPlenty = int64_t{1} << 42;

const GpuFacts& facts_of(const TrainingJob& job) {
  const GpuFacts* const facts =
      job.device.kind == "cuda" ? Catalog::shipped().gpus.find(job.device.gpu_model) : nullptr;
  if (facts != nullptr) return *facts;
  throw InputError(
      {{{},
        0,
        "--exact",
        job.device.kind == "cuda" ? "no GPU of this name is known: '" + job.device.gpu_model + "'"
                                  : "the entity trains on CPUs",
        "number_gpus of 1 or more, and a gpu_model of `sftbench gpus`",
        {}}});
}

// Beside what the allocator has stand the driver's context and buffers of the communication.
int64_t room_for_tensors(const Prediction& prediction) {
  const auto& p = prediction;
  const double beside = needed_bytes(p.cost, p.job, p.machine) - p.cost.memory.total();
  return static_cast<int64_t>(p.machine.memory_bytes - beside);
}

std::string gib_text(double bytes) {
  return cell_text(bytes / kBytesOfGib) + " GiB";
}

std::string error_text(const ExactPrediction& exact, const Prediction& prediction) {
  const auto peak = static_cast<double>(exact.rehearsal.allocated_peak_bytes);
  const double error = prediction.cost.memory.total() / peak - 1;
  return "arithmetic says " + gib_text(prediction.cost.memory.total()) + ", " +
         cell_text(std::abs(100 * error)) + " % " + (error < 0 ? "less" : "more");
}

// Layers together: "15.1 GiB before training, 4 GiB in the forward pass".
std::string held_text(const MemoryPeak& peak) {
  std::vector<std::pair<std::string, int64_t>> phases;
  for (const auto& [place, bytes] : peak.held) {
    const std::string phase = place.substr(0, place.find(','));
    const auto found = std::find_if(phases.begin(), phases.end(),
                                    [&phase](const auto& one) { return one.first == phase; });
    if (found == phases.end()) {
      phases.emplace_back(phase, bytes);
    } else {
      found->second += bytes;
    }
  }
  std::string text;
  for (const auto& [phase, bytes] : phases) {
    text += (text.empty() ? "" : ", ") + gib_text(static_cast<double>(bytes)) + " of " + phase;
  }
  return text;
}

std::string launches_text(const Rehearsal& found) {
  if (found.graph_nodes == 0) return std::to_string(found.launches) + " kernels and products";
  return counted(found.launches, "launch", "launches") + ", with a graph of " +
         std::to_string(found.graph_nodes) + " kernels, products and copies,";
}

}  // namespace

ExactPrediction predict_exactly(const Resolution& resolution, const Prediction& prediction) {
  const TrainingJob& job = resolution.job;
  const GpuFacts& facts = facts_of(job);
  phantom_library();  // before a dataset is made
  if (resolution.generate_dataset) {
    ensure_named_dataset(named_dataset(job.data.dataset_id), job.data.path,
                         [](const std::string& line) { spdlog::info("{}", line); });
  }
  ExactPrediction exact;
  exact.gpu = {.name = facts.name,
               .memory_bytes = room_for_tensors(prediction),
               .multiprocessors = facts.multiprocessors,
               .compute_capability = facts.compute_capability};
  exact.rehearsal = rehearse(job, exact.gpu);
  exact.fit = Fit::kFits;
  exact.assumes_even_experts = parse_model_config(job.model.hf_config).experts.has_value();
  if (exact.rehearsal.failure && exact.rehearsal.failure->code == ReasonCode::kOomGpu) {
    RehearsedGpu larger = exact.gpu;
    larger.memory_bytes = kPlenty;
    exact.rehearsal = rehearse(job, larger);
    exact.fit = Fit::kDies;
  }
  if (exact.rehearsal.failure) {
    const ErrorClass& failure = *exact.rehearsal.failure;
    const std::string evidence = failure.evidence.empty() ? "" : ": " + failure.evidence;
    throw RunError(failure.code, "the rehearsal failed: " + failure.message + evidence);
  }
  return exact;
}

Definitions exact_lines(const ExactPrediction& exact, const Prediction& prediction) {
  const Rehearsal& found = exact.rehearsal;
  const auto allocated = static_cast<double>(found.allocated_peak_bytes);
  const auto reserved = static_cast<double>(found.reserved_peak_bytes);
  const bool fits = exact.fit == Fit::kFits;
  Definitions lines = {
      {"exact memory", gib_text(allocated) + " of tensors at the peak, " + gib_text(reserved) +
                           " reserved of " + gib_text(static_cast<double>(exact.gpu.memory_bytes)) +
                           (fits ? ": fits" : ": does not fit")},
      {"at the peak", found.peak.place + ", as it asks for " +
                          gib_text(static_cast<double>(found.peak.allocation_bytes))},
      {"held then", held_text(found.peak)},
      {"arithmetic", error_text(exact, prediction)},
      {"launches", launches_text(found) + " a step, " + std::to_string(found.copies) +
                       " copies; this host needed " + cell_text(found.host_s) +
                       " s to launch them"}};
  if (exact.assumes_even_experts)
    lines.push_back({"experts", "each expert gets as many tokens as every other"});
  return lines;
}

Json exact_json(const ExactPrediction& exact) {
  const Rehearsal& found = exact.rehearsal;
  Json held = Json::object();
  for (const auto& [place, bytes] : found.peak.held) held[place] = bytes;
  return {{"verdict", name_of(exact.fit)},
          {"allocated_peak_bytes", found.allocated_peak_bytes},
          {"reserved_peak_bytes", found.reserved_peak_bytes},
          {"memory_bytes", exact.gpu.memory_bytes},
          {"assumes_even_experts", exact.assumes_even_experts},
          {"fragmentation_bytes", found.reserved_peak_bytes - found.allocated_peak_bytes},
          {"peak",
           {{"place", found.peak.place},
            {"allocation_bytes", found.peak.allocation_bytes},
            {"held_bytes", std::move(held)}}},
          {"launches_per_step", found.launches},
          {"graph_nodes_per_step", found.graph_nodes},
          {"copies_per_step", found.copies},
          {"host_seconds_per_step", found.host_s},
          {"kernels", found.kernels}};
}

}  // namespace sftbench
