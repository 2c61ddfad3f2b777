#include <algorithm>

#include "jinja/parser.h"
#include "jinja/text.h"
#include "sftbench/base/text.h"

namespace sftbench::jinja {
namespace {

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens)
      : tokens_(std::move(tokens)), expressions_(tokens_) {}

  Statement whole() {
    Statement body = statements({});
    if (!tokens_.at(TokenKind::kEnd)) tokens_.fail("unexpected " + described(tokens_.current()));
    return body;
  }

  bool marks_generation() const { return marks_generation_; }

 private:
  using Names = std::vector<std::string_view>;

  // Up to a tag that begins with one of `ends`; what stands there is not taken, the tag's beginning
  // is.
  Statement statements(const Names& ends);
  Statement statement();
  Statement output();
  Statement assignment();
  Statement block_assignment(Target target);
  Statement condition();
  Statement loop();
  Statement with_block();
  Statement macro();
  Statement call_block();
  Statement filter_block();
  Statement generation();
  Statement jump(Flow flow);

  // The body of a block up to {% endNAME %}, the opening tag's end first.
  Statement body(const char* end_name);
  void end_tag() { tokens_.expect(TokenKind::kBlockEnd, "'%}'"); }
  Target target(bool with_attribute, std::string_view end_name);
  Target single_target(bool with_attribute);
  std::shared_ptr<MacroSource> signature(std::string name, bool parenthesized);
  void finish(MacroSource& source, size_t mark, Statement body) const;

  TokenStream tokens_;
  ExpressionParser expressions_;
  int blocks_ = 0;  // around what is parsed
  int loops_ = 0;
  bool marks_generation_ = false;
};

Statement StatementParser::statements(const Names& ends) {
  const int line = tokens_.line();
  std::vector<Statement> parts;
  int depth = 0;
  for (;;) {
    if (tokens_.at(TokenKind::kEnd)) break;
    if (tokens_.at(TokenKind::kData)) {
      const std::string text = tokens_.take().text;
      parts.push_back({tokens_.line(), 0, [text](Frame& frame) {
                         frame.runtime.write(text);
                         return Flow::kNext;
                       }});
    } else if (tokens_.at(TokenKind::kVariableBegin)) {
      parts.push_back(output());
    } else {
      tokens_.expect(TokenKind::kBlockBegin, "'{%'");
      if (std::any_of(ends.begin(), ends.end(), [&](auto name) { return tokens_.at_name(name); }))
        break;
      parts.push_back(statement());
    }
    depth = std::max(depth, parts.back().depth());
  }
  if (tokens_.at(TokenKind::kEnd) && !ends.empty()) {
    tokens_.fail("the template ends before '" + std::string(ends.back()) + "'");
  }
  return {line, depth, [parts = std::move(parts)](Frame& frame) {
            for (const Statement& part : parts) {
              const Flow flow = part(frame);
              if (flow != Flow::kNext) return flow;
            }
            return Flow::kNext;
          }};
}

Statement StatementParser::output() {
  const int line = tokens_.line();
  tokens_.take();
  const Expression value = expressions_.tuple();
  tokens_.expect(TokenKind::kVariableEnd, "'}}'");
  return {line, value.depth(), [value](Frame& frame) {
            frame.runtime.write(to_text(value(frame)));
            return Flow::kNext;
          }};
}

Statement StatementParser::statement() {
  constexpr int kMostBlocks = 100;
  if (++blocks_ > kMostBlocks)
    tokens_.fail("blocks nested more than " + std::to_string(kMostBlocks) + " deep");
  static const std::vector<std::pair<std::string_view, Statement (StatementParser::*)()>> kTags{
      {"set", &StatementParser::assignment},
      {"if", &StatementParser::condition},
      {"for", &StatementParser::loop},
      {"with", &StatementParser::with_block},
      {"macro", &StatementParser::macro},
      {"call", &StatementParser::call_block},
      {"filter", &StatementParser::filter_block},
      {"generation", &StatementParser::generation},
  };
  if (!tokens_.at(TokenKind::kName))
    tokens_.fail("tag name expected, got " + described(tokens_.current()));
  const Token tag = tokens_.take();
  Statement parsed;
  const auto found = std::find_if(kTags.begin(), kTags.end(),
                                  [&](const auto& known) { return known.first == tag.text; });
  if (found != kTags.end()) {
    parsed = (this->*found->second)();
  } else if (tag.text == "break" || tag.text == "continue") {
    parsed = jump(tag.text == "break" ? Flow::kBreak : Flow::kContinue);
  } else {
    static constexpr std::string_view kOthers[] = {"include", "import", "from",
                                                   "extends", "block",  "autoescape"};
    const bool known =
        std::find(std::begin(kOthers), std::end(kOthers), tag.text) != std::end(kOthers);
    throw TemplateError(
        known ? in_quotes(tag.text) + " is not done here: a chat template stands alone"
              : "Encountered unknown tag " + in_quotes(tag.text),
        tag.line);
  }
  --blocks_;
  return parsed;
}

