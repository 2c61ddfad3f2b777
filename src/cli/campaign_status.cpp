#include "cli/campaign_status.h"

#include <algorithm>

#include "cli/sweep_view.h"

namespace sftbench {
namespace {

constexpr double kHourSeconds = 3600;

// Cells that ended in the last hour, or since the first one where that is later.
std::optional<double> rate_per_hour(const std::vector<double>& written_s, double now_s) {
  if (written_s.empty()) return std::nullopt;
  const double first_s = *std::min_element(written_s.begin(), written_s.end());
  const double begin_s = std::max(first_s, now_s - kHourSeconds);
  // The first one ended as the time begins: it is not part of it.
  const auto ended = std::count_if(written_s.begin(), written_s.end(),
                                   [&](double when_s) { return when_s > begin_s; });
  if (ended == 0 || now_s - begin_s <= 0) return std::nullopt;
  return static_cast<double>(ended) / (now_s - begin_s) * kHourSeconds;
}

std::string id_of(const SeenClaim& claim) {
  return claim.experiment + "/" + claim.key;
}

bool is_measured(const CampaignStatus& status) {
  return std::any_of(status.measuring.begin(), status.measuring.end(),
                     [](const ClaimedCell& cell) { return !cell.silent(); });
}

void foresee(CampaignStatus& status, const std::vector<double>& written_s, double now_s) {
  if (!is_measured(status)) return;
  status.cells_per_hour = rate_per_hour(written_s, now_s);
  if (!status.waiting || !status.cells_per_hour) return;
  const auto left = static_cast<double>(*status.waiting) +
                    static_cast<double>(status.measuring.size()) / 2;  // half done, on average
  status.seconds_left = left / *status.cells_per_hour * kHourSeconds;
}

}  // namespace

int64_t CampaignStatus::count(Status status) const {
  int64_t sum = 0;
  for (const auto& [kind, cells_of_kind] : ended) sum += kind.first == status ? cells_of_kind : 0;
  return sum;
}

int64_t CampaignStatus::settled() const {
  return count(Status::kValid) + count(Status::kInvalid) + count(Status::kFailed);
}

CellNames::CellNames(const Space& space, const ResolveOptions& options) : space_(space) {
  for (int64_t entity = 0; entity < space.entity_count(); ++entity) {
    for (size_t i = 0; i < space.experiments.size(); ++i) {
      const MeasurementRequest request = make_request(space.entity(entity), space.experiments[i]);
      const std::string key =
          measurement_key(request.experiment, effective_inputs(request, options));
      places_[request.experiment + "/" + key] = {entity, i};
    }
  }
}

std::string CellNames::label(const std::string& id) const {
  const auto place = places_.find(id);
  if (place == places_.end()) return {};
  Cell cell;
  cell.request = make_request(space_.entity(place->second.entity),
                              space_.experiments[place->second.experiment]);
  return cell_label(space_, cell);
}

CampaignStatus campaign_status(const OutcomeScan& scan, const std::vector<SeenClaim>& claims,
                               const CellNames* names, double now_s) {
  CampaignStatus status;
  status.unreadable = scan.unreadable();
  std::vector<double> written_s;
  for (const auto& [id, outcome] : scan.cells()) {
    if (names != nullptr && !names->contains(id)) continue;
    ++status.ended[{outcome.status, outcome.reason}];
    written_s.push_back(outcome.written_s);
  }
  int64_t measured_first = 0;  // and have not ended before
  for (const SeenClaim& claim : claims) {
    const std::string id = id_of(claim);
    if (names != nullptr && !names->contains(id)) continue;
    status.measuring.push_back({claim, names != nullptr ? names->label(id) : ""});
    measured_first += scan.cells().count(id) == 0 ? 1 : 0;
  }
  if (names != nullptr) {
    status.cells = names->size();
    status.waiting = std::max<int64_t>(0, names->size() - status.settled() - measured_first);
  }
  foresee(status, written_s, now_s);
  return status;
}

}  // namespace sftbench
