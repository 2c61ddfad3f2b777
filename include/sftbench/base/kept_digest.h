// Digests of files, kept beside what the file system says of them: a second look reads nothing.
#pragma once

#include <filesystem>
#include <string>

namespace sftbench {

// As digest_file(). That of a large file is kept in user_cache_directory()/digests by the file's device
// and number, with its size and its times of change, and is taken again while all of these stay. What
// changed within the last two seconds may change once more within a tick of the file system's clock,
// and is read each time. InputError as digest_file(); a cache that cannot be used is nobody's error.
std::string kept_digest(const std::filesystem::path& path);

// Whether kept_digest() would read nothing.
bool digest_is_kept(const std::filesystem::path& path);

}  // namespace sftbench
