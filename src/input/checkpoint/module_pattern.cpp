#include "sftbench/checkpoint/module_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

constexpr uint32_t kMostMatchSteps = 1'000'000;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct ModulePattern::Compiled {
  std::unique_ptr<pcre2_code, FreeCode> code;
  std::unique_ptr<pcre2_match_data, FreeMatch> match;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
};

ModulePattern::ModulePattern(const std::string& expression)
    : compiled_(std::make_unique<Compiled>()) {
  int error = 0;
  PCRE2_SIZE at = 0;
  compiled_->code.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                    PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C,
                    &error, &at, nullptr));
  if (!compiled_->code) {
    throw ModulePatternError("is no regular expression: " + message_of(error) + " at character " +
                             std::to_string(at + 1));
  }
  compiled_->match.reset(pcre2_match_data_create_from_pattern(compiled_->code.get(), nullptr));
  compiled_->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(compiled_->context.get(), kMostMatchSteps);
}

ModulePattern::ModulePattern(ModulePattern&&) noexcept = default;
ModulePattern& ModulePattern::operator=(ModulePattern&&) noexcept = default;
ModulePattern::~ModulePattern() = default;

bool ModulePattern::matches(const std::string& name) const {
  const int found =
      pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0,
                  0, compiled_->match.get(), compiled_->context.get());
  if (found >= 0) return true;
  if (found == PCRE2_ERROR_NOMATCH) return false;
  throw ModulePatternError("cannot be matched: " + message_of(found));
}

ModulePattern end_pattern(const std::string& expression) {
  return ModulePattern("(.*\\.)?(" + expression + ")");
}

NumberPatterns::NumberPatterns(const Json& numbers, bool whole) {
  for (const auto& [expression, number] : numbers.items()) {
    const bool fits = whole ? number.is_number_integer() : number.is_number();
    if (!fits || number.get<double>() <= 0 || !std::isfinite(number.get<double>())) {
      throw ModulePatternError("'" + expression + "' has " + json_text(number) + "; expected a " +
                               (whole ? "whole " : "") + "number above 0");
    }
    try {
      numbers_.push_back({expression, end_pattern(expression), number.get<double>()});
    } catch (const ModulePatternError& problem) {
      throw ModulePatternError("'" + expression + "' " + problem.what());
    }
  }
}

std::optional<double> NumberPatterns::of(const std::string& module) const {
  for (const Number& number : numbers_)
    if (number.pattern.matches(module)) return number.value;
  return std::nullopt;
}

std::string NumberPatterns::idle(const std::vector<std::string>& modules) const {
  for (const Number& number : numbers_) {
    if (std::none_of(modules.begin(), modules.end(),
                     [&](const std::string& module) { return number.pattern.matches(module); }))
      return number.expression;
  }
  return {};
}

}  // namespace sftbench
