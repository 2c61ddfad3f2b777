// Regular expressions over names of linears, as peft's configurations have them. PCRE2 matches them
// in bounded steps, so that no expression of a stranger's file takes forever.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

namespace sftbench {

// "is no regular expression: MESSAGE at character N", or "cannot be matched: MESSAGE".
class ModulePatternError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ModulePattern {
 public:
  // ModulePatternError.
  explicit ModulePattern(const std::string& expression);
  ModulePattern(ModulePattern&&) noexcept;
  ModulePattern& operator=(ModulePattern&&) noexcept;
  ~ModulePattern();

  // From end to end. ModulePatternError where that takes more than a million steps. Not safe for
  // concurrent calls.
  bool matches(const std::string& name) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace sftbench
