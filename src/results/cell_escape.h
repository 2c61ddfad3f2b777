// Cells whose text comes from outside, made harmless for the program that reads them: one function
// for each format.
#pragma once

#include <string>
#include <string_view>

namespace sftbench {

// A field of CSV (RFC 4180), in quotes only where it must be. A text that a spreadsheet would take
// for a formula (it begins with = + - @, a tab, a line end, or a full-width = + - @) gets an
// apostrophe in front, as OWASP ("CSV Injection") has it, unless it is a number. What a terminal
// would obey is spelled out, but for line ends and tabs.
void append_csv_field(std::string& line, std::string_view text);

// A cell of a GitHub table: one line on which no character is markup.
std::string markdown_cell(std::string_view text);

}  // namespace sftbench
