// Git LFS pointers: texts that stand where the content of a file was not fetched.
#pragma once

#include <string_view>

namespace sftbench {

// Whether a file that begins so is one, and what is said of it.
inline bool is_lfs_pointer(std::string_view begin) {
  return begin.starts_with("version https://git-lfs");
}
inline constexpr const char* kIsLfsPointer =
    "the file is a Git LFS pointer, and the content is elsewhere";
inline constexpr const char* kOfLfsPointer = "the content itself, which `git lfs pull` fetches";

}  // namespace sftbench
