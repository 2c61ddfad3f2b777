// Patterns of paths, as the cards of datasets have them.
#pragma once

#include <string_view>

namespace sftbench {

// `*` is any text without "/", and `?` one character but "/". `[a-z]` and `[!a]` are one character
// of a set.
// `**` as a whole part is any number of folders, and at the end any file below. Time grows with the
// product of both lengths.
bool matches_glob(std::string_view path, std::string_view pattern);

}  // namespace sftbench
