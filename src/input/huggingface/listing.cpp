#include "huggingface/listing.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "huggingface/blob_hash.h"
#include "huggingface/http.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr uint64_t kLargestFileBytes = uint64_t{1} << 50;
constexpr uint64_t kLargestRepositoryBytes = uint64_t{1} << 60;  // and no sum overflows on the way
constexpr const char* kIndexFile = "model.safetensors.index.json";
// Configuration, vocabulary and chat template; what else a repository has is for people or for
// other programs.
constexpr std::array<std::string_view, 5> kDescriptionEndings = {".json", ".txt", ".model",
                                                                 ".tiktoken", ".jinja"};

[[noreturn]] void fail(const std::string& message) {
  throw HttpError(message, false);
}

// Everything but letters, digits and -._~ as %XX.
std::string percent_encoded(std::string_view text, bool keep_slashes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    if (plain || (keep_slashes && c == '/')) {
      result += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      result += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return result;
}

bool stays_inside(std::string_view path) {
  const bool odd = std::any_of(path.begin(), path.end(), [](char c) {
    return static_cast<unsigned char>(c) < 32 || c == 127 || c == '\\';
  });
  if (path.empty() || odd) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    begin = end + 1;
  }
  return true;
}

std::string text_member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string list_of(const std::string& hub_id) {
  return "the hub's list of the files of " + hub_id;
}

// False when the object gives none. `file` names it in the error about one that cannot be.
bool take_size(const Json& object, const std::string& hub_id, HubFile& file) {
  const auto found = object.find("size");
  if (found == object.end() || found->is_null()) return false;
  if (!found->is_number_unsigned() || found->get<uint64_t>() > kLargestFileBytes) {
    fail(list_of(hub_id) + " gives " + shown_text(found->dump(), {}) + " as the size of " +
         file.path + "; expected a whole number of bytes, at most " +
         std::to_string(kLargestFileBytes) + " (1 PiB)");
  }
  file.size_bytes = found->get<uint64_t>();
  return true;
}

HubFile parse_file(const Json& entry, const HubRepository& repository) {
  const std::string& hub_id = repository.id();
  const std::string list = list_of(hub_id);
  if (!entry.is_object()) fail(list + " has an entry that is no object");
  HubFile file;
  file.path = text_member(entry, "rfilename");
  if (!stays_inside(file.path)) {
    fail(list + " names '" + shown_text(file.path, {}) + "', which is no place inside the " +
         (repository.kind() == RepositoryKind::kModel ? "model" : "dataset") +
         "'s folder; nothing of it was fetched");
  }
  bool sized = take_size(entry, hub_id, file);
  file.oid = text_member(entry, "blobId");
  if (const auto large = entry.find("lfs"); large != entry.end() && large->is_object()) {
    sized = take_size(*large, hub_id, file) || sized;
    file.oid = text_member(*large, "sha256");
  }
  if (!sized || !is_oid(file.oid)) {
    fail(list + " gives no size and hash of " + file.path +
         ", so what comes could not be verified; is this a Hugging Face-compatible endpoint?");
  }
  return file;
}

// What is wrong with the files as a whole.
void check_files(const std::vector<HubFile>& files, const std::string& hub_id) {
  uint64_t total_bytes = 0;
  std::set<std::string_view> paths;
  for (const HubFile& file : files) {
    if (!paths.insert(file.path).second) fail(list_of(hub_id) + " names " + file.path + " twice");
    total_bytes += file.size_bytes;
    if (total_bytes > kLargestRepositoryBytes)
      fail(list_of(hub_id) + " gives sizes that add up to more than 1 EiB");
  }
}

bool is_description(std::string_view name) {
  return std::any_of(kDescriptionEndings.begin(), kDescriptionEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

bool is_index(std::string_view name) {
  return name.ends_with(".index.json");
}

// The shards that the index names, each once.
std::set<std::string> shards_of(const std::string& index, const std::string& hub_id) {
  const std::string name = std::string(kIndexFile) + " of " + hub_id;
  Json json;
  try {
    json = parse_json(index, name);
  } catch (const InputError& error) {
    fail(error.what());
  }
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object() || map->empty())
    fail(name + " has no weight_map");
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string()) fail(name + ": weight_map names no file for " + shown_text(tensor, {}));
    shards.insert(shard.get<std::string>());
  }
  return shards;
}

// Files at the top of the repository whose name passes.
template <typename Wanted>
bool add_files(const HubListing& listing, FileSelection& selection, const Wanted& wanted) {
  const size_t before = selection.files.size();
  for (const HubFile& file : listing.files) {
    if (file.path.find('/') == std::string::npos && wanted(file.path))
      selection.files.push_back(file);
  }
  return selection.files.size() > before;
}

