// Values of templates: Python's, as far as JSON and jinja2 make them.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench::jinja {

class Value;
class Runtime;

// What jinja2 or Python would raise. `line` is set where the statement is known.
class TemplateError : public std::runtime_error {
 public:
  explicit TemplateError(const std::string& message, int at_line = 0)
      : std::runtime_error(message), line(at_line) {}

  int line;
};

struct Undefined {
  std::string what;  // "'x' is undefined", which an error says
};
struct None {};

struct Sequence {
  enum class Kind {
    kList,
    kTuple,
    kGenerator
  };  // a generator is true, has no length and gives its items once
  Kind kind = Kind::kList;
  std::vector<Value> items;
  int depth = 1;  // of lists and dicts within each other
};

// In order of insertion. Found by comparison: those of chats are small.
struct Mapping {
  std::vector<std::pair<Value, Value>> items;
  int depth = 1;

  const Value* find(const Value& key) const;
  const Value* find_name(std::string_view key) const;
  void set(Value key, Value value);
};

// Arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Functions, macros, loops and namespaces.
class Object {
 public:
  virtual ~Object() = default;

  virtual std::string type_name() const = 0;
  virtual bool callable() const { return false; }
  virtual Value call(Runtime& runtime, Arguments arguments);
  // False: it has none of this name.
  virtual bool attribute(Runtime&, const std::string&, Value&) const { return false; }
  // False: its attributes cannot be set.
  virtual bool set_attribute(const std::string& name, Value value);
};

using Text = std::shared_ptr<const std::string>;

class Value {
 public:
  Value() : data_(None()) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(Undefined value) : data_(std::move(value)) {}
  Value(std::shared_ptr<Sequence> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<Mapping> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<Object> value) : data_(std::move(value)) {}

  // TemplateError for values too deep to be walked through.
  static Value list(std::vector<Value> items, Sequence::Kind kind = Sequence::Kind::kList);
  static Value dict(Mapping mapping);
  static Value from_json(const Json& json);

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  bool is_text() const { return is<Text>(); }
  bool is_integer() const { return is<int64_t>() || is<bool>(); }
  bool is_number() const { return is_integer() || is<double>(); }

  const std::string& text() const { return *std::get<Text>(data_); }
  int64_t integer() const { return is<bool>() ? std::get<bool>(data_) : std::get<int64_t>(data_); }
  double number() const {
    return is<double>() ? std::get<double>(data_) : static_cast<double>(integer());
  }
  const std::string& undefined() const { return std::get<Undefined>(data_).what; }
  // Null where it is something else.
  Sequence* sequence() const;
  Mapping* mapping() const;
  std::shared_ptr<Object> object() const;

  bool truth() const;
  std::string type_name() const;  // Python's: "str", "list"
  int depth() const;              // 0: neither a list nor a dict

 private:
  std::variant<None, Undefined, bool, int64_t, double, Text, std::shared_ptr<Sequence>,
               std::shared_ptr<Mapping>, std::shared_ptr<Object>>
      data_;
};

bool equal(const Value& a, const Value& b);
// As Python's <. TemplateError for values without an order.
bool less(const Value& a, const Value& b);

// str() and repr() of Python.
std::string to_text(const Value& value);
std::string representation(const Value& value);
std::string float_text(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool has_indent = false;
  std::string indent;  // of a level, where it has one
  std::string item_separator = ", ", key_separator = ": ";
};

// json.dumps. TemplateError for what JSON has no form of.
std::string to_json_text(const Value& value, const JsonStyle& style);

// TemplateError: what jinja2 says of using an undefined value.
[[noreturn]] void raise_undefined(const Value& value);
inline void require_defined(const Value& value) {
  if (value.is_undefined()) raise_undefined(value);
}

}  // namespace sftbench::jinja
