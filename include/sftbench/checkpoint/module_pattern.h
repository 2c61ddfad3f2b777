// Regular expressions over names of linears, as peft's configurations have them. PCRE2 matches them
// in bounded steps, so that no expression of a stranger's file takes forever.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sftbench/base/json.h"

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

// As peft matches the keys of rank_pattern and alpha_pattern: a whole name, or its end behind a
// dot.
ModulePattern end_pattern(const std::string& expression);

// Such a pattern: numbers above 0 by regular expressions.
class NumberPatterns {
 public:
  NumberPatterns() = default;
  // `numbers`: an object, of numbers or of whole numbers. ModulePatternError naming the expression
  // that is none, or whose number is not.
  NumberPatterns(const Json& numbers, bool whole);

  // The number of the first expression that matches the module. Nothing: no expression matches.
  std::optional<double> of(const std::string& module) const;
  // The first expression that matches none of the modules; empty: each does.
  std::string idle(const std::vector<std::string>& modules) const;

 private:
  struct Number {
    std::string expression;
    ModulePattern pattern;
    double value;
  };
  std::vector<Number> numbers_;
};

}  // namespace sftbench
