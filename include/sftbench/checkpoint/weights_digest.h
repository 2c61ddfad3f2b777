// What tells the weights of a folder from others, wherever the folder lies.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sftbench {

// model.safetensors, or the files that model.safetensors.index.json names, by their names.
// InputError: no weights, or an index that cannot be followed.
std::vector<std::filesystem::path> weights_files(const std::filesystem::path& directory);

// Of their content. Large files are read once (base/kept_digest.h). InputError, also for a file
// that is not there.
std::string weights_digest(const std::filesystem::path& directory);

}  // namespace sftbench
