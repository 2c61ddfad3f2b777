// Patterns of paths, as the cards of datasets have them.
#pragma once

#include <string_view>

namespace sftbench {

// `*` is any text without "/", `?` one character but "/", `[a-z]` and `[!a]` one of a set, and `**` as a
// whole part any number of folders; at the end, any file below. In time that grows with the product of
// both lengths.
bool matches_glob(std::string_view path, std::string_view pattern);

}  // namespace sftbench
