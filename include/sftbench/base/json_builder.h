// JSON from a stranger, in time and memory that its size bounds. The library's own parser looks
// each member's name up among those before it, so that an object of 80,000 members takes it 40 s,
// and it follows any nesting, which everything that recurses over the value must follow, too.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "sftbench/base/json.h"

namespace sftbench {

// Gets the name of a member that its object has already, and how many objects and lists are open.
// The later value counts.
using RepeatedName = std::function<void(size_t depth, const std::string& name)>;

// The value of `text`. Json::parse_error (with a position) or Json::out_of_range (a number such as
// 1e999, or more than 500 levels).
Json build_json(
    std::string_view text, const RepeatedName& repeated = [](size_t, const std::string&) {});

}  // namespace sftbench
