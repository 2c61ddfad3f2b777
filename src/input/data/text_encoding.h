// Text of users that is no UTF-8: what it is instead, as far as its bytes tell, and what makes
// UTF-8 of it.
#pragma once

#include <string>
#include <string_view>

#include "sftbench/base/error.h"

namespace sftbench {

// InputError where these bytes are UTF-16 or UTF-32, with a byte order mark or without. `begin`: of
// the file at `path`.
void refuse_wide_text(std::string_view begin, const std::string& path);

// Whether `text` has a byte that no UTF-8 has there. `error` gets message and expected. `of`: what
// the text is, behind the column: " of a field".
bool is_not_utf8(std::string_view text, Diagnostic& error, const char* of = "");

}  // namespace sftbench
