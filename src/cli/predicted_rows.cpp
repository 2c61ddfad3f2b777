#include "cli/predicted_rows.h"

#include <algorithm>
#include <cmath>

#include "sftbench/advise/odds.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/results/table.h"

namespace sftbench {

std::string PredictedRows::words() const {
  if (!worst) {
    return "rows of " + std::to_string(time.job.data.model_max_length) +
           " tokens, all of them full (--lengths-of FILE)";
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

void put_worst_batch(const PredictedRows& rows, const Uncertainty& uncertainty, Definitions& lines,
                     Json& json) {
  const WorstBatch& worst = *rows.worst;
  const auto gib = [](double bytes) { return cell_text(bytes / kGiB) + " GiB"; };
  const Range memory = memory_range(rows.memory, uncertainty);
  const std::optional<Odds> odds = odds_of(rows.memory, uncertainty);
  const bool packed = rows.memory.job.data.padding == Padding::kPacked;
  std::string text = "step " + std::to_string(worst.step) + " of " + std::to_string(worst.steps) +
                     ", micro-batch " + std::to_string(worst.micro_batch) + " of rank " +
                     std::to_string(worst.rank) + ": " + std::to_string(worst.rows) + " x " +
                     std::to_string(worst.length) + " tokens";
  if (!packed) text += ", the longest is entry " + std::to_string(worst.entry);
  lines.emplace_back("worst batch", text + "; needs " + gib(memory.expected));
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
