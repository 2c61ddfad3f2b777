// Training arguments from options and files, beside those of --set.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/space/space.h"

namespace sftbench {

[[noreturn]] void refuse_given(std::string key, std::string message, std::string expected = {});

struct GivenArguments {
  std::vector<GivenValue> values;               // beside --set
  const std::vector<std::string>& assignments;  // --set: "property=value"

  // Null where only --set, or nothing, gives it.
  const GivenValue* find(const std::string& property) const;
  bool is_set(const std::string& property) const;
  bool says(const std::string& property) const;
  bool says_any(const std::vector<std::string>& properties) const;
  // Of --set; 0: not given, or no number.
  int64_t number_set(const std::string& property) const;
  // Of the values, or else of --set; 0 as above.
  int64_t number_of(const std::string& property) const;
  void add(const std::string& source, const std::string& property, int64_t value);
  void forget(std::initializer_list<const char*> properties);
};

}  // namespace sftbench
