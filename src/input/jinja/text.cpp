#include "jinja/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdio>

namespace sftbench::jinja {
namespace {

struct Character {
  utf8proc_int32_t code_point = 0;
  size_t bytes = 1;
};

Character character_at(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {byte, 1};
  Character found;
  const auto size =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                       static_cast<utf8proc_ssize_t>(text.size() - at), &found.code_point);
  if (size <= 0) return {0xFFFD, 1};
  found.bytes = static_cast<size_t>(size);
  return found;
}

void append(std::string& text, utf8proc_int32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(code_point, bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

bool is_white(utf8proc_int32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_letter(utf8proc_int32_t c) {
  const auto category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_cased(utf8proc_int32_t c) {
  return utf8proc_islower(c) != 0 || utf8proc_isupper(c) != 0 ||
         utf8proc_category(c) == UTF8PROC_CATEGORY_LT;
}

template <class F>
void for_each(std::string_view text, F&& visit) {
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    visit(c.code_point, text.substr(at, c.bytes));
    at += c.bytes;
  }
}

// At least one, and all of them.
template <class F>
bool all_are(std::string_view text, F&& is) {
  bool all = !text.empty();
  for_each(text, [&](utf8proc_int32_t c, std::string_view) { all = all && is(c); });
  return all;
}

void append_upper(std::string& text, utf8proc_int32_t c) {
  if (c == 0xDF) {
    text += "SS";
  } else {
    append(text, utf8proc_toupper(c));
  }
}

// `is` tells which characters go.
template <class F>
std::string_view stripped_where(std::string_view text, Side side, F&& is) {
  while (side != Side::kRight && !text.empty()) {
    const Character c = character_at(text, 0);
    if (!is(c.code_point, text.substr(0, c.bytes))) break;
    text.remove_prefix(c.bytes);
  }
  while (side != Side::kLeft && !text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    const Character c = character_at(text, at);
    if (!is(c.code_point, text.substr(at))) break;
    text = text.substr(0, at);
  }
  return text;
}

char escape_of(char c) {
  switch (c) {
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

std::string hexadecimal(const char* format, unsigned value) {
  char text[16];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

bool is_printable(utf8proc_int32_t c) {
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == ' ';
    default:
      return true;
  }
}

}  // namespace

int64_t code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> all;
  all.reserve(text.size());
  for_each(text, [&](utf8proc_int32_t, std::string_view bytes) { all.emplace_back(bytes); });
  return all;
}

std::string_view stripped(std::string_view text, Side side) {
  return stripped_where(text, side,
                        [](utf8proc_int32_t c, std::string_view) { return is_white(c); });
}

std::string_view stripped(std::string_view text, std::string_view characters, Side side) {
  return stripped_where(text, side, [&](utf8proc_int32_t, std::string_view bytes) {
    return characters.find(bytes) != std::string_view::npos;
  });
}

std::string upper(std::string_view text) {
  std::string result;
  for_each(text, [&](utf8proc_int32_t c, std::string_view) { append_upper(result, c); });
  return result;
}

std::string lower(std::string_view text) {
  std::string result;
  for_each(text,
           [&](utf8proc_int32_t c, std::string_view) { append(result, utf8proc_tolower(c)); });
  return result;
}

std::string capitalized(std::string_view text) {
  std::string result;
  bool first = true;
  for_each(text, [&](utf8proc_int32_t c, std::string_view) {
    append(result, first ? utf8proc_totitle(c) : utf8proc_tolower(c));
    first = false;
  });
  return result;
}

std::string titled(std::string_view text) {
  std::string result;
  bool within = false;
  for_each(text, [&](utf8proc_int32_t c, std::string_view) {
    append(result, within ? utf8proc_tolower(c) : utf8proc_totitle(c));
    within = is_cased(c);
  });
  return result;
}

std::string titled_by_filter(std::string_view text) {
  std::string result;
  bool begins = true;
  for_each(text, [&](utf8proc_int32_t c, std::string_view) {
    begins ? append_upper(result, c) : append(result, utf8proc_tolower(c));
    begins = is_white(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) !=
                                             std::string_view::npos);
  });
  return result;
}

bool is_upper(std::string_view text) {
  bool cased = false, all = true;
  for_each(text, [&](utf8proc_int32_t c, std::string_view) {
    cased = cased || is_cased(c);
    all = all && (!is_cased(c) || utf8proc_isupper(c) != 0);
  });
  return cased && all;
}

bool is_lower(std::string_view text) {
  bool cased = false, all = true;
  for_each(text, [&](utf8proc_int32_t c, std::string_view) {
    cased = cased || is_cased(c);
    all = all && (!is_cased(c) || utf8proc_islower(c) != 0);
  });
  return cased && all;
}

bool is_space(std::string_view text) {
  return all_are(text, is_white);
}

bool is_digit(std::string_view text) {
  return all_are(text,
                 [](utf8proc_int32_t c) { return utf8proc_category(c) == UTF8PROC_CATEGORY_ND; });
}

bool is_alpha(std::string_view text) {
  return all_are(text, is_letter);
}

bool is_alnum(std::string_view text) {
  return all_are(text, [](utf8proc_int32_t c) {
    const auto category = utf8proc_category(c);
    return is_letter(c) || (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
  });
}

std::vector<std::string> split(std::string_view text, int64_t most) {
  std::vector<std::string> words;
  text = stripped(text, Side::kLeft);
  while (!text.empty()) {
    if (most >= 0 && static_cast<int64_t>(words.size()) == most) {
      words.emplace_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size() && !is_white(character_at(text, end).code_point))
      end += character_at(text, end).bytes;
    words.emplace_back(text.substr(0, end));
    text = stripped(text.substr(end), Side::kLeft);
  }
  return words;
}

std::vector<std::string> split_from_right(std::string_view text, int64_t most) {
  std::vector<std::string> words;
  text = stripped(text, Side::kRight);
  while (!text.empty()) {
    if (most >= 0 && static_cast<int64_t>(words.size()) == most) {
      words.emplace_back(text);
      break;
    }
    size_t begin = text.size();
    const auto is_word = [](utf8proc_int32_t c, std::string_view) { return !is_white(c); };
    begin = stripped_where(text, Side::kRight, is_word).size();
    words.emplace_back(text.substr(begin));
    text = stripped(text.substr(0, begin), Side::kRight);
  }
  std::reverse(words.begin(), words.end());
  return words;
}

std::vector<std::string> split(std::string_view text, std::string_view separator, int64_t most) {
  std::vector<std::string> parts;
  size_t at = text.find(separator);
  while (at != std::string_view::npos && (most < 0 || static_cast<int64_t>(parts.size()) < most)) {
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
    at = text.find(separator);
  }
  parts.emplace_back(text);
  return parts;
}

std::vector<std::string> split_from_right(std::string_view text, std::string_view separator,
                                          int64_t most) {
  std::vector<std::string> parts;
  size_t at = text.rfind(separator);
  while (at != std::string_view::npos && (most < 0 || static_cast<int64_t>(parts.size()) < most)) {
    parts.emplace_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
    at = text.rfind(separator);
  }
  parts.emplace_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> lines(std::string_view text, bool keep_ends) {
  const auto ends_line = [](utf8proc_int32_t c) {
    return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
  };
  std::vector<std::string> all;
  size_t begin = 0, at = 0;
  while (at < text.size()) {
    const Character c = character_at(text, at);
    const size_t end = at;
    at += c.bytes;
    if (!ends_line(c.code_point)) continue;
    if (c.code_point == '\r' && at < text.size() && text[at] == '\n') ++at;
    all.emplace_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) all.emplace_back(text.substr(begin));
  return all;
}

std::string replaced(std::string_view text, std::string_view old_part, std::string_view new_part,
                     int64_t most) {
  std::string result;
  if (old_part.empty()) {  // before each character and at the end
    int64_t left = most;
    const auto add = [&] {
      if (left != 0) result += new_part, --left;
    };
    add();
    for_each(text, [&](utf8proc_int32_t, std::string_view bytes) {
      result += bytes;
      add();
    });
    return result;
  }
  for (size_t at = text.find(old_part); at != std::string_view::npos && most != 0;
       at = text.find(old_part), --most) {
    result.append(text.substr(0, at)).append(new_part);
    text.remove_prefix(at + old_part.size());
  }
  return result.append(text);
}

int64_t count(std::string_view text, std::string_view part) {
  if (part.empty()) return code_points(text) + 1;
  int64_t found = 0;
  for (size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size()))
    ++found;
  return found;
}

std::string in_quotes(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string result(1, quote);
  for_each(text, [&](utf8proc_int32_t c, std::string_view bytes) {
    if (c < 0x80 && (static_cast<char>(c) == quote || c == '\\')) {
      result += '\\';
      result += static_cast<char>(c);
    } else if (c < 0x80 && escape_of(static_cast<char>(c)) != 0) {
      result += '\\';
      result += escape_of(static_cast<char>(c));
    } else if (is_printable(c)) {
      result += bytes;
    } else {
      result += hexadecimal(c < 0x100     ? "\\x%02x"
                            : c < 0x10000 ? "\\u%04x"
                                          : "\\U%08x",
                            static_cast<unsigned>(c));
    }
  });
  return result += quote;
}

std::string json_quoted(std::string_view text, bool ensure_ascii) {
  std::string result = "\"";
  for_each(text, [&](utf8proc_int32_t c, std::string_view bytes) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += static_cast<char>(c);
    } else if (c < 0x80 && escape_of(static_cast<char>(c)) != 0) {
      result += '\\';
      result += escape_of(static_cast<char>(c));
    } else if (c == '\b' || c == '\f') {
      result += c == '\b' ? "\\b" : "\\f";
    } else if (c < 0x20 || (ensure_ascii && c > 0x7E && c < 0x10000)) {
      result += hexadecimal("\\u%04x", static_cast<unsigned>(c));
    } else if (ensure_ascii && c >= 0x10000) {
      const unsigned high = static_cast<unsigned>(c) - 0x10000;
      result += hexadecimal("\\u%04x", 0xD800 + (high >> 10)) +
                hexadecimal("\\u%04x", 0xDC00 + (high & 0x3FF));
    } else {
      result += bytes;
    }
  });
  return result += '"';
}

}  // namespace sftbench::jinja
