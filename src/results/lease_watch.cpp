#include "results/lease_watch.h"

#include <algorithm>

namespace sftbench {

bool LeaseWatch::silent(const std::string& name, const std::string& sign, double lease_s,
                        double now_s) {
  const auto [seen, is_new] = seen_.try_emplace(name, Seen{sign, 0, now_s});
  if (is_new) return false;
  Seen& before = seen->second;
  if (before.sign != sign) {
    before = {sign, 0, now_s};
    return false;
  }
  before.watched_s += std::min(now_s - before.last_s, lease_s / 2);
  before.last_s = now_s;
  return before.watched_s >= lease_s;
}

void LeaseWatch::keep_only(const std::set<std::string>& names) {
  for (auto seen = seen_.begin(); seen != seen_.end();) {
    seen = names.count(seen->first) != 0 ? std::next(seen) : seen_.erase(seen);
  }
}

}  // namespace sftbench
