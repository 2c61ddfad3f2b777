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

Value centered(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("center", {"width"}, std::move(arguments));
  Arguments forwarded;
  forwarded.positional.push_back(bound.integer(0, 80));
  return method_of(Value(charged_text(runtime, value)), "center")(runtime, std::move(forwarded));
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

}  // namespace

const Filters& text_filters() {
  static const Filters kFilters{
      {"capitalize", changed<capitalized>},
      {"center", centered},
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
      {"truncate", truncated},
      {"upper", changed<upper>},
      {"wordcount", word_count},
  };
  return kFilters;
}

}  // namespace sftbench::jinja
