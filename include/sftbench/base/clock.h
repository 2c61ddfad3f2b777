// Time: steady seconds for durations, UTC for records.
#pragma once

#include <string>

namespace sftbench {

// Seconds on the steady clock; only differences mean something.
double steady_seconds();

// Now, as "2026-11-21T07:38:02.123Z".
std::string utc_now_iso8601();

// Seconds since this process was started by the kernel (from /proc/self/stat, 10 ms resolution).
double process_age_seconds();

}  // namespace sftbench
