// Which trackers a measurement is written to: --track KIND=TARGET.
#pragma once

#include <string>
#include <vector>

namespace sftbench {

enum class TrackerKind {
  kTensorboard,  // target: a folder, which gets a folder for each measurement
  kMlflow,       // the address of a tracking server
  kAimInfo,      // a file, as ado's wrapper writes it to --aim_info_path
  kJsonl,        // a file, a line for each value
};

struct TrackerSpec {
  TrackerKind kind = TrackerKind::kTensorboard;
  std::string target;

  // "tensorboard=DIR", without secrets of an address.
  std::string shown() const;
  // The same, whole: as parse_trackers() and tracker_of() read it.
  std::string text() const;
};

// What stands for the measurement in the name of a file: its key, and the sample of a repeat.
inline constexpr const char* kKeyPlaceholder = "{key}";

// A text that chose a tracker, and where it stands: "--track", "space.yaml: parameters.trackers".
struct GivenTracker {
  std::string text;
  std::string origin;
};

// InputError with all that is wrong: unknown kinds (with the nearest one), a missing '=', an
// address that is none, folders that cannot be written to, two that write to one place. `several`:
// many measurements are tracked, and each needs a file of its own.
std::vector<TrackerSpec> parse_trackers(const std::vector<GivenTracker>& given, bool several);

// What does the work of a tracker that this program does not write to, as "wandb"; empty: not
// known.
std::string tracker_instead_of(const std::string& name);

// Of a TrackerSpec's text(). Looks at no file. InputError when it is none.
TrackerSpec tracker_of(const std::string& text);

}  // namespace sftbench
