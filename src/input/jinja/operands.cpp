// What operators work on: literals, names, and the subscripts, calls, filters and tests behind
// them.
#include <algorithm>

#include "jinja/parser.h"
#include "jinja/text.h"
#include "sftbench/base/text.h"

namespace sftbench::jinja {

Expression ExpressionParser::primary() {
  const Token& token = tokens_.current();
  switch (token.kind) {
    case TokenKind::kName:
      return name();
    case TokenKind::kText: {
      std::string text = tokens_.take().text;
      while (tokens_.at(TokenKind::kText)) text += tokens_.take().text;
      return constant(std::move(text));
    }
    case TokenKind::kInteger:
      return constant(static_cast<int64_t>(std::stoll(tokens_.take().text)));
    case TokenKind::kFloat:
      return constant(std::strtod(tokens_.take().text.c_str(), nullptr));
    default:
      break;
  }
  if (tokens_.at_operator("(")) return parenthesized();
  if (tokens_.at_operator("[")) return list();
  if (tokens_.at_operator("{")) return dict();
  tokens_.fail("unexpected " + described(token));
}

Expression ExpressionParser::name() {
  const int line = tokens_.line();
  const std::string name = tokens_.take().text;
  if (name == "true" || name == "True") return constant(true);
  if (name == "false" || name == "False") return constant(false);
  if (name == "none" || name == "None") return constant({});
  return {line, 0, [name](Frame& frame) -> Value {
            const Value* value = frame.scope->find(name);
            return value ? *value : Value(Undefined{in_quotes(name) + " is undefined"});
          }};
}

Expression ExpressionParser::parenthesized() {
  const Deeper deeper(*this);
  tokens_.expect_operator("(");
  if (tokens_.skip_operator(")")) return constant(Value::list({}, Sequence::Kind::kTuple));
  Expression value = tuple();
  tokens_.expect_operator(")");
  return value;
}

namespace {

Expression sequence_of(int line, std::vector<Expression> parts, Sequence::Kind kind) {
  int depth = 0;
  for (const Expression& part : parts) depth = std::max(depth, part.depth());
  return {line, depth, [parts = std::move(parts), kind](Frame& frame) {
            std::vector<Value> values;
            for (const Expression& part : parts) values.push_back(part(frame));
            frame.runtime.charge(values.size() * sizeof(Value));
            return Value::list(std::move(values), kind);
          }};
}

}  // namespace

bool ExpressionParser::ends_tuple(std::string_view end_name) const {
  return tokens_.at(TokenKind::kVariableEnd) || tokens_.at(TokenKind::kBlockEnd) ||
         tokens_.at_operator(")") || (!end_name.empty() && tokens_.at_name(end_name));
}

Expression ExpressionParser::tuple(bool with_condition, std::string_view end_name) {
  const int line = tokens_.line();
  if (ends_tuple(end_name))
    tokens_.fail("Expected an expression, got " + described(tokens_.current()));
  std::vector<Expression> parts{expression(with_condition)};
  if (!tokens_.at_operator(",")) return parts[0];
  while (tokens_.skip_operator(",") && !ends_tuple(end_name))
    parts.push_back(expression(with_condition));
  return sequence_of(line, std::move(parts), Sequence::Kind::kTuple);
}

Expression ExpressionParser::list() {
  const int line = tokens_.line();
  tokens_.expect_operator("[");
  std::vector<Expression> parts;
  while (!tokens_.at_operator("]")) {
    if (!parts.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator("]")) break;
    parts.push_back(expression());
  }
  tokens_.expect_operator("]");
  return sequence_of(line, std::move(parts), Sequence::Kind::kList);
}

Expression ExpressionParser::dict() {
  const int line = tokens_.line();
  tokens_.expect_operator("{");
  std::vector<std::pair<Expression, Expression>> parts;
  int depth = 0;
  while (!tokens_.at_operator("}")) {
    if (!parts.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator("}")) break;
    Expression key = expression();
    tokens_.expect_operator(":");
    parts.emplace_back(std::move(key), expression());
    depth = std::max({depth, parts.back().first.depth(), parts.back().second.depth()});
  }
  tokens_.expect_operator("}");
  return {line, depth, [parts](Frame& frame) {
            Mapping mapping;
            for (const auto& [key, value] : parts) {
              Value name = key(frame);
              mapping.set(std::move(name), value(frame));
            }
            frame.runtime.charge(mapping.items.size() * 2 * sizeof(Value));
            return Value::dict(std::move(mapping));
          }};
}

Expression ExpressionParser::postfix(Expression value) {
  for (;;) {
    if (tokens_.at_operator(".") || tokens_.at_operator("[")) {
      value = subscript(std::move(value));
    } else if (tokens_.at_operator("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

Expression ExpressionParser::subscribed(std::vector<Expression>& slice) {
  Expression index;
  if (!tokens_.at_operator(":")) index = expression();
  if (!tokens_.at_operator(":")) return index;
  slice = {index ? index : constant({})};
  while (tokens_.skip_operator(":") && slice.size() < 3) {
    const bool open =
        tokens_.at_operator(":") || tokens_.at_operator("]") || tokens_.at_operator(",");
    slice.push_back(open ? constant({}) : expression());
  }
  slice.resize(3, constant({}));
  return {};
}

Expression ExpressionParser::subscript(Expression value) {
  const int line = tokens_.line();
  if (tokens_.skip_operator(".")) {
    if (tokens_.at(TokenKind::kInteger)) {
      const Value index = static_cast<int64_t>(std::stoll(tokens_.take().text));
      return {line, value.depth(),
              [value, index](Frame& frame) { return item_of(frame.runtime, value(frame), index); }};
    }
    if (!tokens_.at(TokenKind::kName)) tokens_.fail("expected name or number");
    const std::string name = tokens_.take().text;
    return {line, value.depth(), [value, name](Frame& frame) {
              return attribute_of(frame.runtime, value(frame), name);
            }};
  }
  tokens_.expect_operator("[");
  std::vector<Expression> slice;
  std::vector<Expression> parts;
  while (!tokens_.at_operator("]")) {
    if (!parts.empty()) tokens_.expect_operator(",");
    parts.push_back(subscribed(slice));
    if (!slice.empty() && !tokens_.at_operator("]"))
      tokens_.fail("a slice among several subscripts");
  }
  if (parts.empty()) tokens_.fail("expected subscript expression");
  tokens_.expect_operator("]");
  if (!slice.empty()) {
    int depth = value.depth();
    for (const Expression& part : slice) depth = std::max(depth, part.depth());
    return {line, depth, [value, slice](Frame& frame) {
              const Value sliced = value(frame), begin = slice[0](frame), end = slice[1](frame);
              return slice_of(frame.runtime, sliced, begin, end, slice[2](frame));
            }};
  }
  const Expression index =
      parts.size() == 1 ? parts[0] : sequence_of(line, std::move(parts), Sequence::Kind::kTuple);
  return {line, std::max(value.depth(), index.depth()), [value, index](Frame& frame) {
            const Value container = value(frame);
            return item_of(frame.runtime, container, index(frame));
          }};
}

CallSource ExpressionParser::arguments() {
  CallSource source;
  tokens_.expect_operator("(");
  const auto require = [&](bool fits) {
    if (!fits) tokens_.fail("invalid syntax for function call expression");
  };
  bool first = true;
  while (!tokens_.at_operator(")")) {
    if (!first) tokens_.expect_operator(",");
    if (tokens_.at_operator(")")) break;
    first = false;
    if (tokens_.skip_operator("*")) {
      require(!source.more_positional && !source.more_named);
      source.more_positional = expression();
    } else if (tokens_.skip_operator("**")) {
      require(!source.more_named);
      source.more_named = expression();
    } else if (tokens_.at(TokenKind::kName) && tokens_.next().kind == TokenKind::kOperator &&
               tokens_.next().text == "=") {
      require(!source.more_named);
      std::string name = tokens_.take().text;
      tokens_.take();
      source.named.emplace_back(std::move(name), expression());
    } else {
      require(!source.more_positional && !source.more_named && source.named.empty());
      source.positional.push_back(expression());
    }
  }
  tokens_.expect_operator(")");
  return source;
}

Expression ExpressionParser::call(Expression function) {
  const int line = tokens_.line();
  const CallSource source = arguments();
  return {line, std::max(function.depth(), source.depth()), [function, source](Frame& frame) {
            const Value callee = function(frame);
            require_defined(callee);
            return jinja::call(frame.runtime, callee, source.evaluate(frame));
          }};
}

Expression ExpressionParser::called(CallSource& given) {
  if (!tokens_.at(TokenKind::kName)) tokens_.fail("expected call");
  Expression function = name();
  while (tokens_.at_operator(".")) function = subscript(std::move(function));
  given = arguments();
  return function;
}

Expression ExpressionParser::filters(Expression value, bool named_first) {
  if (named_first) value = filter(std::move(value));
  for (;;) {
    if (tokens_.skip_operator("|")) {
      value = filter(std::move(value));
    } else if (tokens_.at_name("is")) {
      value = test(std::move(value));
    } else if (tokens_.at_operator("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

namespace {

// "no filter 'x' here; ..."
std::string unknown(const char* kind, const std::string& name,
                    const std::vector<std::string>& names) {
  const std::string nearest = nearest_spelling(name, names);
  return "no " + std::string(kind) + " " + in_quotes(name) + " is known here" +
         (nearest.empty() ? "; there are " + join(names)
                          : "; did you mean " + in_quotes(nearest) + "?");
}

}  // namespace

Expression ExpressionParser::filter(Expression value) {
  const int line = tokens_.line();
  const std::string name = tokens_.expect_a_name();
  const Filter function = filter_named(name);
  if (!function) throw TemplateError(unknown("filter", name, filter_names()), line);
  const CallSource source = tokens_.at_operator("(") ? arguments() : CallSource();
  return {line, std::max(value.depth(), source.depth()), [value, function, source](Frame& frame) {
            const Value filtered = value(frame);
            return function(frame.runtime, filtered, source.evaluate(frame));
          }};
}

Expression ExpressionParser::test(Expression value) {
  const int line = tokens_.line();
  tokens_.expect_name("is");
  const bool negated = tokens_.skip_name("not");
  const std::string name = tokens_.expect_a_name();
  const Test function = test_named(name);
  if (!function) throw TemplateError(unknown("test", name, test_names()), line);
  CallSource source;
  const TokenKind kind = tokens_.current().kind;
  const bool ends = tokens_.at_name("else") || tokens_.at_name("or") || tokens_.at_name("and");
  if (tokens_.at_operator("(")) {
    source = arguments();
  } else if ((kind == TokenKind::kName && !ends) || kind == TokenKind::kText ||
             kind == TokenKind::kInteger || kind == TokenKind::kFloat || tokens_.at_operator("[") ||
             tokens_.at_operator("{")) {
    if (tokens_.at_name("is")) tokens_.fail("You cannot chain multiple tests with is");
    source.positional.push_back(postfix(primary()));
  }
  return {line, std::max(value.depth(), source.depth()),
          [value, function, source, negated](Frame& frame) -> Value {
            const Value tested = value(frame);
            return function(frame.runtime, tested, source.evaluate(frame).positional) != negated;
          }};
}

}  // namespace sftbench::jinja
