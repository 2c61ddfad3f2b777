// Command lines that results keep and reports show. Addresses in them have "***" in place of what
// may be a secret (base/text.h).
#pragma once

#include <string>
#include <vector>

namespace sftbench {

// The words as a shell would take them again.
std::string kept_command(const std::vector<std::string>& words);

// The command line that this process was started with.
std::string repeat_command();

}  // namespace sftbench
