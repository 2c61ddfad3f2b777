// How help looks. -h is the first screen of a command (cli/first_screens.h). --help is as CLI11 has
// it, with descriptions that are broken between words to the terminal's columns, 80 where the
// output is none.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>

namespace sftbench {

std::shared_ptr<CLI::FormatterBase> help_format();

}  // namespace sftbench
