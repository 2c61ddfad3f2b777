// SHA-256 (FIPS 180-4) of short texts: ado names entities by it. Downloads are hashed by the
// system's library (hub/), which uses the processor's own instructions.
#pragma once

#include <string>
#include <string_view>

namespace sftbench {

// 64 lower-case hexadecimal digits.
std::string sha256(std::string_view content);

}  // namespace sftbench
