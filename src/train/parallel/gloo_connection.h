// How the ranks of a group connect for Gloo.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/gloo_pairs.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

// The numeric address at which the others reach this rank. That of the interface GLOO_SOCKET_IFNAME
// if the user has set it. Else the loopback address when all ranks are on one node, and on several
// nodes that of RankPlace::interface, or the one that this machine uses to talk to rank 0: that
// network is known to connect the nodes, while the host's own name often resolves to something else
// (Debian: 127.0.1.1). RunError(kUnsupported) for an interface that is not there, or when other
// hosts would be given a loopback address.
std::string gloo_address(const RankGroup& group);

// Collective over `members`, ranks of the world in rising order, this one among them, each reached
// at its `address`. `scope` is a prefix of keys that no other group uses. RunError(kNccl) naming
// the ranks that could not be reached within the group's communication timeout.
std::shared_ptr<gloo::Context> connect_gloo(
    RankGroup& group, const std::string& scope, const std::vector<int>& members,
    const std::string& address, const std::shared_ptr<gloo::transport::tcp::Device>& device);

}  // namespace sftbench
