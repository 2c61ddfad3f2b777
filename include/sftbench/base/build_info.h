// Which program this is: what a result file records, and `--version` prints.
#pragma once

#include <string>

namespace sftbench {

struct BuildInfo {
  std::string version;     // of the project: "0.1.0"
  std::string commit;      // abbreviated, "-dirty" behind it when files were changed; or "unknown"
  std::string build_type;  // "Release", "Debug", ...
  std::string compiler;    // "GCC 12.2.0"
  std::string sanitizers;  // "address,undefined"; empty: none
};

const BuildInfo& build_info();

// One line: "sftbench 0.1.0 (commit 1a2b3c4d5e6f, Release, GCC 12.2.0)".
std::string version_text();

// What ranks of one job have to share: "0.1.0 (commit 1a2b3c4d5e6f)".
std::string version_and_commit();

// Why figures of this build are not worth comparing; empty when nothing speaks against them.
std::string unfit_for_measuring();

}  // namespace sftbench
