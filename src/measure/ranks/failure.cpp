#include <algorithm>
#include <utility>

#include "ranks/rendezvous.h"
#include "sftbench/base/text.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

int precedence(ReasonCode code) {
  switch (code) {
    case ReasonCode::kOomGpu:
      return 0;
    case ReasonCode::kOomHost:
      return 1;
    case ReasonCode::kNccl:
      return 3;
    default:
      return 2;
  }
}

std::string whereabouts_text(const std::vector<std::string>& whereabouts) {
  std::vector<std::pair<std::string, std::vector<int>>> places;  // those of few ranks first
  for (size_t rank = 0; rank < whereabouts.size(); ++rank) {
    if (whereabouts[rank].empty()) continue;
    const auto place = std::find_if(places.begin(), places.end(), [&](const auto& known) {
      return known.first == whereabouts[rank];
    });
    auto& ranks = place != places.end()
                      ? place->second
                      : places.emplace_back(whereabouts[rank], std::vector<int>()).second;
    ranks.push_back(static_cast<int>(rank));
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::vector<std::string> texts;
  for (const auto& [place, ranks] : places) texts.push_back(ranks_text(ranks) + " " + place);
  return join(texts, "; ");
}

RunError error_of(const RankFailure& failure, const std::vector<RankInfo>& ranks) {
  if (ranks.size() < 2) return RunError(failure.code, failure.message, failure.evidence);
  std::string who = "rank " + std::to_string(failure.rank);
  const auto rank = static_cast<size_t>(failure.rank);
  // On one machine its name says nothing; an empty one is not known yet.
  const auto elsewhere = [&](const RankInfo& info) {
    return !info.host.empty() && info.host != ranks.front().host;
  };
  bool several_hosts = false;
  for (const RankInfo& info : ranks) several_hosts = several_hosts || elsewhere(info);
  if (several_hosts && rank < ranks.size()) who += " on host " + ranks[rank].host;
  return RunError(failure.code, who + ": " + failure.message, failure.evidence);
}

}  // namespace sftbench
