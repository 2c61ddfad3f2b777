// How the ranks of a group find each other for Gloo: each tells through the rank group's key-value
// store where it listens, and connects to all others.
#pragma once

#include <gloo/rendezvous/context.h>
#include <gloo/transport/device.h>

#include <memory>
#include <string>
#include <vector>

#include "sftbench/ranks/rank_group.h"

namespace sftbench {

// Where this rank can be reached by the others: one of the two is set.
struct GlooAddress {
  std::string interface;  // "eth0"
  std::string host;       // "10.0.0.7"
};

// GLOO_SOCKET_IFNAME if the user has set it. Else the loopback address when all ranks are on one
// node, and on several nodes the address that this machine uses to talk to rank 0: that network is
// known to connect the nodes, while the host's own name often resolves to something else (Debian:
// 127.0.1.1). RunError(kUnsupported) for an interface that is not there, or when other hosts would
// be given a loopback address.
GlooAddress gloo_address(const RankGroup& group);

// One thread that does the sending and receiving for all groups of a process.
std::shared_ptr<gloo::transport::Device> make_gloo_device(const GlooAddress& address);

// Collective over `members`, ranks of the world in rising order, this one among them. `scope` is a
// prefix of keys that no other group uses. RunError(kNccl) naming the group when a member cannot be
// reached within the group's communication timeout.
std::shared_ptr<gloo::Context> connect_gloo(RankGroup& group, const std::string& scope,
                                            const std::vector<int>& members,
                                            std::shared_ptr<gloo::transport::Device> device);

}  // namespace sftbench
