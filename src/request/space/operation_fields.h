// What the readers of ado's operators share: fields that are one of several names, or a count. Both
// leave `value` as it is where the field is missing, and report what is wrong with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/base/text.h"
#include "sftbench/catalog/fields.h"

namespace sftbench {

// The names of an enumeration as ado spells them; letter case matters there.
template <typename T>
using Spellings = std::vector<std::pair<const char*, T>>;

template <typename T>
std::optional<T> spelled(const Spellings<T>& spellings, const std::string& text) {
  for (const auto& [name, value] : spellings) {
    if (text == name) return value;
  }
  return std::nullopt;
}

template <typename T>
void choose(Diagnostics& diagnostics, Fields& fields, const YamlNode& node, const std::string& key,
            const Spellings<T>& spellings, T& value) {
  const std::string text = fields.text(key, Presence::kOptional);
  if (text.empty()) return;
  if (const std::optional<T> known = spelled(spellings, text)) {
    value = *known;
    return;
  }
  std::vector<std::string> names;
  for (const auto& [name, unused] : spellings) names.emplace_back(name);
  const YamlNode& found = *node.find(key);
  diagnostics.error(found, fields.path(key), "found " + describe(found), "one of " + join(names),
                    nearest_spelling(text, names));
}

inline void count(Diagnostics& diagnostics, Fields& fields, const YamlNode& node,
                  const std::string& key, int64_t least, int64_t& value) {
  const std::optional<int64_t> found = fields.integer(key, Presence::kOptional);
  if (!found) return;
  value = *found;
  if (*found < least) {
    diagnostics.error(*node.find(key), fields.path(key), "found " + std::to_string(*found),
                      "at least " + std::to_string(least));
  }
}

}  // namespace sftbench
