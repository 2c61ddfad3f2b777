// The names in a folder, as readdir() gives them: a hundred thousand in some ten milliseconds,
// where std::filesystem makes a path of each.
#pragma once

#include <dirent.h>

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace sftbench {

// Calls take(name, number of its file) for all but "." and "..". False, with errno, when the folder
// cannot be listed.
template <typename Take>
bool for_each_name(const std::filesystem::path& folder, const Take& take) {
  DIR* stream = ::opendir(folder.c_str());
  if (stream == nullptr) return false;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") take(name, static_cast<uint64_t>(entry->d_ino));
  }
  ::closedir(stream);
  return true;
}

}  // namespace sftbench
