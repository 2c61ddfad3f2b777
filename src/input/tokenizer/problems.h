// What is wrong with a tokenizer.json, collected so that all of it is reported at once, and typed
// look-ups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"

namespace sftbench {

// Of stages within stages.
inline constexpr int kDeepestSequence = 8;

class TokenizerProblems {
 public:
  explicit TokenizerProblems(std::string file) : file_(std::move(file)) {}

  void add(std::string key, std::string message, std::string expected = {},
           std::string nearest = {});
  void throw_if_any() const;
  bool any() const { return !list_.empty(); }
  const std::string& file() const { return file_; }

  // The member `name` of `object` in the wanted type. Absent or null: `fallback`; of another type:
  // a problem under the key "<path>.<name>", and `fallback`.
  bool boolean(const Json& object, const char* name, bool fallback, const std::string& path);
  std::string text(const Json& object, const char* name, std::string fallback,
                   const std::string& path);
  std::optional<std::string> optional_text(const Json& object, const char* name,
                                           const std::string& path);
  // An integer from 0 to 2^31 - 1.
  std::optional<int32_t> number(const Json& object, const char* name, const std::string& path);

 private:
  static constexpr size_t kMost = 20;  // a hostile file could repeat one mistake a million times
  std::string file_;
  std::vector<Diagnostic> list_;
};

// "a string", "a number", ... for messages.
std::string kind_of(const Json& value);

}  // namespace sftbench
