// What `is` asks.
#include <map>

#include "jinja/runtime.h"
#include "jinja/text.h"

namespace sftbench::jinja {
namespace {

using Others = std::vector<Value>;

const Value& other_of(const Others& others) {
  if (others.size() != 1)
    throw TemplateError("the test takes one argument, not " + std::to_string(others.size()));
  return others[0];
}

bool has_items(const Value& value) {
  return value.is_text() || value.sequence() || value.mapping() || value.is_undefined();
}

bool is_length_known(const Value& value) {
  return has_items(value) &&
         !(value.sequence() && value.sequence()->kind == Sequence::Kind::kGenerator);
}

bool divisible(Runtime& runtime, const Value& value, const Others& others) {
  return calculate(runtime, "%", value, other_of(others)).truth() == false;
}

// Halves are neither even nor odd.
template <int64_t kRemainder>
bool leaves(Runtime& runtime, const Value& value, const Others&) {
  return equal(calculate(runtime, "%", value, int64_t{2}), kRemainder);
}

bool is_truth(const Value& value, bool which) {
  return value.is<bool>() && value.truth() == which;
}

// The same object; None, numbers and texts of equal value are.
bool is_same(const Value& a, const Value& b) {
  if (a.is<bool>() != b.is<bool>() || a.is<double>() != b.is<double>()) return false;
  if (a.sequence() || a.mapping())
    return a.sequence() == b.sequence() && a.mapping() == b.mapping();
  return equal(a, b);
}

const std::map<std::string, Test, std::less<>>& all_tests() {
  const auto equals = [](Runtime&, const Value& value, const Others& others) {
    return equal(value, other_of(others));
  };
  const auto differs = [](Runtime&, const Value& value, const Others& others) {
    return !equal(value, other_of(others));
  };
  const auto lesser = [](Runtime&, const Value& value, const Others& others) {
    return less(value, other_of(others));
  };
  const auto greater = [](Runtime&, const Value& value, const Others& others) {
    return less(other_of(others), value);
  };
  const auto at_most = [](Runtime&, const Value& value, const Others& others) {
    return less(value, other_of(others)) || equal(value, other_of(others));
  };
  const auto at_least = [](Runtime&, const Value& value, const Others& others) {
    return less(other_of(others), value) || equal(value, other_of(others));
  };
  static const std::map<std::string, Test, std::less<>> kTests{
      {"!=", differs},
      {"<", lesser},
      {"<=", at_most},
      {"==", equals},
      {">", greater},
      {">=", at_least},
      {"boolean", [](Runtime&, const Value& value, const Others&) { return value.is<bool>(); }},
      {"callable",
       [](Runtime&, const Value& value, const Others&) {
         return value.is_undefined() || (value.object() && value.object()->callable());
       }},
      {"defined",
       [](Runtime&, const Value& value, const Others&) { return !value.is_undefined(); }},
      {"divisibleby", divisible},
      {"eq", equals},
      {"equalto", equals},
      {"even", leaves<0>},
      {"false", [](Runtime&, const Value& value, const Others&) { return is_truth(value, false); }},
      {"filter", [](Runtime&, const Value& value,
                    const Others&) { return value.is_text() && filter_named(value.text()); }},
      {"float", [](Runtime&, const Value& value, const Others&) { return value.is<double>(); }},
      {"ge", at_least},
      {"greaterthan", greater},
      {"gt", greater},
      {"in", [](Runtime& runtime, const Value& value,
                const Others& others) { return contains(runtime, other_of(others), value); }},
      {"integer", [](Runtime&, const Value& value, const Others&) { return value.is<int64_t>(); }},
      {"iterable", [](Runtime&, const Value& value, const Others&) { return has_items(value); }},
      {"le", at_most},
      {"lessthan", lesser},
      {"lower",
       [](Runtime&, const Value& value, const Others&) { return is_lower(to_text(value)); }},
      {"lt", lesser},
      {"mapping",
       [](Runtime&, const Value& value, const Others&) { return value.mapping() != nullptr; }},
      {"ne", differs},
      {"none", [](Runtime&, const Value& value, const Others&) { return value.is_none(); }},
      {"number", [](Runtime&, const Value& value, const Others&) { return value.is_number(); }},
      {"odd", leaves<1>},
      {"sameas", [](Runtime&, const Value& value,
                    const Others& others) { return is_same(value, other_of(others)); }},
      {"sequence",
       [](Runtime&, const Value& value, const Others&) { return is_length_known(value); }},
      {"string", [](Runtime&, const Value& value, const Others&) { return value.is_text(); }},
      {"test", [](Runtime&, const Value& value,
                  const Others&) { return value.is_text() && test_named(value.text()); }},
      {"true", [](Runtime&, const Value& value, const Others&) { return is_truth(value, true); }},
      {"undefined",
       [](Runtime&, const Value& value, const Others&) { return value.is_undefined(); }},
      {"upper",
       [](Runtime&, const Value& value, const Others&) { return is_upper(to_text(value)); }},
  };
  return kTests;
}

}  // namespace

Test test_named(std::string_view name) {
  const auto found = all_tests().find(name);
  return found == all_tests().end() ? nullptr : found->second;
}

std::vector<std::string> test_names() {
  std::vector<std::string> names;
  for (const auto& [name, test] : all_tests()) names.push_back(name);
  return names;
}

}  // namespace sftbench::jinja
