#include "cli/predicted_rows.h"

#include <algorithm>
#include <cmath>

#include "cli/evidence_option.h"
#include "sftbench/advise/odds.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

std::string percent_text(double share) {
  if (share > 0 && share < 0.001) return "below 0.1 %";
  return cell_text(std::round(1000 * share) / 10) + " %";
}

}  // namespace

std::string in_gib(double bytes) {
  return cell_text(bytes / kGiB) + " GiB";
}

std::string in_seconds(double seconds) {
  return cell_text(seconds) + " s";
}

std::string PredictedRows::words() const {
  if (!worst) {
    return "rows of " + counted(time.job.data.model_max_length, "token") +
           ", all of them full (--lengths-of FILE)";
  }
  return "rows of " + cell_text(worst->mean_length) + " tokens on average for time, and of " +
         std::to_string(worst->length) + " in the largest micro-batch for memory";
}

MeasurementRequest PredictedRows::alternatives(MeasurementRequest of) const {
  if (worst) of.inputs["model_max_length"] = worst->length;
  return of;
}

PredictedRows predicted_rows(const Prediction& full, const std::vector<int64_t>& lengths,
                             Oracle& oracle) {
  if (lengths.empty()) return {full, full, std::nullopt};
  const WorstBatch worst = worst_batch(full.job, lengths);
  const std::string& stack = full.machine.stack.name;
  TrainingJob usual = full.job;
  usual.data.model_max_length = std::max<int64_t>(1, std::llround(worst.mean_length));
  return {oracle.predict(usual, stack), oracle.predict(job_of(worst, full.job), stack), worst};
}

void put_intervals(const PredictedRows& rows, const Uncertainty& uncertainty, Definitions& lines) {
  const Prediction& prediction = rows.memory;
  const Interval time = uncertainty.interval(Figure::kTime, rows.time.at);
  const Interval memory = uncertainty.interval(Figure::kMemory, prediction.at);
  const auto put = [&lines](const char* name, const std::string& range, const Interval& interval) {
    if (interval.residuals > 0)
      lines.emplace_back(name, range + " in nine of ten cases: " + basis_text(interval));
  };
  const auto range_text = [](const Range& range, const Interval& interval, auto unit) {
    const std::string expected = interval.own ? "expected " + unit(range.expected) + "; " : "";
    return expected + unit(range.low) + " to " + unit(range.high);
  };
  put("step interval", range_text(step_range(rows.time, uncertainty), time, in_seconds), time);
  put("memory interval", range_text(memory_range(prediction, uncertainty), memory, in_gib), memory);
  if (prediction.cost.memory.fragmentation > 0) {
    const Range held = held_range(prediction, uncertainty);
    lines.emplace_back("held", in_gib(held.low) + " to " + in_gib(held.high) +
                                   ", as nvidia-smi shows it: the allocator gives free blocks "
                                   "back only when memory runs out");
  }
  if (memory.residuals == 0) return;
  if (const std::optional<Odds> odds = odds_of(prediction, uncertainty)) {
    lines.emplace_back("odds", "fits " + percent_text(odds->fits) + ", fits but thrashes " +
                                   percent_text(odds->thrashes) + ", runs out of memory " +
                                   percent_text(odds->dies));
  }
}

void put_worst_batch(const PredictedRows& rows, const Uncertainty& uncertainty, Definitions& lines,
                     Json& json) {
  const WorstBatch& worst = *rows.worst;
  const Range memory = memory_range(rows.memory, uncertainty);
  const std::optional<Odds> odds = odds_of(rows.memory, uncertainty);
  const bool packed = rows.memory.job.data.padding == Padding::kPacked;
  std::string text = "step " + std::to_string(worst.step) + " of " + std::to_string(worst.steps) +
                     ", micro-batch " + std::to_string(worst.micro_batch) + " of rank " +
                     std::to_string(worst.rank) + ": " + std::to_string(worst.rows) + " x " +
                     counted(worst.length, "token");
  if (!packed) {
    text += ", the longest is entry " + std::to_string(worst.entry);
    if (!rows.memory.job.data.mixture.empty()) text += " of the sets, one behind the other";
  }
  lines.emplace_back("worst batch", text + "; needs " + in_gib(memory.expected));
  json["worst_batch"] = {{"step", worst.step},
                         {"steps", worst.steps},
                         {"micro_batch", worst.micro_batch},
                         {"rank", worst.rank},
                         {"rows", worst.rows},
                         {"length", worst.length},
                         {"longest_entry", packed ? Json() : Json(worst.entry)},
                         {"mean_row_length", worst.mean_length},
                         {"memory_bytes", {memory.low, memory.expected, memory.high}},
                         {"out_of_memory_risk", odds ? Json(odds->dies) : Json()}};
}

}  // namespace sftbench
