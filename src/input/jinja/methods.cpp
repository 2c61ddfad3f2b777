// Methods of str, list, tuple and dict that do not change them: all that jinja2's immutable sandbox
// lets a template call.
#include <algorithm>
#include <map>

#include "jinja/runtime.h"
#include "jinja/text.h"

namespace sftbench::jinja {
namespace {

using TextMethod = Value (*)(Runtime&, const std::string&, Arguments);

Value list_of(const std::vector<std::string>& parts) {
  return Value::list({parts.begin(), parts.end()});
}

template <std::string_view (*kStrip)(std::string_view, Side), Side kSide>
Value strip(Runtime&, const std::string& text, Arguments arguments) {
  const Bound bound("strip", {"chars"}, std::move(arguments));
  if (!bound.has(0) || bound[0].is_none()) return std::string(kStrip(text, kSide));
  return std::string(stripped(text, bound.text(0, ""), kSide));
}

template <std::string (*kChange)(std::string_view)>
Value change(Runtime&, const std::string& text, Arguments arguments) {
  const Bound none("method", {}, std::move(arguments));
  return kChange(text);
}

template <bool (*kIs)(std::string_view)>
Value is(Runtime&, const std::string& text, Arguments arguments) {
  const Bound none("method", {}, std::move(arguments));
  return kIs(text);
}

template <bool kFromRight>
Value split_text(Runtime& runtime, const std::string& text, Arguments arguments) {
  const Bound bound("split", {"sep", "maxsplit"}, std::move(arguments));
  const int64_t most = bound.integer(1, -1);
  std::vector<std::string> parts;
  if (!bound.has(0) || bound[0].is_none()) {
    parts = kFromRight ? split_from_right(text, most) : split(text, most);
  } else {
    const std::string separator = bound.text(0, "");
    if (separator.empty()) throw TemplateError("empty separator");
    parts = kFromRight ? split_from_right(text, separator, most) : split(text, separator, most);
  }
  runtime.charge(parts.size() * sizeof(Value));
  return list_of(parts);
}

Value split_lines(Runtime& runtime, const std::string& text, Arguments arguments) {
  const Bound bound("splitlines", {"keepends"}, std::move(arguments));
  const std::vector<std::string> parts = lines(text, bound.truth(0, false));
  runtime.charge(parts.size() * sizeof(Value));
  return list_of(parts);
}

// [begin, end) in bytes of the code points that find() and its like look at.
std::string_view looked_at(const std::string& text, const Bound& bound, size_t first_index,
                           size_t& offset) {
  const auto length = code_points(text);
  const auto clipped = [&](size_t index, int64_t otherwise) {
    const int64_t value =
        bound.has(index) && !bound[index].is_none() ? bound.integer(index, 0) : otherwise;
    return std::clamp<int64_t>(value < 0 ? value + length : value, 0, length);
  };
  const int64_t begin = clipped(first_index, 0), end = clipped(first_index + 1, length);
  const auto byte_of = [&](int64_t code_point) {
    size_t at = 0;
    for (; at < text.size(); ++at) {
      if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && code_point-- == 0) break;
    }
    return at;
  };
  offset = byte_of(begin);
  return begin < end ? std::string_view(text).substr(offset, byte_of(end) - offset)
                     : std::string_view();
}

template <bool kFromRight, bool kRaises>
Value find_text(Runtime&, const std::string& text, Arguments arguments) {
  const Bound bound("find", {"sub", "start", "end"}, std::move(arguments));
  bound.required(0);
  size_t offset = 0;
  const std::string_view place = looked_at(text, bound, 1, offset);
  const std::string part = bound.text(0, "");
  const size_t found = kFromRight ? place.rfind(part) : place.find(part);
  if (found != std::string_view::npos)
    return code_points(std::string_view(text).substr(0, offset + found));
  if (kRaises) throw TemplateError("substring not found");
  return int64_t{-1};
}

template <bool kAtEnd>
Value begins_or_ends(Runtime&, const std::string& text, Arguments arguments) {
  const Bound bound(kAtEnd ? "endswith" : "startswith",
                    {kAtEnd ? "suffix" : "prefix", "start", "end"}, std::move(arguments));
  size_t offset = 0;
  const std::string_view place = looked_at(text, bound, 1, offset);
  const auto fits = [&](const Value& part) {
    if (!part.is_text()) {
      require_defined(part);
      throw TemplateError(std::string(kAtEnd ? "endswith" : "startswith") +
                          " first arg must be str or a tuple of str, not " + part.type_name());
    }
    return kAtEnd ? place.ends_with(part.text()) : place.starts_with(part.text());
  };
  const Value& wanted = bound.required(0);
  if (!wanted.sequence()) return fits(wanted);
  const auto& parts = wanted.sequence()->items;
  return std::any_of(parts.begin(), parts.end(), fits);
}

Value replace_text(Runtime& runtime, const std::string& text, Arguments arguments) {
  const Bound bound("replace", {"old", "new", "count"}, std::move(arguments));
  bound.required(0), bound.required(1);
  const std::string old_part = bound.text(0, ""), new_part = bound.text(1, "");
  const int64_t most = bound.integer(2, -1);
  const auto times = static_cast<uint64_t>(count(text, old_part));
  runtime.charge(text.size() + times * new_part.size());
  return replaced(text, old_part, new_part, most);
}

Value count_in_text(Runtime&, const std::string& text, Arguments arguments) {
  const Bound bound("count", {"sub", "start", "end"}, std::move(arguments));
  bound.required(0);
  size_t offset = 0;
  return count(looked_at(text, bound, 1, offset), bound.text(0, ""));
}

Value join_items(Runtime& runtime, const std::string& text, Arguments arguments) {
  const Bound bound("join", {"iterable"}, std::move(arguments));
  std::string joined;
  bool first = true;
  for (const Value& item : items_of(runtime, bound.required(0))) {
    if (!item.is_text())
      throw TemplateError("sequence item: expected str instance, " + item.type_name() + " found");
    runtime.charge(text.size() + item.text().size());
    joined += (first ? "" : text) + item.text();
    first = false;
  }
  return joined;
}

template <bool kPrefix>
Value remove_affix(Runtime&, const std::string& text, Arguments arguments) {
  const Bound bound(kPrefix ? "removeprefix" : "removesuffix", {"affix"}, std::move(arguments));
  bound.required(0);
  const std::string affix = bound.text(0, "");
  if (kPrefix ? !text.starts_with(affix) : !text.ends_with(affix)) return text;
  return kPrefix ? text.substr(affix.size()) : text.substr(0, text.size() - affix.size());
}

// {} and {0} and {name}, without format specifications, attributes and items.
Value format_text(Runtime& runtime, const std::string& text, Arguments arguments) {
  std::string result;
  size_t next = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool doubled = at + 1 < text.size() && text[at + 1] == text[at];
    if ((text[at] != '{' && text[at] != '}') || doubled) {
      result += text[at];
      at += (text[at] == '{' || text[at] == '}') ? 1 : 0;
      continue;
    }
    const size_t end = text.find('}', at);
    if (text[at] == '}' || end == std::string::npos)
      throw TemplateError("Single '" + text.substr(at, 1) + "' encountered in format string");
    const std::string field = text.substr(at + 1, end - at - 1);
    if (field.find_first_of(".[:!") != std::string::npos) {
      throw TemplateError("format(): '{" + field + "}' is not done here; only {}, {0} and {name}");
    }
    const bool numbered = field.find_first_not_of("0123456789") == std::string::npos;
    if (numbered) {
      const size_t index = field.empty() ? next++ : field.size() < 6 ? std::stoul(field) : SIZE_MAX;
      if (index >= arguments.positional.size())
        throw TemplateError("Replacement index out of range for positional args tuple");
      result += to_text(arguments.positional[index]);
    } else {
      const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                      [&](const auto& a) { return a.first == field; });
      if (named == arguments.named.end()) throw TemplateError("KeyError: " + in_quotes(field));
      result += to_text(named->second);
    }
    at = end;
  }
  runtime.charge(result.size());
  return result;
}

