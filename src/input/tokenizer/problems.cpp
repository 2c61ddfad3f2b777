#include "tokenizer/problems.h"

#include <limits>

namespace sftbench {

void TokenizerProblems::add(std::string key, std::string message, std::string expected,
                            std::string nearest) {
  if (list_.size() == kMost) return;
  list_.push_back({.file = file_,
                   .line = 0,
                   .key = std::move(key),
                   .message = std::move(message),
                   .expected = std::move(expected),
                   .nearest = std::move(nearest)});
}

void TokenizerProblems::throw_if_any() const {
  if (!list_.empty()) throw InputError(list_);
}

std::string kind_of(const Json& value) {
  if (value.is_null()) return "null";
  return std::string(value.is_object() || value.is_array() ? "an " : "a ") + value.type_name();
}

bool TokenizerProblems::boolean(const Json& object, const char* name, bool fallback,
                                const std::string& path) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return fallback;
  if (found->is_boolean()) return found->get<bool>();
  add(path + "." + name, "is " + kind_of(*found), "true or false");
  return fallback;
}

std::optional<std::string> TokenizerProblems::optional_text(const Json& object, const char* name,
                                                            const std::string& path) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  add(path + "." + name, "is " + kind_of(*found), "a string");
  return std::nullopt;
}

std::string TokenizerProblems::text(const Json& object, const char* name, std::string fallback,
                                    const std::string& path) {
  return optional_text(object, name, path).value_or(std::move(fallback));
}

std::optional<int32_t> TokenizerProblems::number(const Json& object, const char* name,
                                                 const std::string& path) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (found->is_number_integer()) {
    const auto value = found->is_number_unsigned() ? found->get<uint64_t>() : ~uint64_t{0};
    if (value <= static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
      return static_cast<int32_t>(value);
  }
  add(path + "." + name, "is " + (found->is_number() ? found->dump() : kind_of(*found)),
      "an integer from 0 to 2147483647");
  return std::nullopt;
}

}  // namespace sftbench
