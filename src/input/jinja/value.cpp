#include "jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "jinja/text.h"

namespace sftbench::jinja {

const Value* Mapping::find(const Value& key) const {
  for (const auto& [name, value] : items) {
    if (equal(name, key)) return &value;
  }
  return nullptr;
}

const Value* Mapping::find_name(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (name.is_text() && name.text() == key) return &value;
  }
  return nullptr;
}

void Mapping::set(Value key, Value value) {
  for (auto& [name, old] : items) {
    if (!equal(name, key)) continue;
    old = std::move(value);
    return;
  }
  items.emplace_back(std::move(key), std::move(value));
}

bool Object::set_attribute(const std::string&, Value) {
  return false;
}

Value Object::call(Runtime&, Arguments) {
  throw TemplateError("'" + type_name() + "' object is not callable");
}

namespace {

int depth_around(int deepest) {
  constexpr int kMost = 200;
  if (deepest >= kMost)
    throw TemplateError("values within each other, more than " + std::to_string(kMost) + " deep");
  return deepest + 1;
}

}  // namespace

Value Value::list(std::vector<Value> items, Sequence::Kind kind) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  return std::make_shared<Sequence>(Sequence{kind, std::move(items), depth_around(deepest)});
}

Value Value::dict(Mapping mapping) {
  int deepest = 0;
  for (const auto& [key, value] : mapping.items)
    deepest = std::max({deepest, key.depth(), value.depth()});
  mapping.depth = depth_around(deepest);
  return std::make_shared<Mapping>(std::move(mapping));
}

Value Value::from_json(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return json.get<double>();
      return json.get<int64_t>();
    case Json::value_t::number_integer:
      return json.get<int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(from_json(item));
      return list(std::move(items));
    }
    case Json::value_t::object: {
      Mapping mapping;
      for (const auto& [key, value] : json.items())
        mapping.items.emplace_back(key, from_json(value));
      return dict(std::move(mapping));
    }
    default:
      return {};
  }
}

Sequence* Value::sequence() const {
  const auto* held = std::get_if<std::shared_ptr<Sequence>>(&data_);
  return held ? held->get() : nullptr;
}

Mapping* Value::mapping() const {
  const auto* held = std::get_if<std::shared_ptr<Mapping>>(&data_);
  return held ? held->get() : nullptr;
}

std::shared_ptr<Object> Value::object() const {
  const auto* held = std::get_if<std::shared_ptr<Object>>(&data_);
  return held ? *held : nullptr;
}

bool Value::truth() const {
  if (is_none() || is_undefined()) return false;
  if (is_integer()) return integer() != 0;
  if (is<double>()) return number() != 0;
  if (is_text()) return !text().empty();
  if (const Sequence* items = sequence())
    return items->kind == Sequence::Kind::kGenerator || !items->items.empty();
  if (const Mapping* items = mapping()) return !items->items.empty();
  return true;
}

std::string Value::type_name() const {
  if (is_none()) return "NoneType";
  if (is_undefined()) return "Undefined";
  if (is<bool>()) return "bool";
  if (is<int64_t>()) return "int";
  if (is<double>()) return "float";
  if (is_text()) return "str";
  if (mapping()) return "dict";
  if (const auto held = object()) return held->type_name();
  static constexpr const char* kNames[] = {"list", "tuple", "generator"};
  return kNames[static_cast<size_t>(sequence()->kind)];
}

int Value::depth() const {
  if (const Sequence* items = sequence()) return items->depth;
  const Mapping* items = mapping();
  return items ? items->depth : 0;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return a.is_integer() && b.is_integer() ? a.integer() == b.integer() : a.number() == b.number();
  }
  if (a.is_text() && b.is_text()) return a.text() == b.text();
  if (a.is_none() || a.is_undefined())
    return a.is_none() == b.is_none() && a.is_undefined() == b.is_undefined();
  if (a.sequence() && b.sequence()) {
    const Sequence &left = *a.sequence(), &right = *b.sequence();
    if (&left == &right) return true;
    if (left.kind != right.kind || left.kind == Sequence::Kind::kGenerator) return false;
    return std::equal(left.items.begin(), left.items.end(), right.items.begin(), right.items.end(),
                      equal);
  }
  if (a.mapping() && b.mapping()) {
    const Mapping &left = *a.mapping(), &right = *b.mapping();
    if (left.items.size() != right.items.size()) return false;
    return std::all_of(left.items.begin(), left.items.end(), [&](const auto& item) {
      const Value* other = right.find(item.first);
      return other && equal(item.second, *other);
    });
  }
  return a.object() && a.object() == b.object();
}

