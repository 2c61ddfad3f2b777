// The files that a path of training data stands for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sftbench {

// "FOLDER:CONFIG:SPLIT" is a part of what is in a folder, "FILE::train[:1000]" of a file
// (base/dataset_part.h).
struct DataPlace {
  std::filesystem::path path;  // a file or a folder
  std::string part;            // with its colons; empty: none is named
};

// What exists is a path as a whole, whatever colons are in it. Of a path that names neither a file
// nor a folder, the path.
DataPlace data_place(const std::filesystem::path& path);

// The files below a folder, relative to it; links to files are files.
std::vector<std::string> paths_below(const std::filesystem::path& folder);

// A file itself. Of a folder, or of the folder `data` in it where it has none of its own: its files
// .json, .jsonl, .csv, .tsv, .parquet and .arrow by their names, those of the split `train` where
// names tell splits (train-00000-of-00002.parquet), as the package datasets finds them. JSON and
// CSV may be packed: .jsonl.gz, .csv.zst. The files of a split may stand in folders below
// (base/train_files.h). That holds for a snapshot of the hub, for a README.md that names data
// files, and for folders train/ and test/. InputError where there is no file, or where files of
// several kinds stand side by side.
std::vector<std::filesystem::path> data_files(const std::filesystem::path& path);

// "[:1%]" of "FOLDER::train[:1%]"; empty: all entries of the files. InputError: the part has
// another form.
std::string slice_of_data(const std::filesystem::path& path);

// Of the content and the slice, wherever it lies. InputError as data_files().
std::string digest_data(const std::filesystem::path& path);

}  // namespace sftbench
