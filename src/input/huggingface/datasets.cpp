#include "sftbench/huggingface/datasets.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>

#include "sftbench/base/data_files.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/text.h"
#include "sftbench/huggingface/model_list.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// What files of data, right or wrong, are called; no dataset is.
constexpr std::array<std::string_view, 12> kFileEndings = {
    ".json", ".jsonl", ".ndjson", ".parquet", ".arrow", ".csv",
    ".tsv",  ".txt",   ".gz",     ".zst",     ".zip",   ".py"};

bool ends_as_file(std::string_view text) {
  return std::any_of(kFileEndings.begin(), kFileEndings.end(), [&](std::string_view ending) {
    return text.size() > ending.size() && text.ends_with(ending);
  });
}

}  // namespace

std::string dataset_name_problem(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const size_t slash = name.find('/');
  if (slash == std::string::npos || slash > name.find('@'))
    return "'" + name + "' is no hub id as ORG/NAME";
  std::string problem = hub_name_problem(name);
  if (problem.empty() && colon != std::string::npos) dataset_part(text.substr(colon), problem);
  return problem;
}

DatasetName dataset_name(const std::string& text) {
  check(dataset_name_problem(text).empty(), "a dataset's name is checked before it is used");
  const size_t colon = text.find(':');
  const HubName hub = hub_name(text.substr(0, colon));
  std::string none;
  return {hub.id, hub.revision,
          dataset_part(colon == std::string::npos ? std::string() : text.substr(colon), none)};
}

bool is_dataset_name(const std::string& text) {
  if (!dataset_name_problem(text).empty()) return false;
  std::error_code error;
  return !ends_as_file(text.substr(0, text.find(':'))) && !fs::exists(data_place(text).path, error);
}

std::string name_of(const DatasetName& name) {
  return name.id + text_of(name.part);
}

std::string dataset_of_snapshot(const fs::path& folder) {
  const fs::path snapshots = folder.parent_path();
  if (snapshots.filename() != "snapshots") return {};
  return hub_id_of_folder(snapshots.parent_path().filename().string(), RepositoryKind::kDataset);
}

FetchRequest dataset_request(const std::string& name) {
  const DatasetName dataset = dataset_name(name);
  return {name, dataset.id, dataset.revision, RepositoryKind::kDataset, dataset.part};
}

std::string dataset_fetch_command(const std::string& name,
                                  const std::optional<std::string>& hf_home) {
  return "sftbench dataset fetch " + shell_quoted(name) +
         (hf_home ? " -o " + shell_quoted(*hf_home) : "");
}

namespace {

std::optional<FoundData> find_cached(const fs::path& cache, const std::string& name) {
  const DatasetName dataset = dataset_name(name);
  const std::optional<fs::path> snapshot =
      hub_snapshot(HubRepository(cache, dataset.id, RepositoryKind::kDataset), dataset.revision);
  if (!snapshot) return std::nullopt;
  std::error_code error;
  const fs::path card = *snapshot / "README.md";
  const std::string text = fs::is_regular_file(card, error) ? read_file(card) : std::string();
  const TrainFiles found = find_train_files(paths_below(*snapshot), text, dataset.part);
  if (found.files.empty() && found.incomplete) return std::nullopt;
  if (found.files.empty()) {
    throw InputError({{.file = {},
                       .line = 0,
                       .key = name,
                       .message = found.problem,
                       .expected = found.expected,
                       .nearest = {}}});
  }
  return FoundData{fs::absolute(*snapshot).lexically_normal().string() + text_of(dataset.part),
                   found.warning};
}

}  // namespace

std::optional<FoundData> find_data(const fs::path& cache, const std::string& given) {
  if (is_dataset_name(given)) return find_cached(cache, given);
  std::string path = fs::absolute(given).lexically_normal().string();
  std::error_code error;
  if (!fs::exists(data_place(path).path, error)) return std::nullopt;
  return FoundData{std::move(path), {}};
}

}  // namespace sftbench
