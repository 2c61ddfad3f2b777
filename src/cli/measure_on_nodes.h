// A measurement of several nodes in the child of a sweep: the ranks are `sftbench run` on all
// nodes, and what their rank 0 writes becomes the child's result.
#pragma once

#include <optional>

#include "sftbench/launch/child_reply.h"
#include "sftbench/launch/child_request.h"
#include "sftbench/launch/node_launch.h"

namespace sftbench {

// How the request's ranks are started on several nodes; nothing when this process starts them here.
// RunError(kUnsupported) when what the sweep was given does not allow it.
std::optional<NodeLaunch> launch_of_request(const ChildRequest& request);

Measurement measure_on_nodes(const NodeLaunch& launch, const ChildRequest& request,
                             HeartbeatSender& heartbeats);

}  // namespace sftbench
