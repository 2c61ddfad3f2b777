// A search pattern of a Split pre-tokenizer or a Replace normalizer: a literal or a regular
// expression.
//
// Hugging Face runs the expressions on Oniguruma (Ruby syntax, Unicode 16). They are translated to
// PCRE2: \s \w \h and nested classes mean what they mean there, and code points that are younger
// than PCRE2's Unicode tables are matched as an older one of the same category and properties.
// (Where no older one has its script, that of another script stands for it, so \p{Latin} and the
// like may miss or add newer ones.)
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace sftbench {

// The PCRE2 spelling of an Oniguruma pattern. InputError for constructs that have none
// (intersections, negated nested classes, options other than i).
std::string translate_onig(std::string_view pattern);

class Pattern {
 public:
  static Pattern literal(std::string text);
  // InputError with PCRE2's message when the pattern cannot be compiled.
  static Pattern regex(const std::string& onig_pattern);

  // The matches of a pattern in a text, in order and without overlap, as Oniguruma's find_iter
  // finds them.
  class Matches {
   public:
    // `text` must stay alive and be valid UTF-8.
    Matches(const Pattern& pattern, std::string_view text);
    // False when there is no further match. InputError when the pattern exceeds PCRE2's match
    // limit.
    bool next(size_t& begin, size_t& end);

   private:
    bool search(size_t from, size_t& begin, size_t& end) const;
    const Pattern& pattern_;
    std::string_view text_;
    std::string replaced_;  // backs text_ when it holds code points unknown to PCRE2
    size_t from_ = 0;
    size_t last_end_ = static_cast<size_t>(-1);
  };

 private:
  Pattern() = default;
  std::string source_;
  std::shared_ptr<void> code_;  // pcre2_code; null: source_ is a literal
};

}  // namespace sftbench
