// --set property=value: values from the command line, read as YAML (8, [1, 2, 4], bfloat16).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/space/space.h"

namespace sftbench {

class Assignments {
 public:
  // What is not of the form property=value, or set twice, is an error in diagnostics().
  explicit Assignments(const std::vector<std::string>& texts);

  bool has(const std::string& identifier) const { return values_.count(identifier) > 0; }
  const std::vector<std::string>& identifiers() const { return order_; }

  // The dimension that the text gives; nothing (and an error) when it is no value of the property.
  std::optional<Dimension> dimension(const std::string& identifier, const PropertySpec& accepts,
                                     const PropertySpec* property);

  Diagnostics& diagnostics() { return diagnostics_; }

 private:
  Diagnostics diagnostics_{{}};
  std::vector<std::string> order_;
  std::map<std::string, YamlNode> values_;
};

}  // namespace sftbench
