#include "sftbench/base/text.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace sftbench {
namespace {

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

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

// Shorter words are part of too much to mean anything.
constexpr size_t kFewestCharacters = 3;

// Where `word` begins in `candidate`, case ignored; npos: nowhere, or it is all of it.
size_t place_in(std::string_view word, std::string_view candidate) {
  if (word.size() < kFewestCharacters || candidate.size() <= word.size()) {
    return std::string_view::npos;
  }
  const auto found = std::search(candidate.begin(), candidate.end(), word.begin(), word.end(),
                                 [](char a, char b) { return lower(a) == lower(b); });
  return found == candidate.end() ? std::string_view::npos
                                  : static_cast<size_t>(found - candidate.begin());
}

// "smollm2-135m" for "smollm2": the shortest that begins so. Empty when none does.
std::string shortest_with_beginning(std::string_view word,
                                    const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  for (const std::string& candidate : candidates) {
    if (place_in(word, candidate) != 0) continue;
    if (best == nullptr || candidate.size() < best->size()) best = &candidate;
  }
  return best == nullptr ? std::string() : *best;
}

// "NVIDIA-A100-80GB-PCIe" for "A100".
std::string shortest_with_part(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  for (const std::string& candidate : candidates) {
    if (place_in(word, candidate) == std::string_view::npos) continue;
    if (best == nullptr || candidate.size() < best->size()) best = &candidate;
  }
  return best == nullptr ? std::string() : *best;
}

// Where the host's part of an address begins; npos: the word is neither an address nor
// NAME=ADDRESS.
size_t authority_of(std::string_view word) {
  constexpr std::string_view kMark = "://";
  const size_t mark = word.find(kMark);
  if (mark == std::string_view::npos) return mark;
  size_t scheme = mark;
  while (scheme > 0 && (std::isalnum(static_cast<unsigned char>(word[scheme - 1])) != 0 ||
                        std::string_view("+-.").find(word[scheme - 1]) != std::string_view::npos)) {
    --scheme;
  }
  const bool is_address = scheme < mark && (scheme == 0 || word[scheme - 1] == '=');
  return is_address ? mark + kMark.size() : std::string_view::npos;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(), lower);
  return small;
}

std::string nearest_spelling(std::string_view word, const std::vector<std::string>& candidates) {
  // A word of the user's can be megabytes long; nothing that long is a misspelling of a name.
  if (word.size() > 256) return {};
  if (std::string whole = shortest_with_beginning(word, candidates); !whole.empty()) return whole;
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
  return best.empty() ? shortest_with_part(word, candidates) : best;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

std::string join_some(const std::vector<std::string>& parts) {
  constexpr size_t kMost = 20;
  if (parts.size() <= kMost) return join(parts);
  return join({parts.begin(), parts.begin() + kMost}) + " and " +
         std::to_string(parts.size() - kMost) + " more";
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
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

std::string without_secrets(std::string_view word) {
  const size_t host = authority_of(word);
  if (host == std::string_view::npos) return std::string(word);
  std::string shown(word);
  const size_t query = shown.find_first_of("?#", host);
  const size_t at = shown.rfind('@');  // the last: who forgets to escape a password leaks it not
  const bool has_at = at != std::string::npos && at >= host;
  if (has_at && query < at) return shown.substr(0, host) + "***";
  if (query != std::string::npos) shown.replace(query + 1, std::string::npos, "***");
  if (has_at) shown.replace(host, at - host, "***");
  return shown;
}

}  // namespace sftbench
