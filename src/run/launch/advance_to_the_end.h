// Waits for what ends by itself and never blocks: a ChildMeasurement, a RunSeries. For callers with
// nothing else to do.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sftbench/base/clock.h"

namespace sftbench {

template <typename Waited>
void advance_to_the_end(Waited& waited) {
  while (!waited.advance()) {
    std::vector<pollfd> fds;
    waited.add_poll_fds(fds);
    const double left_ms = std::ceil((waited.deadline_s() - steady_seconds()) * 1000);
    ::poll(fds.data(), fds.size(), static_cast<int>(std::clamp(left_ms, 0.0, 1000.0)));
  }
}

}  // namespace sftbench
