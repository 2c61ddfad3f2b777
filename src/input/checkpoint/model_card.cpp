#include "sftbench/checkpoint/model_card.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "sftbench/base/build_info.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/terminal_text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelFolder = "models--", kSlash = "--";

struct Escape {
  std::string_view bytes;  // UTF-8
  std::string_view escaped;
};

// What JSON writes as it is, and YAML does not take or folds as an end of the line.
constexpr std::array kUnprintable = {
    Escape{"\x7f", "\\x7F"},           Escape{"\xe2\x80\xa8", "\\u2028"},
    Escape{"\xe2\x80\xa9", "\\u2029"}, Escape{"\xef\xbb\xbf", "\\uFEFF"},
    Escape{"\xef\xbf\xbe", "\\uFFFE"}, Escape{"\xef\xbf\xbf", "\\uFFFF"},
};

std::string in_hexadecimal(unsigned char byte) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\x%02X", byte);
  return text.data();
}

// At an end, Markdown takes one of them for no part of the code.
bool has_space_or_tick_at_an_end(const std::string& text) {
  return text.front() == ' ' || text.front() == '`' || text.back() == ' ' || text.back() == '`';
}

size_t longest_run_of_ticks(const std::string& text) {
  size_t longest = 0, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

std::string metadata_text(const ModelCard& card) {
  std::vector<std::string> tags = card.tags;
  if (card.is_adapter) {
    tags.emplace_back("transformers");
    if (!card.base_model.empty()) tags.push_back("base_model:adapter:" + card.base_model);
  }
  std::sort(tags.begin(), tags.end());
  std::string text = "---\n";
  if (!card.base_model.empty()) text += "base_model: " + yaml_quoted(card.base_model) + "\n";
  text += std::string("library_name: ") + (card.is_adapter ? "peft" : "transformers") + "\n";
  text += "pipeline_tag: " + card.pipeline_tag + "\n";
  if (!tags.empty()) text += "tags:\n";
  for (const std::string& tag : tags) text += "- " + yaml_quoted(tag) + "\n";
  return text + "---\n";
}

std::string list_text(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string text;
  for (const auto& [label, value] : items) {
    text += "- " + label + ": " + markdown_code(value) + "\n";
  }
  return text;
}

}  // namespace

std::string yaml_quoted(std::string_view text) {
  const std::string json = json_text(std::string(text));
  std::string quoted;
  for (std::string_view rest = json; !rest.empty();) {
    const auto* const found =
        std::find_if(kUnprintable.begin(), kUnprintable.end(),
                     [rest](const Escape& escape) { return rest.starts_with(escape.bytes); });
    if (found != kUnprintable.end()) {
      quoted += found->escaped;
      rest.remove_prefix(found->bytes.size());
    } else if (rest[0] == '\xc2' &&
               static_cast<unsigned char>(rest[1]) < 0xa0) {  // U+0080 to U+009F
      quoted += in_hexadecimal(static_cast<unsigned char>(rest[1]));
      rest.remove_prefix(2);
    } else {
      quoted += rest[0];
      rest.remove_prefix(1);
    }
  }
  return quoted;
}

std::string markdown_code(std::string_view text) {
  const std::string code = terminal_line(text);
  if (code.empty()) return "(empty)";
  const std::string fence(longest_run_of_ticks(code) + 1, '`');
  const char* pad = has_space_or_tick_at_an_end(code) ? " " : "";
  return fence + pad + code + pad + fence;
}

std::string model_card_text(const ModelCard& card) {
  std::string text = metadata_text(card);
  text += "\n# " + card.title;
  if (!card.base_model.empty()) text += " of " + markdown_code(card.base_model);
  text += "\n\n" + list_text(card.facts);
  text += "- Written by: " + markdown_code("sftbench " + version_and_commit()) + "\n";
  if (card.arguments.empty()) return text;
  text += "\n## Arguments\n\nFields of the job that have another value than their default. ";
  text += "`sftbench run --dry-run` prints such a job.\n\n";
  return text + list_text(card.arguments);
}

std::string card_number(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

std::string base_model_name(const fs::path& folder) {
  const fs::path snapshot = folder.lexically_normal();
  const fs::path whole = snapshot.has_filename() ? snapshot : snapshot.parent_path();
  const std::string model = whole.parent_path().parent_path().filename().string();
  if (whole.parent_path().filename() != "snapshots" || !model.starts_with(kModelFolder)) {
    return folder.string();
  }
  std::string id = model.substr(kModelFolder.size());
  const size_t slash = id.find(kSlash);
  if (slash != std::string::npos) id.replace(slash, kSlash.size(), "/");
  return id;
}

}  // namespace sftbench
