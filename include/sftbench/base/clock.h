// Time: steady seconds for durations, UTC for records.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace sftbench {

// Seconds on the steady clock; only differences mean something.
double steady_seconds();

// A time on that clock that does not come.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

// Now, as "2026-11-21T07:38:02.123Z".
std::string utc_now_iso8601();

// Local time without its zone, as Python's datetime.isoformat() writes it:
// "2026-11-22T09:41:24.123456".
std::string local_time_iso8601(int64_t unix_us);

// Seconds since this process was started by the kernel (from /proc/self/stat, 10 ms resolution).
double process_age_seconds();

}  // namespace sftbench
