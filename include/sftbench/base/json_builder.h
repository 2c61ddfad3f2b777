// Parses JSON from a stranger in time and memory that the text's size bounds. The library's own
// parser searches all earlier members for each name: an object of 80,000 members takes it 40 s. It
// also accepts any depth of nesting, and code that recurses over the value would follow it down.
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
