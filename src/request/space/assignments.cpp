#include "space/assignments.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/text.h"
#include "space/domain.h"

namespace sftbench {
namespace {

// Where a comma cannot be part of a value.
bool may_be_several(const PropertySpec& spec) {
  if (spec.kind == PropertyKind::kString) return !spec.open && !spec.escaped;
  return spec.kind == PropertyKind::kInteger || spec.kind == PropertyKind::kNumber ||
         spec.kind == PropertyKind::kBoolean;
}

// "1,2,4" as the list [1, 2, 4]; nothing where it is one value, or an empty part is among them.
std::optional<std::vector<YamlNode>> listed(const YamlNode& node, const PropertySpec& spec) {
  if (!node.is_scalar() || node.text.find(',') == std::string::npos || !may_be_several(spec) ||
      spec.accept(node)) {
    return std::nullopt;
  }
  std::vector<YamlNode> parts;
  for (size_t begin = 0; begin <= node.text.size();) {
    const size_t end = std::min(node.text.find(',', begin), node.text.size());
    YamlNode& part = parts.emplace_back();
    part.text = trimmed(std::string_view(node.text).substr(begin, end - begin));
    if (part.text.empty()) return std::nullopt;
    part.plain = true;
    part.value = resolve_yaml_scalar(part.text);
    begin = end + 1;
  }
  return parts;
}

}  // namespace

Assignments::Assignments(const SpaceOptions& options) {
  for (const std::string& text : options.assignments) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      diagnostics_.error(0, "--set", "found '" + text + "'", "property=value");
      continue;
    }
    const std::string identifier = text.substr(0, equals);
    Entry entry{{"--set " + identifier, identifier, {}}, text.substr(equals + 1), {}};
    try {
      entry.given.value = parse_yaml(entry.text, "--set " + identifier);
      entry.given.value.line = 0;
      for (YamlNode& item : entry.given.value.items) item.line = 0;
    } catch (const InputError& error) {
      entry.problem = error.diagnostics().front().message;
    }
    add(std::move(entry));
  }
  for (const GivenValue& given : options.given) add({given, {}, {}});
}

void Assignments::add(Entry entry) {
  const std::string identifier = entry.given.property, source = entry.given.source;
  const auto [found, is_new] = values_.emplace(identifier, std::move(entry));
  const std::string& other = found->second.given.source;
  if (is_new) {
    order_.push_back(identifier);
  } else if (other == source) {
    diagnostics_.error(0, source, "given twice", "a list for several values: [1, 2]");
  } else {
    diagnostics_.error(0, source, "gives what " + other + " gives, too", "one of them");
  }
}

std::optional<Dimension> Assignments::dimension(const std::string& identifier,
                                                const PropertySpec& accepts,
                                                const PropertySpec* property) {
  const Entry& entry = values_.at(identifier);
  const std::string& path = entry.given.source;
  YamlNode node = entry.given.value;
  const char first = entry.text.empty() ? '\0' : entry.text.front();
  if ((accepts.escaped || accepts.one_line) && first != '\0' && first != '\'' && first != '"') {
    node = {};
    node.text = entry.text;
    node.value = entry.text;
  } else if (!entry.problem.empty()) {
    diagnostics_.error(0, path, entry.problem);
    return std::nullopt;
  }
  const bool one_list =
      (accepts.kind == PropertyKind::kStringList || accepts.kind == PropertyKind::kModuleNames) &&
      !(node.is_sequence() && !node.items.empty() && node.items.front().is_sequence());
  if (node.is_sequence() && !one_list)
    return read_values(node.items, 0, path, accepts, property, diagnostics_);
  if (const auto several = listed(node, accepts))
    return read_values(*several, 0, path, accepts, property, diagnostics_);
  const std::optional<Json> value = read_value(node, path, accepts, diagnostics_);
  if (!value) return std::nullopt;
  return Dimension(property, {*value});
}

}  // namespace sftbench
