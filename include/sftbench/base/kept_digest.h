// Digests of files, kept beside what the file system says of them: a second look reads nothing.
#pragma once

#include <filesystem>
#include <string>

namespace sftbench {

// As digest_file(). The digest of a large file is kept in user_cache_directory()/digests, by the
// file's device and number. It is used again while size and times of change stay. A file that
// changed within the last two seconds may change once more within a tick of the file system's
// clock, so it is read each time. InputError as digest_file(). A cache that cannot be used is no
// error.
std::string kept_digest(const std::filesystem::path& path);

// Whether kept_digest() would read nothing.
bool digest_is_kept(const std::filesystem::path& path);

}  // namespace sftbench
