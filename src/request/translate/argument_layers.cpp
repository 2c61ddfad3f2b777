#include "translate/argument_layers.h"

#include <map>
#include <utility>

#include "sftbench/base/file.h"
#include "sftbench/base/text.h"
#include "sftbench/translate/file_kind.h"
#include "translate/argument_names.h"

namespace sftbench {
namespace {

// One class, which transformers writes as a list.
YamlNode without_list(const std::string& key, YamlNode node) {
  const bool one = key == "fsdp_transformer_layer_cls_to_wrap" && node.items.size() == 1;
  return one ? YamlNode(node.items.front()) : std::move(node);
}

// Of a text: quoted numbers and booleans are what they say, as transformers reads them.
void settle(YamlNode& node, int line) {
  node.line = line;
  if (node.is_scalar() && !node.plain) {
    node.value = resolve_yaml_scalar(node.text);
    node.plain = true;
  }
  for (YamlNode& item : node.items) settle(item, line);
  for (YamlMember& member : node.members) settle(member.node, line);
}

class Flattening {
 public:
  explicit Flattening(ArgumentLayer& layer) : layer_(layer) {}

  void add(const YamlNode& mapping, const std::string& section, const std::string& prefix) {
    for (const auto& [name, node] : mapping.members) {
      const std::string key = key_in_section(section, name), path = prefix + name;
      std::optional<YamlNode> below = is_section(key) ? section_of(key, node) : std::nullopt;
      if (below) {
        add(*below, key, path + ".");
      } else if (!(is_section(key) && node.is_null())) {
        layer_.members.push_back({key, path, without_list(key, node)});
      }
    }
  }

 private:
  // transformers takes a file of FSDP's configuration, too.
  std::optional<YamlNode> section_of(const std::string& key, const YamlNode& node) const {
    std::optional<YamlNode> section = mapping_of(node);
    if (section || key != "fsdp_config" || !node.is_scalar() || node.text.empty()) return section;
    YamlNode file = read_yaml_file(node.text);
    settle(file, node.line);
    return file.is_mapping() ? std::optional<YamlNode>(std::move(file)) : std::nullopt;
  }

  ArgumentLayer& layer_;
};

ArgumentLayer read_layer(const std::string& path) {
  ArgumentLayer layer{Diagnostics(path), {}};
  refuse_other_kind("--arguments", path, "--arguments");
  const YamlNode root = read_yaml_file(path);
  if (root.is_mapping()) {
    Flattening(layer).add(root, {}, {});
  } else {
    layer.diagnostics.error(root, {}, "found " + describe(root),
                            "names of arguments and their values");
  }
  return layer;
}

}  // namespace

std::vector<ArgumentLayer> read_argument_layers(const std::vector<std::string>& paths,
                                                std::vector<std::string>& notes) {
  std::vector<ArgumentLayer> layers;
  layers.reserve(paths.size());
  for (const std::string& path : paths) layers.push_back(read_layer(path));
  struct Said {
    Json value;
    std::string place;
  };
  std::map<std::string, Said> later;  // what an argument means -> what a later file says of it
  for (size_t i = layers.size(); i-- > 0;) {
    const std::string& file = layers[i].diagnostics.file();
    std::map<std::string, Said> here;
    std::vector<ArgumentMember> left;
    for (ArgumentMember& member : layers[i].members) {
      const std::string meaning = meaning_of(member.key);
      const auto over = later.find(meaning);
      const std::string place = place_of(file, member.node.line, member.path);
      if (over == later.end()) {
        if (!says_nothing(member.node)) here[meaning] = {to_json(member.node), place};
        left.push_back(std::move(member));
      } else if (!says_nothing(member.node) && over->second.value != to_json(member.node)) {
        notes.push_back(place + " gives way to " + over->second.place);
      }
    }
    layers[i].members = std::move(left);
    later.merge(here);
  }
  return layers;
}

std::optional<YamlNode> mapping_of(const YamlNode& node) {
  if (node.is_mapping()) return node;
  if (!node.is_scalar() || !trimmed(node.text).starts_with('{')) return std::nullopt;
  try {
    YamlNode mapping = parse_yaml(node.text, {});
    settle(mapping, node.line);
    return mapping.is_mapping() ? std::optional<YamlNode>(std::move(mapping)) : std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::string place_of(const std::string& file, int line, const std::string& path) {
  return file + (line > 0 ? ":" + std::to_string(line) : "") + ": " + path;
}

}  // namespace sftbench
