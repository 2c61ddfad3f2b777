#include "jinja/lexer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "jinja/text.h"
#include "jinja/value.h"

namespace sftbench::jinja {
namespace {

bool is_name_begin(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit_character(char c) {
  return c >= '0' && c <= '9';
}

// "\r\n" and "\r" as "\n", and without one line end at the end.
std::string with_plain_line_ends(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void append_code_point(std::string& text, uint32_t code_point, int line) {
  utf8proc_uint8_t bytes[4];
  if (!utf8proc_codepoint_valid(static_cast<utf8proc_int32_t>(code_point))) {
    throw TemplateError("a text has an escape that is no character", line);
  }
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

// Python's escapes; an unknown one stays as it is.
class Unescaper {
 public:
  Unescaper(std::string_view text, int line) : text_(text), line_(line) {}

  std::string run() {
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c != '\\' || at_ == text_.size()) {
        result_ += c;
      } else {
        take(text_[at_++]);
      }
    }
    return std::move(result_);
  }

 private:
  void take(char c) {
    static constexpr std::string_view kLetters = "abfnrtv\\'\"\n",
                                      kMeanings = "\a\b\f\n\r\t\v\\'\"";
    const size_t known = kLetters.find(c);
    if (c == 'x' || c == 'u' || c == 'U') {
      append_code_point(result_, number(c == 'x' ? 2 : c == 'u' ? 4 : 8), line_);
    } else if (c >= '0' && c <= '7') {
      uint32_t value = static_cast<uint32_t>(c - '0');
      for (int i = 0; i < 2 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++i) {
        value = value * 8 + static_cast<uint32_t>(text_[at_++] - '0');
      }
      append_code_point(result_, value, line_);
    } else if (known < kMeanings.size()) {
      result_ += kMeanings[known];
    } else if (known == std::string_view::npos) {
      result_ += '\\';
      result_ += c;
    }
  }

  uint32_t number(size_t digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : 'g';
      const uint32_t digit = is_digit_character(c) ? static_cast<uint32_t>(c - '0')
                             : (c | 32) >= 'a' && (c | 32) <= 'f'
                                 ? static_cast<uint32_t>((c | 32) - 'a' + 10)
                                 : 16u;
      if (digit == 16) throw TemplateError("a text has a truncated \\x, \\u or \\U escape", line_);
      value = value * 16 + digit;
    }
    return value;
  }

  std::string_view text_;
  int line_;
  size_t at_ = 0;
  std::string result_;
};

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) take_data();
    add(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  enum class Tag { kVariable, kBlock, kComment };

  bool here(std::string_view text) const {
    return std::string_view(source_).substr(at_).starts_with(text);
  }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void skip_white() {
    const std::string_view rest = std::string_view(source_).substr(at_);
    advance(rest.size() - stripped(rest, Side::kLeft).size());
  }

  // Past `bytes`, counting lines.
  void advance(size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes),
                                         '\n'));
    at_ += bytes;
    if (bytes > 0) line_starts_ = source_[at_ - 1] == '\n';
  }

  // Where the next tag begins, or the end.
  size_t next_tag() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' && std::strchr("{%#", source_[i + 1]) && source_[i + 1] != '\0')
        return i;
    }
    return source_.size();
  }

  // The text before a tag, trimmed as the tag's sign and kind say.
  std::string_view trimmed_before(std::string_view text, char sign, Tag tag) const {
    if (sign == '-') return stripped(text, Side::kRight);
    if (sign == '+' || tag == Tag::kVariable) return text;
    const size_t line_begin = text.rfind('\n') + 1;  // 0: none
    const bool blank = stripped(text.substr(line_begin), Side::kBoth).empty();
    return blank && (line_begin > 0 || line_starts_) ? text.substr(0, line_begin) : text;
  }

  void take_data() {
    const size_t begin = at_, end = next_tag();
    const std::string_view text = std::string_view(source_).substr(begin, end - begin);
    if (end == source_.size()) {
      add(TokenKind::kData, std::string(text));
      advance(text.size());
      return;
    }
    const Tag tag = source_[end + 1] == '{'   ? Tag::kVariable
                    : source_[end + 1] == '%' ? Tag::kBlock
                                              : Tag::kComment;
    const char after = end + 2 < source_.size() ? source_[end + 2] : '\0';
    const char sign = after == '-' || after == '+' ? after : '\0';
    const std::string_view kept = trimmed_before(text, sign, tag);
    if (!kept.empty()) add(TokenKind::kData, std::string(kept));
    advance(text.size() + 2 + (sign ? 1 : 0));
    if (tag == Tag::kComment) return take_comment();
    if (tag == Tag::kBlock && take_raw()) return;
    take_tag(tag);
  }

  // Behind a comment or a raw block: "-%}" takes white space, "%}" one line end.
  void skip_behind(bool minus, bool plus) {
    if (minus) {
      skip_white();
    } else if (!plus && here("\n")) {
      advance(1);
    }
  }

  void take_comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) throw TemplateError("Missing end of comment tag", line_);
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end + 2 - at_);
    line_starts_ = false;
    skip_behind(sign == '-', sign == '+');
  }

  // At the content of a block tag: true where it is a raw block, which is taken.
  bool take_raw() {
    size_t at = at_;
    const auto skip = [&] {
      const std::string_view rest = std::string_view(source_).substr(at);
      at += rest.size() - stripped(rest, Side::kLeft).size();
    };
    skip();
    if (source_.compare(at, 3, "raw") != 0) return false;
    at += 3;
    skip();
    const bool minus = source_.compare(at, 3, "-%}") == 0;
    if (!minus && source_.compare(at, 2, "%}") != 0) return false;
    advance(at + (minus ? 3 : 2) - at_);
    if (minus) skip_white();
    take_raw_text();
    return true;
  }

  void take_raw_text() {
    for (size_t at = source_.find("{%", at_); at != std::string::npos;
         at = source_.find("{%", at + 2)) {
      size_t end = at + 2;
      const char sign = end < source_.size() && (source_[end] == '-' || source_[end] == '+')
                            ? source_[end++]
                            : '\0';
      const auto skip = [&] {
        const std::string_view rest = std::string_view(source_).substr(end);
        end += rest.size() - stripped(rest, Side::kLeft).size();
      };
      skip();
      if (source_.compare(end, 6, "endraw") != 0) continue;
      end += 6;
      skip();
      const bool signed_end = end < source_.size() && (source_[end] == '-' || source_[end] == '+');
      const char end_sign = signed_end ? source_[end++] : '\0';
      if (source_.compare(end, 2, "%}") != 0) continue;
      const std::string_view text = std::string_view(source_).substr(at_, at - at_);
      add(TokenKind::kData, std::string(trimmed_before(text, sign, Tag::kBlock)));
      advance(end + 2 - at_);
      return skip_behind(end_sign == '-', end_sign == '+');
    }
    throw TemplateError("Missing end of raw directive", line_);
  }

  void take_tag(Tag tag) {
    const bool block = tag == Tag::kBlock;
    add(block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, {});
    const std::string end = block ? "%}" : "}}";
    std::string brackets;  // that are open: no tag ends within them
    for (;;) {
      skip_white();
      if (at_ >= source_.size()) throw TemplateError("the template ends within a tag", line_);
      const bool minus = here("-" + end), plus = block && here("+" + end);
      if (brackets.empty() && (minus || plus || here(end))) {
        add(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, end);
        advance(end.size() + (minus || plus ? 1 : 0));
        if (minus) {
          skip_white();
        } else if (block && !plus && here("\n")) {
          advance(1);
        }
        return;
      }
      take_token(brackets);
    }
  }

  void take_token(std::string& brackets) {
    const char c = source_[at_];
    if (is_name_begin(c) || static_cast<unsigned char>(c) >= 0x80) return take_name();
    if (is_digit_character(c)) return take_number();
    if (c == '\'' || c == '"') return take_text(c);
    static constexpr std::array<std::string_view, 24> kOperators{
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~",
        "[",  "]",  "(",  ")",  "{",  "}",  ">", "<", "=", ".", ":", "|"};
    for (const std::string_view text : kOperators) {
      if (here(text)) return take_operator(text, brackets);
    }
    if (c == ',') return take_operator(",", brackets);
    throw TemplateError("unexpected char " + in_quotes(std::string_view(&source_[at_], 1)), line_);
  }

  void take_operator(std::string_view text, std::string& brackets) {
    static constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (const size_t open = kOpen.find(text); open != std::string_view::npos)
      brackets += kClose[open];
    if (kClose.find(text) != std::string_view::npos) {
      if (brackets.empty()) throw TemplateError("unexpected '" + std::string(text) + "'", line_);
      if (brackets.back() != text[0]) {
        throw TemplateError(
            "unexpected '" + std::string(text) + "', expected '" + brackets.back() + "'", line_);
      }
      brackets.pop_back();
    }
    add(TokenKind::kOperator, std::string(text));
    advance(text.size());
  }

  void take_name() {
    size_t end = at_;
    while (end < source_.size() &&
           (is_name_begin(source_[end]) || is_digit_character(source_[end]) ||
            static_cast<unsigned char>(source_[end]) >= 0x80)) {
      ++end;
    }
    std::string name = source_.substr(at_, end - at_);
    if (!is_name_begin(name[0]) && !is_alpha(name.substr(0, name.size()))) {
      throw TemplateError("unexpected char " + in_quotes(name), line_);
    }
    add(TokenKind::kName, std::move(name));
    advance(end - at_);
  }

  // 1_000, 0x1f, 0b1, 0o7, 1.5, 1e3, 1.5e-3
  void take_number() {
    const auto run_of = [&](size_t from, std::string_view characters) {
      const size_t end = source_.find_first_not_of(characters, from);
      return std::min(end, source_.size());
    };
    const std::string_view digits = "0123456789_";
    const char kind = source_[at_] == '0' && at_ + 1 < source_.size()
                          ? static_cast<char>(source_[at_ + 1] | 32)
                          : '\0';
    if (kind == 'x' || kind == 'b' || kind == 'o') {
      const size_t end = run_of(at_ + 2, kind == 'x'   ? "0123456789abcdefABCDEF_"
                                         : kind == 'b' ? "01_"
                                                       : "01234567_");
      return add_integer(source_.substr(at_ + 2, end - at_ - 2),
                         kind == 'x'   ? 16
                         : kind == 'b' ? 2
                                       : 8,
                         end);
    }
    size_t end = run_of(at_, digits);
    bool is_float = false;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit_character(source_[end + 1])) {
      end = run_of(end + 1, digits);
      is_float = true;
    }
    size_t exponent = end;
    if (exponent < source_.size() && (source_[exponent] | 32) == 'e') {
      ++exponent;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-'))
        ++exponent;
      if (exponent < source_.size() && is_digit_character(source_[exponent])) {
        end = run_of(exponent, digits);
        is_float = true;
      }
    }
    if (!is_float) return add_integer(source_.substr(at_, end - at_), 10, end);
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    add(TokenKind::kFloat, std::move(text));
    advance(end - at_);
  }

  void add_integer(std::string digits, int base, size_t end) {
    std::erase(digits, '_');
    errno = 0;
    char* stop = nullptr;
    const long long value = std::strtoll(digits.c_str(), &stop, base);
    if (errno != 0 || digits.empty() || *stop != '\0')
      throw TemplateError("'" + digits + "' is no integer of 64 bits", line_);
    add(TokenKind::kInteger, std::to_string(value));
    advance(end - at_);
  }

  void take_text(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) throw TemplateError("a text has no end", line_);
    const std::string_view inside = std::string_view(source_).substr(at_ + 1, end - at_ - 1);
    add(TokenKind::kText, Unescaper(inside, line_).run());
    advance(end + 1 - at_);
  }

  std::string source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // what was taken last ends a line
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) {
  return Lexer(with_plain_line_ends(source)).run();
}

std::string described(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "end of template";
    case TokenKind::kData:
      return "text between tags";
    case TokenKind::kText:
      return "a text";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kVariableBegin:
      return "'{{'";
    default:
      return in_quotes(token.text);
  }
}

}  // namespace sftbench::jinja
