// jinja2's filters. Those that give a generator there give one here.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "jinja/runtime.h"
#include "jinja/text.h"

namespace sftbench::jinja {
namespace {

Value generator(std::vector<Value> items) {
  return Value::list(std::move(items), Sequence::Kind::kGenerator);
}

// str() of an argument that jinja2 takes for a text.
std::string charged_text(Runtime& runtime, const Value& value) {
  std::string text = to_text(value);
  runtime.charge(text.size());
  return text;
}

// What `attribute` names within an item: "a.b", "0", an index.
Value found_by(Runtime& runtime, Value item, const Value& attribute) {
  if (attribute.is_none()) return item;
  if (!attribute.is_text()) return item_of(runtime, item, attribute);
  for (const std::string& part : split(attribute.text(), ".", -1)) {
    const bool index = !part.empty() && part.size() < 10 &&
                       part.find_first_not_of("0123456789") == std::string::npos;
    item =
        item_of(runtime, item, index ? Value(static_cast<int64_t>(std::stoll(part))) : Value(part));
  }
  return item;
}

Value ignoring_case(const Value& value, bool case_sensitive) {
  return value.is_text() && !case_sensitive ? Value(lower(value.text())) : value;
}

Value absolute(Runtime&, const Value& value, Arguments arguments) {
  const Bound none("abs", {}, std::move(arguments));
  require_defined(value);
  if (!value.is_number())
    throw TemplateError("bad operand type for abs(): '" + value.type_name() + "'");
  return (value.is_integer() ? value.integer() < 0 : std::signbit(value.number())) ? negative(value)
                                                                                   : value;
}

Value attribute(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("attr", {"name"}, std::move(arguments));
  bound.required(0);
  if (value.mapping() && !method_of(value, bound.text(0, "")))
    return Undefined{"'dict object' has no attribute " + in_quotes(bound.text(0, ""))};
  return attribute_of(runtime, value, bound.text(0, ""));
}

Value batch(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("batch", {"linecount", "fill_with"}, std::move(arguments));
  bound.required(0);
  const auto size = static_cast<size_t>(std::max<int64_t>(bound.integer(0, 1), 1));
  std::vector<Value> batches, items;
  for (Value& item : items_of(runtime, value)) {
    items.push_back(std::move(item));
    if (items.size() == size) batches.push_back(Value::list(std::exchange(items, {})));
  }
  if (!items.empty()) {
    if (bound.has(1) && !bound[1].is_none()) {
      runtime.charge(size * sizeof(Value));
      items.resize(size, bound[1]);
    }
    batches.push_back(Value::list(std::move(items)));
  }
  return generator(std::move(batches));
}

template <std::string (*kChange)(std::string_view)>
Value changed(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound none("filter", {}, std::move(arguments));
  return kChange(charged_text(runtime, value));
}

Value centered(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("center", {"width"}, std::move(arguments));
  Arguments forwarded;
  forwarded.positional.push_back(bound.integer(0, 80));
  return method_of(Value(charged_text(runtime, value)), "center")(runtime, std::move(forwarded));
}

Value default_of(Runtime&, const Value& value, Arguments arguments) {
  const Bound bound("default", {"default_value", "boolean"}, std::move(arguments));
  const bool missing = value.is_undefined() || (bound.truth(1, false) && !value.truth());
  return !missing ? value : bound.has(0) ? bound[0] : Value("");
}

Value sorted_dict(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("dictsort", {"case_sensitive", "by", "reverse"}, std::move(arguments));
  const std::string by = bound.text(1, "key");
  if (by != "key" && by != "value")
    throw TemplateError("You can only sort by either \"key\" or \"value\"");
  if (!value.mapping())
    throw TemplateError("'" + value.type_name() + "' object has no attribute 'items'");
  std::vector<Value> pairs = items_of(runtime, method_of(value, "items")(runtime, {}));
  const bool case_sensitive = bound.truth(0, false), reverse = bound.truth(2, false);
  std::stable_sort(pairs.begin(), pairs.end(), [&](const Value& a, const Value& b) {
    runtime.step();
    const auto key = [&](const Value& pair) {
      return ignoring_case(pair.sequence()->items[by == "key" ? 0 : 1], case_sensitive);
    };
    return reverse ? less(key(b), key(a)) : less(key(a), key(b));
  });
  return Value::list(std::move(pairs));
}

Value escaped(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound none("escape", {}, std::move(arguments));
  const std::string text = html_escaped(charged_text(runtime, value));
  runtime.charge(text.size());
  return text;
}

template <bool kLast>
Value first_or_last(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound none(kLast ? "last" : "first", {}, std::move(arguments));
  std::vector<Value> items = items_of(runtime, value);
  if (items.empty())
    return Undefined{kLast ? "No last item, sequence was empty."
                           : "No first item, sequence was empty."};
  const Value found = kLast ? items.back() : items.front();
  Sequence* sequence = value.sequence();
  if (!kLast && sequence && sequence->kind == Sequence::Kind::kGenerator) {
    sequence->items.assign(items.begin() + 1, items.end());  // the others are still to come
  }
  return found;
}

// The number that a text begins and ends with, or false.
bool read_integer(const std::string& text, int base, int64_t& number) {
  const std::string digits(stripped(text, Side::kBoth));
  if (digits.empty()) return false;
  char* end = nullptr;
  errno = 0;
  number = std::strtoll(digits.c_str(), &end, base);
  return errno == 0 && end == digits.c_str() + digits.size();
}

bool read_float(const std::string& text, double& number) {
  const std::string digits(stripped(text, Side::kBoth));
  if (digits.empty() || digits.find_first_of("xXpP(") != std::string::npos) return false;
  char* end = nullptr;
  number = std::strtod(digits.c_str(), &end);
  return end == digits.c_str() + digits.size();
}

Value to_integer(Runtime&, const Value& value, Arguments arguments) {
  const Bound bound("int", {"default", "base"}, std::move(arguments));
  const Value otherwise = bound.has(0) ? bound[0] : Value(int64_t{0});
  const auto base = static_cast<int>(bound.integer(1, 10));
  if (base < 2 || base > 36) throw TemplateError("int() base must be >= 2 and <= 36");
  double number = 0;
  int64_t integer = 0;
  if (value.is_integer()) return value.integer();
  if (value.is_text() && read_integer(value.text(), base, integer)) return integer;
  if (value.is_text() && !read_float(value.text(), number)) return otherwise;
  if (!value.is_text() && !value.is<double>()) return otherwise;
  if (value.is<double>()) number = value.number();
  return std::abs(number) < 9e18 ? Value(static_cast<int64_t>(number)) : otherwise;
}

Value to_float(Runtime&, const Value& value, Arguments arguments) {
  const Bound bound("float", {"default"}, std::move(arguments));
  double number = 0;
  if (value.is_number()) return value.number();
  if (value.is_text() && read_float(value.text(), number)) return number;
  return bound.has(0) ? bound[0] : Value(0.0);
}

Value format_filter(Runtime& runtime, const Value& value, Arguments arguments) {
  if (!arguments.named.empty()) throw TemplateError("format(): named values are not done here");
  return formatted(runtime, charged_text(runtime, value), arguments.positional);
}

Value indented(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("indent", {"width", "first", "blank"}, std::move(arguments));
  const std::string text = charged_text(runtime, value);
  std::string indent;
  if (bound.has(0) && bound[0].is_text()) {
    indent = bound[0].text();
  } else {
    const int64_t width = std::max<int64_t>(bound.integer(0, 4), 0);
    runtime.charge(static_cast<size_t>(width));
    indent.assign(static_cast<size_t>(width), ' ');
  }
  std::string result;
  bool first = true;
  for (const std::string& line : lines(text + "\n", false)) {
    const bool indents = first ? bound.truth(1, false) : !line.empty() || bound.truth(2, false);
    runtime.charge(line.size() + indent.size());
    result += (first ? "" : "\n") + (indents ? indent : std::string()) + line;
    first = false;
  }
  return result;
}

Value items_filter(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound none("items", {}, std::move(arguments));
  if (value.is_undefined()) return generator({});
  if (!value.mapping()) throw TemplateError("Can only get item pairs from a mapping.");
  return generator(items_of(runtime, method_of(value, "items")(runtime, {})));
}

Value joined(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("join", {"d", "attribute"}, std::move(arguments));
  const std::string separator = bound.has(0) ? to_text(bound[0]) : "";
  std::string text;
  bool first = true;
  for (const Value& item : items_of(runtime, value)) {
    const std::string part = to_text(found_by(runtime, item, bound[1]));
    runtime.charge(separator.size() + part.size());
    text += (first ? "" : separator) + part;
    first = false;
  }
  return text;
}

Value length(Runtime&, const Value& value, Arguments arguments) {
  const Bound none("length", {}, std::move(arguments));
  return length_of(value);
}

Value to_list(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound none("list", {}, std::move(arguments));
  return Value::list(items_of(runtime, value));
}

Arguments without_first(Arguments arguments, size_t taken) {
  arguments.positional.erase(arguments.positional.begin(),
                             arguments.positional.begin() + static_cast<std::ptrdiff_t>(taken));
  return arguments;
}

Value mapped(Runtime& runtime, const Value& value, Arguments arguments) {
  std::vector<Value> results;
  if (arguments.positional.empty()) {
    const Bound bound("map", {"attribute", "default"}, std::move(arguments));
    bound.required(0);
    for (const Value& item : items_of(runtime, value)) {
      Value found = found_by(runtime, item, bound[0]);
      results.push_back(found.is_undefined() && bound.has(1) ? bound[1] : std::move(found));
    }
    return generator(std::move(results));
  }
  const std::string name = to_text(arguments.positional[0]);
  const Filter filter = filter_named(name);
  if (!filter) throw TemplateError("No filter named " + in_quotes(name) + ".");
  const Arguments rest = without_first(std::move(arguments), 1);
  for (const Value& item : items_of(runtime, value)) {
    runtime.step();
    results.push_back(filter(runtime, item, rest));
  }
  return generator(std::move(results));
}

template <bool kLargest>
Value extreme(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound(kLargest ? "max" : "min", {"case_sensitive", "attribute"},
                    std::move(arguments));
  const std::vector<Value> items = items_of(runtime, value);
  if (items.empty()) return Undefined{"No aggregated item, sequence was empty."};
  const auto key = [&](const Value& item) {
    return ignoring_case(found_by(runtime, item, bound[1]), bound.truth(0, false));
  };
  const auto ordered = [&](const Value& a, const Value& b) { return less(key(a), key(b)); };
  return kLargest ? *std::max_element(items.begin(), items.end(), ordered)
                  : *std::min_element(items.begin(), items.end(), ordered);
}

// select and reject, by a test of the items or of an attribute of each.
template <bool kSelects, bool kByAttribute>
Value chosen(Runtime& runtime, const Value& value, Arguments arguments) {
  const char* function = kSelects ? "select" : "reject";
  if (!arguments.named.empty())
    throw TemplateError(std::string(function) + "() takes no named arguments");
  const std::vector<Value>& given = arguments.positional;
  if (kByAttribute && given.empty()) throw TemplateError("missing parameter for attribute name");
  constexpr size_t kName = kByAttribute ? 1 : 0;
  Test test = nullptr;
  std::vector<Value> rest;
  if (given.size() > kName) {
    test = test_named(to_text(given[kName]));
    if (!test) throw TemplateError("No test named " + representation(given[kName]) + ".");
    rest.assign(given.begin() + kName + 1, given.end());
  }
  std::vector<Value> results;
  for (const Value& item : items_of(runtime, value)) {
    runtime.step();
    const Value tested = kByAttribute ? found_by(runtime, item, given[0]) : item;
    if ((test ? test(runtime, tested, rest) : tested.truth()) == kSelects) results.push_back(item);
  }
  return generator(std::move(results));
}

Value replaced_by_filter(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("replace", {"old", "new", "count"}, std::move(arguments));
  Arguments forwarded;
  forwarded.positional = {to_text(bound.required(0)), to_text(bound.required(1))};
  forwarded.positional.push_back(bound.has(2) && !bound[2].is_none() ? bound[2]
                                                                     : Value(int64_t{-1}));
  return method_of(Value(charged_text(runtime, value)), "replace")(runtime, std::move(forwarded));
}

Value reversed(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound none("reverse", {}, std::move(arguments));
  std::vector<Value> items = items_of(runtime, value);
  std::reverse(items.begin(), items.end());
  if (!value.is_text()) return generator(std::move(items));
  std::string text;
  for (const Value& character : items) text += character.text();
  return text;
}

Value rounded(Runtime&, const Value& value, Arguments arguments) {
  const Bound bound("round", {"precision", "method"}, std::move(arguments));
  const std::string method = bound.text(1, "common");
  require_defined(value);
  if (!value.is_number())
    throw TemplateError("type " + value.type_name() + " doesn't define __round__ method");
  const int64_t precision = std::clamp<int64_t>(bound.integer(0, 0), -30, 30);
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return std::ceil(value.number() * scale) / scale;
  if (method == "floor") return std::floor(value.number() * scale) / scale;
  if (method != "common") throw TemplateError("method must be common, ceil or floor");
  if (value.is_integer() && precision >= 0) return value.integer();
  if (value.is_integer())
    return static_cast<int64_t>(std::nearbyint(value.number() * scale) / scale);
  if (precision <= 0) return std::nearbyint(value.number() * scale) / scale;
  // Digits of the exact value decide, as in Python.
  char digits[420];
  std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), value.number());
  return std::strtod(digits, nullptr);
}