Statement StatementParser::body(const char* end_name) {
  end_tag();
  Statement inside = statements({end_name});
  tokens_.take();
  end_tag();
  return inside;
}

Target StatementParser::single_target(bool with_attribute) {
  if (tokens_.skip_operator("(")) {
    Target inside = target(false, {});
    tokens_.expect_operator(")");
    return inside;
  }
  Target single;
  single.name = tokens_.expect_a_name();
  for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
    if (single.name == constant) tokens_.fail("can't assign to '" + single.name + "'");
  }
  if (with_attribute && tokens_.skip_operator(".")) single.attribute = tokens_.expect_a_name();
  return single;
}

Target StatementParser::target(bool with_attribute, std::string_view end_name) {
  Target first = single_target(with_attribute);
  if (!tokens_.at_operator(",")) return first;
  Target several;
  several.parts.push_back(std::move(first));
  while (tokens_.skip_operator(",") && !tokens_.at_operator("=") && !tokens_.at_operator(")") &&
         (end_name.empty() || !tokens_.at_name(end_name))) {
    several.parts.push_back(single_target(with_attribute));
  }
  return several;
}

Statement StatementParser::assignment() {
  const int line = tokens_.line();
  Target assigned = target(true, {});
  if (!tokens_.skip_operator("=")) return block_assignment(std::move(assigned));
  const Expression value = expressions_.tuple();
  end_tag();
  return {line, value.depth(), [assigned, value](Frame& frame) {
            assign(frame, assigned, value(frame));
            return Flow::kNext;
          }};
}

Statement StatementParser::block_assignment(Target assigned) {
  const int line = tokens_.line();
  // What the block writes, which filters may change.
  const auto written = std::make_shared<Statement>();
  const Expression text{line, 0, [written](Frame& frame) -> Value {
                          Frame inner = frame.inner();
                          return frame.runtime.captured([&] { (*written)(inner); });
                        }};
  const Expression value = tokens_.at_operator("|") ? expressions_.filters(text, false) : text;
  *written = body("endset");
  return {line, std::max(written->depth(), value.depth()), [assigned, value](Frame& frame) {
            assign(frame, assigned, value(frame));
            return Flow::kNext;
          }};
}

Statement StatementParser::condition() {
  const int line = tokens_.line();
  struct Branch {
    Expression condition;  // none: else
    Statement body;
  };
  std::vector<Branch> branches;
  int depth = 0;
  for (bool more = true; more;) {
    Branch branch;
    const bool is_else = !branches.empty() && tokens_.at(TokenKind::kBlockEnd);
    if (!is_else) branch.condition = expressions_.tuple(false);
    end_tag();
    branch.body = statements(is_else ? Names{"endif"} : Names{"elif", "else", "endif"});
    depth = std::max({depth, branch.body.depth(), branch.condition.depth()});
    branches.push_back(std::move(branch));
    more = tokens_.take().text != "endif";
  }
  end_tag();
  return {line, depth, [branches](Frame& frame) {
            for (const Branch& branch : branches) {
              if (!branch.condition || branch.condition(frame).truth()) return branch.body(frame);
            }
            return Flow::kNext;
          }};
}

Statement StatementParser::loop() {
  const int line = tokens_.line();
  const auto source = std::make_shared<LoopSource>();
  source->target = target(false, "in");
  tokens_.expect_name("in");
  source->items = expressions_.tuple(false, "recursive");
  if (tokens_.skip_name("if")) source->condition = expressions_.expression();
  source->recursive = tokens_.skip_name("recursive");
  end_tag();
  ++loops_;
  source->body = statements({"else", "endfor"});
  --loops_;
  if (tokens_.take().text == "else") {
    end_tag();
    source->otherwise = statements({"endfor"});
    tokens_.take();
  }
  end_tag();
  const int depth = std::max({source->items.depth(), source->condition.depth(),
                              source->body.depth(), source->otherwise.depth()});
  return {line, depth, [source](Frame& frame) {
            run_loop(frame, source, source->items(frame), 0);
            return Flow::kNext;
          }};
}

