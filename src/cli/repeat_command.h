// The command line that this process was started with, as a shell would take it again.
#pragma once

#include <string>

namespace sftbench {

std::string repeat_command();

}  // namespace sftbench
