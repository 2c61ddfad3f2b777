// Digests that name things (result keys, dataset files). Not for security.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace sftbench {

// XXH3-128 as 32 lower-case hexadecimal digits.
std::string digest(std::string_view content);

// The same over a file's content, in constant memory. InputError when it cannot be read.
std::string digest_file(const std::filesystem::path& path);

}  // namespace sftbench
