// sftbench manual: the man page, made from the commands, so that it says what --help says.
// Installers ask for it (cmake/install.cmake). Help does not list the command.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace sftbench {

void add_manual_command(CLI::App& app, int& exit_code);

// In the language of man(7), in section 1.
std::string manual_page(const CLI::App& app);

}  // namespace sftbench
