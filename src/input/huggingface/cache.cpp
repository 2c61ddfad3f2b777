#include "sftbench/huggingface/cache.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/environment.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

std::string_view prefix_of(RepositoryKind kind) {
  return kind == RepositoryKind::kModel ? "models--" : "datasets--";
}

std::string folder_name(const std::string& hub_id, RepositoryKind kind) {
  std::string folder(prefix_of(kind));
  for (char c : hub_id) folder += c == '/' ? std::string("--") : std::string(1, c);
  return folder;
}

}  // namespace

bool is_hub_id(const std::string& place) {
  if (place.empty() || place.front() == '/' || place.front() == '.' || place.front() == '~')
    return false;
  return std::count(place.begin(), place.end(), '/') <= 1 && place.back() != '/' &&
         place.find("..") == std::string::npos;
}

fs::path hub_cache_directory(const std::optional<std::string>& hf_home) {
  if (hf_home) return fs::path(*hf_home) / "hub";
  if (const std::string cache = environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) {
    return fs::path(cache) / "huggingface" / "hub";
  }
  return fs::path(environment("HOME")) / ".cache" / "huggingface" / "hub";
}

std::optional<fs::path> hub_snapshot(const HubRepository& repository, const std::string& revision) {
  std::error_code error;
  if (fs::is_regular_file(repository.reference(revision), error)) {
    std::string commit = read_file(repository.reference(revision));
    commit.erase(commit.find_last_not_of(" \r\n\t") + 1);
    const bool leads_away =
        commit == "." || commit == ".." || commit.find('/') != std::string::npos;
    if (commit.empty() || leads_away) return std::nullopt;
    const fs::path snapshot = repository.snapshot(commit);
    return fs::is_directory(snapshot, error) ? std::optional(snapshot) : std::nullopt;
  }
  if (revision != "main") {
    const fs::path snapshot = repository.snapshot(revision);
    const bool commit = revision.find('/') == std::string::npos;
    return commit && fs::is_directory(snapshot, error) ? std::optional(snapshot) : std::nullopt;
  }
  std::vector<fs::path> snapshots;
  for (const auto& entry : fs::directory_iterator(repository.folder() / "snapshots", error))
    snapshots.push_back(entry.path());
  if (snapshots.size() != 1) return std::nullopt;
  return snapshots.front();
}

std::optional<fs::path> hub_snapshot(const fs::path& cache, const std::string& hub_id) {
  return hub_snapshot(HubRepository(cache, hub_id));
}

std::string hub_id_of_folder(const std::string& name, RepositoryKind kind) {
  const std::string_view prefix = prefix_of(kind);
  if (name.rfind(prefix, 0) != 0) return {};
  std::string id = name.substr(prefix.size());
  // An organization's name cannot have "--" in it, so the first one is the slash.
  if (const size_t slash = id.find("--"); slash != std::string::npos) id.replace(slash, 2, "/");
  return id;
}

std::vector<std::string> cached_models(const fs::path& cache) {
  std::vector<std::string> ids;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cache, error)) {
    std::string id = hub_id_of_folder(entry.path().filename().string(), RepositoryKind::kModel);
    if (!id.empty() && entry.is_directory(error)) ids.push_back(std::move(id));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

HubRepository::HubRepository(fs::path cache, std::string hub_id, RepositoryKind kind)
    : cache_(std::move(cache)),
      id_(std::move(hub_id)),
      kind_(kind),
      folder_(cache_ / folder_name(id_, kind)) {}

fs::path HubRepository::incomplete(const std::string& oid) const {
  return blobs() / (oid + ".incomplete");
}

fs::path HubRepository::lock(const std::string& oid) const {
  return cache_ / ".locks" / folder_.filename() / (oid + ".lock");
}

fs::path HubRepository::snapshot(const std::string& commit) const {
  return folder_ / "snapshots" / commit;
}

fs::path HubRepository::reference(const std::string& revision) const {
  return folder_ / "refs" / revision;
}

}  // namespace sftbench