const std::map<std::string, TextMethod, std::less<>>& text_methods() {
  static const std::map<std::string, TextMethod, std::less<>> kMethods{
      {"capitalize", change<capitalized>},
      {"count", count_in_text},
      {"endswith", begins_or_ends<true>},
      {"find", find_text<false, false>},
      {"format", format_text},
      {"index", find_text<false, true>},
      {"isalnum", is<is_alnum>},
      {"isalpha", is<is_alpha>},
      {"isdecimal", is<is_digit>},
      {"isdigit", is<is_digit>},
      {"islower", is<is_lower>},
      {"isnumeric", is<is_digit>},
      {"isspace", is<is_space>},
      {"isupper", is<is_upper>},
      {"join", join_items},
      {"lower", change<lower>},
      {"lstrip", strip<stripped, Side::kLeft>},
      {"removeprefix", remove_affix<true>},
      {"removesuffix", remove_affix<false>},
      {"replace", replace_text},
      {"rfind", find_text<true, false>},
      {"rindex", find_text<true, true>},
      {"rsplit", split_text<true>},
      {"rstrip", strip<stripped, Side::kRight>},
      {"split", split_text<false>},
      {"splitlines", split_lines},
      {"startswith", begins_or_ends<false>},
      {"strip", strip<stripped, Side::kBoth>},
      {"title", change<titled>},
      {"upper", change<upper>},
  };
  return kMethods;
}

