// The filters by what they work on, and what several of them need.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "jinja/runtime.h"

namespace sftbench::jinja {

using Filters = std::map<std::string, Filter, std::less<>>;

const Filters& text_filters();
const Filters& sequence_filters();
const Filters& value_filters();

// What generators of Python are here.
Value generator(std::vector<Value> items);

// str() of an argument that jinja2 takes for a text.
std::string charged_text(Runtime& runtime, const Value& value);

}  // namespace sftbench::jinja
