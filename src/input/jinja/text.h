// Python's methods of str. Positions and lengths count code points; texts are valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sftbench::jinja {

int64_t code_points(std::string_view text);
// One text a code point.
std::vector<std::string> characters(std::string_view text);

enum class Side { kLeft, kRight, kBoth };
// Without white space at its ends, or without any of `characters`.
std::string_view stripped(std::string_view text, Side side);
std::string_view stripped(std::string_view text, std::string_view characters, Side side);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);
// str.title(): a word begins behind what is no cased letter.
std::string titled(std::string_view text);
// The filter's: a word begins behind white space, - ( { [ and <.
std::string titled_by_filter(std::string_view text);
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);
bool is_space(std::string_view text);
bool is_digit(std::string_view text);
bool is_alpha(std::string_view text);
bool is_alnum(std::string_view text);

// Of white space between words; `most` splits, -1: all.
std::vector<std::string> split(std::string_view text, int64_t most);
std::vector<std::string> split_from_right(std::string_view text, int64_t most);
// REQUIRES: `separator` is not empty.
std::vector<std::string> split(std::string_view text, std::string_view separator, int64_t most);
std::vector<std::string> split_from_right(std::string_view text, std::string_view separator,
                                          int64_t most);
std::vector<std::string> lines(std::string_view text, bool keep_ends);
// At most `most` times, -1: wherever it is.
std::string replaced(std::string_view text, std::string_view old_part, std::string_view new_part,
                     int64_t most);
int64_t count(std::string_view text, std::string_view part);

// Quoted as repr() quotes.
std::string in_quotes(std::string_view text);
// Quoted as JSON.
std::string json_quoted(std::string_view text, bool ensure_ascii);

}  // namespace sftbench::jinja
