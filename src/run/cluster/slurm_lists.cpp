#include "cluster/slurm_lists.h"

#include <charconv>
#include <optional>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// More than any machine has: a list that is longer was read wrongly.
constexpr size_t kMostEntries = 1 << 20;

[[noreturn]] void refuse(std::string_view list, const std::string& expected) {
  throw InputError({{{}, 0, "slurm", "found '" + std::string(list) + "'", expected, {}}});
}

std::optional<unsigned> number(std::string_view digits) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

// At commas outside brackets.
std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      parts.push_back(list.substr(begin, i - begin));
      begin = i + 1;
    } else if (list[i] == '[') {
      ++depth;
    } else if (list[i] == ']') {
      --depth;
    }
  }
  return parts;
}

// "01-03" -> "01", "02", "03": as many digits as the first has.
bool expand_range(std::string_view range, std::vector<std::string>& values) {
  const size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  const std::optional<unsigned> first = number(low);
  const std::optional<unsigned> last = number(high);
  if (!first || !last || *last < *first || *last - *first >= kMostEntries) return false;
  for (unsigned value = *first; value <= *last; ++value) {
    std::string digits = std::to_string(value);
    if (digits.size() < low.size()) digits.insert(0, low.size() - digits.size(), '0');
    values.push_back(std::move(digits));
  }
  return true;
}

// One name of the list: every combination of what its brackets stand for.
bool expand_name(std::string_view name, const std::string& prefix,
                 std::vector<std::string>& hosts) {
  const size_t open = name.find('[');
  if (open == std::string_view::npos) {
    if (name.find(']') != std::string_view::npos || (prefix.empty() && name.empty())) return false;
    hosts.push_back(prefix + std::string(name));
    return hosts.size() <= kMostEntries;
  }
  const size_t close = name.find(']', open);
  if (close == std::string_view::npos) return false;
  std::vector<std::string> values;
  for (const std::string_view range : split(name.substr(open + 1, close - open - 1))) {
    if (!expand_range(range, values)) return false;
  }
  for (const std::string& value : values) {
    const std::string longer = prefix + std::string(name.substr(0, open)) + value;
    if (!expand_name(name.substr(close + 1), longer, hosts)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view list) {
  std::vector<std::string> hosts;
  for (const std::string_view name : split(list)) {
    if (!expand_name(name, {}, hosts)) refuse(list, "a list of hosts such as n[01-03,7],login");
  }
  return hosts;
}

std::vector<int> expand_task_counts(std::string_view list) {
  std::vector<int> counts;
  for (const std::string_view part : split(list)) {
    const size_t open = part.find("(x");
    const bool repeated = open != std::string_view::npos;
    const std::optional<unsigned> count = number(part.substr(0, open));
    const std::optional<unsigned> times =
        !repeated            ? 1
        : part.back() == ')' ? number(part.substr(open + 2, part.size() - open - 3))
                             : std::nullopt;
    if (!count || !times || counts.size() + *times > kMostEntries) {
      refuse(list, "counts of tasks such as 2(x3),1");
    }
    counts.insert(counts.end(), *times, static_cast<int>(*count));
  }
  return counts;
}

}  // namespace sftbench
