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
