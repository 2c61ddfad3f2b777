#include "sftbench/base/dataset_part.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

struct Slice {
  std::optional<int64_t> from, to;
  bool percent = false;
};

// "", "10", "-1_000" or "5%". False: it is something else.
bool read_bound(std::string_view text, std::optional<int64_t>& bound, bool& percent) {
  if (text.ends_with('%')) {
    percent = true;
    text.remove_suffix(1);
    if (text.empty()) return false;
  }
  if (text.empty()) return true;
  std::string digits(text);
  std::erase(digits, '_');
  int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || at != end) return false;
  bound = number;
  return true;
}

std::optional<Slice> read_slice(std::string_view text) {
  const size_t colon = text.find(':');
  if (text.size() < 3 || text.front() != '[' || text.back() != ']' ||
      colon == std::string_view::npos)
    return std::nullopt;
  Slice slice;
  if (!read_bound(text.substr(1, colon - 1), slice.from, slice.percent) ||
      !read_bound(text.substr(colon + 1, text.size() - colon - 2), slice.to, slice.percent))
    return std::nullopt;
  const auto beyond = [&slice](const std::optional<int64_t>& bound) {
    return slice.percent && bound && (*bound < -100 || *bound > 100);
  };
  if (beyond(slice.from) || beyond(slice.to)) return std::nullopt;
  return slice;
}

}  // namespace

DatasetPart dataset_part(const std::string& text, std::string& problem) {
  DatasetPart part;
  problem.clear();
  if (text.empty()) return part;
  const size_t second = text.find(':', 1);
  part.config = text.substr(1, second == std::string::npos ? second : second - 1);
  if (second != std::string::npos) set_split(part, text.substr(second + 1));
  const bool odd = std::any_of(text.begin(), text.end(),
                               [](unsigned char c) { return c < 32 || c == 127 || c == '\\'; });
  if (text.front() != ':' || text == ":" || odd || part.split.empty() ||
      part.split.find_first_of(":/") != std::string::npos || !is_inside(part.config)) {
    problem = "'" + text + "' names no config and split";
  } else if (!part.slice.empty() && !read_slice(part.slice)) {
    problem = "'" + part.slice + "' is no slice of entries as [:1000], [1000:2000] or [:10%]";
  }
  return part;
}

void set_split(DatasetPart& part, const std::string& text) {
  const size_t bracket = text.ends_with(']') ? text.find('[') : std::string::npos;
  part.split = text.substr(0, bracket);
  part.slice = bracket == std::string::npos ? std::string() : text.substr(bracket);
}

std::string text_of(const DatasetPart& part) {
  if (part.split != DatasetPart().split || !part.slice.empty())
    return ":" + part.config + ":" + part.split + part.slice;
  return part.config.empty() ? std::string() : ":" + part.config;
}

bool is_inside(const std::string& folder) {
  if (folder.empty()) return true;
  if (folder.front() == '/' || folder.back() == '/') return false;
  const std::string between = "/" + folder + "/";
  return between.find("/../") == std::string::npos && between.find("/./") == std::string::npos &&
         between.find("//") == std::string::npos &&
         folder.find_first_of("*?[") == std::string::npos;
}

EntryRange entry_range(const std::string& slice, int64_t entries) {
  if (slice.empty()) return {0, entries};
  const std::optional<Slice> read = read_slice(slice);
  check(read.has_value(), "a slice is checked before it is used");
  const auto position = [&](int64_t bound) {
    if (read->percent)
      bound = static_cast<int64_t>(
          std::nearbyint(static_cast<double>(bound) * static_cast<double>(entries) / 100));
    return std::min(bound < 0 ? std::max<int64_t>(entries + bound, 0) : bound, entries);
  };
  const EntryRange range{position(read->from.value_or(0)),
                         read->to ? position(*read->to) : entries};
  return {range.begin, std::max(range.begin, range.end)};
}

int64_t entries_that_decide(const std::string& slice) {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  const std::optional<Slice> read = read_slice(slice);
  const bool by_number =
      read && !read->percent && read->to && *read->to >= 0 && read->from.value_or(0) >= 0;
  return by_number ? *read->to : kAll;
}

}  // namespace sftbench
