// One rendering: its output, its variables, and what it may still take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.h"
#include "sftbench/jinja/template.h"

namespace sftbench::jinja {

// Variables of a block. What is set in a block is not seen behind it; what was set around it is.
class Scope : public std::enable_shared_from_this<Scope> {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  const Value* find(std::string_view name) const;
  void set(const std::string& name, Value value);
  void clear() { values_.clear(); }

 private:
  std::shared_ptr<Scope> parent_;
  std::vector<std::pair<std::string, Value>> values_;
};

class Runtime {
 public:
  explicit Runtime(std::time_t now) : now_(now) {}
  ~Runtime();

  std::time_t now() const { return now_; }

  // Each throws a TemplateError when the rendering has taken what it may.
  void step();
  void charge(size_t bytes);

  // Depth of evaluation, bounded so that no template exhausts the stack.
  class Nested {
   public:
    explicit Nested(Runtime& runtime);
    ~Nested() { --runtime_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Runtime& runtime_;
  };

  void write(std::string_view text);
  // What `body` writes, in place of writing it.
  std::string captured(const std::function<void()>& body);
  // Notes what `body` writes as said by an assistant, unless it goes into a value.
  void generation(const std::function<void()>& body);
  Rendered take() { return std::move(rendered_); }

  // Frees at the end what a namespace or a macro's scope holds: they may hold each other.
  void keep(std::shared_ptr<Scope> scope) { scopes_.push_back(std::move(scope)); }
  void keep(std::shared_ptr<Mapping> names) { names_.push_back(std::move(names)); }

 private:
  Rendered rendered_;
  std::string* output_ = &rendered_.text;
  std::time_t now_;
  int64_t steps_ = 0;
  size_t bytes_ = 0;
  int depth_ = 0;
  std::vector<std::shared_ptr<Scope>> scopes_;
  std::vector<std::shared_ptr<Mapping>> names_;
};

// The items that iterating gives, which a generator then no longer has. TemplateError where nothing
// can be iterated.
std::vector<Value> items_of(Runtime& runtime, const Value& value);

// obj.name and obj[key], undefined where there is none.
Value attribute_of(Runtime& runtime, const Value& value, const std::string& name);
Value item_of(Runtime& runtime, const Value& value, const Value& key);
Value slice_of(Runtime& runtime, const Value& value, const Value& begin, const Value& end,
               const Value& step);
Value call(Runtime& runtime, const Value& function, Arguments arguments);
bool contains(Runtime& runtime, const Value& container, const Value& item);
int64_t length_of(const Value& value);

// + - * / // % ** of Python; `operation` is its sign.
Value calculate(Runtime& runtime, std::string_view operation, const Value& a, const Value& b);
Value negative(const Value& value);
Value concatenated(Runtime& runtime, const std::vector<Value>& values);
// "%s" % values.
std::string formatted(Runtime& runtime, const std::string& format,
                      const std::vector<Value>& values);

// A method of str, list, tuple or dict, or nothing.
using Function = std::function<Value(Runtime&, Arguments)>;
Function method_of(const Value& value, const std::string& name);
Value function_value(std::string name, Function function);

using Filter = Value (*)(Runtime&, const Value&, Arguments);
using Test = bool (*)(Runtime&, const Value&, const std::vector<Value>&);
// Null: there is none.
Filter filter_named(std::string_view name);
Test test_named(std::string_view name);
std::vector<std::string> filter_names();
std::vector<std::string> test_names();

void add_globals(Runtime& runtime, Scope& scope);

// Arguments of a function by position or name, as Python binds them.
class Bound {
 public:
  // TemplateError for more arguments, unknown names and names given twice.
  Bound(const char* function, std::initializer_list<const char*> names, Arguments arguments);

  bool has(size_t index) const { return given_[index]; }
  const Value& operator[](size_t index) const { return values_[index]; }
  // TemplateError where it was not given.
  const Value& required(size_t index) const;
  // Of the named type, or the default where it was not given.
  std::string text(size_t index, std::string otherwise) const;
  int64_t integer(size_t index, int64_t otherwise) const;
  bool truth(size_t index, bool otherwise) const {
    return has(index) ? values_[index].truth() : otherwise;
  }

 private:
  const char* function_;
  std::vector<const char*> names_;
  std::vector<Value> values_;
  std::vector<bool> given_;
};

}  // namespace sftbench::jinja
