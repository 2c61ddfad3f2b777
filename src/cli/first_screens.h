// What `sftbench COMMAND -h` says: the main job first, at most 20 lines of 80 columns. --help has
// every option, under headings.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace sftbench {

// The heading of training arguments, which `sftbench help arguments` shows, and no other command's
// --help.
inline constexpr const char* kTrainingArguments = "Training arguments";

// Of a command by its words ("dataset text"; "" is the program). Empty: its --help is short enough.
std::string_view first_screen(const std::string& command);

// Gives the options of a command and of those below it the headings that they stand under.
void group_options(CLI::App& command);

}  // namespace sftbench
