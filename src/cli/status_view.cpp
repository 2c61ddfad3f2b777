#include "cli/status_view.h"

#include <cmath>
#include <vector>

#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

Json reason_json(const std::optional<ReasonCode>& code) {
  return code ? Json(to_string(*code)) : Json();
}

Json number_json(const auto& number) {
  return number ? Json(*number) : Json();
}

const char* state_of(const ClaimedCell& cell) {
  return cell.silent() ? "silent" : "measuring";
}

int64_t count_silent(const CampaignStatus& status) {
  int64_t silent = 0;
  for (const ClaimedCell& cell : status.measuring) silent += cell.silent() ? 1 : 0;
  return silent;
}

Table ended_table(const CampaignStatus& status) {
  Table table{{"state", "reason", "cells"}, {}};
  for (const auto& [kind, count] : status.ended) {
    table.rows.push_back({to_string(kind.first), reason_json(kind.second), count});
  }
  const int64_t silent = count_silent(status);
  const auto measuring = static_cast<int64_t>(status.measuring.size()) - silent;
  table.rows.push_back({"measuring", Json(), measuring});
  if (silent > 0) table.rows.push_back({"silent", Json(), silent});
  if (status.waiting) table.rows.push_back({"waiting", Json(), *status.waiting});
  if (status.unreadable > 0) table.rows.push_back({"unreadable", Json(), status.unreadable});
  return table;
}

Table measuring_table(const CampaignStatus& status) {
  Table table{{"state", "cell", "host", "process", "for", "renewed"}, {}};
  for (const ClaimedCell& cell : status.measuring) {
    const SeenClaim& claim = cell.claim;
    table.rows.push_back(
        {state_of(cell), cell.label.empty() ? claim.key : cell.label, claim.host,
         claim.process == 0 ? Json() : Json(claim.process), duration_text(claim.age_s),
         claim.lease_s > 0 ? Json(duration_text(claim.silent_s) + " ago") : Json("a lock")});
  }
  return table;
}

// Every row with the same columns, for programs that read rows.
Table flat_table(const CampaignStatus& status) {
  Table table{{"state", "reason", "cells", "experiment", "key", "cell", "host", "process",
               "seconds", "silent_seconds"},
              {}};
  const Json none;
  for (const std::vector<Json>& row : ended_table(status).rows) {
    if (row[0] == "measuring" || row[0] == "silent") continue;
    table.rows.push_back({row[0], row[1], row[2], none, none, none, none, none, none, none});
  }
  for (const ClaimedCell& cell : status.measuring) {
    const SeenClaim& claim = cell.claim;
    table.rows.push_back({state_of(cell), none, 1, claim.experiment, claim.key,
                          cell.label.empty() ? none : Json(cell.label), claim.host,
                          claim.process == 0 ? none : Json(claim.process), claim.age_s,
                          claim.lease_s > 0 ? Json(claim.silent_s) : none});
  }
  return table;
}

Json measuring_json(const ClaimedCell& cell) {
  const SeenClaim& claim = cell.claim;
  const bool lease = claim.lease_s > 0;
  return {{"state", state_of(cell)},
          {"experiment", claim.experiment},
          {"key", claim.key},
          {"cell", cell.label.empty() ? Json() : Json(cell.label)},
          {"host", claim.host},
          {"process", claim.process == 0 ? Json() : Json(claim.process)},
          {"seconds", claim.age_s},
          {"claim", lease ? "lease" : "lock"},
          {"silent_seconds", lease ? Json(claim.silent_s) : Json()}};
}

}  // namespace

std::string status_line(const CampaignStatus& status) {
  std::vector<std::string> kinds;
  for (const Status kind : {Status::kValid, Status::kInvalid, Status::kFailed}) {
    kinds.push_back(std::to_string(status.count(kind)) + " " + std::string(to_string(kind)));
  }
  std::string line = status.cells ? std::to_string(status.settled()) + " of " : std::string();
  line += counted(status.cells.value_or(status.settled()), "cell has", "cells have") + " ended (" +
          join(kinds) + ")";
  const int64_t silent = count_silent(status);
  line += " · " + std::to_string(static_cast<int64_t>(status.measuring.size()) - silent) +
          " measured now";
  if (silent > 0) line += " · " + std::to_string(silent) + " silent";
  if (status.cells_per_hour) {
    line += " · " + cell_text(std::round(*status.cells_per_hour * 10) / 10) + " an hour";
  }
  if (status.seconds_left) line += " · " + duration_text(*status.seconds_left) + " left";
  return line;
}

Json status_json(const CampaignStatus& status) {
  const int64_t silent = count_silent(status);
  Json ended = Json::array(), measuring = Json::array();
  for (const auto& [kind, count] : status.ended) {
    ended.push_back({{"status", to_string(kind.first)},
                     {"reason", reason_json(kind.second)},
                     {"cells", count}});
  }
  for (const ClaimedCell& cell : status.measuring) measuring.push_back(measuring_json(cell));
  return {{"cells", number_json(status.cells)},
          {"ended", status.settled()},
          {"valid", status.count(Status::kValid)},
          {"invalid", status.count(Status::kInvalid)},
          {"failed", status.count(Status::kFailed)},
          {"measuring", static_cast<int64_t>(status.measuring.size()) - silent},
          {"silent", silent},
          {"waiting", number_json(status.waiting)},
          {"unreadable", status.unreadable},
          {"cells_per_hour", number_json(status.cells_per_hour)},
          {"seconds_left", number_json(status.seconds_left)},
          {"by_reason", std::move(ended)},
          {"claims", std::move(measuring)}};
}

std::string status_text(const CampaignStatus& status, OutputFormat format, size_t columns) {
  if (format == OutputFormat::kJson) return json_text(status_json(status), 2) + "\n";
  const bool for_people = format == OutputFormat::kTable || format == OutputFormat::kMarkdown;
  if (!for_people) return render(flat_table(status), format, columns);
  std::string text = status_line(status) + "\n\n" + render(ended_table(status), format, columns);
  if (!status.measuring.empty()) {
    text += "\n" + render(measuring_table(status), format, columns);
  }
  return text;
}

}  // namespace sftbench
