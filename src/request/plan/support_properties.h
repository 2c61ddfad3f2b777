// What support_of() looks at.
#pragma once

#include <string>

namespace sftbench {

// Whether entities that differ in this property alone may differ in what this version can do of
// them.
bool support_depends_on(const std::string& property);

}  // namespace sftbench
