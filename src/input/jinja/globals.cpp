// Names that every template has.
#include <algorithm>

#include "jinja/runtime.h"
#include "jinja/text.h"

namespace sftbench::jinja {
namespace {

class Namespace final : public Object {
 public:
  explicit Namespace(std::shared_ptr<Mapping> names) : names_(std::move(names)) {}

  std::string type_name() const override { return "TemplateNamespace"; }
  bool attribute(Runtime&, const std::string& name, Value& value) const override {
    const Value* found = names_->find_name(name);
    if (found) value = *found;
    return found != nullptr;
  }
  bool set_attribute(const std::string& name, Value value) override {
    require_public(name);
    names_->set(name, std::move(value));
    return true;
  }

  static void require_public(const std::string& name) {
    if (!name.starts_with("_")) return;
    throw TemplateError("a namespace has no attributes that begin with an underscore, but got " +
                        in_quotes(name));
  }

 private:
  std::shared_ptr<Mapping> names_;
};

Value range(Runtime& runtime, Arguments arguments) {
  for (const Value& value : arguments.positional) {
    require_defined(value);
    if (!value.is_integer())
      throw TemplateError("'" + value.type_name() + "' object cannot be interpreted as an integer");
  }
  const size_t given = arguments.positional.size();
  if (given < 1 || given > 3 || !arguments.named.empty())
    throw TemplateError("range expected 1 to 3 arguments");
  const int64_t begin = given > 1 ? arguments.positional[0].integer() : 0;
  const int64_t end = arguments.positional[given > 1 ? 1 : 0].integer();
  const int64_t step = given > 2 ? arguments.positional[2].integer() : 1;
  if (step == 0) throw TemplateError("range() arg 3 must not be zero");
  constexpr int64_t kMost = 100000;  // MAX_RANGE of jinja2's sandbox
  std::vector<Value> numbers;
  for (__int128 i = begin; step > 0 ? i < end : i > end; i += step) {
    if (static_cast<int64_t>(numbers.size()) == kMost) {
      throw TemplateError("Range too big. The sandbox blocks ranges larger than MAX_RANGE (" +
                          std::to_string(kMost) + ").");
    }
    numbers.emplace_back(static_cast<int64_t>(i));
  }
  runtime.charge(numbers.size() * sizeof(Value));
  return Value::list(std::move(numbers));
}

// dict() of Python: of a mapping or of pairs, and of named values.
Mapping mapping_of(Runtime& runtime, Arguments arguments) {
  Mapping mapping;
  if (arguments.positional.size() > 1) throw TemplateError("dict expected at most 1 argument");
  if (!arguments.positional.empty()) {
    const Value& given = arguments.positional[0];
    if (given.mapping()) {
      mapping = *given.mapping();
    } else {
      for (const Value& item : items_of(runtime, given)) {
        const std::vector<Value> pair = items_of(runtime, item);
        if (pair.size() != 2) throw TemplateError("a dict is made of pairs");
        mapping.set(pair[0], pair[1]);
      }
    }
  }
  for (auto& [name, value] : arguments.named) mapping.set(name, std::move(value));
  runtime.charge(mapping.items.size() * 2 * sizeof(Value));
  return mapping;
}

Value name_space(Runtime& runtime, Arguments arguments) {
  auto names = std::make_shared<Mapping>(mapping_of(runtime, std::move(arguments)));
  for (const auto& [name, value] : names->items) Namespace::require_public(to_text(name));
  runtime.keep(names);
  return std::shared_ptr<Object>(std::make_shared<Namespace>(std::move(names)));
}

Value raise_exception(Runtime&, Arguments arguments) {
  const Bound bound("raise_exception", {"message"}, std::move(arguments));
  throw TemplateError("the template refuses: " + to_text(bound.required(0)));
}

Value strftime_now(Runtime& runtime, Arguments arguments) {
  const Bound bound("strftime_now", {"format"}, std::move(arguments));
  bound.required(0);
  const std::string format =
      bound.text(0, "") + " ";  // so that an empty result is told from a failure
  const std::time_t now = runtime.now();
  std::tm time{};
  localtime_r(&now, &time);
  runtime.charge(format.size() * 32);
  std::string text(format.size() * 32 + 64, '\0');
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &time));
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace

void add_globals(Runtime&, Scope& scope) {
  const auto add = [&](const char* name, Function function) {
    scope.set(name, function_value(name, std::move(function)));
  };
  add("range", range);
  add("dict", [](Runtime& runtime, Arguments arguments) {
    return Value::dict(mapping_of(runtime, std::move(arguments)));
  });
  add("namespace", name_space);
  add("raise_exception", raise_exception);
  add("strftime_now", strftime_now);
}

}  // namespace sftbench::jinja