Function method_of_text(const Value& value, const std::string& name) {
  const auto found = text_methods().find(name);
  if (found == text_methods().end()) return nullptr;
  return [value, method = found->second](Runtime& runtime, Arguments arguments) {
    runtime.charge(value.text().size());
    return method(runtime, value.text(), std::move(arguments));
  };
}

Value pairs_of(const Mapping& mapping) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : mapping.items)
    pairs.push_back(Value::list({key, value}, Sequence::Kind::kTuple));
  return Value::list(std::move(pairs));
}

Function method_of_dict(const Value& value, const std::string& name) {
  if (name == "get") {
    return [value](Runtime&, Arguments arguments) -> Value {
      const Bound bound("get", {"key", "default"}, std::move(arguments));
      const Value* found = value.mapping()->find(bound.required(0));
      return found ? *found : bound[1];
    };
  }
  if (name != "items" && name != "keys" && name != "values" && name != "copy") return nullptr;
  return [value, name](Runtime& runtime, Arguments arguments) -> Value {
    const Bound none(name.c_str(), {}, std::move(arguments));
    const Mapping& mapping = *value.mapping();
    runtime.charge(mapping.items.size() * sizeof(Value));
    if (name == "copy") return value;  // nothing can change either
    if (name == "items") return pairs_of(mapping);
    std::vector<Value> parts;
    for (const auto& [key, item] : mapping.items) parts.push_back(name == "keys" ? key : item);
    return Value::list(std::move(parts));
  };
}

Function method_of_sequence(const Value& value, const std::string& name) {
  const bool is_list = value.sequence()->kind == Sequence::Kind::kList;
  if (name == "copy" && is_list) {
    return [value](Runtime&, Arguments arguments) {
      const Bound none("copy", {}, std::move(arguments));
      return value;
    };
  }
  if (name != "count" && name != "index") return nullptr;
  return [value, name](Runtime& runtime, Arguments arguments) -> Value {
    const Bound bound(name.c_str(), {"value"}, std::move(arguments));
    const Value& wanted = bound.required(0);
    const std::vector<Value> items = items_of(runtime, value);
    const auto is_wanted = [&](const Value& item) { return equal(item, wanted); };
    if (name == "count")
      return static_cast<int64_t>(std::count_if(items.begin(), items.end(), is_wanted));
    const auto found = std::find_if(items.begin(), items.end(), is_wanted);
    if (found == items.end()) throw TemplateError(representation(wanted) + " is not in list");
    return static_cast<int64_t>(found - items.begin());
  };
}

}  // namespace

Function method_of(const Value& value, const std::string& name) {
  if (value.is_text()) return method_of_text(value, name);
  if (value.mapping()) return method_of_dict(value, name);
  if (value.sequence() && value.sequence()->kind != Sequence::Kind::kGenerator)
    return method_of_sequence(value, name);
  return nullptr;
}

}  // namespace sftbench::jinja
