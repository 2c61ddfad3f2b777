// A TCP connection between each two ranks of a group, for what carries their tensors. A visitor at
// a rank's port that cannot prove that it belongs to the job is dropped. The port is closed once
// every expected rank has connected.
#pragma once

#include <string>
#include <vector>

#include "sftbench/base/owned_fd.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

// Collective over `members`, ranks of the world in rising order, this one among them. By position
// in `members`; none at this rank's own. `scope` is a prefix of keys in the group's store that no
// other call uses, `address` the numeric one where this rank listens. Proofs are keyed with the
// job's secret and a number that each rank tells the others through the group's store.
// RunError(kNccl) naming the ranks that have not come within the group's communication timeout, or
// what the group has failed with.
std::vector<OwnedFd> connect_peers(RankGroup& group, const std::string& scope,
                                   const std::vector<int>& members, const std::string& address);

}  // namespace sftbench
