#pragma once

#include <string>

namespace sftbench {

// The value of an environment variable, empty when it is not set.
std::string environment(const char* name);

// The name of this machine, as its kernel has it.
std::string host_name();

}  // namespace sftbench
