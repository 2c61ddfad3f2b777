#include "sweep/store_guard.h"

#include <filesystem>
#include <functional>
#include <string_view>
#include <unordered_set>

#include "sftbench/base/error.h"
#include "sftbench/base/folder_names.h"
#include "sftbench/base/quantity_text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

uint64_t name_hash(const fs::path& path) {
  return std::hash<std::string>()(path.filename().string());
}

std::unordered_set<uint64_t> names_in(const fs::path& folder) {
  std::unordered_set<uint64_t> names;
  for_each_name(folder, [&names](std::string_view name, uint64_t) {
    names.insert(std::hash<std::string_view>()(name));
  });
  return names;
}

template <typename Counts, typename Key>
void take_one(Counts& counts, const Key& key) {
  const auto count = counts.find(key);
  if (count != counts.end() && --count->second == 0) counts.erase(count);
}

}  // namespace

void StoreGuard::enter(const std::string& experiment) {
  const fs::path folder = store_.directory() / experiment;
  std::error_code error;  // which the StandingFolder has, too
  fs::create_directories(folder, error);
  claims_of_keys_.remove_leftovers(experiment);
  folders_.emplace_back(folder);
}

std::optional<std::string> StoreGuard::gone() const {
  for (const StandingFolder& folder : folders_) {
    if (std::optional<std::string> gone = folder.gone()) return gone;
  }
  return std::nullopt;
}

void StoreGuard::claim(const Cell& cell, OutcomeKind kind, bool before) {
  const std::string& experiment = cell.request.experiment;
  const uint64_t name = name_hash(store_.result_path(experiment, cell.key, cell.sample));
  claims_[experiment].push_back({name, kind, before});
}

std::optional<std::string> StoreGuard::take_back_what_is_gone(SweepState& state) const {
  int64_t gone = 0;
  for (const auto& [experiment, claims] : claims_) {
    const std::unordered_set<uint64_t> names = names_in(store_.directory() / experiment);
    for (const Claim& claim : claims) {
      if (names.count(claim.name) != 0) continue;
      ++gone;
      if (claim.before) {
        take_one(state.before, claim.kind.first);
      } else {
        take_one(state.now, claim.kind);
      }
    }
  }
  if (gone == 0) return std::nullopt;
  return counted(gone, "result that was settled is gone", "results that were settled are gone");
}

}  // namespace sftbench
