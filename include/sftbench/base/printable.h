// Text of other processes for terminal, log and JSON.
#pragma once

#include <string>
#include <string_view>

namespace sftbench {

// What would control a terminal, turn the direction of writing, or is no UTF-8 stands as \x1b, byte
// by byte. Line ends and tabs stay in printable_text.
std::string printable_line(std::string_view text);
std::string printable_text(std::string_view text);

}  // namespace sftbench
