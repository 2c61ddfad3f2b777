#include "sftbench/checkpoint/manifest.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "checkpoint/refusal.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/checkpoint/model_card.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSchema = "sftbench.saved/1";

std::string text_of(const Json& json) {
  return json_text(json, 1) + "\n";
}

// What a reader of weights or states goes by: a file of this kind must not be added unseen.
bool is_of_weights(const std::string& name) {
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") ||
         name.ends_with("_pieces.json");
}

Manifest manifest_from_json(const Json& json, const std::string& origin) {
  Manifest manifest;
  json.at("kind").get_to(manifest.kind);
  manifest.step = whole_number_at(json, "step", 0, kMostStepsOfFile, origin);
  json.at("job").get_to(manifest.job);
  json.at("format").get_to(manifest.format);
  manifest.files = sums_from_json(json.at("files"));
  return manifest;
}

std::optional<Diagnostic> problem_of(const fs::path& path, const FileSum& sum) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return finding(path, {}, "missing", std::string("the file that ") + kManifestFile + " names");
  }
  if (!fs::is_regular_file(path, error)) return finding(path, {}, "not a file", "a file");
  const uintmax_t bytes = fs::file_size(path, error);
  if (error || bytes != sum.bytes) {
    return finding(path, {}, "has " + std::to_string(bytes) + " bytes",
                   std::to_string(sum.bytes) + ", as it was saved");
  }
  const std::string found = digest_file(path);
  if (found == sum.xxh3_128) return {};
  return finding(path, {}, "damaged, or a file of another folder: its checksum is " + found,
                 sum.xxh3_128 + ", as it was saved");
}

void add_unknown(const fs::path& folder, const Manifest& manifest,
                 std::vector<Diagnostic>& findings) {
  std::set<std::string> known;
  for (const FileSum& sum : manifest.files) known.insert(sum.name);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!is_of_weights(name) || known.count(name) != 0) continue;
    findings.push_back(
        finding(entry.path(), {}, "does not belong to this folder",
                std::string("only files of weights that ") + kManifestFile + " names"));
  }
}

}  // namespace

Json to_json(const std::vector<FileSum>& sums) {
  Json json = Json::object();
  for (const FileSum& sum : sums) {
    json[sum.name] = {{"bytes", sum.bytes}, {"xxh3_128", sum.xxh3_128}};
  }
  return json;
}

std::vector<FileSum> sums_from_json(const Json& json) {
  std::vector<FileSum> sums;
  for (const auto& [name, sum] : json.items()) {
    sums.push_back({name, sum.at("bytes").get<uint64_t>(), sum.at("xxh3_128").get<std::string>()});
  }
  return sums;
}

FileSum write_summed(const fs::path& folder, const std::string& name, std::string_view text) {
  write_file_atomic(folder / name, text);
  return {name, text.size(), digest(text)};
}

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  std::vector<FileSum> files = manifest.files;
  std::sort(files.begin(), files.end(),
            [](const FileSum& a, const FileSum& b) { return a.name < b.name; });
  Json json = {{"schema", kSchema},   {"kind", manifest.kind},     {"step", manifest.step},
               {"job", manifest.job}, {"format", manifest.format}, {"files", to_json(files)}};
  json["digest"] = digest(text_of(json));
  write_file_atomic(folder / kManifestFile, text_of(json));
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestFile;
  std::error_code error;
  if (!fs::exists(path, error)) {
    refuse(path, "missing: what the folder holds cannot be verified",
           "a folder that this version has saved; earlier ones wrote no checksums");
  }
  const std::string text = read_file(path);
  Json json = parse_json(text, path.string());
  if (!json.is_object() || json.value("schema", Json()) != kSchema) {
    refuse(path, "not a manifest that this version reads",
           std::string("\"schema\": \"") + kSchema + "\"");
  }
  const bool as_written = text_of(json) == text;
  const Json stated = json.value("digest", Json());
  json.erase("digest");
  if (!as_written || stated != digest(text_of(json))) {
    refuse(path, "damaged: its content does not match its own checksum", "what was saved there");
  }
  try {
    return manifest_from_json(json, path.string());
  } catch (const Json::exception& problem) {
    refuse(path, "not a manifest: " + json_problem(problem), "what was saved there");
  }
}

void verify_files(const fs::path& folder, const Manifest& manifest, size_t share, size_t shares) {
  std::vector<Diagnostic> findings;
  for (size_t i = share; i < manifest.files.size(); i += shares) {
    const FileSum& sum = manifest.files[i];
    if (auto problem = problem_of(folder / sum.name, sum)) findings.push_back(std::move(*problem));
  }
  if (share == 0) add_unknown(folder, manifest, findings);
  if (!findings.empty()) throw InputError(findings);
}

void verify_named_files(const fs::path& folder, const Manifest& manifest) {
  std::vector<Diagnostic> findings;
  for (const FileSum& sum : manifest.files) {
    if (auto problem = problem_of(folder / sum.name, sum)) findings.push_back(std::move(*problem));
  }
  if (!findings.empty()) throw InputError(findings);
}

bool holds_only_saved_files(const fs::path& folder) {
  try {
    std::set<std::string> known = {kManifestFile};
    for (const FileSum& sum : read_manifest(folder).files) known.insert(sum.name);
    for (const auto& entry : fs::directory_iterator(folder)) {
      const bool plain = entry.symlink_status().type() == fs::file_type::regular;
      if (!plain || known.count(entry.path().filename().string()) == 0) return false;
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

bool is_saved_file_name(const std::string& name) {
  static constexpr std::array kNames = {kManifestFile,
                                        kModelCardFile,
                                        "config.json",
                                        "generation_config.json",
                                        "adapter_config.json",
                                        "trainer_state.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "tokenizer.model",
                                        "vocab.json",
                                        "merges.txt",
                                        "chat_template.jinja",
                                        "chat_template.json",
                                        "preprocessor_config.json",
                                        "processor_config.json"};
  if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) return true;
  return is_of_weights(name) && (name.starts_with("model") || name.starts_with("adapter_model") ||
                                 name.starts_with("optimizer"));
}

}  // namespace sftbench
