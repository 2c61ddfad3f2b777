// The hash that names a blob of the hub: sha256 of a large file, git's sha1 of a small one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sftbench {

// 40 or 64 lower-case hexadecimal digits: what can name a blob.
bool is_oid(std::string_view text);
// 40 or 64: a commit. The same digits, another meaning.
inline bool is_commit(std::string_view text) {
  return is_oid(text);
}

class BlobHash {
 public:
  // For content of `size_bytes` that should be named `oid`; git hashes the size as well.
  BlobHash(std::string_view oid, uint64_t size_bytes);
  ~BlobHash();
  BlobHash(BlobHash&&) noexcept;
  BlobHash& operator=(BlobHash&&) noexcept;

  void update(std::string_view content);
  std::string hexadecimal();  // of all content; call it once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Feeds `hash` the first `size_bytes` of a file, `on_piece` with the bytes of each piece; false
// from it ends the reading early. Returns the bytes read. InputError when the file cannot be read.
uint64_t hash_file(const std::filesystem::path& path, uint64_t size_bytes, BlobHash& hash,
                   const std::function<bool(uint64_t)>& on_piece);

}  // namespace sftbench
