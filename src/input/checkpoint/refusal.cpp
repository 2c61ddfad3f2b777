#include "checkpoint/refusal.h"

#include <cstring>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {

void refuse(const std::filesystem::path& path, std::string found, std::string expected) {
  throw InputError({finding(path, {}, std::move(found), std::move(expected))});
}

void fail(const std::filesystem::path& path, const std::string& what, int error) {
  throw InputError({finding(path, {}, what + ": " + std::strerror(error))});
}

}  // namespace sftbench
