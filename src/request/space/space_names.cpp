#include "space/space_names.h"

#include "sftbench/base/text.h"

namespace sftbench {

SpaceNames::SpaceNames(const Catalog& catalog, Diagnostics& of_file, Diagnostics& of_command_line)
    : catalog_(catalog), of_file_(of_file), of_command_line_(of_command_line) {}

const Experiment* SpaceNames::experiment(const std::string& identifier, const YamlNode* node,
                                         const std::string& path) {
  const Experiment* experiment = catalog_.experiment(identifier);
  if (experiment == nullptr) {
    const std::vector<std::string> names = catalog_.experiment_names();
    Diagnostics& where = node == nullptr ? of_command_line_ : of_file_;
    where.error(node == nullptr ? 0 : node->line, path, "unknown experiment '" + identifier + "'",
                "one of " + join(names), nearest_spelling(identifier, names));
  }
  return experiment;
}

const PropertySpec* SpaceNames::property(const std::string& identifier, int line,
                                         const std::string& path,
                                         const std::vector<const Experiment*>& experiments) {
  std::vector<std::string> names;
  for (const Experiment* experiment : experiments) {
    if (const PropertySpec* spec = experiment->find(identifier)) return spec;
    for (std::string& name : experiment->names()) names.push_back(std::move(name));
  }
  Diagnostics& where = line == 0 ? of_command_line_ : of_file_;
  if (identifier == "context_rotation") {
    where.error(line, path, "context_rotation is no property any more",
                "none: keys and values travel in a ring");
    return nullptr;
  }
  where.error(line, path, "unknown property '" + identifier + "'",
              "a property of " + experiments.front()->identifier,
              nearest_spelling(identifier, names));
  return nullptr;
}

PropertySpec SpaceNames::widened(const PropertySpec& spec) const {
  PropertySpec wide = spec;
  if (spec.values_from == "models")
    wide.values.insert(wide.values.end(), models_.begin(), models_.end());
  return wide;
}

void note_without_effect(const PropertySpec& spec, const Experiment& experiment, int line,
                         const std::string& path, Diagnostics& diagnostics) {
  if (!spec.without_effect) return;
  diagnostics.warning(line, path,
                      "'" + spec.identifier + "' has no effect on " + experiment.identifier +
                          "; what differs in it alone is measured once");
}

}  // namespace sftbench
