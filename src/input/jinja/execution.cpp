// Loops, macros and assignments.
#include <algorithm>

#include "jinja/program.h"
#include "jinja/text.h"

namespace sftbench::jinja {
namespace {

class Macro final : public Object {
 public:
  Macro(Frame frame, std::shared_ptr<const MacroSource> source)
      : scope_(frame.scope.get()), source_(std::move(source)) {
    frame.runtime.keep(frame.scope);  // which a macro in it must not own: it would own itself
  }

  std::string type_name() const override { return "Macro"; }
  bool callable() const override { return true; }

  bool attribute(Runtime&, const std::string& name, Value& value) const override {
    if (name == "name") value = source_->name;
    if (name == "caller") value = source_->takes_caller;
    if (name == "catch_varargs") value = source_->takes_more;
    if (name == "catch_kwargs") value = source_->takes_more_named;
    return name == "name" || name == "caller" || name == "catch_varargs" || name == "catch_kwargs";
  }

  Value call(Runtime& runtime, Arguments arguments) override {
    Frame frame{runtime, std::make_shared<Scope>(scope_->shared_from_this())};
    bind(frame, std::move(arguments));
    return runtime.captured([&] { source_->body(frame); });
  }

 private:
  void bind(Frame& frame, Arguments arguments) const {
    const std::vector<Parameter>& parameters = source_->parameters;
    std::vector<Value> more;
    std::vector<bool> given(parameters.size());
    for (size_t i = 0; i < arguments.positional.size(); ++i) {
      if (i >= parameters.size()) {
        more.push_back(std::move(arguments.positional[i]));
        continue;
      }
      frame.scope->set(parameters[i].name, std::move(arguments.positional[i]));
      given[i] = true;
    }
    Mapping more_named;
    for (auto& [name, value] : arguments.named)
      take_named(frame, name, std::move(value), given, more_named);
    if (!more.empty() && !source_->takes_more) {
      throw TemplateError("macro " + in_quotes(source_->name) + " takes not more than " +
                          std::to_string(parameters.size()) + " argument(s)");
    }
    if (source_->takes_more)
      frame.scope->set("varargs", Value::list(std::move(more), Sequence::Kind::kTuple));
    if (source_->takes_more_named) frame.scope->set("kwargs", Value::dict(std::move(more_named)));
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (given[i]) continue;
      const Value missing =
          Undefined{"parameter " + in_quotes(parameters[i].name) + " was not provided"};
      frame.scope->set(parameters[i].name,
                       parameters[i].otherwise ? parameters[i].otherwise(frame) : missing);
    }
  }

  void take_named(Frame& frame, const std::string& name, Value value, std::vector<bool>& given,
                  Mapping& more) const {
    const auto& parameters = source_->parameters;
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const auto& p) { return p.name == name; });
    const auto index = static_cast<size_t>(found - parameters.begin());
    if (found != parameters.end()) {
      if (given[index])
        throw TemplateError("macro " + in_quotes(source_->name) + " got a second argument " +
                            in_quotes(name));
      frame.scope->set(name, std::move(value));
      given[index] = true;
    } else if (name == "caller" && source_->takes_caller) {
      frame.scope->set(name, std::move(value));
    } else if (source_->takes_more_named) {
      more.set(name, std::move(value));
    } else {
      throw TemplateError("macro " + in_quotes(source_->name) + " takes no keyword argument " +
                          in_quotes(name));
    }
  }

  Scope* scope_;
  std::shared_ptr<const MacroSource> source_;
};

// `loop` within a for block.
class Loop final : public Object, public std::enable_shared_from_this<Loop> {
 public:
  Loop(const Frame& frame, std::shared_ptr<const LoopSource> source, std::vector<Value> items,
       int depth)
      : scope_(frame.scope.get()),
        source_(std::move(source)),
        items_(std::move(items)),
        depth_(depth) {}

  std::string type_name() const override { return "LoopContext"; }
  bool callable() const override { return source_->recursive; }

  // loop(items) of a recursive loop.
  Value call(Runtime& runtime, Arguments arguments) override {
    if (!source_->recursive)
      throw TemplateError("the loop must have the 'recursive' marker to be called recursively.");
    const Bound bound("loop", {"iterable"}, std::move(arguments));
    Frame frame{runtime, scope_->shared_from_this()};
    return runtime.captured([&] { run_loop(frame, source_, bound.required(0), depth_ + 1); });
  }

