#include "cli/predict_alternatives.h"

#include <cmath>
#include <string>

#include "sftbench/base/quantity_text.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

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

}  // namespace sftbench
