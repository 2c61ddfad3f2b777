#include "sftbench/base/digest.h"

#include <xxhash.h>

#include <cstdio>

#include "sftbench/base/file.h"

namespace sftbench {

std::string digest(std::string_view content) {
  const XXH128_hash_t hash = XXH3_128bits(content.data(), content.size());
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

std::string digest_file(const std::filesystem::path& path) { return digest(MappedFile(path).text()); }

}  // namespace sftbench
