// Filters of what can be iterated. Those that give a generator in jinja2 give one here.
#include <algorithm>

#include "jinja/filters.h"
#include "jinja/text.h"

namespace sftbench::jinja {

Value generator(std::vector<Value> items) {
  return Value::list(std::move(items), Sequence::Kind::kGenerator);
}

namespace {

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

// Nothing of a false value, as of None: what is not there.
std::vector<Value> items_if_true(Runtime& runtime, const Value& value) {
  return value.truth() ? items_of(runtime, value) : std::vector<Value>();
}

Value mapped(Runtime& runtime, const Value& value, Arguments arguments) {
  std::vector<Value> results;
  if (arguments.positional.empty()) {
    const Bound bound("map", {"attribute", "default"}, std::move(arguments));
    bound.required(0);
    for (const Value& item : items_if_true(runtime, value)) {
      Value found = found_by(runtime, item, bound[0]);
      results.push_back(found.is_undefined() && bound.has(1) ? bound[1] : std::move(found));
    }
    return generator(std::move(results));
  }
  const std::string name = to_text(arguments.positional[0]);
  const Filter filter = filter_named(name);
  if (!filter) throw TemplateError("No filter named " + in_quotes(name) + ".");
  const Arguments rest = without_first(std::move(arguments), 1);
  for (const Value& item : items_if_true(runtime, value)) {
    runtime.step();
    results.push_back(filter(runtime, item, rest));
  }
  return generator(std::move(results));
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
  for (const Value& item : items_if_true(runtime, value)) {
    runtime.step();
    const Value tested = kByAttribute ? found_by(runtime, item, given[0]) : item;
    if ((test ? test(runtime, tested, rest) : tested.truth()) == kSelects) results.push_back(item);
  }
  return generator(std::move(results));
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

}  // namespace

const Filters& sequence_filters() {
  static const Filters kFilters{
      {"count", length},
      {"dictsort", sorted_dict},
      {"first", first_or_last<false>},
      {"items", items_filter},
      {"join", joined},
      {"last", first_or_last<true>},
      {"length", length},
      {"list", to_list},
      {"map", mapped},
      {"reject", chosen<false, false>},
      {"rejectattr", chosen<false, true>},
      {"reverse", reversed},
      {"select", chosen<true, false>},
      {"selectattr", chosen<true, true>},
      {"sort", sorted},
  };
  return kFilters;
}

}  // namespace sftbench::jinja
