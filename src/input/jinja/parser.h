// Builds a program from tokens, with the grammar of jinja2's parser.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/lexer.h"
#include "jinja/program.h"

namespace sftbench::jinja {

// The tokens that are left. What it rejects is a TemplateError with a line.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return current().line; }
  Token take();

  bool at(TokenKind kind) const { return current().kind == kind; }
  bool at_name(std::string_view name) const {
    return at(TokenKind::kName) && current().text == name;
  }
  bool at_operator(std::string_view text) const {
    return at(TokenKind::kOperator) && current().text == text;
  }
  // True, and past it, where it stands here.
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view text);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view name);
  std::string expect_a_name();
  void expect(TokenKind kind, const char* what);
  [[noreturn]] void fail(const std::string& message) const { throw TemplateError(message, line()); }

  // Whether a name was read since `mark`.
  size_t mark() const { return at_; }
  bool has_name_since(size_t mark, std::string_view name) const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  Expression expression(bool with_condition = true);
  // One expression, or a tuple of those between commas.
  Expression tuple(bool with_condition = true, std::string_view end_name = {});
  // Filters behind a value that is not written, as of a filter block: of what `value` gives.
  Expression filters(Expression value, bool named_first);
  CallSource arguments();
  // What a call block calls, its arguments apart.
  Expression called(CallSource& arguments);

 private:
  using Rule = Expression (ExpressionParser::*)();

  Expression either();
  Expression both();
  Expression negation();
  Expression comparison();
  Expression sum();
  Expression concatenation();
  Expression product();
  Expression power();
  Expression unary(bool with_filter);
  Expression unary_with_filter() { return unary(true); }
  Expression primary();
  Expression name();
  Expression postfix(Expression value);
  Expression subscript(Expression value);
  Expression subscribed(std::vector<Expression>& slice);
  Expression call(Expression function);
  Expression filter(Expression value);
  Expression test(Expression value);
  Expression list();
  Expression dict();
  Expression parenthesized();
  Expression binary(Rule operand, std::initializer_list<std::string_view> operations);
  Expression constant(Value value);
  bool ends_tuple(std::string_view end_name) const;

  TokenStream& tokens_;
  int depth_ = 0;  // of brackets and signs, before they become nodes
  class Deeper;
};

class ExpressionParser::Deeper {
 public:
  explicit Deeper(ExpressionParser& parser) : parser_(parser) {
    constexpr int kMost = 100;
    if (parser_.depth_ >= kMost)
      parser_.tokens_.fail("nested more than " + std::to_string(kMost) + " deep");
    ++parser_.depth_;
  }
  ~Deeper() { --parser_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  ExpressionParser& parser_;
};

}  // namespace sftbench::jinja
