// Where Hugging Face's libraries keep what they downloaded, read without them:
// <home>/hub/models--<org>--<name>/snapshots/<commit>, with the commit of "main" in refs/main.
// Source: huggingface_hub, "Understand caching".
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace sftbench {

// "org/name": not a path.
bool is_hub_id(const std::string& place);

// `hf_home`, else HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME/huggingface, ~/.cache/huggingface, in the
// libraries' order: the folder that holds models--*.
std::filesystem::path hub_cache_directory(const std::optional<std::string>& hf_home);

// The folder of the snapshot that "main" points to (or of the only one); nothing when it is not
// there.
std::optional<std::filesystem::path> hub_snapshot(const std::filesystem::path& cache,
                                                  const std::string& hub_id);

}  // namespace sftbench
