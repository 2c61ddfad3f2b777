// Where kernels that are compiled for the host run in a build for GPUs.
#pragma once

#include <functional>

namespace sftbench::ops::host {

// Runs `kernel` once the current stream has come there. While that is captured the graph gets it,
// too.
void run_on_stream(std::function<void()> kernel);

}  // namespace sftbench::ops::host
