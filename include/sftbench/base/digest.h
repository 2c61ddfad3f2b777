// Digests that name things (result keys, dataset files). Not for security.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace sftbench {

// XXH3-128 as 32 lower-case hexadecimal digits.
std::string digest(std::string_view content);

// The same of content that comes piece by piece.
class StreamingDigest {
 public:
  StreamingDigest();
  void add(const void* bytes, size_t size_bytes);
  // Of all that was added so far.
  std::string text() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

// The same over a file's content, in constant memory. InputError when it cannot be read.
std::string digest_file(const std::filesystem::path& path);

}  // namespace sftbench
