// The names that a space file or the command line gives, looked up in the catalog: an error for an
// unknown one names the nearest.
#pragma once

#include <string>
#include <vector>

#include "sftbench/catalog/fields.h"
#include "sftbench/space/space.h"

namespace sftbench {

class SpaceNames {
 public:
  // What a file gives is said to `of_file`, all else to `of_command_line`. All references outlive
  // it.
  SpaceNames(const Catalog& catalog, Diagnostics& of_file, Diagnostics& of_command_line);

  // A model beyond the catalog's.
  void add_model(const std::string& name) { models_.push_back(name); }

  // nullptr and an error at `path`: there is none. `node` is where a file has the name.
  const Experiment* experiment(const std::string& identifier, const YamlNode* node,
                               const std::string& path);

  // As the first of the experiments that has it describes it. Line 0: from the command line.
  const PropertySpec* property(const std::string& identifier, int line, const std::string& path,
                               const std::vector<const Experiment*>& experiments);

  // The property's domain with the models that were added.
  PropertySpec widened(const PropertySpec& spec) const;

 private:
  const Catalog& catalog_;
  Diagnostics& of_file_;
  Diagnostics& of_command_line_;
  std::vector<std::string> models_;
};

// Warns of a property that ado takes and that changes nothing.
void note_without_effect(const PropertySpec& spec, const Experiment& experiment, int line,
                         const std::string& path, Diagnostics& diagnostics);

}  // namespace sftbench
