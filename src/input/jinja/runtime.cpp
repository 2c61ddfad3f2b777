#include "jinja/runtime.h"

#include <algorithm>

#include "jinja/text.h"

namespace sftbench::jinja {
namespace {

constexpr int64_t kMostSteps = 20'000'000;
constexpr size_t kMostBytes = size_t{512} << 20;
constexpr int kMostNested = 1200;

std::string described(const Value& value) {
  return value.is_none() ? "None" : value.type_name() + " object";
}

Undefined no_attribute(const Value& value, const std::string& name) {
  return {in_quotes(described(value)) + " has no attribute " + in_quotes(name)};
}

Undefined no_element(const Value& value, const Value& key) {
  return key.is_text() ? no_attribute(value, key.text())
                       : Undefined{described(value) + " has no element " + representation(key)};
}

class BoundFunction final : public Object {
 public:
  BoundFunction(std::string name, Function function)
      : name_(std::move(name)), function_(std::move(function)) {}

  std::string type_name() const override { return "function"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override {
    return function_(runtime, std::move(arguments));
  }

 private:
  std::string name_;
  Function function_;
};

// False: the value has none of this name.
bool find_attribute(Runtime& runtime, const Value& value, const std::string& name, Value& found) {
  if (name.starts_with("_")) return false;
  if (const auto object = value.object()) return object->attribute(runtime, name, found);
  Function method = method_of(value, name);
  if (!method) return false;
  found = function_value(name, std::move(method));
  return true;
}

bool find_item(Runtime& runtime, const Value& value, const Value& key, Value& found) {
  if (const Mapping* mapping = value.mapping()) {
    const Value* item = mapping->find(key);
    if (item) found = *item;
    return item != nullptr;
  }
  if (!key.is_integer() || (!value.is_text() && !value.sequence())) return false;
  if (value.sequence() && value.sequence()->kind == Sequence::Kind::kGenerator) return false;
  const int64_t length = length_of(value);
  const int64_t index = key.integer() < 0 ? key.integer() + length : key.integer();
  if (index < 0 || index >= length) return false;
  runtime.charge(value.is_text() ? value.text().size() : 0);
  found = value.is_text() ? Value(characters(value.text())[static_cast<size_t>(index)])
                          : value.sequence()->items[static_cast<size_t>(index)];
  return true;
}

// Where a slice begins or ends: Python's slice.indices.
int64_t bound_of(const Value& value, int64_t otherwise, int64_t length, bool backwards) {
  if (value.is_none()) return otherwise;
  if (!value.is_integer())
    throw TemplateError("slice indices must be integers or None or have an __index__ method");
  const int64_t index = value.integer() < 0 ? value.integer() + length : value.integer();
  return std::clamp<int64_t>(index, backwards ? -1 : 0, backwards ? length - 1 : length);
}

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->parent_.get()) {
    for (const auto& [known, value] : scope->values_) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  for (auto& [known, old] : values_) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  values_.emplace_back(name, std::move(value));
}

Runtime::~Runtime() {
  for (const auto& scope : scopes_) scope->clear();
  for (const auto& names : names_) names->items.clear();
}

void Runtime::step() {
  if (++steps_ > kMostSteps) {
    throw TemplateError("the template takes more than " + std::to_string(kMostSteps) + " steps");
  }
}

void Runtime::charge(size_t bytes) {
  if (bytes > kMostBytes || (bytes_ += bytes) > kMostBytes) {
    throw TemplateError("the template makes more than " + std::to_string(kMostBytes >> 20) +
                        " MiB of values");
  }
}

Runtime::Nested::Nested(Runtime& runtime) : runtime_(runtime) {
  if (++runtime_.depth_ <= kMostNested) return;
  --runtime_.depth_;
  throw TemplateError("maximum recursion depth exceeded");
}

void Runtime::write(std::string_view text) {
  charge(text.size());
  *output_ += text;
}

std::string Runtime::captured(const std::function<void()>& body) {
  std::string text;
  std::string* outer = std::exchange(output_, &text);
  try {
    body();
  } catch (...) {
    output_ = outer;
    throw;
  }
  output_ = outer;
  return text;
}

void Runtime::generation(const std::function<void()>& body) {
  const bool counts = output_ == &rendered_.text;
  const size_t begin = rendered_.text.size();
  body();
  if (counts) rendered_.generation.push_back({begin, rendered_.text.size()});
}

namespace {

std::vector<Value> all_items(const Value& value) {
  if (value.is_undefined()) return {};
  if (value.is_text()) {
    const std::vector<std::string> parts = characters(value.text());
    return {parts.begin(), parts.end()};
  }
  if (const Mapping* mapping = value.mapping()) {
    std::vector<Value> keys;
    for (const auto& item : mapping->items) keys.push_back(item.first);
    return keys;
  }
  Sequence* sequence = value.sequence();
  if (!sequence) throw TemplateError("'" + value.type_name() + "' object is not iterable");
  return sequence->kind == Sequence::Kind::kGenerator ? std::exchange(sequence->items, {})
                                                      : sequence->items;
}

}  // namespace

std::vector<Value> items_of(Runtime& runtime, const Value& value) {
  std::vector<Value> items = all_items(value);
  runtime.charge(items.size() * sizeof(Value));
  return items;
}

Value attribute_of(Runtime& runtime, const Value& value, const std::string& name) {
  require_defined(value);
  Value found;
  if (find_attribute(runtime, value, name, found) || find_item(runtime, value, name, found))
    return found;
  return no_attribute(value, name);
}

Value item_of(Runtime& runtime, const Value& value, const Value& key) {
  require_defined(value);
  Value found;
  if (find_item(runtime, value, key, found)) return found;
  if (key.is_text() && find_attribute(runtime, value, key.text(), found)) return found;
  return no_element(value, key);
}

Value slice_of(Runtime& runtime, const Value& value, const Value& begin, const Value& end,
               const Value& step) {
  require_defined(value);
  const Sequence* sequence = value.sequence();
  if (!value.is_text() && (!sequence || sequence->kind == Sequence::Kind::kGenerator)) {
    return Undefined{described(value) + " cannot be sliced"};
  }
  const int64_t stride = step.is_none() ? 1 : step.is_integer() ? step.integer() : 0;
  if (stride == 0) throw TemplateError("slice step cannot be zero");
  const std::vector<Value> items = items_of(runtime, value);
  const auto length = static_cast<int64_t>(items.size());
  const bool backwards = stride < 0;
  const int64_t from = bound_of(begin, backwards ? length - 1 : 0, length, backwards);
  const int64_t to = bound_of(end, backwards ? -1 : length, length, backwards);
  std::vector<Value> taken;
  const int64_t most =
      backwards ? from - to : to - from;  // before a stride beyond it overflows an index
  const int64_t pace = std::clamp<int64_t>(stride, -length - 1, length + 1);
  for (int64_t i = 0; i < most; i += std::abs(pace))
    taken.push_back(items[static_cast<size_t>(from + (backwards ? -i : i))]);
  if (sequence) return Value::list(std::move(taken), sequence->kind);
  std::string text;
  for (const Value& character : taken) text += character.text();
  return text;
}

Value call(Runtime& runtime, const Value& function, Arguments arguments) {
  require_defined(function);
  const Runtime::Nested nested(runtime);
  const auto object = function.object();
  if (!object) throw TemplateError("'" + function.type_name() + "' object is not callable");
  return object->call(runtime, std::move(arguments));
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_text()) {
    if (!item.is_text()) {
      throw TemplateError("'in <string>' requires string as left operand, not " + item.type_name());
    }
    runtime.charge(container.text().size() / 16);  // quick, yet not free
    return container.text().find(item.text()) != std::string::npos;
  }
  if (const Mapping* mapping = container.mapping()) {
    const Sequence* sequence = item.sequence();
    if (item.mapping() || (sequence && sequence->kind == Sequence::Kind::kList))
      throw TemplateError("unhashable type: '" + item.type_name() + "'");
    return mapping->find(item) != nullptr;
  }
  if (!container.sequence() && !container.is_undefined()) {
    throw TemplateError("argument of type '" + container.type_name() + "' is not iterable");
  }
  const std::vector<Value> items = items_of(runtime, container);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& other) { return equal(other, item); });
}

