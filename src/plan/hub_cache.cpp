#include "plan/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "sftbench/base/file.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
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

std::optional<fs::path> hub_snapshot(const fs::path& cache, const std::string& hub_id) {
  std::string folder = "models--";
  for (char c : hub_id) folder += c == '/' ? std::string("--") : std::string(1, c);
  const fs::path model = cache / folder;
  std::error_code error;
  if (fs::is_regular_file(model / "refs" / "main", error)) {
    std::string commit = read_file(model / "refs" / "main");
    commit.erase(commit.find_last_not_of(" \r\n\t") + 1);
    const fs::path snapshot = model / "snapshots" / commit;
    if (!commit.empty() && commit.find('/') == std::string::npos &&
        fs::is_directory(snapshot, error))
      return snapshot;
    return std::nullopt;
  }
  std::vector<fs::path> snapshots;
  for (const auto& entry : fs::directory_iterator(model / "snapshots", error))
    snapshots.push_back(entry.path());
  if (snapshots.size() != 1) return std::nullopt;
  return snapshots.front();
}

}  // namespace sftbench