Value unchanged(Runtime&, const Value& value, Arguments) {
  return value;
}

Value sliced(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("slice", {"slices", "fill_with"}, std::move(arguments));
  bound.required(0);
  const auto count = static_cast<size_t>(std::max<int64_t>(bound.integer(0, 1), 1));
  runtime.charge(count * sizeof(Value));
  const std::vector<Value> items = items_of(runtime, value);
  const size_t each = items.size() / count, longer = items.size() % count;
  std::vector<Value> slices;
  size_t begin = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t end = begin + each + (i < longer ? 1 : 0);
    std::vector<Value> slice(items.begin() + static_cast<std::ptrdiff_t>(begin),
                             items.begin() + static_cast<std::ptrdiff_t>(end));
    if (bound.has(1) && !bound[1].is_none() && i >= longer) slice.push_back(bound[1]);
    slices.push_back(Value::list(std::move(slice)));
    begin = end;
  }
  return generator(std::move(slices));
}

Value sorted(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("sort", {"reverse", "case_sensitive", "attribute"}, std::move(arguments));
  std::vector<std::pair<std::vector<Value>, Value>> keyed;
  std::vector<Value> attributes{bound[2]};
  if (bound[2].is_text()) {
    const std::vector<std::string> names = split(bound[2].text(), ",", -1);
    attributes.assign(names.begin(), names.end());
  }
  for (const Value& item : items_of(runtime, value)) {
    std::vector<Value> keys;
    for (const Value& name : attributes)
      keys.push_back(ignoring_case(found_by(runtime, item, name), bound.truth(1, false)));
    keyed.emplace_back(std::move(keys), item);
  }
  const bool reverse = bound.truth(0, false);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    runtime.step();
    const auto &left = reverse ? b.first : a.first, &right = reverse ? a.first : b.first;
    for (size_t i = 0; i < left.size(); ++i) {
      if (!equal(left[i], right[i])) return less(left[i], right[i]);
    }
    return false;
  });
  std::vector<Value> items;
  for (auto& [keys, item] : keyed) items.push_back(std::move(item));
  return Value::list(std::move(items));
}

