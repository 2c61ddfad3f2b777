#include "tokenizer/normalizer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>

#include "sftbench/base/text.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

namespace sftbench {
namespace {

constexpr size_t kLongestText_bytes = size_t{1} << 31;

// Changes a text; what its first bytes become, as NormalizerChain::run() says.
using Step = std::function<size_t(std::string&, size_t)>;

// A step that makes of each character what it makes of it alone. (A mark that joins the first
// character adds no beginning of a character to it.)
Step by_characters(std::function<void(std::string&)> change) {
  return [change = std::move(change)](std::string& text, size_t head_bytes) {
    std::string head = text.substr(0, head_bytes);
    change(text);
    if (head_bytes > 0) change(head);
    return std::min(head.size(), text.size());
  };
}

size_t leading_space_bytes(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const DecodedChar c = decode_utf8(text.data() + i);
    if ((CharClasses::instance()[c.code_point] & kSpace) == 0) break;
    i += c.size_bytes;
  }
  return i;
}

size_t trailing_space_bytes(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const DecodedChar c = decode_utf8_before(text.data(), text.data() + end);
    if ((CharClasses::instance()[c.code_point] & kSpace) == 0) break;
    end -= c.size_bytes;
  }
  return text.size() - end;
}

size_t strip(std::string& text, size_t head_bytes, bool left, bool right) {
  if (right) text.resize(text.size() - trailing_space_bytes(text));
  const size_t removed_bytes = left ? leading_space_bytes(text) : 0;
  text.erase(0, removed_bytes);
  return std::min(head_bytes - std::min(head_bytes, removed_bytes), text.size());
}

void strip_marks(std::string& text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = decode_utf8(text.data() + i);
    if ((CharClasses::instance()[c.code_point] & kMark) == 0) result.append(text, i, c.size_bytes);
    i += c.size_bytes;
  }
  text.swap(result);
}

// Replacing the space by "▁" is the one replacement that every Llama text goes through.
size_t replace_byte(std::string& text, size_t head_bytes, char byte, const std::string& content) {
  const auto count = static_cast<size_t>(std::count(text.begin(), text.end(), byte));
  if (count == 0) return head_bytes;
  const auto count_in_head = static_cast<size_t>(
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(head_bytes), byte));
  constexpr size_t kUnit_bytes = sizeof(uint32_t);  // what one step stores, wanted or not
  std::string result(text.size() - count + count * content.size() + kUnit_bytes, '\0');
  char* out = result.data();
  if (content.size() <=
      kUnit_bytes) {  // without branches, for words end where nobody can foresee it
    uint32_t unit = 0;
    std::copy(content.begin(), content.end(), reinterpret_cast<char*>(&unit));
    for (const char c : text) {
      const bool matches = c == byte;
      const uint32_t stored = matches ? unit : static_cast<unsigned char>(c);
      std::memcpy(out, &stored, sizeof(stored));
      out += matches ? content.size() : 1;
    }
  } else {
    for (const char c : text)
      out = c == byte ? std::copy(content.begin(), content.end(), out) : (*out = c, out + 1);
  }
  result.resize(result.size() - kUnit_bytes);
  text.swap(result);
  return head_bytes - count_in_head + count_in_head * content.size();
}

// What replaces a match stands for the last character of it.
size_t replace_matches(std::string& text, size_t head_bytes, const Pattern& pattern,
                       const std::string& content) {
  if (text.empty()) return head_bytes;
  std::string result;
  size_t new_head_bytes = 0;
  const auto copy = [&](size_t from, size_t to) {
    result.append(text, from, to - from);
    if (from < head_bytes) new_head_bytes = result.size() - (to - std::min(to, head_bytes));
  };
  Pattern::Matches matches(pattern, text);
  size_t begin = 0, end = 0, copied = 0;
  while (matches.next(begin, end)) {
    copy(copied, begin);
    result.append(content);
    if (end <= head_bytes) new_head_bytes = result.size();
    copied = end;
    if (result.size() > kLongestText_bytes)
      throw InputError("a Replace normalizer makes the text too long");
  }
  copy(copied, text.size());
  text.swap(result);
  return new_head_bytes;
}

