#include "ranks/rendezvous.h"

#include <array>
#include <cstdio>

#include "ranks/peer_owner.h"

namespace sftbench {

bool is_trusted(const RankPlace& place, int connected_fd) {
  return !place.secret.empty() || place.nodes > 1 || may_be_own_process(connected_fd);
}

std::string version_of(const RankPlace& place) {
  return place.version.empty() ? SFTBENCH_VERSION : place.version;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    const std::string first_text = std::to_string(ranks[i]);
    if (last > i + 1) {
      parts.push_back(first_text + " to " + std::to_string(ranks[last]));
    } else {
      parts.push_back(first_text);
      if (last == i + 1) parts.push_back(std::to_string(ranks[last]));
    }
    i = last + 1;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g s", seconds);
  return text.data();
}

}  // namespace sftbench
