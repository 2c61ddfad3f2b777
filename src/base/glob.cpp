#include "base/glob.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace sftbench {
namespace {

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// The set that begins at `pattern[at]`, which is '['. False where it does not end: then '[' is
// itself.
bool find_set_end(std::string_view pattern, size_t at, size_t& end) {
  size_t i = at + 1;
  if (i < pattern.size() && pattern[i] == '!') ++i;
  if (i < pattern.size() && pattern[i] == ']') ++i;
  while (i < pattern.size() && pattern[i] != ']') ++i;
  end = i;
  return i < pattern.size();
}

bool is_in_set(std::string_view set, char c) {
  const bool negated = !set.empty() && set.front() == '!';
  if (negated) set.remove_prefix(1);
  bool found = false;
  for (size_t i = 0; i < set.size(); ++i) {
    const bool range = i + 2 < set.size() && set[i + 1] == '-';
    found = found || (range ? set[i] <= c && c <= set[i + 2] : set[i] == c);
    if (range) i += 2;
  }
  return found != negated;
}

// One part, with one place to return to: what a later star takes, an earlier one need not.
bool matches_part(std::string_view name, std::string_view pattern) {
  size_t n = 0, p = 0;
  size_t star = std::string_view::npos, behind_star = 0;
  while (n < name.size()) {
    size_t length = 1;
    bool fits = false;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      behind_star = n;
      continue;
    }
    if (size_t end = 0; p < pattern.size() && pattern[p] == '[' && find_set_end(pattern, p, end)) {
      fits = is_in_set(pattern.substr(p + 1, end - p - 1), name[n]);
      length = end - p + 1;
    } else if (p < pattern.size()) {
      fits = pattern[p] == '?' || pattern[p] == name[n];
    }
    if (fits) {
      ++n;
      p += length;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++behind_star;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

bool matches_glob(std::string_view path, std::string_view pattern) {
  const std::vector<std::string_view> names = parts_of(path);
  const std::vector<std::string_view> parts = parts_of(pattern);
  // reachable[i]: the parts so far match the first i names.
  std::vector<bool> reachable(names.size() + 1, false);
  reachable[0] = true;
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<bool> next(names.size() + 1, false);
    const bool last = p + 1 == parts.size();
    for (size_t i = 0; i <= names.size(); ++i) {
      if (!reachable[i]) continue;
      if (parts[p] == "**") {
        // A file is matched by one part at least.
        for (size_t to = last ? i + 1 : i; to <= names.size(); ++to) next[to] = true;
      } else if (i < names.size() && matches_part(names[i], parts[p])) {
        next[i + 1] = true;
      }
    }
    reachable = std::move(next);
  }
  return reachable[names.size()];
}

}  // namespace sftbench
