// How the readers and writers of saved folders say no: an InputError about one path.
#pragma once

#include <filesystem>
#include <string>

namespace sftbench {

[[noreturn]] void refuse(const std::filesystem::path& path, std::string found,
                         std::string expected);

// A system call failed with `error`, an errno: "cannot write: No space left on device".
[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what, int error);

}  // namespace sftbench
