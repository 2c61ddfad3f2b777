#include "sftbench/checkpoint/checkpoint.h"

#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/base/kept_digest.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/checkpoint/weights_digest.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

// Where the index says that tensors are: file name -> tensor names.
using WeightMap = std::map<std::string, std::vector<std::string>>;

WeightMap read_index(const fs::path& path) {
  const Json json = read_json_file(path.string());
  const auto weight_map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || weight_map == json.end() || !weight_map->is_object() ||
      weight_map->empty()) {
    throw InputError(
        {finding(path, "weight_map", "missing or empty", "an object: tensor name -> file name")});
  }
  std::vector<Diagnostic> findings;
  WeightMap files;
  for (const auto& [tensor, file] : weight_map->items()) {
    const std::string key = "weight_map." + tensor;
    if (!file.is_string()) {
      findings.push_back(finding(path, key, "not a text", "a file name"));
    } else if (const std::string name = file; name.find('\0') != std::string::npos) {
      findings.push_back(finding(path, key, "has a zero byte", "a plain file name"));
    } else if (name.empty() || fs::path(name).filename() != name || name == "..") {
      findings.push_back(
          finding(path, key, "'" + name + "' leads out of the folder", "a plain file name"));
    } else {
      files[name].push_back(tensor);
    }
  }
  if (!findings.empty()) throw InputError(findings);
  return files;
}

// What to say when there are no safetensors: most often the weights are there in another format.
[[noreturn]] void fail_without_weights(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    throw InputError({finding(directory, {}, "no such folder", "a folder with model.safetensors")});
  }
  std::set<std::string> others;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".gguf" ||
        extension == ".safetensors") {
      others.insert(entry.path().filename().string());
    }
  }
  throw InputError({finding(directory, {},
                            others.empty() ? "no weights"
                                           : "no weights that can be read; it has " +
                                                 join({others.begin(), others.end()}),
                            std::string(kSingleFile) + " or " + kIndexFile)});
}

// A shard that the index names but the folder lacks, as after a download that was cut off.
Diagnostic absent_shard(const fs::path& path, size_t tensors) {
  return finding(path, {},
                 std::string("no such file, although ") + kIndexFile + " places " +
                     counted(static_cast<int64_t>(tensors), "tensor") + " in it",
                 "every shard of the index; fetch the model again");
}

// The files of a folder, with what the index, if there is one, promises of each.
WeightMap weight_map(const fs::path& directory) {
  if (fs::exists(directory / kSingleFile)) return {{kSingleFile, {}}};
  if (fs::exists(directory / kIndexFile)) return read_index(directory / kIndexFile);
  fail_without_weights(directory);
}

// Opens one shard; what is wrong with it joins `findings`.
std::optional<CheckpointShard> open_shard(const fs::path& path, std::vector<Diagnostic>& findings) {
  try {
    return open_safetensors(path);
  } catch (const InputError& error) {
    findings.insert(findings.end(), error.diagnostics().begin(), error.diagnostics().end());
    return std::nullopt;
  }
}

void check_against_index(const CheckpointShard& shard, const std::vector<std::string>& promised,
                         std::vector<Diagnostic>& findings) {
  std::set<std::string_view> present;
  for (const StoredTensor& tensor : shard.tensors) present.insert(tensor.name);
  for (const std::string& name : promised) {
    if (present.count(name) == 0) {
      findings.push_back(finding(shard.path, name, "missing, although the index places it here"));
    }
  }
}

void check_unique(const std::vector<CheckpointShard>& shards, std::vector<Diagnostic>& findings) {
  std::unordered_map<std::string_view, const CheckpointShard*> first_shard;
  for (const CheckpointShard& shard : shards) {
    for (const StoredTensor& tensor : shard.tensors) {
      const auto [place, is_new] = first_shard.emplace(tensor.name, &shard);
      if (is_new) continue;
      findings.push_back(
          finding(shard.path, tensor.name,
                  "duplicate tensor, also in " + place->second->path.filename().string()));
    }
  }
}

}  // namespace

CheckpointShard open_safetensors(const fs::path& path) {
  std::vector<StoredTensor> tensors =
      read_safetensors_header(MappedFile(path).text(), path.string());
  return {path, RandomAccessFile(path), std::move(tensors)};
}

void CheckpointShard::read(const StoredTensor& tensor, uint64_t begin_bytes, void* buffer,
                           size_t size_bytes) const {
  const size_t got =
      file.read_at(tensor.offset_bytes + begin_bytes, static_cast<char*>(buffer), size_bytes);
  if (got < size_bytes) {
    throw InputError({finding(path, tensor.name, "the file became shorter while it was read")});
  }
}

std::vector<CheckpointShard> open_checkpoint(const fs::path& directory) {
  const WeightMap files = weight_map(directory);
  std::vector<Diagnostic> findings;
  std::vector<CheckpointShard> shards;
  for (const auto& [name, promised] : files) {
    if (!promised.empty() && !fs::exists(directory / name)) {
      findings.push_back(absent_shard(directory / name, promised.size()));
      continue;
    }
    auto shard = open_shard(directory / name, findings);
    if (!shard) continue;
    check_against_index(*shard, promised, findings);
    shards.push_back(std::move(*shard));
  }
  check_unique(shards, findings);
  if (!findings.empty()) throw InputError(findings);
  return shards;
}

std::vector<fs::path> weights_files(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& [name, promised] : weight_map(directory)) files.push_back(directory / name);
  return files;
}

std::string weights_digest(const fs::path& directory) {
  std::string sums;
  for (const fs::path& file : weights_files(directory)) sums += kept_digest(file) + "\n";
  return digest(sums);
}

}  // namespace sftbench
