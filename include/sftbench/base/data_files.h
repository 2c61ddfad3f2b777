// The files that a path of training data stands for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sftbench {

// A file itself. Of a folder, or of the folder `data` in it where it has none of its own: its files
// .json, .jsonl, .parquet and .arrow by their names, those of the split `train` where names tell
// splits (train-00000-of-00002.parquet), as the package datasets finds them. InputError where there is
// none, or where JSON and tables stand side by side.
std::vector<std::filesystem::path> data_files(const std::filesystem::path& path);

// Of the content, wherever it lies. InputError as data_files().
std::string digest_data(const std::filesystem::path& path);

}  // namespace sftbench
