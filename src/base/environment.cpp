#include "sftbench/base/environment.h"

#include <cstdlib>

namespace sftbench {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace sftbench
