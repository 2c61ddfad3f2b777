#include "sftbench/base/train_files.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/glob.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/base/yaml.h"

namespace sftbench {
namespace {

using Paths = std::vector<std::string>;

constexpr const char* kDefaultSplit = "train";

// The splits that names of files tell, each with the words that mean it.
const std::vector<std::pair<std::string, Paths>>& split_words() {
  static const std::vector<std::pair<std::string, Paths>> kWords = {
      {"train", {"train", "training"}},
      {"validation", {"validation", "valid", "dev", "val"}},
      {"test", {"test", "testing", "eval", "evaluation"}}};
  return kWords;
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// --- the card ------------------------------------------------------------------------------------

struct CardConfig {
  std::string name = "default";
  std::string folder;  // data_dir
  bool is_default = false;
  bool has_files = false;
  std::vector<std::pair<std::string, Paths>> splits;  // data_files: patterns of each
};

// Between "---" in the first line and the next one.
std::optional<std::string> front_matter(const std::string& card) {
  std::string block;
  bool begun = false;
  for (size_t begin = 0; begin < card.size();) {
    const size_t end = std::min(card.find('\n', begin), card.size());
    std::string line = card.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    begin = end + 1;
    if (begun && line == "---") return block;
    if (!begun && line != "---") return std::nullopt;
    if (begun) block += line + "\n";
    begun = true;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_card(const YamlNode& node, const std::string& key,
                              const std::string& message, const std::string& expected) {
  const int line = node.line > 0 ? node.line + 1 : 0;  // behind "---"
  throw InputError({{"README.md", line, key, message, expected, {}}});
}

std::string without_dot(std::string path) {
  while (path.rfind("./", 0) == 0) path.erase(0, 2);
  return path;
}

Paths patterns_of(const YamlNode& node, const std::string& key) {
  if (node.is_scalar() && !node.text.empty()) return {without_dot(node.text)};
  Paths patterns;
  for (const YamlNode& item : node.items) {
    if (!item.is_scalar()) refuse_card(item, key, "found " + describe(item), "a path");
    patterns.push_back(without_dot(item.text));
  }
  if (patterns.empty())
    refuse_card(node, key, "found " + describe(node), "a path or a list of them");
  return patterns;
}

// A path, a list of them, or a list of {split, path}.
std::vector<std::pair<std::string, Paths>> splits_of(const YamlNode& node, const std::string& key) {
  std::vector<std::pair<std::string, Paths>> splits;
  if (node.is_mapping()) {
    for (const auto& [split, files] : node.members)
      splits.emplace_back(split, patterns_of(files, key));
    return splits;
  }
  const bool by_split = std::any_of(node.items.begin(), node.items.end(),
                                    [](const YamlNode& item) { return item.is_mapping(); });
  if (!by_split) return {{kDefaultSplit, patterns_of(node, key)}};
  for (const YamlNode& item : node.items) {
    const YamlNode* split = item.find("split");
    const YamlNode* files = item.find("path");
    if (split == nullptr || !split->is_scalar() || files == nullptr) {
      refuse_card(item, key, "found " + describe(item), "split and path");
    }
    splits.emplace_back(split->text, patterns_of(*files, key));
  }
  return splits;
}

CardConfig config_of(const YamlNode& node, const std::string& key) {
  if (!node.is_mapping())
    refuse_card(node, key, "found " + describe(node), "config_name and data_files");
  CardConfig config;
  if (const YamlNode* name = node.find("config_name")) config.name = name->text;
  if (const YamlNode* folder = node.find("data_dir")) config.folder = without_dot(folder->text);
  while (!config.folder.empty() && config.folder.back() == '/') config.folder.pop_back();
  if (const YamlNode* value = node.find("default")) config.is_default = value->value == true;
  if (const YamlNode* files = node.find("data_files"); files != nullptr && !files->is_null()) {
    config.has_files = true;
    config.splits = splits_of(*files, key + ".data_files");
  }
  return config;
}

std::vector<CardConfig> configs_of(const std::string& card) {
  const std::optional<std::string> block = front_matter(card);
  if (!block) return {};
  const YamlNode root = parse_yaml(*block, "README.md");
  const YamlNode* node = root.find("configs");
  if (node == nullptr || node->is_null()) return {};
  if (!node->is_sequence()) refuse_card(*node, "configs", "found " + describe(*node), "a list");
  std::vector<CardConfig> configs;
  for (size_t i = 0; i < node->items.size(); ++i) {
    configs.push_back(config_of(node->items[i], "configs[" + std::to_string(i) + "]"));
  }
  return configs;
}

// --- files ---------------------------------------------------------------------------------------

bool is_ignored(const std::string& name) {
  static const std::set<std::string> kIgnored = {"README.md",         "config.json",
                                                 "dataset_info.json", "dataset_infos.json",
                                                 "dataset_dict.json", "dummy_data.zip"};
  return kIgnored.count(name) > 0;
}

// Parts that begin so are taken only where a pattern spells them.
size_t parts_beginning(std::string_view path, std::string_view with, bool with_name) {
  size_t count = 0;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const bool is_name = end == path.size();
    if ((with_name || !is_name) && path.substr(begin, with.size()) == with) ++count;
    begin = end + 1;
  }
  return count;
}

// Sorted, as a glob lists them.
Paths matching(const Paths& paths, const std::string& folder, const std::string& pattern) {
  const std::string whole = folder.empty() ? pattern : folder + "/" + pattern;
  Paths found;
  for (const std::string& path : paths) {
    const bool ignored = is_ignored(base_name(path)) && base_name(path) != base_name(whole);
    if (ignored || !matches_glob(path, whole)) continue;
    if (parts_beginning(path, ".", true) != parts_beginning(whole, ".", true)) continue;
    if (parts_beginning(path, "__", false) != parts_beginning(whole, "__", false)) continue;
    found.push_back(path);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void append_new(Paths& all, const Paths& more) {
  for (const std::string& path : more) {
    if (std::find(all.begin(), all.end(), path) == all.end()) all.push_back(path);
  }
}

Paths matching_any(const Paths& paths, const std::string& folder, const Paths& patterns) {
  Paths found;
  for (const std::string& pattern : patterns) append_new(found, matching(paths, folder, pattern));
  return found;
}

Paths folder_patterns(const Paths& words) {
  Paths patterns;
  for (const std::string& word : words) {
    for (const char* form : {"**/W/**", "**/WS*/**", "**/*SW/**", "**/*SWS*/**"}) {
      std::string pattern;
      for (const char* c = form; *c != '\0'; ++c) {
        pattern += *c == 'W' ? word : *c == 'S' ? "[-._ 0-9]" : std::string(1, *c);
      }
      patterns.push_back(pattern);
    }
  }
  return patterns;
}

Paths name_patterns(const Paths& words) {
  Paths patterns;
  for (const std::string& word : words) {
    patterns.push_back("**/" + word + "[-._ 0-9]*");
    patterns.push_back("**/*[-._ 0-9]" + word + "[-._ 0-9]*");
  }
  return patterns;
}

using Splits = std::vector<std::pair<std::string, Paths>>;  // of files

// data/SPLIT-00000-of-00002.parquet, whatever SPLIT is.
Splits sharded_splits(const Paths& paths, const std::string& folder) {
  constexpr const char* kShards = "-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]*.*";
  std::map<std::string, Paths> found;
  for (const std::string& path : matching(paths, folder, std::string("data/*") + kShards)) {
    const std::string name = base_name(path);
    // The name of a split is the longest beginning that leaves the numbers of a shard.
    for (size_t dash = name.rfind('-'); dash != std::string::npos && dash > 0;
         dash = name.rfind('-', dash - 1)) {
      if (!matches_glob(name.substr(dash), kShards)) continue;
      found[name.substr(0, dash)].push_back(path);
      break;
    }
  }
  return {found.begin(), found.end()};
}

template <typename PatternsOf>
Splits splits_by(const Paths& paths, const std::string& folder, const PatternsOf& patterns) {
  Splits splits;
  for (const auto& [split, words] : split_words()) {
    const Paths found = matching_any(paths, folder, patterns(words));
    if (!found.empty()) splits.emplace_back(split, found);
  }
  return splits;
}

// What names of files and folders tell; where they tell nothing, all files are for training.
Splits splits_by_names(const Paths& paths, const std::string& folder) {
  Splits splits = sharded_splits(paths, folder);
  if (splits.empty()) splits = splits_by(paths, folder, folder_patterns);
  if (splits.empty()) splits = splits_by(paths, folder, name_patterns);
  if (!splits.empty()) return splits;
  Paths all = matching(paths, folder, "**");
  if (all.empty()) return {};
  return {{kDefaultSplit, std::move(all)}};
}

// --- kinds ---------------------------------------------------------------------------------------

// What the package datasets reads by a file's ending: "" is what nothing here reads. Commas or tabs
// make one kind.
const std::map<std::string, std::string>& kinds_of_endings() {
  static const std::map<std::string, std::string> kKinds = [] {
    std::map<std::string, std::string> kinds = {
        {"json", "json"},          {"jsonl", "json"},  {"ndjson", "json"}, {"parquet", "parquet"},
        {"geoparquet", "parquet"}, {"arrow", "arrow"}, {"csv", "csv"},     {"tsv", "csv"}};
    for (const char* other :
         {"txt", "tar",  "xml", "zip", "h5",   "hdf5", "jpg",  "jpeg", "png", "gif",  "webp", "bmp",
          "tif", "tiff", "wav", "mp3", "flac", "ogg",  "opus", "mp4",  "mkv", "webm", "pdf"}) {
      kinds.emplace(other, "");
    }
    return kinds;
  }();
  return kKinds;
}

bool is_compression(const std::string& ending) {
  static const std::set<std::string> kCompressions = {"gz", "bz2", "lz4", "xz", "zst"};
  return kCompressions.count(ending) > 0;
}

struct Endings {
  std::string kind_ending;  // the last one that says a kind; empty: none does
  std::string compression;  // empty: none

  bool is_unpacked_here() const {
    const std::string& kind = kinds_of_endings().at(kind_ending);
    return (compression == "gz" || compression == "zst") && (kind == "json" || kind == "csv");
  }
};

Endings endings_of(const std::string& path) {
  Endings endings;
  const std::string name = base_name(path);
  for (size_t dot = name.find('.'); dot != std::string::npos;) {
    const size_t next = name.find('.', dot + 1);
    const std::string ending =
        name.substr(dot + 1, next == std::string::npos ? next : next - dot - 1);
    if (kinds_of_endings().count(ending) > 0) endings.kind_ending = ending;
    endings.compression = is_compression(ending) ? ending : std::string();
    dot = next;
  }
  return endings;
}

// The ending that most files have; of two that are as many, Parquet comes first.
std::string usual_ending(const Paths& files) {
  std::map<std::string, int> counts;
  for (const std::string& file : files) {
    const std::string ending = endings_of(file).kind_ending;
    if (!ending.empty()) ++counts[ending];
  }
  const auto rank = [](const std::pair<const std::string, int>& entry) {
    const std::string& ending = entry.first;
    return std::make_tuple(entry.second, ending == "parquet", ending == "jsonl", ending == "json",
                           ending == "csv", ending);
  };
  const auto best =
      std::max_element(counts.begin(), counts.end(),
                       [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return best == counts.end() ? std::string() : best->first;
}

// Of shards that count themselves ("train-00000-of-00002"): how many there are, where they are too
// few.
std::string missing_shards(const Paths& files) {
  std::map<std::pair<std::string, int>, int> found;
  for (const std::string& file : files) {
    for (size_t at = file.find("-of-"); at != std::string::npos; at = file.find("-of-", at + 1)) {
      if (at < 6 || !matches_glob(file.substr(at - 6, 15),
                                  "-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]")) {
        continue;
      }
      ++found[{file.substr(0, at - 6), std::stoi(file.substr(at + 4, 5))}];
      break;
    }
  }
  for (const auto& [shards, count] : found) {
    if (count >= shards.second) continue;
    return shards.first + " is there in " + std::to_string(count) + " of " +
           std::to_string(shards.second) + " parts";
  }
  return {};
}

TrainFiles without_files(std::string problem, std::string expected, bool incomplete) {
  return {{}, std::move(problem), std::move(expected), {}, incomplete};
}

TrainFiles of_one_kind(const Paths& files) {
  constexpr const char* kReadable = "files .json, .jsonl, .csv, .parquet or .arrow";
  const std::string ending = usual_ending(files);
  if (ending.empty()) return without_files("has no data", kReadable, true);
  const std::string kind = kinds_of_endings().at(ending);
  TrainFiles found;
  for (const std::string& file : files) {
    const Endings endings = endings_of(file);
    if (endings.kind_ending.empty() || kinds_of_endings().at(endings.kind_ending) != kind) continue;
    if (kind.empty() && endings.kind_ending != ending) continue;
    if (kind.empty() || (!endings.compression.empty() && !endings.is_unpacked_here())) {
      return without_files("has its data as " + file + ", which this program does not read",
                           kReadable, false);
    }
    found.files.push_back(file);
  }
  found.warning = missing_shards(found.files);
  return found;
}

std::string split_names(const Splits& splits) {
  Paths names;
  for (const auto& [split, files] : splits) names.push_back(split);
  return join(names, ", ");
}

TrainFiles files_of(const Splits& splits, const std::string& split) {
  for (const auto& [name, files] : splits) {
    if (name == split) return of_one_kind(files);
  }
  if (splits.empty())
    return without_files("has no data", "files .json, .jsonl, .csv, .parquet or .arrow", true);
  return without_files("has no split " + split + " by the names of its files",
                       "one of " + split_names(splits), true);
}

// --- one config ----------------------------------------------------------------------------------

bool has_wildcards(const std::string& pattern) {
  return pattern.find_first_of("*?[") != std::string::npos;
}

TrainFiles files_of_config(const Paths& paths, const CardConfig& config, const std::string& split) {
  if (!config.has_files) return files_of(splits_by_names(paths, config.folder), split);
  const auto found = std::find_if(config.splits.begin(), config.splits.end(),
                                  [&](const auto& entry) { return entry.first == split; });
  if (found == config.splits.end()) {
    return without_files("has no split " + split + " in its config " + config.name,
                         "one of " + split_names(config.splits), false);
  }
  for (const std::string& pattern : found->second) {
    if (has_wildcards(pattern) || !matching(paths, config.folder, pattern).empty()) continue;
    return without_files("has no file " + pattern + ", which README.md names", "that file", true);
  }
  const Paths files = matching_any(paths, config.folder, found->second);
  if (files.empty()) {
    return without_files("has no file " + join(found->second, ", ") + ", which README.md names",
                         "such a file", true);
  }
  return of_one_kind(files);
}

TrainFiles files_of_card(const Paths& paths, const std::vector<CardConfig>& configs,
                         const DatasetPart& part) {
  Paths names;
  const CardConfig* chosen = nullptr;
  for (const CardConfig& config : configs) {
    names.push_back(config.name);
    const bool is_default = configs.size() == 1 || config.name == "default" || config.is_default;
    if (part.config.empty() ? is_default && chosen == nullptr : config.name == part.config)
      chosen = &config;
  }
  const std::string all = "one of " + join(names, ", ");
  if (chosen == nullptr && part.config.empty()) {
    return without_files("has several configs and no default one", all + ", as NAME:CONFIG", false);
  }
  if (chosen == nullptr) {
    TrainFiles none = without_files("has no config " + part.config, all, false);
    const std::string nearest = nearest_spelling(part.config, names);
    if (!nearest.empty()) none.expected += "; did you mean '" + nearest + "'?";
    return none;
  }
  if (!is_inside(chosen->folder)) {
    return without_files("has data_dir " + chosen->folder + " in README.md", "a folder inside it",
                         false);
  }
  return files_of_config(paths, *chosen, part.split);
}

}  // namespace

bool names_data_files(const std::string& card) {
  try {
    return !configs_of(card).empty();
  } catch (const InputError&) {
    return false;
  }
}

TrainFiles find_train_files(const Paths& paths, const std::string& card, const DatasetPart& part) {
  const std::vector<CardConfig> configs = configs_of(card);
  if (!configs.empty()) return files_of_card(paths, configs, part);
  const std::string folder = part.config == "default" ? std::string() : part.config;
  TrainFiles found = files_of(splits_by_names(paths, folder), part.split);
  if (found.files.empty() && !folder.empty() && found.problem == "has no data")
    found.problem = "has no config " + folder + ", and no data in a folder of that name";
  return found;
}

}  // namespace sftbench
