// Oniguruma's Ruby syntax in PCRE2's words. Only what differs is touched.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>

#include "sftbench/base/error.h"
#include "tokenizer/pattern.h"

namespace sftbench {
namespace {

constexpr int kDeepestClass = 8;
// Oniguruma counts the superscripts and fractions of Latin-1 to \w, and no others.
constexpr const char* kWordClass =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";

// A set that both know by other names, or of which Unicode 14 lacks some: what a class in PCRE2
// holds.
struct KnownSet {
  std::string_view name;  // lower case, without spaces, '-' and '_', which Oniguruma ignores
  std::string_view members;
};

#define SFTBENCH_ALPHABETIC                                                     \
  "\\p{Alphabetic}\\x{363}-\\x{36F}\\x{C04}\\x{F82}\\x{F83}\\x{1DD3}-\\x{1DE6}" \
  "\\x{11080}\\x{11081}"
#define SFTBENCH_LOWERCASE "\\p{Lowercase}\\x{10FC}\\x{A7F2}-\\x{A7F4}\\x{AB69}"
#define SFTBENCH_GRAPH "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}"

// Of [:name:] and of \p{name}.
constexpr KnownSet kPosix[] = {
    {"alnum", SFTBENCH_ALPHABETIC "\\p{Nd}"},
    {"alpha", SFTBENCH_ALPHABETIC},
    {"ascii", "\\x{00}-\\x{7F}"},
    {"blank", "\\t\\p{Zs}"},
    {"cntrl", "\\p{Cc}"},
    {"digit", "\\p{Nd}"},
    {"graph", SFTBENCH_GRAPH},
    {"lower", SFTBENCH_LOWERCASE},
    {"print", SFTBENCH_GRAPH "\\p{Zs}"},
    {"space", "\\p{White_Space}"},
    {"upper", "\\p{Uppercase}"},
    {"xdigit", "0-9A-Fa-f"},
};

// Of \p{name} alone; what is neither here nor a script is refused.
constexpr KnownSet kProperties[] = {
    {"alphabetic", SFTBENCH_ALPHABETIC},
    {"any", "\\x{0}-\\x{10FFFF}"},
    {"asciihexdigit", "\\p{ASCII_Hex_Digit}"},
    {"assigned", SFTBENCH_GRAPH "\\p{Z}\\p{Cc}"},
    {"emoji", "\\p{Emoji}"},
    {"emojicomponent", "\\p{Emoji_Component}"},
    {"emojimodifier", "\\p{Emoji_Modifier}"},
    {"emojimodifierbase", "\\p{Emoji_Modifier_Base}"},
    {"emojipresentation", "\\p{Emoji_Presentation}"},
    {"extendedpictographic", "\\p{Extended_Pictographic}"},
    {"hexdigit", "\\p{Hex_Digit}"},
    {"ideographic", "\\p{Ideographic}"},
    {"lowercase", SFTBENCH_LOWERCASE},
    {"posixpunct", "\\p{P}\\p{S}"},
    {"punct", "\\p{P}"},
    {"regionalindicator", "\\p{Regional_Indicator}"},
    {"unifiedideograph", "\\p{Unified_Ideograph}"},
    {"uppercase", "\\p{Uppercase}"},
    {"whitespace", "\\p{White_Space}"},
    {"word", kWordClass},
};

#undef SFTBENCH_ALPHABETIC
#undef SFTBENCH_LOWERCASE
#undef SFTBENCH_GRAPH

// Of \p, by long name; PCRE2 has the short ones.
constexpr std::pair<std::string_view, std::string_view> kCategories[] = {
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"casedletter", "LC"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"privateuse", "Co"},
    {"surrogate", "Cs"},
    {"unassigned", "Cn"},
};

template <size_t kCount>
std::string_view members_in(const KnownSet (&sets)[kCount], std::string_view name) {
  for (const KnownSet& set : sets) {
    if (set.name == name) return set.members;
  }
  return {};
}

// As Oniguruma compares names of properties.
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

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
        property(c == 'P', in_class);
        return;
      case 'v':  // to PCRE2 any line end
        out_ += "\\x{0B}";
        return;
      case 'X':  // graphemes change with every Unicode
      case 'C':  // a control character here, a byte there
      case 'M':
        unsupported(std::string("\\") + c);
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

  // What \p{name} stands for: the members of a class. A script's name alone means "script
  // extensions" to PCRE2 and "script" to Oniguruma.
  std::string property_members(const std::string& name) const {
    const std::string plain = plain_name(name);
    for (const std::string_view members :
         {members_in(kPosix, plain), members_in(kProperties, plain)}) {
      if (!members.empty()) return std::string(members);
    }
    for (const auto& [long_name, short_name] : kCategories) {
      if (plain == long_name || plain == plain_name(short_name)) {
        return "\\p{" + std::string(short_name) + "}";
      }
    }
    if (is_letters(plain) && compiles("\\p{sc:" + plain + "}")) return "\\p{sc:" + plain + "}";
    unsupported("\\p{" + name + "}");
  }

  static bool is_letters(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  }

  void property(bool negated, bool in_class) {
    const size_t close = peek(0) == '{' ? in_.find('}', at_) : std::string_view::npos;
    if (close == std::string_view::npos) unsupported("\\p without {name}");
    std::string name(in_.substr(at_ + 1, close - at_ - 1));
    at_ = close + 1;
    if (!name.empty() && name.front() == '^') {
      negated = !negated;
      name.erase(0, 1);
    }
    add_set(property_members(name), negated, in_class, (negated ? "\\P{" : "\\p{") + name + "}");
  }

  // `written`: as the pattern has it.
  void add_set(const std::string& members, bool negated, bool in_class,
               const std::string& written) {
    const bool one = members.rfind("\\p{", 0) == 0 && members.find('}') + 1 == members.size();
    if (one) {
      out_ += (negated ? "\\P" : "\\p") + members.substr(2);
    } else if (!in_class) {
      out_ += (negated ? "[^" : "[") + members + "]";
    } else if (!negated) {
      out_ += members;
    } else {
      unsupported(written + " in a class");
    }
  }

  // "[:alpha:]" in a class. REQUIRES: it begins at at_.
  void posix_bracket() {
    const size_t close = in_.find(":]", at_ + 2);
    if (close == std::string_view::npos) unsupported("a class [: without :]");
    const std::string written(in_.substr(at_, close + 2 - at_));
    const bool negated = peek(2) == '^';
    const std::string name(in_.substr(at_ + 2 + negated, close - at_ - 2 - negated));
    at_ = close + 2;
    // Unlike \p{Punct} and \p{Word}, these have the symbols, and no superscripts.
    std::string_view members = members_in(kPosix, name);
    if (name == "punct") members = "\\p{P}\\p{S}";
    if (name == "word") members = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    if (members.empty()) unsupported(written);
    add_set(std::string(members), negated, true, written);
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
        posix_bracket();
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
