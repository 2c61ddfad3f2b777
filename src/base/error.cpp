#include "sftbench/base/error.h"

#include <array>
#include <utility>

#include "sftbench/base/text.h"

namespace sftbench {
namespace {

std::string join_lines(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += to_string(diagnostic);
  }
  return text;
}

}  // namespace

std::string_view to_string(ReasonCode code) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "OOM_GPU", "OOM_HOST",    "HANG",    "NCCL",   "RULE_1",  "RULE_2",
      "RULE_3",  "RULE_4",      "RULE_5",  "RULE_6", "RULE_7",  "DATA",
      "WEIGHTS", "UNSUPPORTED", "TIMEOUT", "KILLED", "INTERNAL"};
  return kNames.at(static_cast<size_t>(code));
}

Diagnostic finding(const std::filesystem::path& file, std::string key, std::string message,
                   std::string expected) {
  return {.file = file.string(),
          .line = 0,
          .key = std::move(key),
          .message = std::move(message),
          .expected = std::move(expected),
          .nearest = {}};
}

std::string to_string(const Diagnostic& d) {
  std::string text = d.file;
  if (d.line > 0) text += (text.empty() ? "line " : ":") + std::to_string(d.line);
  if (!text.empty()) text += ": ";
  if (!d.key.empty()) text += d.key + ": ";
  text += d.message;
  if (!d.expected.empty()) text += "; expected " + d.expected;
  if (!d.nearest.empty()) text += "; did you mean '" + d.nearest + "'?";
  return text;
}

InputError::InputError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(join_lines(diagnostics)), diagnostics_(std::move(diagnostics)) {}

InputError::InputError(std::string message)
    : std::runtime_error(message),
      diagnostics_{{.file = {},
                    .line = 0,
                    .key = {},
                    .message = std::move(message),
                    .expected = {},
                    .nearest = {}}} {}

RunError::RunError(ReasonCode reason_code, const std::string& message, std::string evidence_line)
    : std::runtime_error(message), code_(reason_code), evidence_(std::move(evidence_line)) {}

RunError unsupported_choice(std::string_view what, const std::string& name,
                            const std::vector<std::string>& known) {
  const std::string nearest = nearest_spelling(name, known);
  return RunError(ReasonCode::kUnsupported,
                  std::string(what) + " '" + name + "' is not implemented; there are " +
                      join(known) + (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
}

void check(bool promise, std::string_view text, const char* file, int line, const char* function) {
  if (promise) return;
  throw std::logic_error(std::string(file) + ":" + std::to_string(line) + ": " + function +
                         ": broken promise: " + std::string(text));
}

}  // namespace sftbench
