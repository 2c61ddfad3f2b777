// What a folder of results says about the campaign that works on it. No process is asked: who
// measures what is what the claims say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sftbench/plan/resolve.h"
#include "sftbench/results/claim.h"
#include "sftbench/results/outcome_scan.h"
#include "sftbench/space/space.h"

namespace sftbench {

// Being measured.
struct ClaimedCell {
  SeenClaim claim;
  std::string label;  // what tells the cell from others; empty without a space

  // Not renewed for longer than its lease, by the dates of files: its holder is gone, or stopped.
  bool silent() const { return claim.lease_s > 0 && claim.silent_s > claim.lease_s; }
};

struct CampaignStatus {
  using Kind = std::pair<Status, std::optional<ReasonCode>>;

  std::map<Kind, int64_t> ended;
  std::vector<ClaimedCell> measuring;
  int64_t unreadable = 0;
  std::optional<int64_t> cells;          // of the space
  std::optional<int64_t> waiting;        // neither ended, nor measured now
  std::optional<double> cells_per_hour;  // of the last hour; nothing where nothing is measured
  std::optional<double> seconds_left;

  int64_t settled() const;  // ended, the failed included
  int64_t count(Status status) const;
};

// The cells of a space, by "EXPERIMENT/KEY".
class CellNames {
 public:
  // `space` must outlive this. Names every cell: microseconds for each.
  CellNames(const Space& space, const ResolveOptions& options);

  int64_t size() const { return static_cast<int64_t>(places_.size()); }
  bool contains(const std::string& id) const { return places_.count(id) != 0; }
  std::string label(const std::string& id) const;  // empty: not in the space

 private:
  struct Place {
    int64_t entity;
    size_t experiment;
  };
  const Space& space_;
  std::unordered_map<std::string, Place> places_;
};

// Counts what is in `names`, or everything where there are none (nullptr). `now_s`: Unix time.
CampaignStatus campaign_status(const OutcomeScan& scan, const std::vector<SeenClaim>& claims,
                               const CellNames* names, double now_s);

}  // namespace sftbench
