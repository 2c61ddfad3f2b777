#include "cli/predict_alternatives.h"

#include <cmath>
#include <string>

#include "sftbench/base/quantity_text.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

std::string text_of(const RowDivision& division) {
  const std::string ranks = std::to_string(division.context_ranks) + " with batch_size " +
                            std::to_string(division.batch_size) + ": ";
  if (!division.prediction) return ranks + division.refusal;
  const Prediction& prediction = *division.prediction;
  return ranks + name_of(prediction.fit) + ", " +
         cell_text(std::round(prediction.needed_bytes / kGiB * 10) / 10) + " GiB, " +
         cell_text(std::round(prediction.positions_per_second())) + " tokens/s";
}

Json json_of(const RowDivision& division) {
  Json json = {{"context_parallel", division.context_ranks}, {"batch_size", division.batch_size}};
  if (!division.prediction) {
    json["refusal"] = division.refusal;
    return json;
  }
  const Prediction& prediction = *division.prediction;
  json["verdict"] = name_of(prediction.fit);
  json["memory_bytes"] = prediction.needed_bytes;
  json["padded_tokens_per_second"] = prediction.positions_per_second();
  return json;
}

std::string effect_text(const MemorySwitch& one) {
  const std::string time =
      one.time_factor ? "takes " + cell_text(short_figure(*one.time_factor)) + " of the time"
                      : "the time of copies to the host is not predicted";
  return "saves " + cell_text(std::round(one.saved_bytes / kGiB * 10) / 10) + " GiB, " + time +
         ": " + name_of(one.prediction.fit);
}

Json json_of(const MemorySwitch& one) {
  return {{"changes", one.changes},
          {"trains_alike", one.trains_alike},
          {"saved_bytes", one.saved_bytes},
          {"time_factor", one.time_factor ? Json(*one.time_factor) : Json()},
          {"memory_bytes", one.prediction.needed_bytes},
          {"verdict", name_of(one.prediction.fit)}};
}

}  // namespace

void put_switches(const std::vector<MemorySwitch>& switches,
                  const std::optional<MemorySwitch>& enough, Definitions& lines, Json& json) {
  Json all = Json::array();
  for (const MemorySwitch& one : switches) {
    lines.emplace_back(all.empty() ? "less memory" : "",
                       one.words() + "\n" + effect_text(one) +
                           (one.trains_alike ? "" : ", and trains something else"));
    all.push_back(json_of(one));
  }
  lines.emplace_back("to fit", enough ? enough->words() + "\n" + effect_text(*enough)
                                      : "no switch is enough: sftbench recommend names GPUs");
  json["less_memory"] = std::move(all);
  json["to_fit"] = enough ? json_of(*enough) : Json();
}

bool asks_for_divisions(const Prediction& prediction) {
  const TrainingJob& job = prediction.job;
  if (job.device.kind != "cuda" || job.device.ranks == 1 || prediction.fit == Fit::kUnknown)
    return false;
  return job.parallel.context_ranks > 1 || prediction.fit != Fit::kFits;
}

void put_divisions(const std::vector<RowDivision>& divisions, Definitions& lines, Json& json) {
  Json all = Json::array();
  for (const RowDivision& division : divisions) {
    lines.emplace_back(all.empty() ? "context_parallel" : "", text_of(division));
    all.push_back(json_of(division));
  }
  const RowDivision* best = best_division(divisions);
  lines.emplace_back("", best == nullptr
                             ? "none fits: more GPUs, a shorter row or mlp_tiles (--set) needs less"
                             : "best: " + std::to_string(best->context_ranks));
  json["row_divisions"] = std::move(all);
  json["best_context_parallel"] = best == nullptr ? Json() : Json(best->context_ranks);
}

}  // namespace sftbench
