// Until when a sweep may work: what --until says, or what the launcher of the job tells.
#pragma once

#include <optional>
#include <string>

#include "sftbench/cluster/launcher_environment.h"

namespace sftbench {

struct Deadline {
  double left_s = 0;   // from now on; 0 or less: it is over
  std::string source;  // "--until", "SLURM_JOB_END_TIME"
};

// "90", "90s", "30m", "2h", "1h30m", "1d": from now on. "2026-11-24T12:00Z", with seconds or not,
// with Z or an offset (+01:00), or without either, in this host's time zone. `now_s`: Unix time.
// InputError for anything else, and for a time that is over.
Deadline parse_until(const std::string& text, double now_s);

// SFTBENCH_UNTIL, as --until, else SLURM_JOB_END_TIME, less half a minute in which to end. Nothing
// when neither is set. InputError for an SFTBENCH_UNTIL that cannot be used.
std::optional<Deadline> launcher_deadline(const Environment& environment, double now_s);

}  // namespace sftbench
