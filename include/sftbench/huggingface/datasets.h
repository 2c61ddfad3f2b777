// Datasets of the hub by their names, found in the libraries' cache (huggingface/cache.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "sftbench/base/train_files.h"
#include "sftbench/huggingface/fetch.h"

namespace sftbench {

// "ORG/NAME", behind it optionally "@REVISION" and a part as ":CONFIG", ":CONFIG:SPLIT" or
// "::SPLIT".
struct DatasetName {
  std::string id;
  std::string revision = "main";
  DatasetPart part;
};

// Why `text` is no such name, for a message; empty when it is one.
std::string dataset_name_problem(const std::string& text);
DatasetName dataset_name(const std::string& text);  // REQUIRES: dataset_name_problem(text) is empty

// Whether `text`, which stands where a path may, is the name of a dataset of the hub: no file or
// folder of this name is here, and it does not end as files of data do.
bool is_dataset_name(const std::string& text);

// "ORG/NAME:CONFIG": without the revision.
std::string name_of(const DatasetName& name);

// "ORG/NAME" of .../datasets--ORG--NAME/snapshots/COMMIT; empty for another folder.
std::string dataset_of_snapshot(const std::filesystem::path& folder);

FetchRequest dataset_request(const std::string& name);  // REQUIRES: as dataset_name()
// "sftbench dataset fetch ORG/NAME", with -o where the cache is below `hf_home`.
std::string dataset_fetch_command(const std::string& name,
                                  const std::optional<std::string>& hf_home);

struct FoundData {
  std::string path;     // for data_files(): absolute, behind it the part that is meant
  std::string warning;  // shards are missing
};

// A file, a folder or a dataset of the hub. Nothing where there is none, or where the dataset or a
// file of the part is not in `cache`. InputError: the dataset's card has no such part.
std::optional<FoundData> find_data(const std::filesystem::path& cache, const std::string& given);

}  // namespace sftbench
