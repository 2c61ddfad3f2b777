// The command line that this process was started with, as a shell would take it again.
#pragma once

#include <string>
#include <string_view>

namespace sftbench {

std::string repeat_command();

// One word, in single quotes where a shell would otherwise see more than a word in it.
std::string shell_quoted(std::string_view word);

}  // namespace sftbench
