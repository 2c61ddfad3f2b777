#include "sftbench/base/digest.h"

#include <xxhash.h>

#include <cstdint>
#include <cstdio>
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

StreamingDigest::StreamingDigest() : state_(XXH3_createState()) {
  XXH3_128bits_reset(state_.get());
}

void StreamingDigest::Free::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

void StreamingDigest::add(const void* bytes, size_t size_bytes) {
  XXH3_128bits_update(state_.get(), bytes, size_bytes);
}

std::string StreamingDigest::text() const {
  return to_hexadecimal(XXH3_128bits_digest(state_.get()));
}

std::string digest_file(const std::filesystem::path& path) {
  const RandomAccessFile file(path);
  StreamingDigest digest;
  std::vector<char> chunk(1 << 20);
  for (uint64_t offset = 0;;) {
    const size_t got = file.read_at(offset, chunk.data(), chunk.size());
    digest.add(chunk.data(), got);
    offset += got;
    if (got < chunk.size()) return digest.text();
  }
}

}  // namespace sftbench
