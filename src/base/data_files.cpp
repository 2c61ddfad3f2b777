#include "sftbench/base/data_files.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/kept_digest.h"
#include "sftbench/base/text.h"
#include "sftbench/base/train_files.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// What the package datasets writes beside its data.
bool is_description(const std::string& name) {
  static const std::set<std::string> kDescriptions = {"dataset_dict.json", "dataset_info.json",
                                                      "dataset_infos.json", "state.json"};
  return kDescriptions.count(name) > 0;
}

std::string ending_of(const fs::path& file) {
  return lower_case(file.extension().string());
}

// The package datasets would read what is in it.
bool is_unread_data(const fs::path& file) {
  static const std::set<std::string> kUnread = {".xz", ".bz2", ".lz4",     ".zip",  ".7z", ".rar",
                                                ".gz", ".zst", ".feather", ".parq", ".orc"};
  return kUnread.contains(ending_of(file));
}

// "json", "csv", "parquet" or "arrow"; empty: no data.
std::string kind_of(const fs::path& file) {
  static const std::map<std::string, std::string> kKinds = {
      {".json", "json"}, {".jsonl", "json"},  {".ndjson", "json"},    {".csv", "csv"},
      {".tsv", "csv"},   {".arrow", "arrow"}, {".parquet", "parquet"}};
  if (is_description(file.filename().string())) return {};
  const std::string ending = ending_of(file);
  const bool packed = ending == ".gz" || ending == ".zst";
  const auto kind = kKinds.find(packed ? ending_of(file.stem()) : ending);
  if (kind == kKinds.end()) return {};
  return packed && kind->second != "json" && kind->second != "csv" ? std::string() : kind->second;
}

[[noreturn]] void refuse_folder(const fs::path& folder, std::string message, std::string expected) {
  throw InputError({{folder.string(), 0, {}, std::move(message), std::move(expected), {}}});
}

// Hidden ones are an editor's, or macOS's.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files, unread;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path& path = entry.path();
    if (!entry.is_regular_file(error) || path.filename().string().starts_with('.')) continue;
    if (!kind_of(path).empty()) {
      files.push_back(path);
    } else if (is_unread_data(path)) {
      unread.push_back(path);
    }
  }
  std::sort(files.begin(), files.end());
  if (!files.empty() && !unread.empty()) {
    refuse_folder(
        folder,
        "the folder has " + unread.front().filename().string() +
            ", which is not read, beside data that are",
        "data in .jsonl, .json, .csv, .tsv, .parquet or .arrow, or the file that is meant");
  }
  return files;
}

// Between what are no letters: "train-00000", "my_train", not "training".
bool names_training(const fs::path& file) {
  const std::string name = file.stem().string();
  const auto letter = [&name](size_t at) {
    return at < name.size() && std::isalpha(static_cast<unsigned char>(name[at])) != 0;
  };
  constexpr std::string_view kTrain = "train";
  for (size_t at = 0; (at = name.find(kTrain, at)) != std::string::npos; ++at) {
    if ((at == 0 || !letter(at - 1)) && !letter(at + kTrain.size())) return true;
  }
  return false;
}

// ".../datasets--ORG--NAME/snapshots/COMMIT", where the libraries of the hub keep a dataset.
bool is_snapshot(const fs::path& folder) {
  return folder.parent_path().filename() == "snapshots" &&
         folder.parent_path().parent_path().filename().string().rfind("datasets--", 0) == 0;
}

std::string card_in(const fs::path& folder) {
  const fs::path card = folder / "README.md";
  std::error_code error;
  return fs::is_regular_file(card, error) ? read_file(card) : std::string();
}

std::vector<fs::path> files_of_repository(const fs::path& folder, const std::string& card,
                                          const DatasetPart& part,
                                          const std::string& subject = {}) {
  std::vector<std::string> paths = paths_below(folder);
  std::erase_if(paths, [](const std::string& path) {
    return is_description(fs::path(path).filename().string());
  });
  const TrainFiles found = find_train_files(paths, card, part);
  if (found.files.empty()) refuse_folder(folder, subject + found.problem, found.expected);
  std::vector<fs::path> files;
  for (const std::string& file : found.files) files.push_back(folder / file);
  return files;
}

DatasetPart part_of(const DataPlace& place) {
  std::string problem;
  DatasetPart part = dataset_part(place.part, problem);
  if (!problem.empty())
    refuse_folder(place.path, problem, "PATH:CONFIG, PATH:CONFIG:SPLIT or PATH::train[:1000]");
  return part;
}

void require_slice_alone(const DataPlace& place) {
  DatasetPart part = part_of(place);
  part.slice.clear();
  if (!text_of(part).empty())
    refuse_folder(place.path, "a file has no configs and no splits, but one: train",
                  place.path.string() + "::train[:1000] for a part of its entries");
}

}  // namespace

DataPlace data_place(const fs::path& path) {
  std::error_code error;
  const std::string text = path.string();
  if (fs::exists(path, error)) return {path, {}};
  for (size_t colon = text.find(':'); colon != std::string::npos;
       colon = text.find(':', colon + 1)) {
    fs::path whole = text.substr(0, colon);
    if (fs::is_directory(whole, error) || fs::is_regular_file(whole, error))
      return {std::move(whole), text.substr(colon)};
  }
  return {path, {}};
}

std::vector<std::string> paths_below(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unreadable;
    if (entry->is_regular_file(unreadable))
      paths.push_back(entry->path().lexically_relative(folder).string());
  }
  return paths;
}

std::vector<fs::path> data_files(const fs::path& path) {
  std::error_code error;
  const DataPlace place = data_place(path);
  if (!fs::is_directory(place.path, error)) {
    if (!place.part.empty()) require_slice_alone(place);
    return {place.path};
  }
  const bool by_card = !place.part.empty() || is_snapshot(place.path);
  if (!by_card && fs::exists(path / "config.json", error)) {
    refuse_folder(path, "the folder is a model's: it has config.json", "a folder of data");
  }
  const std::string card = card_in(place.path);
  if (by_card || names_data_files(card)) {
    return files_of_repository(place.path, card, part_of(place));
  }
  std::vector<fs::path> files = files_in(path);
  if (files.empty()) files = files_in(path / "data");
  if (files.empty()) {  // in train/ and test/, say
    return files_of_repository(path, card, {}, "the folder ");
  }
  if (std::any_of(files.begin(), files.end(), names_training)) {
    std::erase_if(files, [](const fs::path& file) { return !names_training(file); });
  }
  std::set<std::string> kinds;
  for (const fs::path& file : files) kinds.insert(kind_of(file));
  if (kinds.size() > 1) {
    refuse_folder(path, "the folder has " + *kinds.begin() + " and " + *kinds.rbegin() + " files",
                  "files of one kind, or the file that is meant");
  }
  return files;
}

std::string slice_of_data(const fs::path& path) {
  return part_of(data_place(path)).slice;
}

std::string digest_data(const fs::path& path) {
  const std::vector<fs::path> files = data_files(path);
  std::string all = slice_of_data(path);
  if (files.size() == 1 && all.empty()) return kept_digest(files.front());
  for (const fs::path& file : files) all += kept_digest(file) + "\n";
  return digest(all);
}

}  // namespace sftbench