void add_weights(const HubListing& listing, const std::string& index, const std::string& hub_id,
                 FileSelection& selection) {
  if (const HubFile* single = listing.find(kSingleFile)) {  // as transformers, it goes first
    selection.files.push_back(*single);
    return;
  }
  if (const HubFile* index_file = shard_index(listing)) {
    selection.files.push_back(*index_file);
    std::map<std::string_view, const HubFile*> by_path;  // an index may name a million shards
    for (const HubFile& file : listing.files) by_path.emplace(file.path, &file);
    for (const std::string& shard : shards_of(index, hub_id)) {
      const auto found = by_path.find(shard);
      if (found == by_path.end()) {
        fail(std::string(kIndexFile) + " of " + hub_id + " names " + shown_text(shard, {}) +
             ", which the repository does not have");
      }
      selection.files.push_back(*found->second);
    }
    return;
  }
  // Quantized checkpoints have names of their own; "consolidated" is the same weights once more.
  if (add_files(listing, selection, [](const std::string& name) {
        return name.ends_with(".safetensors") && !name.starts_with("consolidated");
      })) {
    return;
  }
  if (!add_files(listing, selection, [](const std::string& name) {
        return name.starts_with("pytorch_model") &&
               (name.ends_with(".bin") || name.ends_with(".bin.index.json"));
      })) {
    fail(hub_id + " has no weights: no *.safetensors and no pytorch_model*.bin");
  }
  selection.warning = hub_id +
                      " has no safetensors: its pytorch_model*.bin is for transformers, "
                      "sftbench trains from safetensors only";
}

}  // namespace

const HubFile* HubListing::find(const std::string& path) const {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const HubFile& file) { return file.path == path; });
  return found == files.end() ? nullptr : &*found;
}

std::string listing_url(const HubEndpoint& endpoint, const FetchRequest& request) {
  const char* kind = request.kind == RepositoryKind::kModel ? "/api/models/" : "/api/datasets/";
  return endpoint.url + kind + request.hub_id + "/revision/" +
         percent_encoded(request.revision, false) + "?blobs=true";
}

std::string page_url(const HubEndpoint& endpoint, const HubRepository& repository) {
  const bool model = repository.kind() == RepositoryKind::kModel;
  return endpoint.url + (model ? "/" : "/datasets/") + repository.id();
}

std::string file_url(const HubEndpoint& endpoint, const HubRepository& repository,
                     const std::string& commit, const std::string& path) {
  return page_url(endpoint, repository) + "/resolve/" + commit + "/" + percent_encoded(path, true);
}

HubListing parse_listing(const std::string& text, const HubRepository& repository) {
  const std::string& hub_id = repository.id();
  Json json;
  try {
    json = parse_json(text, "the hub's answer about " + hub_id);
  } catch (const InputError& error) {
    fail(std::string(error.what()) + "; is this a Hugging Face-compatible endpoint?");
  }
  HubListing listing;
  if (json.is_object()) listing.commit = text_member(json, "sha");
  if (!is_commit(listing.commit) || !json.contains("siblings") || !json["siblings"].is_array()) {
    fail("the hub's answer about " + hub_id +
         " has no commit and files (sha, siblings); is this a Hugging Face-compatible endpoint?");
  }
  for (const Json& entry : json["siblings"]) listing.files.push_back(parse_file(entry, repository));
  check_files(listing.files, hub_id);
  return listing;
}

const HubFile* shard_index(const HubListing& listing) {
  return listing.find(kSingleFile) == nullptr ? listing.find(kIndexFile) : nullptr;
}

FileSelection select_descriptions(const HubListing& listing) {
  FileSelection selection;
  add_files(listing, selection,
            [](const std::string& name) { return is_description(name) && !is_index(name); });
  return selection;
}

FileSelection select_files(const HubListing& listing, const std::string& index,
                           const std::string& hub_id) {
  FileSelection selection = select_descriptions(listing);
  add_weights(listing, index, hub_id, selection);
  return selection;
}

const HubFile* dataset_card(const HubListing& listing) {
  return listing.find("README.md");
}

FileSelection select_dataset_files(const HubListing& listing, const std::string& card,
                                   const DatasetPart& part, const std::string& hub_id) {
  // A script of the repository's name is what reads it, and it would run here.
  if (const std::string script = hub_id.substr(hub_id.find('/') + 1) + ".py";
      listing.find(script) != nullptr) {
    fail(hub_id + " is read by a script (" + script + "), which is not run; the hub may have its " +
         "data as Parquet: " + hub_id + "@refs/convert/parquet:CONFIG");
  }
  std::vector<std::string> paths;
  std::map<std::string_view, const HubFile*> by_path;
  for (const HubFile& file : listing.files) {
    paths.push_back(file.path);
    by_path.emplace(file.path, &file);
  }
  TrainFiles found;
  try {
    found = find_train_files(paths, card, part);
  } catch (const InputError& error) {
    fail(hub_id + ": " + shown_text(error.what(), {}));
  }
  if (found.files.empty())
    fail(shown_text(hub_id + " " + found.problem + "; expected " + found.expected, {}));
  FileSelection selection;
  if (const HubFile* file = dataset_card(listing)) selection.files.push_back(*file);
  for (const std::string& path : found.files) selection.files.push_back(*by_path.at(path));
  if (!found.warning.empty()) selection.warning = hub_id + ": " + shown_text(found.warning, {});
  return selection;
}

}  // namespace sftbench
