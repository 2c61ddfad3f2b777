// Where Hugging Face's libraries keep what they downloaded, read and written without them:
//   <home>/hub/models--<org>--<name>/blobs/<oid>                 content, named by its hash
//                                   /snapshots/<commit>/<file>   a relative link to a blob
//                                   /refs/<revision>             the commit of a branch or tag
//   <home>/hub/.locks/models--<org>--<name>/<oid>.lock           flock while a blob is written
// Datasets are in datasets--<org>--<name>. An <oid> is the sha256 of a large file (64 digits) or
// git's sha1 of a small one (40 digits). Source: huggingface_hub, "Understand caching".
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sftbench {

enum class RepositoryKind { kModel, kDataset };

// "org/name" or "name": not a path.
bool is_hub_id(const std::string& place);

// `hf_home`, else HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME/huggingface, ~/.cache/huggingface, in the
// libraries' order: the folder that holds models--*.
std::filesystem::path hub_cache_directory(const std::optional<std::string>& hf_home);

// The places of one model or dataset in a cache; nothing is made here.
class HubRepository {
 public:
  HubRepository(std::filesystem::path cache, std::string hub_id,
                RepositoryKind kind = RepositoryKind::kModel);

  const std::string& id() const { return id_; }
  RepositoryKind kind() const { return kind_; }
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path blobs() const { return folder_ / "blobs"; }
  std::filesystem::path blob(const std::string& oid) const { return blobs() / oid; }
  std::filesystem::path incomplete(const std::string& oid) const;
  std::filesystem::path lock(const std::string& oid) const;
  std::filesystem::path snapshot(const std::string& commit) const;
  std::filesystem::path reference(const std::string& revision) const;

 private:
  std::filesystem::path cache_;
  std::string id_;
  RepositoryKind kind_;
  std::filesystem::path folder_;
};

// The folder of the snapshot that the branch, tag or commit points to; of "main", where no commit
// is noted, the only one there is. Nothing when it is not there.
std::optional<std::filesystem::path> hub_snapshot(const HubRepository& repository,
                                                  const std::string& revision = "main");
// Of a model.
std::optional<std::filesystem::path> hub_snapshot(const std::filesystem::path& cache,
                                                  const std::string& hub_id);

// "org/name" of "models--org--name" or "datasets--org--name"; empty for another name.
std::string hub_id_of_folder(const std::string& name, RepositoryKind kind);

// The ids of the models that have a folder in `cache`, sorted.
std::vector<std::string> cached_models(const std::filesystem::path& cache);

}  // namespace sftbench