bool less(const Value& a, const Value& b) {
  require_defined(a);
  require_defined(b);
  if (a.is_number() && b.is_number()) {
    return a.is_integer() && b.is_integer() ? a.integer() < b.integer() : a.number() < b.number();
  }
  if (a.is_text() && b.is_text()) return a.text() < b.text();
  if (a.sequence() && b.sequence() && a.sequence()->kind == b.sequence()->kind) {
    const auto &left = a.sequence()->items, &right = b.sequence()->items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!equal(left[i], right[i])) return less(left[i], right[i]);
    }
    return left.size() < right.size();
  }
  throw TemplateError("'<' not supported between instances of '" + a.type_name() + "' and '" +
                      b.type_name() + "'");
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char shortest[40];
  const auto written =
      std::to_chars(shortest, shortest + sizeof shortest, value, std::chars_format::scientific);
  const std::string_view text(shortest, static_cast<size_t>(written.ptr - shortest));
  const size_t mark = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + mark + (text[mark + 1] == '+' ? 2 : 1), text.data() + text.size(),
                  exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  char fixed[400];
  const auto end = std::to_chars(fixed, fixed + sizeof fixed, value, std::chars_format::fixed);
  std::string result(fixed, end.ptr);
  return result.find('.') == std::string::npos ? result + ".0" : result;
}

namespace {

std::string joined_items(const std::vector<Value>& items) {
  std::string text;
  for (const Value& item : items) text += (text.empty() ? "" : ", ") + representation(item);
  return text;
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  std::string take() { return std::move(text_); }

  void write(const Value& value) {
    if (value.is_none()) {
      text_ += "null";
    } else if (value.is<bool>()) {
      text_ += value.truth() ? "true" : "false";
    } else if (value.is<double>()) {
      write_number(value.number());
    } else if (value.is_text()) {
      text_ += json_quoted(value.text(), style_.ensure_ascii);
    } else if (value.is<int64_t>()) {
      text_ += std::to_string(value.integer());
    } else if (value.mapping()) {
      write_object(*value.mapping());
    } else if (value.sequence() && value.sequence()->kind != Sequence::Kind::kGenerator) {
      write_array(*value.sequence());
    } else {
      throw TemplateError("Object of type " + value.type_name() + " is not JSON serializable");
    }
  }

 private:
  void write_number(double value) {
    if (std::isnan(value)) {
      text_ += "NaN";
    } else if (std::isinf(value)) {
      text_ += value < 0 ? "-Infinity" : "Infinity";
    } else {
      text_ += float_text(value);
    }
  }

  std::string key_text(const Value& key) const {
    if (key.is_text()) return key.text();
    if (!key.is_none() && !key.is_number()) {
      throw TemplateError("keys must be str, int, float, bool or None, not " + key.type_name());
    }
    return to_json_text(key, style_);
  }

  void write_object(const Mapping& mapping) {
    std::vector<std::pair<std::string, const Value*>> items;
    for (const auto& [key, value] : mapping.items) items.emplace_back(key_text(key), &value);
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    open('{');
    for (const auto& [key, value] : items) {
      next(&key == &items.front().first);
      text_ += json_quoted(key, style_.ensure_ascii) + style_.key_separator;
      write(*value);
    }
    close('}', items.empty());
  }

  void write_array(const Sequence& sequence) {
    open('[');
    for (const Value& item : sequence.items) {
      next(&item == &sequence.items.front());
      write(item);
    }
    close(']', sequence.items.empty());
  }

  void open(char bracket) {
    text_ += bracket;
    ++depth_;
  }
  void next(bool first) {
    if (!first) text_ += style_.item_separator;
    break_line();
  }
  void close(char bracket, bool empty) {
    --depth_;
    if (!empty) break_line();
    text_ += bracket;
  }
  void break_line() {
    if (!style_.has_indent) return;
    text_ += '\n';
    for (int i = 0; i < depth_; ++i) text_ += style_.indent;
  }

  const JsonStyle& style_;
  std::string text_;
  int depth_ = 0;
};

}  // namespace

std::string to_text(const Value& value) {
  if (value.is_text()) return value.text();
  return value.is_undefined() ? std::string() : representation(value);
}

std::string representation(const Value& value) {
  if (value.is_none()) return "None";
  if (value.is_undefined()) return "Undefined";
  if (value.is<bool>()) return value.truth() ? "True" : "False";
  if (value.is<int64_t>()) return std::to_string(value.integer());
  if (value.is<double>()) return float_text(value.number());
  if (value.is_text()) return in_quotes(value.text());
  if (const Mapping* mapping = value.mapping()) {
    std::string text;
    for (const auto& [key, item] : mapping->items) {
      text += (text.empty() ? "" : ", ") + representation(key) + ": " + representation(item);
    }
    return "{" + text + "}";
  }
  const Sequence* sequence = value.sequence();
  if (!sequence || sequence->kind == Sequence::Kind::kGenerator)
    return "<" + value.type_name() + " object>";
  const std::string items = joined_items(sequence->items);
  if (sequence->kind == Sequence::Kind::kList) return "[" + items + "]";
  return "(" + items + (sequence->items.size() == 1 ? ",)" : ")");
}

std::string to_json_text(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value);
  return writer.take();
}

void raise_undefined(const Value& value) {
  throw TemplateError(value.undefined());
}

}  // namespace sftbench::jinja