Step replace_step(const Json& normalizer, const std::string& path, TokenizerProblems& problems) {
  const std::string content = problems.text(normalizer, "content", "", path);
  const auto pattern = normalizer.find("pattern");
  if (pattern == normalizer.end() || !pattern->is_object()) {
    problems.add(path + ".pattern", "is missing", "an object with String or Regex");
    return nullptr;
  }
  const auto literal = problems.optional_text(*pattern, "String", path + ".pattern");
  const auto regex = problems.optional_text(*pattern, "Regex", path + ".pattern");
  if (!literal && !regex) {
    problems.add(path + ".pattern", "has neither String nor Regex");
    return nullptr;
  }
  if (literal && literal->size() == 1) {
    return [byte = literal->front(), content](std::string& text, size_t head_bytes) {
      return replace_byte(text, head_bytes, byte, content);
    };
  }
  try {
    const Pattern compiled = literal ? Pattern::literal(*literal) : Pattern::regex(*regex);
    return [compiled, content](std::string& text, size_t head_bytes) {
      return replace_matches(text, head_bytes, compiled, content);
    };
  } catch (const InputError& error) {
    problems.add(path + ".pattern", error.what());
    return nullptr;
  }
}

Step form_step(NormalForm form) {
  return by_characters([form](std::string& text) { normalize(text, form); });
}

}  // namespace

NormalizerChain NormalizerChain::parse(const Json& normalizer, TokenizerProblems& problems) {
  NormalizerChain chain;
  if (!normalizer.is_null()) chain.append(normalizer, "normalizer", 0, problems);
  return chain;
}

void NormalizerChain::append(const Json& normalizer, const std::string& path, int depth,
                             TokenizerProblems& problems) {
  if (!normalizer.is_object()) return problems.add(path, "is " + kind_of(normalizer), "an object");
  if (depth > kDeepestSequence) return problems.add(path, "sequences are nested too deep");
  const std::string type = problems.text(normalizer, "type", "", path);
  if (type == "Sequence") {
    const auto parts = normalizer.find("normalizers");
    if (parts == normalizer.end() || !parts->is_array()) {
      return problems.add(path + ".normalizers", "is missing", "a list");
    }
    for (size_t i = 0; i < parts->size(); ++i) {
      append((*parts)[i], path + ".normalizers[" + std::to_string(i) + "]", depth + 1, problems);
    }
  } else if (type == "NFC") {
    steps_.push_back(form_step(NormalForm::kNfc));
  } else if (type == "NFD") {
    steps_.push_back(form_step(NormalForm::kNfd));
  } else if (type == "NFKC") {
    steps_.push_back(form_step(NormalForm::kNfkc));
  } else if (type == "NFKD") {
    steps_.push_back(form_step(NormalForm::kNfkd));
  } else if (type == "Lowercase") {
    steps_.push_back(by_characters(to_lowercase));
  } else if (type == "StripAccents") {
    steps_.push_back(by_characters(strip_marks));
  } else if (type == "ByteLevel") {
    steps_.push_back(by_characters([](std::string& text) { text = byte_level_text(text); }));
  } else if (type == "Strip") {
    const bool left = problems.boolean(normalizer, "strip_left", true, path);
    const bool right = problems.boolean(normalizer, "strip_right", true, path);
    steps_.emplace_back([left, right](std::string& text, size_t head_bytes) {
      return strip(text, head_bytes, left, right);
    });
  } else if (type == "Prepend") {
    steps_.emplace_back([prefix = problems.text(normalizer, "prepend", "", path)](
                            std::string& text, size_t head_bytes) {
      if (!text.empty()) text.insert(0, prefix);
      return head_bytes == 0 ? 0 : head_bytes + prefix.size();
    });
  } else if (type == "Replace") {
    if (Step step = replace_step(normalizer, path, problems)) steps_.push_back(std::move(step));
  } else {
    const std::vector<std::string> known = {"Sequence", "NFC",       "NFD",         "NFKC",
                                            "NFKD",     "Lowercase", "Strip",       "Replace",
                                            "Prepend",  "ByteLevel", "StripAccents"};
    problems.add(path + ".type", "unsupported normalizer '" + type + "'", join(known),
                 nearest_spelling(type, known));
  }
}

const std::string& byte_level_char(unsigned char byte) {
  static const std::array<std::string, 256> chars = [] {
    std::array<std::string, 256> result;
    uint32_t next = 0x100;  // printable Latin-1 stands for itself, the others follow from U+0100 on
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
      append_utf8(result[b], printable ? b : next++);
    }
    return result;
  }();
  return chars[byte];
}

std::string byte_level_text(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char c : bytes) text += byte_level_char(static_cast<unsigned char>(c));
  return text;
}

}  // namespace sftbench
