// Text from outside (names, messages, logs) made fit for a terminal. A control character, a
// byte that is not UTF-8 and a character that reorders its line are spelled out: "\x1b[2J" instead
// of a clear screen, "\u202e" instead of a line that runs backward.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sftbench {

// True when terminal_line() would return `text` as it is.
bool is_terminal_line(std::string_view text);

// Line ends and tabs stay: for messages, which may have several lines.
std::string terminal_text(std::string_view text);

// One line: a line end becomes "\n", a tab "\t". For cells and labels.
std::string terminal_line(std::string_view text);

// Columns of the terminal that a descriptor is; 0 when it is none. The variable COLUMNS goes first.
size_t terminal_columns(int fd);

// The beginning of a line that leaves the last of so many columns free; 0 columns: all of it.
std::string cut_to(std::string_view line, size_t columns);

// Lines that are longer than `columns` broken between words, what follows indented by two more than
// the line itself. The first line has `used` columns already. Words that are longer than a line
// stay whole; 0 columns: nothing is broken.
std::string wrapped(std::string_view text, size_t columns, size_t used = 0);

}  // namespace sftbench