  bool attribute(Runtime&, const std::string& name, Value& value) const override {
    const auto index = static_cast<int64_t>(index_), count = static_cast<int64_t>(items_.size());
    if (name == "index") return value = index + 1, true;
    if (name == "index0") return value = index, true;
    if (name == "revindex") return value = count - index, true;
    if (name == "revindex0") return value = count - index - 1, true;
    if (name == "first") return value = index == 0, true;
    if (name == "last") return value = index + 1 == count, true;
    if (name == "length") return value = count, true;
    if (name == "depth") return value = int64_t{depth_} + 1, true;
    if (name == "depth0") return value = int64_t{depth_}, true;
    if (name == "previtem") return value = neighbor(index_ - 1, "there is no previous item"), true;
    if (name == "nextitem") return value = neighbor(index_ + 1, "there is no next item"), true;
    if (name == "cycle" || name == "changed") return value = method(name), true;
    return false;
  }

  const std::vector<Value>& items() const { return items_; }
  void move_to(size_t index) { index_ = index; }

 private:
  Value neighbor(size_t index, const char* missing) const {
    return index < items_.size() ? items_[index] : Value(Undefined{missing});
  }

  Value method(const std::string& name) const {
    auto self = std::const_pointer_cast<Loop>(shared_from_this());
    return function_value(
        name, [self, cycles = name == "cycle"](Runtime&, Arguments arguments) -> Value {
          std::vector<Value>& given = arguments.positional;
          if (cycles && given.empty()) throw TemplateError("no items for cycling given");
          if (cycles) return given[self->index_ % given.size()];
          const bool same =
              self->seen_ &&
              std::equal(given.begin(), given.end(), self->last_.begin(), self->last_.end(), equal);
          self->seen_ = true;
          self->last_ = std::move(given);
          return !same;
        });
  }

  Scope* scope_;
  std::shared_ptr<const LoopSource> source_;
  std::vector<Value> items_;
  int depth_;
  size_t index_ = 0;
  bool seen_ = false;
  std::vector<Value> last_;  // what changed() was asked with
};

}  // namespace

void assign(Frame& frame, const Target& target, const Value& value) {
  if (!target.attribute.empty()) {
    const Value* held = frame.scope->find(target.name);
    const auto object = held ? held->object() : nullptr;
    if (!object || !object->set_attribute(target.attribute, value)) {
      throw TemplateError("cannot assign attribute on non-namespace object");
    }
    return;
  }
  if (!target.name.empty()) return frame.scope->set(target.name, value);
  const std::vector<Value> values = items_of(frame.runtime, value);
  if (values.size() != target.parts.size()) {
    throw TemplateError((values.size() < target.parts.size() ? "not enough" : "too many") +
                        std::string(" values to unpack (expected ") +
                        std::to_string(target.parts.size()) + ", got " +
                        std::to_string(values.size()) + ")");
  }
  for (size_t i = 0; i < values.size(); ++i) assign(frame, target.parts[i], values[i]);
}

int CallSource::depth() const {
  int deepest = std::max(more_positional.depth(), more_named.depth());
  for (const Expression& value : positional) deepest = std::max(deepest, value.depth());
  for (const auto& [name, value] : named) deepest = std::max(deepest, value.depth());
  return deepest;
}

Arguments CallSource::evaluate(Frame& frame) const {
  Arguments arguments;
  for (const Expression& value : positional) arguments.positional.push_back(value(frame));
  for (const auto& [name, value] : named) arguments.named.emplace_back(name, value(frame));
  if (more_positional) {
    for (Value& value : items_of(frame.runtime, more_positional(frame)))
      arguments.positional.push_back(std::move(value));
  }
  if (more_named) {
    const Value names = more_named(frame);
    if (!names.mapping())
      throw TemplateError("argument after ** must be a mapping, not " + names.type_name());
    for (const auto& [name, value] : names.mapping()->items)
      arguments.named.emplace_back(to_text(name), value);
  }
  return arguments;
}

Value macro_of(Frame& frame, std::shared_ptr<const MacroSource> source) {
  return std::shared_ptr<Object>(std::make_shared<Macro>(frame, std::move(source)));
}

void run_loop(Frame& frame, const std::shared_ptr<const LoopSource>& source, const Value& iterated,
              int depth) {
  std::vector<Value> items = items_of(frame.runtime, iterated);
  if (source->condition) {
    std::vector<Value> kept;
    for (Value& item : items) {
      Frame inner = frame.inner();
      assign(inner, source->target, item);
      if (source->condition(inner).truth()) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (source->recursive) frame.runtime.keep(frame.scope);
  const auto loop = std::make_shared<Loop>(frame, source, std::move(items), depth);
  if (loop->items().empty() && source->otherwise) {
    Frame inner = frame.inner();
    source->otherwise(inner);
  }
  for (size_t i = 0; i < loop->items().size(); ++i) {
    Frame inner = frame.inner();
    loop->move_to(i);
    inner.scope->set("loop", std::shared_ptr<Object>(loop));
    assign(inner, source->target, loop->items()[i]);
    if (source->body(inner) == Flow::kBreak) break;
  }
}

}  // namespace sftbench::jinja
