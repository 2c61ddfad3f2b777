// Reads the parameters of ado's ray_tune operator (ado-ray-tune 2.2) as a search of our own.
#pragma once

#include <string>

#include "sftbench/catalog/fields.h"
#include "sftbench/space/operation.h"

namespace sftbench {

// Sets operation.search and what comes with it. What has no equal here is an error of `diagnostics`
// that names it. `path`: of `node`, for messages.
void read_ray_tune(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                   Operation& operation);

}  // namespace sftbench
