#include "cli/predict_alternatives.h"

#include <cmath>
#include <string>

#include "sftbench/base/quantity_text.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

// What a program's own file says for a stack with another loss.
std::string keys_of(const MemorySwitch& one) {
  return one.changes.contains("stack") ? one.prediction.machine.stack.keys : "";
}

std::string text_of(const MemorySwitch& one) {
  const std::string time =
      one.time_factor ? "takes " + cell_text(short_figure(*one.time_factor)) + " of the time"
                      : "the time of copies to the host is not predicted";
  const std::string keys = keys_of(one);
  return one.words() + "\n" + (keys.empty() ? "" : keys + "\n") + "saves " +
         cell_text(std::round(one.saved_bytes / kGiB * 10) / 10) + " GiB, " + time + ": " +
         name_of(one.prediction.fit);
}

Json json_of(const MemorySwitch& one) {
  const std::string keys = keys_of(one);
  return {{"changes", one.changes},
          {"keys", keys.empty() ? Json() : Json(keys)},
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
                       text_of(one) + (one.trains_alike ? "" : ", and trains something else"));
    all.push_back(json_of(one));
  }
  lines.emplace_back(
      "to fit", enough ? text_of(*enough) : "no switch is enough: sftbench recommend names GPUs");
  json["less_memory"] = std::move(all);
  json["to_fit"] = enough ? json_of(*enough) : Json();
}

}  // namespace sftbench
