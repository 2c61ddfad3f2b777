// A template as tokens, white space around tags trimmed as jinja2 trims it (trim_blocks,
// lstrip_blocks).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sftbench::jinja {

enum class TokenKind {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kText,
  kInteger,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind;
  std::string text;  // of a text: without quotes, escapes resolved
  int line;          // 1-based
};

// TemplateError with a line. The last token is kEnd.
std::vector<Token> tokens_of(std::string_view source);

// "'%}'" for an error message.
std::string described(const Token& token);

}  // namespace sftbench::jinja
