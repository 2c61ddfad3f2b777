#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pattern.h"

#include <pcre2.h>

#include <algorithm>
#include <cstring>

#include "sftbench/base/error.h"
#include "tokenizer/unicode.h"

namespace sftbench {
namespace {

constexpr size_t kLongestPattern_bytes = 32 * 1024;
constexpr uint32_t kMatchLimit = 2'000'000;
constexpr size_t kJitStackMax_bytes = 4 << 20;

struct MatchSpace {  // what one thread needs to run patterns
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 * 1024, kJitStackMax_bytes, nullptr);
  MatchSpace() {
    check(data != nullptr && context != nullptr && stack != nullptr, "PCRE2 has memory");
    pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_depth_limit(context, kMatchLimit);
  }
  ~MatchSpace() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  MatchSpace(const MatchSpace&) = delete;
  MatchSpace& operator=(const MatchSpace&) = delete;
};

MatchSpace& match_space() {
  thread_local MatchSpace space;
  return space;
}

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

std::string shortened(const std::string& pattern) {
  return pattern.size() <= 200 ? pattern : pattern.substr(0, 200) + "...";
}

bool may_hold_newer(std::string_view text) {  // all of them take three bytes or more
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0xE0; });
}

uint32_t pcre2_code_point(uint32_t c) {
  const auto after =
      std::upper_bound(kNewerThanPcre2.begin(), kNewerThanPcre2.end(), c,
                       [](uint32_t wanted, const NewerRun& run) { return wanted < run.first; });
  if (after == kNewerThanPcre2.begin() || c > std::prev(after)->last) return c;
  return std::prev(after)->replacement;
}

}  // namespace

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  // An empty literal matches between all characters, which is the regular expressions' business.
  if (text.empty()) return regex("");
  pattern.source_ = std::move(text);
  return pattern;
}

Pattern Pattern::regex(const std::string& onig_pattern) {
  if (onig_pattern.size() > kLongestPattern_bytes) {
    throw InputError("pattern of " + std::to_string(onig_pattern.size()) + " bytes is too long");
  }
  const std::string translated = translate_onig(onig_pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::shared_ptr<pcre2_compile_context> context(pcre2_compile_context_create(nullptr),
                                                       pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  // Ruby's ^ and $ always match at lines.
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, context.get());
  if (code == nullptr) {
    throw InputError("pattern '" + shortened(onig_pattern) + "': " + message_of(error));
  }
  Pattern pattern;
  pattern.source_ = onig_pattern;
  pattern.code_ =
      std::shared_ptr<void>(code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without JIT it is only slower
  return pattern;
}

Pattern::Matches::Matches(const Pattern& pattern, std::string_view text)
    : pattern_(pattern), text_(text) {
  if (pattern.code_ == nullptr || !may_hold_newer(text)) return;
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = decode_utf8(text.data() + i);
    const uint32_t known = pcre2_code_point(c.code_point);
    if (known != c.code_point) {
      if (replaced_.empty()) replaced_ = text;
      std::string bytes;
      append_utf8(bytes, known);
      check(bytes.size() == c.size_bytes, "a replaced code point keeps its length");
      replaced_.replace(i, bytes.size(), bytes);
    }
    i += c.size_bytes;
  }
  if (!replaced_.empty()) text_ = replaced_;
}

bool Pattern::Matches::search(size_t from, size_t& begin, size_t& end) const {
  if (pattern_.code_ == nullptr) {
    const void* found = memmem(text_.data() + from, text_.size() - from, pattern_.source_.data(),
                               pattern_.source_.size());
    if (found == nullptr) return false;
    begin = static_cast<size_t>(static_cast<const char*>(found) - text_.data());
    end = begin + pattern_.source_.size();
    return true;
  }
  MatchSpace& space = match_space();
  const auto* code = static_cast<const pcre2_code*>(pattern_.code_.get());
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
  int result =
      pcre2_match(code, subject, text_.size(), from, PCRE2_NO_UTF_CHECK, space.data, space.context);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = pcre2_match(code, subject, text_.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         space.data, space.context);
  }
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    throw InputError("pattern '" + shortened(pattern_.source_) + "': " + message_of(result));
  }
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(space.data);
  begin = offsets[0];
  end = std::max(offsets[0], offsets[1]);  // \K in a look-behind can put the start after the end
  return true;
}

bool Pattern::Matches::next(size_t& begin, size_t& end) {
  while (from_ <= text_.size()) {
    if (!search(from_, begin, end)) {
      from_ = text_.size() + 1;
      return false;
    }
    if (begin != end || end != last_end_) {
      from_ = last_end_ = end;
      return true;
    }
    from_ += from_ < text_.size() ? decode_utf8(text_.data() + from_).size_bytes : 1;
  }
  return false;
}

}  // namespace sftbench
