// Operators, from the inline condition down to signs.
#include <algorithm>

#include "jinja/parser.h"

namespace sftbench::jinja {

Expression ExpressionParser::constant(Value value) {
  return {tokens_.line(), 0, [value = std::move(value)](Frame&) { return value; }};
}

Expression ExpressionParser::expression(bool with_condition) {
  const Deeper deeper(*this);
  Expression value = either();
  while (with_condition && tokens_.skip_name("if")) {
    const Expression condition = either();
    const Expression otherwise = tokens_.skip_name("else") ? expression() : Expression();
    const int depth = std::max({value.depth(), condition.depth(), otherwise.depth()});
    value = {tokens_.line(), depth, [value, condition, otherwise](Frame& frame) -> Value {
               if (condition(frame).truth()) return value(frame);
               if (otherwise) return otherwise(frame);
               return Undefined{
                   "the inline if-expression evaluated to false and no else section was defined."};
             }};
  }
  return value;
}

Expression ExpressionParser::either() {
  Expression left = both();
  while (tokens_.skip_name("or")) {
    const Expression right = both();
    left = {tokens_.line(), std::max(left.depth(), right.depth()), [left, right](Frame& frame) {
              Value value = left(frame);
              return value.truth() ? value : right(frame);
            }};
  }
  return left;
}

Expression ExpressionParser::both() {
  Expression left = negation();
  while (tokens_.skip_name("and")) {
    const Expression right = negation();
    left = {tokens_.line(), std::max(left.depth(), right.depth()), [left, right](Frame& frame) {
              Value value = left(frame);
              return value.truth() ? right(frame) : value;
            }};
  }
  return left;
}

Expression ExpressionParser::negation() {
  if (!tokens_.skip_name("not")) return comparison();
  const Deeper deeper(*this);
  const Expression value = negation();
  return {tokens_.line(), value.depth(),
          [value](Frame& frame) -> Value { return !value(frame).truth(); }};
}

namespace {

bool compares(Frame& frame, const std::string& operation, const Value& a, const Value& b) {
  if (operation == "==") return equal(a, b);
  if (operation == "!=") return !equal(a, b);
  if (operation == "<") return less(a, b);
  if (operation == ">") return less(b, a);
  if (operation == "<=") return less(a, b) || equal(a, b);
  if (operation == ">=") return less(b, a) || equal(a, b);
  return contains(frame.runtime, b, a) == (operation == "in");
}

struct Comparison {
  std::string operation;
  Expression operand;
};

}  // namespace

Expression ExpressionParser::comparison() {
  const Expression first = sum();
  std::vector<Comparison> rest;
  int depth = first.depth();
  for (;;) {
    Comparison next;
    for (const char* operation : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (next.operation.empty() && tokens_.skip_operator(operation)) next.operation = operation;
    }
    if (next.operation.empty() && tokens_.skip_name("in")) next.operation = "in";
    if (next.operation.empty() && tokens_.at_name("not") &&
        tokens_.next().kind == TokenKind::kName && tokens_.next().text == "in") {
      tokens_.take(), tokens_.take();
      next.operation = "not in";
    }
    if (next.operation.empty()) break;
    next.operand = sum();
    depth = std::max(depth, next.operand.depth());
    rest.push_back(std::move(next));
  }
  if (rest.empty()) return first;
  return {tokens_.line(), depth, [first, rest](Frame& frame) -> Value {
            Value left = first(frame);
            for (const Comparison& next : rest) {
              Value right = next.operand(frame);
              if (!compares(frame, next.operation, left, right)) return false;
              left = std::move(right);
            }
            return true;
          }};
}

Expression ExpressionParser::binary(Rule operand,
                                    std::initializer_list<std::string_view> operations) {
  Expression left = (this->*operand)();
  for (;;) {
    const auto found = std::find_if(operations.begin(), operations.end(),
                                    [&](auto text) { return tokens_.at_operator(text); });
    if (found == operations.end()) return left;
    const std::string operation = tokens_.take().text;
    const int line = tokens_.line();
    const Expression right = (this->*operand)();
    left = {line, std::max(left.depth(), right.depth()), [left, right, operation](Frame& frame) {
              const Value a = left(frame);
              return calculate(frame.runtime, operation, a, right(frame));
            }};
  }
}

Expression ExpressionParser::sum() {
  return binary(&ExpressionParser::concatenation, {"+", "-"});
}

Expression ExpressionParser::concatenation() {
  std::vector<Expression> parts{product()};
  int depth = parts[0].depth();
  while (tokens_.skip_operator("~")) {
    parts.push_back(product());
    depth = std::max(depth, parts.back().depth());
  }
  if (parts.size() == 1) return parts[0];
  return {tokens_.line(), depth, [parts](Frame& frame) {
            std::vector<Value> values;
            for (const Expression& part : parts) values.push_back(part(frame));
            return concatenated(frame.runtime, values);
          }};
}

Expression ExpressionParser::product() {
  return binary(&ExpressionParser::power, {"*", "/", "//", "%"});
}

Expression ExpressionParser::power() {
  return binary(&ExpressionParser::unary_with_filter, {"**"});
}

Expression ExpressionParser::unary(bool with_filter) {
  const int line = tokens_.line();
  Expression value;
  if (tokens_.at_operator("-") || tokens_.at_operator("+")) {
    const Deeper deeper(*this);
    const bool minus = tokens_.take().text == "-";
    const Expression operand = unary(false);
    value = {line, operand.depth(), [operand, minus](Frame& frame) {
               const Value negated = negative(operand(frame));
               return minus ? negated : negative(negated);
             }};
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filter ? filters(std::move(value), false) : value;
}

}  // namespace sftbench::jinja
