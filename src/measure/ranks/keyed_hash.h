// What ranks prove to each other with: HMAC-SHA-256 of OpenSSL's libcrypto, which is loaded when
// several ranks meet.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sftbench {

// 32 bytes. RunError(kUnsupported) on a machine without libcrypto.
std::string keyed_hash(std::string_view key, std::string_view text);

// Takes as long wherever the two differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// From the kernel's generator.
std::string random_bytes(size_t count);

std::string to_hexadecimal(std::string_view bytes);

}  // namespace sftbench
