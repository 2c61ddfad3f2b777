// Oniguruma's Ruby syntax in PCRE2's words. Only what differs is touched.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <string>

#include "data/tokenizer_pattern.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace {

constexpr int kDeepestClass = 8;
// Oniguruma counts the superscripts and fractions of Latin-1 to \w, and no others.
constexpr const char* kWordClass =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";

bool compiles(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF, &error, &offset, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        escape(false);
      } else if (c == '[') {
        ++at_;
        character_class(0);
      } else {
        if (c == '(') options();
        if (c == '}' && peek(1) == '+') unsupported("an interval followed by +");
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  char peek(size_t ahead) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }

  [[noreturn]] void unsupported(const std::string& what) const {
    throw InputError("pattern '" + std::string(in_.substr(0, 200)) + "': " + what +
                     " is not supported");
  }

  // (?i) means the same in both; Ruby's (?m) is PCRE2's (?s), and nobody splits text with the
  // others.
  void options() const {
    if (peek(1) != '?') return;
    size_t i = at_ + 2;
    while (i < in_.size() && (std::isalpha(static_cast<unsigned char>(in_[i])) || in_[i] == '-'))
      ++i;
    if (i == in_.size() || (in_[i] != ':' && in_[i] != ')')) return;
    for (const char option : in_.substr(at_ + 2, i - at_ - 2)) {
      if (option != 'i' && option != '-') unsupported(std::string("option ") + option);
    }
  }

  void escape(bool in_class) {
    const char c = peek(1);
    at_ += 2;
    switch (c) {
      case '\0':
        out_ += '\\';
        if (at_ - 1 < in_.size()) out_ += c;
        return;
      case 's':
        out_ += "\\p{White_Space}";
        return;
      case 'S':
        out_ += "\\P{White_Space}";
        return;
      case 'h':
        out_ += in_class ? "0-9A-Fa-f" : "[0-9A-Fa-f]";
        return;
      case 'w':
        out_ += in_class ? kWordClass : "[" + std::string(kWordClass) + "]";
        return;
      case 'H':
      case 'W':
        if (in_class) unsupported(std::string("\\") + c + " in a class");
        out_ += c == 'H' ? "[^0-9A-Fa-f]" : "[^" + std::string(kWordClass) + "]";
        return;
      case 'b':
      case 'B':
        if (in_class) {
          out_ += "\\b";
        } else {
          word_boundary(c == 'b');
        }
        return;
      case 'p':
      case 'P':
        property(c == 'P');
        return;
      case 'u':
        out_ += "\\x{" + std::string(in_.substr(std::min(at_, in_.size()), 4)) + "}";
        at_ += 4;
        return;
      default:
        out_ += '\\';
        out_ += c;
    }
  }

  void word_boundary(bool wanted) {
    const std::string word = "[" + std::string(kWordClass) + "]";
    const std::string edge = "(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + ")";
    out_ += wanted ? "(?:" + edge + ")" : "(?!" + edge + ")";
  }

  // A script's name alone means "script extensions" to PCRE2 and "script" to Oniguruma.
  void property(bool negated) {
    const size_t close = peek(0) == '{' ? in_.find('}', at_) : std::string_view::npos;
    if (close == std::string_view::npos) unsupported("\\p without {name}");
    std::string name(in_.substr(at_ + 1, close - at_ - 1));
    at_ = close + 1;
    if (!name.empty() && name.front() == '^') {
      negated = !negated;
      name.erase(0, 1);
    }
    if (compiles("\\p{sc:" + name + "}")) name = "sc:" + name;
    out_ += std::string(negated ? "\\P{" : "\\p{") + name + "}";
  }

  // Behind an opening bracket, to behind the closing one. Inner classes are unions: their members
  // join the outer class, which PCRE2 (where [ is literal in a class) would not do.
  void character_class(int depth) {
    if (depth > kDeepestClass) unsupported("so deep a class");
    const bool negated = peek(0) == '^';
    if (depth == 0) out_ += negated ? "[^" : "[";
    if (depth > 0 && negated) unsupported("a negated class in a class");
    if (negated) ++at_;
    for (bool first = true; at_ < in_.size(); first = false) {
      const char c = in_[at_];
      if (c == ']' && !first) {
        ++at_;
        if (depth == 0) out_ += ']';
        return;
      }
      if (c == '&' && peek(1) == '&') unsupported("an intersection of classes");
      if (c == '\\') {
        escape(true);
      } else if (c == '[' && peek(1) == ':') {
        const size_t close = in_.find(":]", at_ + 2);
        if (close == std::string_view::npos) unsupported("a class [: without :]");
        out_ += in_.substr(at_, close + 2 - at_);
        at_ = close + 2;
      } else if (c == '[') {
        ++at_;
        character_class(depth + 1);
      } else {
        if (c == ']') out_ += '\\';
        out_ += c;
        ++at_;
      }
    }
    unsupported("a class without ]");
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string translate_onig(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace sftbench
