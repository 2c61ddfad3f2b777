#include "cli/given_data.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <utility>

#include "cli/hub_fetch.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/data/dataset_catalog.h"
#include "sftbench/huggingface/cache.h"
#include "sftbench/huggingface/datasets.h"

namespace sftbench {
namespace {

[[noreturn]] void refuse_data(std::string option, std::string message, std::string expected) {
  throw InputError({{{}, 0, std::move(option), std::move(message), std::move(expected), {}}});
}

std::optional<std::string> found_data(const std::string& given, const DataSearch& search) {
  const std::optional<FoundData> found = find_data(hub_cache_directory(search.hf_home), given);
  if (!found) return std::nullopt;
  if (!found->warning.empty()) spdlog::warn("{}: {}", given, found->warning);
  return found->path;
}

}  // namespace

std::string require_data(const std::string& option, const std::string& given,
                         const DataSearch& search) {
  if (const auto path = found_data(given, search)) return *path;
  if (!is_dataset_name(given)) refuse_data(option, "no such file: " + given, "a file");
  if (!search.fetches) {
    refuse_data(option, given + " is no file or folder, and no dataset of the hub that is here",
                "a file, a folder, or first: " + dataset_fetch_command(given, search.hf_home) +
                    ", or --fetch beside it");
  }
  const FetchProblems problems =
      fetch_absent({dataset_request(given)}, search.hf_home, search.shows_progress);
  if (!problems.datasets.empty()) throw RunError(ReasonCode::kData, join(problems.datasets, "; "));
  if (const auto path = found_data(given, search)) return *path;
  throw RunError(ReasonCode::kData, given + " was fetched, and files of it are not in " +
                                        hub_cache_directory(search.hf_home).string());
}

std::string require_dataset(const std::string& option, const std::string& given) {
  if (std::filesystem::exists(given) || given.find_first_of("/.") != std::string::npos)
    return require_data(option, given, {});
  const NamedDataset& named = named_dataset(given);
  const std::filesystem::path path = default_dataset_path(named);
  if (std::filesystem::exists(path)) return path.string();
  refuse_data(option, "dataset '" + given + "' is not at " + path.string(),
              "a file, or what this makes: " + making_command(named));
}

}  // namespace sftbench
