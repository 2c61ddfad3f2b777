// Small text helpers: nearest spelling for error messages, joining, quoting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sftbench {

// What somebody who wrote `word` may have meant, case ignored: the shortest candidate that begins
// with it; else the one with the smallest edit distance, up to a third of the longer word, and at
// least two edits; else the shortest that has it somewhere. Empty when there is none of these.
// Words of one or two characters are only compared by edits.
std::string nearest_spelling(std::string_view word, const std::vector<std::string>& candidates);

// "a, b, c"
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");
// The same of the first 20, and how many more there are.
std::string join_some(const std::vector<std::string>& parts);

// Of ASCII letters; others stay.
std::string lower_case(std::string_view text);

// Without the spaces, tabs and line ends around it.
std::string_view trimmed(std::string_view text);

// Without the mark of the order of bytes that editors of Windows write in front of UTF-8.
std::string_view without_byte_order_mark(std::string_view text);

// One word, in single quotes where a shell would otherwise see more than a word in it.
std::string shell_quoted(std::string_view word);

// A word of a command line as it may be kept and shown: where it is an address, or NAME=ADDRESS,
// "***" stands for the user and password before its host and for its query. Where one cannot be
// told from the other, it stands for all behind "://".
// "mlflow=http://me:pw@host/a?token=b" -> "mlflow=http://***@host/a?***".
std::string without_secrets(std::string_view word);

}  // namespace sftbench
