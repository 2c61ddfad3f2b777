#include "sftbench/base/yaml_text.h"

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include <algorithm>
#include <cctype>

#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// A text that no reader takes for a number, a date, a truth value or syntax.
bool is_plain(const std::string& text) {
  static const std::vector<std::string> kWords = {"true", "false", "yes", "no", "on",
                                                  "off",  "null",  "y",   "n"};
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text.front())) == 0) return false;
  if (std::find(kWords.begin(), kWords.end(), lower_case(text)) != kWords.end()) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' ||
           c == '/';
  });
}

// PyYAML takes 1e-05 for a text, and 1.0e-05 for the number.
std::string number_or_word(const Json& value) {
  std::string text = json_text(value);
  const size_t exponent = text.find('e');
  if (value.is_number_float() && exponent != std::string::npos &&
      text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");
  }
  return text;
}

// Several lines, each ended, none of which needs an escape, the first not indented.
bool is_literal(const std::string& text) {
  const bool lines = text.find('\n') != std::string::npos && text.back() == '\n';
  if (!lines || text.front() == ' ' || text.front() == '\n') return false;
  if (text.size() > 1 && text[text.size() - 2] == '\n') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return c == '\n' || (byte >= 0x20 && byte < 0x7F);
  });
}

void emit(YAML::Emitter& out, const Json& value) {
  if (value.is_object()) {
    if (value.empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (const auto& [key, member] : value.items()) {
      out << YAML::Key;
      emit(out, Json(key));
      out << YAML::Value;
      emit(out, member);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    if (value.empty()) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const Json& item : value) emit(out, item);
    out << YAML::EndSeq;
  } else if (!value.is_string()) {
    out << number_or_word(value);
  } else {
    const auto& text = value.get_ref<const std::string&>();
    if (is_literal(text)) {
      out << YAML::Literal;
    } else if (!is_plain(text)) {
      out << YAML::DoubleQuoted;
    }
    out << text;
  }
}

}  // namespace

std::string yaml_document(const Json& value) {
  YAML::Emitter out;
  out << YAML::BeginDoc;
  emit(out, value);
  return std::string(out.c_str()) + "\n";
}

}  // namespace sftbench
