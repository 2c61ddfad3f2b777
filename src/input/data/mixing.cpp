#include "sftbench/data/mixing.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "sftbench/base/error.h"
#include "sftbench/base/numpy_random.h"

namespace sftbench {
namespace {

// Generator.choice(p=shares).
class SetDraw {
 public:
  SetDraw(const std::vector<double>& shares, uint64_t seed) : random_(seed) {
    std::partial_sum(shares.begin(), shares.end(), std::back_inserter(ends_));
    for (double& end : ends_) end /= ends_.back();
  }

  size_t next() {
    const auto found = std::upper_bound(ends_.begin(), ends_.end(), random_.uniform());
    return static_cast<size_t>(found - ends_.begin());
  }

 private:
  NumpyRandom random_;
  std::vector<double> ends_;
};

}  // namespace

EntrySplit split_entries(int64_t entries, double share, uint64_t seed, double trained) {
  EntrySplit split;
  const bool takes_rest = trained < 0 || trained == 1;
  if (share == 0 && takes_rest) {
    split.training.resize(static_cast<size_t>(entries));
    std::iota(split.training.begin(), split.training.end(), 0);
    return split;
  }
  const auto all = static_cast<double>(entries);
  const auto kept = takes_rest ? entries : static_cast<int64_t>(std::floor(trained * all));
  const auto asked = static_cast<int64_t>(share < 1 ? std::ceil(share * all) : share);
  const int64_t held_out = share == 0 ? entries - kept : std::min(entries, asked);
  const std::vector<int64_t> order = NumpyRandom(seed).permutation(entries);
  const auto middle = order.begin() + held_out;
  if (share > 0) split.evaluation.assign(order.begin(), middle);
  split.training.assign(middle, middle + std::min(kept, entries - held_out));
  return split;
}

std::vector<int64_t> interleave(const std::vector<int64_t>& lengths,
                                const std::vector<double>& shares, StoppingStrategy stopping,
                                uint64_t seed) {
  check(lengths.size() == shares.size() && !lengths.empty(), "each set has a share");
  std::vector<int64_t> begins(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), int64_t{0});
  std::vector<int64_t> taken(lengths.size());
  std::vector<bool> exhausted(lengths.size());
  const bool repeats = stopping != StoppingStrategy::kAllExhaustedWithoutReplacement;
  const auto is_over = [&] {
    const auto first = exhausted.begin(), last = exhausted.end();
    return stopping == StoppingStrategy::kFirstExhausted ? std::find(first, last, true) != last
                                                         : std::find(first, last, false) == last;
  };
  SetDraw draw(shares, seed);
  std::vector<int64_t> positions;
  while (!is_over()) {
    const size_t set = draw.next();
    if (exhausted[set] && !repeats) continue;
    positions.push_back(begins[set] + taken[set]);
    if (++taken[set] < lengths[set]) continue;
    exhausted[set] = true;
    taken[set] = 0;
  }
  return positions;
}

}  // namespace sftbench