Value to_string_filter(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound none("string", {}, std::move(arguments));
  return charged_text(runtime, value);
}

Value sum(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("sum", {"attribute", "start"}, std::move(arguments));
  Value total = bound.has(1) ? bound[1] : Value(int64_t{0});
  for (const Value& item : items_of(runtime, value)) {
    total = calculate(runtime, "+", total, found_by(runtime, item, bound[0]));
  }
  return total;
}

Value to_json(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"},
                    std::move(arguments));
  JsonStyle style;
  style.ensure_ascii = bound.truth(0, false);
  style.sort_keys = bound.truth(3, false);
  if (bound.has(1) && !bound[1].is_none()) {
    style.has_indent = true;
    style.item_separator = ",";
    if (bound[1].is_text()) {
      style.indent = bound[1].text();
    } else {
      style.indent.assign(static_cast<size_t>(std::clamp<int64_t>(bound.integer(1, 0), 0, 64)),
                          ' ');
    }
  }
  if (bound.has(2) && !bound[2].is_none()) {
    const std::vector<Value> separators = items_of(runtime, bound[2]);
    if (separators.size() != 2) throw TemplateError("tojson(): separators are two texts");
    style.item_separator = to_text(separators[0]);
    style.key_separator = to_text(separators[1]);
  }
  std::string text = to_json_text(value, style);
  runtime.charge(text.size());
  return text;
}

