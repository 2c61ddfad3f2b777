// Text inside HTML.
#pragma once

#include <string>
#include <string_view>

namespace sftbench {

// For an element or a quoted attribute; & < > ' " as references, the quotes as Jinja writes them.
std::string html_escaped(std::string_view text);

}  // namespace sftbench
