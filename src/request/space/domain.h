// A propertyDomain of ado, checked against the property's own domain and turned into a Dimension.
#pragma once

#include <optional>
#include <string>

#include "sftbench/catalog/experiment.h"
#include "sftbench/space/space.h"

namespace sftbench {

// `node` is a propertyDomain mapping at `path`. Errors and warnings go to `diagnostics`; nothing is
// returned when the domain cannot be expanded. `accepts` has the property's domain as this space
// sees it; the dimension refers to `property`, which must outlive it.
std::optional<Dimension> read_domain(const YamlNode& node, const std::string& path,
                                     const PropertySpec& accepts, const PropertySpec* property,
                                     AdoIds ids, Diagnostics& diagnostics);

// The values of a list, each checked; repeated ones are dropped with a warning.
std::optional<Dimension> read_values(const std::vector<YamlNode>& values, int line,
                                     const std::string& path, const PropertySpec& accepts,
                                     const PropertySpec* property, Diagnostics& diagnostics);

// `found` as a value of the property; else an error that names what was expected and the nearest
// legal text. A value that today's ado does not know is noted.
std::optional<Json> read_value(const YamlNode& found, const std::string& path,
                               const PropertySpec& accepts, Diagnostics& diagnostics);

}  // namespace sftbench