Value trimmed_by_filter(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("trim", {"chars"}, std::move(arguments));
  const std::string text = charged_text(runtime, value);
  if (!bound.has(0) || bound[0].is_none()) return std::string(stripped(text, Side::kBoth));
  return std::string(stripped(text, bound.text(0, ""), Side::kBoth));
}

Value truncated(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("truncate", {"length", "killwords", "end", "leeway"}, std::move(arguments));
  const std::vector<std::string> all = characters(charged_text(runtime, value));
  runtime.charge(all.size() * sizeof(std::string));
  const std::string end = bound.text(2, "...");
  const int64_t length = bound.integer(0, 255),
                leeway = bound.has(3) && !bound[3].is_none() ? bound.integer(3, 5) : 5;
  if (length < code_points(end))
    throw TemplateError("expected length >= " + std::to_string(code_points(end)) + ", got " +
                        std::to_string(length));
  if (static_cast<int64_t>(all.size()) <= length + leeway) return to_text(value);
  std::string text;
  for (int64_t i = 0; i < length - code_points(end); ++i) text += all[static_cast<size_t>(i)];
  if (!bound.truth(1, false)) text = text.substr(0, std::min(text.rfind(' '), text.size()));
  return text + end;
}

Value unique(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("unique", {"case_sensitive", "attribute"}, std::move(arguments));
  std::vector<Value> seen, results;
  for (const Value& item : items_of(runtime, value)) {
    const Value key = ignoring_case(found_by(runtime, item, bound[1]), bound.truth(0, false));
    runtime.charge(seen.size() * sizeof(Value));
    if (std::any_of(seen.begin(), seen.end(),
                    [&](const Value& other) { return equal(other, key); }))
      continue;
    seen.push_back(key);
    results.push_back(item);
  }
  return generator(std::move(results));
}

