// The command line that this process was started with, as results keep it (base/command_text.h).
#pragma once

#include <string>

namespace sftbench {

std::string repeat_command();

}  // namespace sftbench
