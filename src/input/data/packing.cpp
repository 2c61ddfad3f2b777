#include "sftbench/data/packing.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

using Lists = std::vector<std::vector<int64_t>>;

// Appends the packs of `entries`: the longest first, each into the pack that it fills best, of
// equal ones into that which has waited longest.
void pack_group(std::vector<int64_t> entries, const std::vector<int64_t>& lengths, int64_t capacity,
                Lists& packs) {
  const auto length_of = [&](int64_t entry) { return lengths[static_cast<size_t>(entry)]; };
  std::stable_sort(entries.begin(), entries.end(),
                   [&](int64_t a, int64_t b) { return length_of(a) > length_of(b); });
  std::map<int64_t, std::deque<size_t>> packs_by_space;
  for (const int64_t entry : entries) {
    const auto fitting = packs_by_space.lower_bound(length_of(entry));
    size_t pack = packs.size();
    int64_t space = capacity;
    if (fitting == packs_by_space.end()) {
      packs.emplace_back();
    } else {
      space = fitting->first;
      pack = fitting->second.front();
      fitting->second.pop_front();
      if (fitting->second.empty()) packs_by_space.erase(fitting);
    }
    packs[pack].push_back(entry);
    packs_by_space[space - length_of(entry)].push_back(pack);
  }
}

}  // namespace

std::vector<std::vector<int64_t>> pack_entries(const std::vector<int64_t>& lengths,
                                               int64_t capacity, int64_t at_a_time) {
  check(at_a_time > 0, "entries are packed so many at a time");
  Lists packs;
  const auto count = static_cast<int64_t>(lengths.size());
  for (int64_t begin = 0; begin < count; begin += at_a_time) {
    std::vector<int64_t> group;
    for (int64_t entry = begin; entry < std::min(begin + at_a_time, count); ++entry) {
      const int64_t length = lengths[static_cast<size_t>(entry)];
      check(length <= capacity, "an entry that is packed fits into a pack");
      if (length > 0) group.push_back(entry);
    }
    pack_group(std::move(group), lengths, capacity, packs);
  }
  return packs;
}

Packs::Packs(const std::vector<std::vector<int64_t>>& packs) {
  for (const std::vector<int64_t>& pack : packs) {
    entries_.insert(entries_.end(), pack.begin(), pack.end());
    ends_.push_back(static_cast<int64_t>(entries_.size()));
  }
}

Packs Packs::of_one(std::vector<int64_t> entries) {
  Packs packs;
  packs.entries_ = std::move(entries);
  return packs;
}

std::span<const int64_t> Packs::pack(int64_t number) const {
  const std::span<const int64_t> entries = entries_;
  const auto at = static_cast<size_t>(number);
  if (ends_.empty()) return entries.subspan(at, 1);
  const int64_t begin = at == 0 ? 0 : ends_[at - 1];
  return entries.subspan(static_cast<size_t>(begin), static_cast<size_t>(ends_[at] - begin));
}

std::vector<int64_t> unpacked(const std::vector<int64_t>& numbers, const Packs& packs) {
  if (packs.empty()) return numbers;
  std::vector<int64_t> entries;
  for (const int64_t number : numbers) {
    const std::span<const int64_t> pack = packs.pack(number);
    entries.insert(entries.end(), pack.begin(), pack.end());
  }
  return entries;
}

}  // namespace sftbench