Value word_count(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound none("wordcount", {}, std::move(arguments));
  const std::string text = charged_text(runtime, value);
  int64_t words = 0;
  bool within = false;
  for (const std::string& character : characters(text)) {
    const bool word = is_alnum(character) || character == "_";
    words += word && !within ? 1 : 0;
    within = word;
  }
  return words;
}

const std::map<std::string, Filter, std::less<>>& filters() {
  static const std::map<std::string, Filter, std::less<>> kFilters{
      {"abs", absolute},
      {"attr", attribute},
      {"batch", batch},
      {"capitalize", changed<capitalized>},
      {"center", centered},
      {"count", length},
      {"d", default_of},
      {"default", default_of},
      {"dictsort", sorted_dict},
      {"e", escaped},
      {"escape", escaped},
      {"first", first_or_last<false>},
      {"float", to_float},
      {"format", format_filter},
      {"indent", indented},
      {"int", to_integer},
      {"items", items_filter},
      {"join", joined},
      {"last", first_or_last<true>},
      {"length", length},
      {"list", to_list},
      {"lower", changed<lower>},
      {"map", mapped},
      {"max", extreme<true>},
      {"min", extreme<false>},
      {"reject", chosen<false, false>},
      {"rejectattr", chosen<false, true>},
      {"replace", replaced_by_filter},
      {"reverse", reversed},
      {"round", rounded},
      {"safe", unchanged},
      {"select", chosen<true, false>},
      {"selectattr", chosen<true, true>},
      {"slice", sliced},
      {"sort", sorted},
      {"string", to_string_filter},
      {"sum", sum},
      {"title", changed<titled_by_filter>},
      {"tojson", to_json},
      {"trim", trimmed_by_filter},
      {"truncate", truncated},
      {"unique", unique},
      {"upper", changed<upper>},
      {"wordcount", word_count},
  };
  return kFilters;
}

}  // namespace

Filter filter_named(std::string_view name) {
  const auto found = filters().find(name);
  return found == filters().end() ? nullptr : found->second;
}

std::vector<std::string> filter_names() {
  std::vector<std::string> names;
  for (const auto& [name, filter] : filters()) names.push_back(name);
  return names;
}

}  // namespace sftbench::jinja
