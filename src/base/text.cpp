#include "sftbench/base/text.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace sftbench {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substitution, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// "smollm2-135m" for "smollm2". Empty when none begins so, or the word is too short to mean one.
std::string shortest_with_beginning(std::string_view word,
                                    const std::vector<std::string>& candidates) {
  constexpr size_t kFewestCharacters = 3;
  if (word.size() < kFewestCharacters) return {};
  const std::string* best = nullptr;
  for (const std::string& candidate : candidates) {
    if (candidate.size() <= word.size()) continue;
    const bool begins = std::equal(word.begin(), word.end(), candidate.begin(),
                                   [](char a, char b) { return lower(a) == lower(b); });
    if (begins && (best == nullptr || candidate.size() < best->size())) best = &candidate;
  }
  return best == nullptr ? std::string() : *best;
}

}  // namespace

std::string nearest_spelling(std::string_view word, const std::vector<std::string>& candidates) {
  // A word of the user's can be megabytes long; nothing that long is a misspelling of a name.
  if (word.size() > 256) return {};
  std::string best;
  size_t best_distance = ~size_t{0};
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    const size_t allowed = std::max<size_t>(2, std::max(word.size(), candidate.size()) / 3);
    if (distance <= allowed && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best.empty() ? shortest_with_beginning(word, candidates) : best;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace sftbench
