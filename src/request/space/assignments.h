// --set property=value: values from the command line, read as YAML (8, [1, 2, 4], bfloat16), or
// several with commas between them (1,2,4); and values that options of their own give. A property
// that is an escaped text takes what is written, unless in quotes: '### {{input}}' is no YAML.
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
  explicit Assignments(const SpaceOptions& options);

  bool has(const std::string& identifier) const { return values_.count(identifier) > 0; }
  const std::vector<std::string>& identifiers() const { return order_; }
  // Where the value comes from, as errors name it: "--set batch_size", "--learning-rate".
  std::string source(const std::string& identifier) const {
    return values_.at(identifier).given.source;
  }

  // The dimension that the text gives; nothing (and an error) when it is no value of the property.
  std::optional<Dimension> dimension(const std::string& identifier, const PropertySpec& accepts,
                                     const PropertySpec* property);

  Diagnostics& diagnostics() { return diagnostics_; }

 private:
  struct Entry {
    GivenValue given;
    std::string text;     // of --set, as written; empty: from elsewhere
    std::string problem;  // why it is no YAML; empty: it is
  };
  void add(Entry entry);

  Diagnostics diagnostics_{{}};
  std::vector<std::string> order_;
  std::map<std::string, Entry> values_;
};

}  // namespace sftbench