Statement StatementParser::jump(Flow flow) {
  if (loops_ == 0)
    tokens_.fail(std::string(flow == Flow::kBreak ? "'break'" : "'continue'") +
                 " outside of a loop");
  end_tag();
  return {tokens_.line(), 0, [flow](Frame&) { return flow; }};
}

Statement StatementParser::with_block() {
  const int line = tokens_.line();
  std::vector<std::pair<Target, Expression>> values;
  int depth = 0;
  while (!tokens_.at(TokenKind::kBlockEnd)) {
    if (!values.empty()) tokens_.expect_operator(",");
    Target name = single_target(false);
    tokens_.expect_operator("=");
    values.emplace_back(std::move(name), expressions_.expression());
    depth = std::max(depth, values.back().second.depth());
  }
  const Statement inside = body("endwith");
  return {line, std::max(depth, inside.depth()), [values, inside](Frame& frame) {
            Frame inner = frame.inner();
            for (const auto& [name, value] : values) assign(inner, name, value(frame));
            return inside(inner);
          }};
}

std::shared_ptr<MacroSource> StatementParser::signature(std::string name, bool parenthesized) {
  auto source = std::make_shared<MacroSource>();
  source->name = std::move(name);
  if (!parenthesized) return source;
  tokens_.expect_operator("(");
  while (!tokens_.at_operator(")")) {
    if (!source->parameters.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator(")")) break;
    Parameter parameter;
    parameter.name = tokens_.expect_a_name();
    if (tokens_.skip_operator("=")) {
      parameter.otherwise = expressions_.expression();
    } else if (!source->parameters.empty() && source->parameters.back().otherwise) {
      tokens_.fail("non-default argument follows default argument");
    }
    source->parameters.push_back(std::move(parameter));
  }
  tokens_.expect_operator(")");
  return source;
}

void StatementParser::finish(MacroSource& source, size_t mark, Statement inside) const {
  source.body = std::move(inside);
  source.takes_more = tokens_.has_name_since(mark, "varargs");
  source.takes_more_named = tokens_.has_name_since(mark, "kwargs");
  source.takes_caller = tokens_.has_name_since(mark, "caller");
}

Statement StatementParser::macro() {
  const int line = tokens_.line();
  std::string name = tokens_.expect_a_name();
  const auto source = signature(name, true);
  const size_t mark = tokens_.mark();
  const int loops = std::exchange(loops_, 0);
  Statement inside = body("endmacro");
  loops_ = loops;
  finish(*source, mark, std::move(inside));
  return {line, source->body.depth(), [name, source](Frame& frame) {
            frame.scope->set(name, macro_of(frame, source));
            return Flow::kNext;
          }};
}

Statement StatementParser::call_block() {
  const int line = tokens_.line();
  const auto source = signature("caller", tokens_.at_operator("("));
  CallSource arguments;
  const Expression callee = expressions_.called(arguments);
  const size_t mark = tokens_.mark();
  const int loops = std::exchange(loops_, 0);
  Statement inside = body("endcall");
  loops_ = loops;
  finish(*source, mark, std::move(inside));
  const int depth = std::max({callee.depth(), arguments.depth(), source->body.depth()});
  return {line, depth, [callee, arguments, source](Frame& frame) {
            Arguments given = arguments.evaluate(frame);
            given.named.emplace_back("caller", macro_of(frame, source));
            frame.runtime.write(to_text(call(frame.runtime, callee(frame), std::move(given))));
            return Flow::kNext;
          }};
}

Statement StatementParser::filter_block() {
  const int line = tokens_.line();
  const auto written = std::make_shared<Statement>();
  const Expression text{line, 0, [written](Frame& frame) -> Value {
                          Frame inner = frame.inner();
                          return frame.runtime.captured([&] { (*written)(inner); });
                        }};
  const Expression value = expressions_.filters(text, true);
  *written = body("endfilter");
  return {line, std::max(written->depth(), value.depth()), [value](Frame& frame) {
            frame.runtime.write(to_text(value(frame)));
            return Flow::kNext;
          }};
}

Statement StatementParser::generation() {
  const int line = tokens_.line();
  marks_generation_ = true;
  const int loops = std::exchange(loops_, 0);
  const Statement inside = body("endgeneration");
  loops_ = loops;
  return {line, inside.depth(), [inside](Frame& frame) {
            Frame inner = frame.inner();
            frame.runtime.generation([&] { inside(inner); });
            return Flow::kNext;
          }};
}

}  // namespace

Program parse(std::string_view source, std::string name) {
  StatementParser parser(tokens_of(source));
  Program program;
  program.name = std::move(name);
  program.body = parser.whole();
  program.marks_generation = parser.marks_generation();
  return program;
}

}  // namespace sftbench::jinja
