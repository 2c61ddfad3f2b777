#include "space/assignments.h"

#include "space/domain.h"

namespace sftbench {

Assignments::Assignments(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      diagnostics_.error(0, "--set", "found '" + text + "'", "property=value");
      continue;
    }
    const std::string identifier = text.substr(0, equals);
    try {
      YamlNode value = parse_yaml(text.substr(equals + 1), "--set " + identifier);
      value.line = 0;
      for (YamlNode& item : value.items) item.line = 0;
      if (values_.emplace(identifier, std::move(value)).second) {
        order_.push_back(identifier);
      } else {
        diagnostics_.error(0, "--set " + identifier, "given twice",
                           "a list for several values: [1, 2]");
      }
    } catch (const InputError& error) {
      diagnostics_.error(0, "--set " + identifier, error.diagnostics().front().message);
    }
  }
}

std::optional<Dimension> Assignments::dimension(const std::string& identifier,
                                                const PropertySpec& accepts,
                                                const PropertySpec* property) {
  const YamlNode& node = values_.at(identifier);
  const std::string path = "--set " + identifier;
  const bool one_list =
      accepts.kind == PropertyKind::kStringList &&
      !(node.is_sequence() && !node.items.empty() && node.items.front().is_sequence());
  if (node.is_sequence() && !one_list)
    return read_values(node.items, 0, path, accepts, property, diagnostics_);
  const std::optional<Json> value = read_value(node, path, accepts, diagnostics_);
  if (!value) return std::nullopt;
  return Dimension(property, {*value});
}

}  // namespace sftbench
