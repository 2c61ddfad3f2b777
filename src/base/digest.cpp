#include "sftbench/base/digest.h"

#include <xxhash.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "sftbench/base/file.h"

namespace sftbench {
namespace {

std::string to_hexadecimal(const XXH128_hash_t& hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

}  // namespace

std::string digest(std::string_view content) {
  return to_hexadecimal(XXH3_128bits(content.data(), content.size()));
}

std::string digest_file(const std::filesystem::path& path) {
  const RandomAccessFile file(path);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> chunk(1 << 20);
  for (uint64_t offset = 0;;) {
    const size_t got = file.read_at(offset, chunk.data(), chunk.size());
    XXH3_128bits_update(state.get(), chunk.data(), got);
    offset += got;
    if (got < chunk.size()) return to_hexadecimal(XXH3_128bits_digest(state.get()));
  }
}

}  // namespace sftbench
