#include "sftbench/advise/edge_search.h"

#include <algorithm>
#include <bit>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

class EdgeFinder {
 public:
  EdgeFinder(const EdgeSearch& search, const std::function<bool(int64_t)>& fits)
      : search_(search),
        fits_(fits),
        low_(search.least - 1),
        high_(search.most + 1),
        left_(most_trials(search)) {}

  Edge find() {
    bracket();
    while (high_ - low_ > 1 && left_ > 0) narrow(low_ + (high_ - low_) / 2);
    repeat();
    edge_.size = low_;
    return std::move(edge_);
  }

 private:
  bool ask(int64_t size) {
    --left_;
    const bool fits = fits_(size);
    edge_.trials.push_back({size, fits});
    return fits;
  }

  void narrow(int64_t size) { (ask(size) ? low_ : high_) = size; }

  // The nearest size to `wanted` behind which the rest can be bisected, however the trial ends.
  int64_t feasible(int64_t wanted) const {
    const int64_t most = (int64_t{1} << std::min<int64_t>(left_ - 1, 40)) - 1;
    return std::clamp(wanted, std::max(low_ + 1, high_ - 1 - most),
                      std::min(high_ - 1, low_ + 1 + most));
  }

  // From the guess outward until one size runs and one dies.
  void bracket() {
    if (!search_.guess) return;
    int64_t at = std::clamp(*search_.guess, search_.least, search_.most);
    const bool runs = ask_at(at);
    for (int64_t step = 1; high_ - low_ > 1 && left_ > 0; step *= 2) {
      at = runs ? at + step : at - step;
      if (at <= low_ || at >= high_) at = runs ? high_ - 1 : low_ + 1;
      if (ask_at(at) != runs) return;
    }
  }

  bool ask_at(int64_t& at) {
    at = feasible(at);
    narrow(at);
    return low_ == at;
  }

  int64_t times(int64_t size) const {
    return std::count_if(edge_.trials.begin(), edge_.trials.end(),
                         [size](const Trial& trial) { return trial.size == size; });
  }

  // Each of the two sizes in turn. What ran first and dies now moves the edge down by one, what
  // died first and runs now only shows that the edge is flaky.
  void repeat() {
    for (int round = 0; round < search_.repeats; ++round) {
      if (left_ > 0 && low_ >= search_.least && times(low_) <= search_.repeats && !ask(low_)) {
        edge_.flaky = true;
        high_ = low_--;
        continue;
      }
      const bool may_ask = left_ > 0 && high_ <= search_.most && times(high_) <= search_.repeats;
      if (may_ask && ask(high_)) edge_.flaky = true;
    }
  }

  const EdgeSearch& search_;
  const std::function<bool(int64_t)>& fits_;
  int64_t low_, high_;  // low_ runs, high_ dies
  int64_t left_;        // trials
  Edge edge_;
};

}  // namespace

int64_t most_trials(const EdgeSearch& search) {
  const auto sizes = static_cast<uint64_t>(search.most - search.least + 1);
  return std::bit_width(sizes) - 1 + 2;
}

Edge find_edge(const EdgeSearch& search, const std::function<bool(int64_t)>& fits) {
  check(search.least <= search.most, "there is a size to try");
  return EdgeFinder(search, fits).find();
}

}  // namespace sftbench
