#include "sftbench/base/environment.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

namespace sftbench {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace sftbench
