// Filters of texts, and of what becomes one.
#include <algorithm>

#include "jinja/filters.h"
#include "jinja/text.h"
#include "sftbench/base/html_text.h"

namespace sftbench::jinja {

std::string charged_text(Runtime& runtime, const Value& value) {
  std::string text = to_text(value);
  runtime.charge(text.size());
  return text;
}

namespace {

template <std::string (*kChange)(std::string_view)>
Value changed(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound none("filter", {}, std::move(arguments));
  return kChange(charged_text(runtime, value));
}

Value escaped(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound none("escape", {}, std::move(arguments));
  const std::string text = html_escaped(charged_text(runtime, value));
  runtime.charge(text.size());
  return text;
}

Value format_filter(Runtime& runtime, const Value& value, Arguments arguments) {
  if (!arguments.named.empty()) throw TemplateError("format(): named values are not done here");
  return formatted(runtime, charged_text(runtime, value), arguments.positional);
}

Value indented(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("indent", {"width", "first", "blank"}, std::move(arguments));
  if (!value.is_text()) throw TemplateError("indent() takes a text, not " + described(value));
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

Value replaced_by_filter(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("replace", {"old", "new", "count"}, std::move(arguments));
  Arguments forwarded;
  forwarded.positional = {to_text(bound.required(0)), to_text(bound.required(1))};
  forwarded.positional.push_back(bound.has(2) && !bound[2].is_none() ? bound[2]
                                                                     : Value(int64_t{-1}));
  return method_of(Value(charged_text(runtime, value)), "replace")(runtime, std::move(forwarded));
}

Value to_string_filter(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound none("string", {}, std::move(arguments));
  return charged_text(runtime, value);
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

}  // namespace

const Filters& text_filters() {
  static const Filters kFilters{
      {"capitalize", changed<capitalized>},
      {"e", escaped},
      {"escape", escaped},
      {"format", format_filter},
      {"indent", indented},
      {"lower", changed<lower>},
      {"replace", replaced_by_filter},
      {"string", to_string_filter},
      {"title", changed<titled_by_filter>},
      {"tojson", to_json},
      {"trim", trimmed_by_filter},
      {"upper", changed<upper>},
  };
  return kFilters;
}

}  // namespace sftbench::jinja
