#include "sftbench/base/data_files.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// What the package datasets writes beside its data.
bool is_description(const std::string& name) {
  static const std::set<std::string> kDescriptions = {"dataset_dict.json", "dataset_info.json",
                                                      "dataset_infos.json", "state.json"};
  return kDescriptions.count(name) > 0;
}

// "json", "parquet" or "arrow"; empty: no data.
std::string kind_of(const fs::path& file) {
  const std::string ending = file.extension().string();
  if (is_description(file.filename().string())) return {};
  if (ending == ".json" || ending == ".jsonl") return "json";
  return ending == ".parquet" || ending == ".arrow" ? ending.substr(1) : std::string();
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error) && !kind_of(entry.path()).empty()) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
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

[[noreturn]] void refuse_folder(const fs::path& folder, std::string message, std::string expected) {
  throw InputError({{folder.string(), 0, {}, std::move(message), std::move(expected), {}}});
}

}  // namespace

std::vector<fs::path> data_files(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  if (fs::exists(path / "config.json", error)) {
    refuse_folder(path, "the folder is a model's: it has config.json", "a folder of data");
  }
  std::vector<fs::path> files = files_in(path);
  if (files.empty()) files = files_in(path / "data");
  if (files.empty()) {
    refuse_folder(path, "the folder has no data", "files .json, .jsonl, .parquet or .arrow in it");
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

std::string digest_data(const fs::path& path) {
  const std::vector<fs::path> files = data_files(path);
  if (files.size() == 1) return digest_file(files.front());
  std::string all;
  for (const fs::path& file : files) all += digest_file(file) + "\n";
  return digest(all);
}

}  // namespace sftbench
