// Gloo's transport over connections that stand already. Gloo itself opens a port for each pair of
// ranks and takes the first connection that comes, whoever that is. Here connect_peers
// (ranks/peer_sockets.h) makes the connections and knows who is at their other end; Gloo only sends
// and receives.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <memory>
#include <vector>

#include "sftbench/base/owned_fd.h"

namespace sftbench {

// One thread that does the sending and receiving for all groups of a process.
std::shared_ptr<gloo::transport::tcp::Device> make_gloo_device();

// The group of which this process is number `own`; `sockets` by number, none at its own; they are
// not needed afterwards.
// gloo::Exception or RunError when that is impossible.
std::shared_ptr<gloo::Context> gloo_context_over(
    const std::vector<OwnedFd>& sockets, int own, std::chrono::milliseconds timeout,
    const std::shared_ptr<gloo::transport::tcp::Device>& device);

}  // namespace sftbench
