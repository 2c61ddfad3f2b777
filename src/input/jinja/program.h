// What a template's text is parsed into: functions that are called to evaluate and to execute it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/runtime.h"

namespace sftbench::jinja {

struct Frame {
  Runtime& runtime;
  std::shared_ptr<Scope> scope;

  Frame inner() const { return {runtime, std::make_shared<Scope>(scope)}; }
};

// What executing a statement says to the loop around it.
enum class Flow { kNext, kBreak, kContinue };

// A node of the program. Its depth is bounded when it is made, and every evaluation counts.
template <class Result>
class Node {
 public:
  using Body = std::function<Result(Frame&)>;

  Node() = default;
  // `depth` of the deepest node within it. TemplateError where the source nests too deeply.
  Node(int line, int depth, Body body)
      : line_(line), depth_(depth + 1), body_(std::make_shared<Body>(std::move(body))) {
    constexpr int kMost = 500;
    if (depth_ > kMost)
      throw TemplateError("nested more than " + std::to_string(kMost) + " deep", line);
  }

  explicit operator bool() const { return body_ != nullptr; }
  int depth() const { return depth_; }
  int line() const { return line_; }

  Result operator()(Frame& frame) const {
    frame.runtime.step();
    try {
      const Runtime::Nested nested(frame.runtime);
      return (*body_)(frame);
    } catch (TemplateError& error) {
      if (error.line == 0) error.line = line_;
      throw;
    }
  }

 private:
  int line_ = 0, depth_ = 0;
  std::shared_ptr<const Body> body_;
};

using Expression = Node<Value>;
using Statement = Node<Flow>;

struct Program {
  std::string name;
  Statement body;
  bool marks_generation = false;
};

// TemplateError with a line.
Program parse(std::string_view source, std::string name);

// A name or a tuple of targets that a value is unpacked into.
struct Target {
  std::string name;       // empty: a tuple
  std::string attribute;  // of a namespace `name`
  std::vector<Target> parts;
};
void assign(Frame& frame, const Target& target, const Value& value);

// Arguments of a call as they stand in the source.
struct CallSource {
  std::vector<Expression> positional;
  std::vector<std::pair<std::string, Expression>> named;
  Expression more_positional, more_named;  // *list, **dict

  int depth() const;
  Arguments evaluate(Frame& frame) const;
};

struct Parameter {
  std::string name;
  Expression otherwise;  // its default, evaluated in the macro
};

// A macro or the body of a call block.
struct MacroSource {
  std::string name;
  std::vector<Parameter> parameters;
  Statement body;
  bool takes_more = false;        // varargs is read in it
  bool takes_more_named = false;  // kwargs is
  bool takes_caller = false;      // caller is
};
Value macro_of(Frame& frame, std::shared_ptr<const MacroSource> source);

struct LoopSource {
  Target target;
  Expression items, condition;
  bool recursive = false;
  Statement body, otherwise;
};
void run_loop(Frame& frame, const std::shared_ptr<const LoopSource>& source, const Value& items,
              int depth);

}  // namespace sftbench::jinja