int64_t length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return code_points(value.text());
  if (const Mapping* mapping = value.mapping()) return static_cast<int64_t>(mapping->items.size());
  const Sequence* sequence = value.sequence();
  if (!sequence || sequence->kind == Sequence::Kind::kGenerator) {
    throw TemplateError("object of type '" + value.type_name() + "' has no len()");
  }
  return static_cast<int64_t>(sequence->items.size());
}

Value function_value(std::string name, Function function) {
  return std::shared_ptr<Object>(
      std::make_shared<BoundFunction>(std::move(name), std::move(function)));
}

Bound::Bound(const char* function, std::initializer_list<const char*> names, Arguments arguments)
    : function_(function), names_(names), values_(names.size()), given_(names.size()) {
  if (arguments.positional.size() > names_.size()) {
    throw TemplateError(std::string(function) + "() takes at most " +
                        std::to_string(names_.size()) + " arguments (" +
                        std::to_string(arguments.positional.size()) + " given)");
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = std::move(arguments.positional[i]);
    given_[i] = true;
  }
  for (auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    const auto index = static_cast<size_t>(found - names_.begin());
    if (found == names_.end() || given_[index]) {
      throw TemplateError(std::string(function) + "() got " +
                          (found == names_.end() ? "an unexpected" : "a second") + " argument '" +
                          name + "'");
    }
    values_[index] = std::move(value);
    given_[index] = true;
  }
}

const Value& Bound::required(size_t index) const {
  if (given_[index]) return values_[index];
  throw TemplateError(std::string(function_) + "() missing required argument '" + names_[index] +
                      "'");
}

std::string Bound::text(size_t index, std::string otherwise) const {
  if (!given_[index]) return otherwise;
  require_defined(values_[index]);
  if (values_[index].is_text()) return values_[index].text();
  throw TemplateError(std::string(function_) + "(): argument '" + names_[index] +
                      "' must be str, not " + values_[index].type_name());
}

int64_t Bound::integer(size_t index, int64_t otherwise) const {
  if (!given_[index]) return otherwise;
  require_defined(values_[index]);
  if (values_[index].is_integer()) return values_[index].integer();
  throw TemplateError(std::string(function_) + "(): argument '" + names_[index] +
                      "' must be int, not " + values_[index].type_name());
}

}  // namespace sftbench::jinja
