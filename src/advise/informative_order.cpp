#include "sftbench/advise/informative_order.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <utility>

#include "advise/case_beliefs.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace {

constexpr size_t kMostWatched = 128;
constexpr size_t kMostConditions = 256;
constexpr double kUsualStartSeconds = 20;  // until a result says otherwise
constexpr double kLeastSeconds = 1e-3;     // of a measurement
constexpr double kFar = 38;                // deviations: beyond them nothing is
// A machine whose speed nobody knows is off by a factor of ten, in either direction, in two of three cases.
constexpr double kGuessedVariance = std::numbers::ln10 * std::numbers::ln10;

double density(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
}

double share_above(double x) {
  return 0.5 * std::erfc(x / std::numbers::sqrt2);
}

// Mean of what is above x, of a standard normal distribution.
double mean_above(double x) {
  const double share = share_above(x);
  return share > 1e-12 ? density(x) / share : x + 1 / x;
}

bool before(const WalkStep& a, const WalkStep& b) {
  return std::pair(a.entity, a.experiment) < std::pair(b.entity, b.experiment);
}

std::vector<CasePlace> places_of(const std::vector<InformativeCell>& cells) {
  std::vector<CasePlace> places;
  for (const InformativeCell& cell : cells) places.emplace_back(cell.at);
  return places;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Spread time_spread(const ResidualTable& table, const InformativeCell& cell) {
  Spread spread = spread_for(table, Figure::kTime, cell.at);
  if (cell.guessed) spread.offset += kGuessedVariance;
  return spread;
}

}  // namespace

class InformativeOrder::Group {
 public:
  Group(std::vector<InformativeCell> cells, const ResidualTable& table)
      : cells_(std::move(cells)),
        time_spread_(time_spread(table, cells_.front())),
        memory_spread_(spread_for(table, Figure::kMemory, cells_.front().at)),
        time_(places_of(cells_), time_spread_),
        memory_(places_of(cells_), memory_spread_),
        open_(cells_.size(), true),
        knows_memory_(std::any_of(cells_.begin(), cells_.end(), [](const InformativeCell& cell) {
          return cell.room_bytes > 0 && cell.tensor_bytes > 0;
        })) {}

  const InformativeCell& cell(size_t i) const { return cells_[i]; }

  // The open cell that is worth most per second.
  struct Best {
    size_t cell = 0;
    double worth = -1;
  };
  const Best& best(double start_s) {
    if (stale_ || start_s != start_s_) find_best(start_s);
    return best_;
  }

  void close(size_t i) {
    stale_ = stale_ || open_[i];
    open_[i] = false;
  }

  void begin(size_t i) {
    close(i);
    under_way_.push_back(push(i));
  }

  void end(size_t i, const CellResult& result) {
    // What was told comes before what is under way: means depend on the former alone.
    std::vector<size_t> others = take_back_all();
    std::erase(others, i);
    take_in(i, result);
    for (const size_t other : others) under_way_.push_back(push(other));
    stale_ = true;
  }

  // What is under way is open, and may never tell.
  void add_knowledge(OpenKnowledge& knowledge, std::vector<double>& factors) {
    const std::vector<size_t> asked = take_back_all();
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (!open_[i] && std::count(asked.begin(), asked.end(), i) == 0) continue;
      ++knowledge.open;
      const double deviation = std::sqrt(time_.variance(i) + time_spread_.noise);
      factors.push_back(std::exp(time_spread_.widening * deviation));
      const double dies = chance_of_death(i).dies;
      knowledge.undecided += dies > 0.05 && dies < 0.95 ? 1 : 0;
    }
    for (const size_t i : asked) under_way_.push_back(push(i));
  }

 private:
  struct UnderWay {
    size_t cell = 0;
    bool counts = false;  // the beliefs were conditioned on it
  };

  struct Death {
    double dies = 0;
    double edge = kFar;    // deviations from what is expected to what the device has
    double deviation = 1;  // of what a measurement would say
  };

  Death chance_of_death(size_t i) const {
    const InformativeCell& cell = cells_[i];
    Death death;
    if (!knows_memory_ || cell.room_bytes <= 0 || cell.tensor_bytes <= 0) return death;
    death.deviation = std::sqrt(std::max(0.0, memory_.variance(i)) + memory_spread_.noise);
    const double room = std::log(cell.room_bytes / cell.tensor_bytes) - memory_.mean(i);
    // As Uncertainty::chance_above(): nine tenths of the distribution are the interval.
    death.edge = room / (death.deviation * memory_spread_.widening / kNormalP95);
    death.dies = share_above(death.edge);
    return death;
  }

  // Of the chance, by the logarithm of what is needed, squared.
  static double slope_of(const Death& death) {
    const double slope = density(death.edge) / death.deviation;
    return slope * slope;
  }

  UnderWay push(size_t i) {
    if (time_.conditions() >= kMostConditions) return {i, false};
    time_.condition(i, time_spread_.noise);
    if (knows_memory_) memory_.condition(i, memory_spread_.noise);
    return {i, true};
  }

  // In the order in which it was asked for.
  std::vector<size_t> take_back_all() {
    std::vector<size_t> cells;
    for (const UnderWay& one : under_way_) cells.push_back(one.cell);
    for (; !under_way_.empty(); under_way_.pop_back()) {
      if (!under_way_.back().counts) continue;
      time_.undo();
      if (knows_memory_) memory_.undo();
    }
    return cells;
  }

  void take_in(size_t i, const CellResult& result) {
    const InformativeCell& cell = cells_[i];
    if (result.step_s && *result.step_s > 0 && time_.conditions() < kMostConditions) {
      time_.condition(i, time_spread_.noise);
      time_.learn(std::log(*result.step_s / cell.step_s));
    }
    if (!knows_memory_ || memory_.conditions() >= kMostConditions || cell.tensor_bytes <= 0) return;
    if (result.tensor_bytes && *result.tensor_bytes > 0) {
      memory_.condition(i, memory_spread_.noise);
      memory_.learn(std::log(*result.tensor_bytes / cell.tensor_bytes));
    } else if (result.ran_out_of_memory && cell.room_bytes > 0) {
      take_in_death(i);
    }
  }

  // More than there is room for: a measurement that has the same effect, by its noise and its value.
  void take_in_death(size_t i) {
    const InformativeCell& cell = cells_[i];
    const double variance = std::max(memory_.variance(i), 1e-12);
    const double deviation = std::sqrt(variance + memory_spread_.noise);
    const double room = std::log(cell.room_bytes / cell.tensor_bytes);
    const double edge = (room - memory_.mean(i)) / deviation;
    const double above = mean_above(edge);
    const double lost = std::clamp(above * (above - edge), 1e-6, 1.0);  // of the variance
    const double noise = std::max(0.0, deviation * deviation / lost - variance);
    const double value = memory_.mean(i) + above * deviation / lost;
    memory_.condition(i, noise);
    memory_.learn(value);
  }

  // Anew as soon as few of those that stand for the open ones are open themselves.
  void watch_open_ones() {
    std::vector<size_t> open;
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (open_[i]) open.push_back(i);
    }
    const auto still = static_cast<size_t>(std::count_if(
        time_.watched().begin(), time_.watched().end(), [this](size_t i) { return open_[i]; }));
    const size_t wanted = std::min(open.size(), kMostWatched);
    if (2 * still >= wanted && !time_.watched().empty()) {
      each_stands_for_ = static_cast<double>(open.size()) / static_cast<double>(still);
      return;
    }
    std::vector<size_t> watched;
    for (size_t w = 0; w < wanted; ++w) watched.push_back(open[w * open.size() / wanted]);
    each_stands_for_ = static_cast<double>(open.size()) / static_cast<double>(wanted);
    time_.watch(watched);
    if (knows_memory_) memory_.watch(std::move(watched));
  }

  void find_best(double start_s) {
    stale_ = false;
    start_s_ = start_s;
    best_ = {};
    if (std::none_of(open_.begin(), open_.end(), [](bool open) { return open; })) return;
    watch_open_ones();
    std::vector<float> of_time, of_memory;
    for (const size_t j : time_.watched()) {
      const Death death = chance_of_death(j);
      const double counts = open_[j] ? each_stands_for_ : 0;
      of_time.push_back(static_cast<float>(counts * (1 - death.dies)));
      of_memory.push_back(static_cast<float>(counts * slope_of(death)));
    }
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (!open_[i]) continue;
      const double worth = worth_of(i, of_time, of_memory);
      if (worth > best_.worth) best_ = {i, worth};
    }
  }

  double worth_of(size_t i, const std::vector<float>& of_time,
                  const std::vector<float>& of_memory) const {
    const InformativeCell& cell = cells_[i];
    const Death death = chance_of_death(i);
    const double fits = 1 - death.dies;
    double gain = fits * time_.gain(i, of_time, fits, time_spread_.noise);
    if (knows_memory_) {
      const double above = mean_above(death.edge);
      const double of_death = death.dies * std::clamp(above * (above - death.edge), 0.0, 1.0);
      gain += (fits + of_death) * memory_.gain(i, of_memory, slope_of(death), memory_spread_.noise);
    }
    const double step_s = cell.step_s * std::exp(time_.mean(i));
    const double steps = fits * static_cast<double>(cell.steps) + death.dies;
    return gain / std::max(kLeastSeconds, start_s_ + steps * step_s);
  }

  std::vector<InformativeCell> cells_;
  Spread time_spread_, memory_spread_;
  CaseBeliefs time_, memory_;
  std::vector<bool> open_;
  bool knows_memory_;
  std::vector<UnderWay> under_way_;  // in the order of their conditions
  double each_stands_for_ = 1;
  bool stale_ = true;
  double start_s_ = -1;
  Best best_;
};

InformativeOrder::~InformativeOrder() = default;

InformativeOrder::InformativeOrder(std::vector<InformativeCell> cells,
                                   const std::vector<size_t>& stood, const ResidualTable& table,
                                   int64_t jobs)
    : cells_(std::move(cells)),
      jobs_(std::max<int64_t>(1, jobs)),
      group_of_(cells_.size(), {nullptr, 0}),
      left_(std::ssize(cells_)) {
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> groups;
  for (size_t i = 0; i < cells_.size(); ++i) {
    by_step_.emplace_back(cells_[i].step, i);
    experiments_ = std::max(experiments_, static_cast<int64_t>(cells_[i].step.experiment) + 1);
    if (cells_[i].predicted) groups[{cells_[i].at.machine, cells_[i].at.stack}].push_back(i);
  }
  std::sort(by_step_.begin(), by_step_.end(),
            [](const auto& a, const auto& b) { return before(a.first, b.first); });
  for (const auto& [name, places] : groups) {
    std::vector<InformativeCell> members;
    for (const size_t i : places) members.push_back(cells_[i]);
    groups_.push_back(std::make_unique<Group>(std::move(members), table));
    for (size_t j = 0; j < places.size(); ++j) group_of_[places[j]] = {groups_.back().get(), j};
  }
  std::vector<bool> stands(cells_.size(), false);
  for (const size_t i : stood) {
    stands[i] = true;
    first_.push_back(i);
    if (group_of_[i].first != nullptr) group_of_[i].first->close(group_of_[i].second);
  }
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (group_of_[i].first == nullptr && !stands[i]) last_.push_back(i);
  }
}

size_t InformativeOrder::place_of(const WalkStep& step) const {
  const auto found = std::lower_bound(
      by_step_.begin(), by_step_.end(), step,
      [](const auto& one, const WalkStep& other) { return before(one.first, other); });
  check(found != by_step_.end() && !before(step, found->first), "a result is of one of the cells");
  return found->second;
}

double InformativeOrder::start_s() const {
  return starts_s_.empty() ? kUsualStartSeconds : median_of(starts_s_);
}

std::optional<WalkStep> InformativeOrder::next() {
  if (left_ == 0) return std::nullopt;
  --left_;
  const auto take = [this](std::deque<size_t>& places) {
    const size_t place = places.front();
    places.pop_front();
    return cells_[place].step;
  };
  if (!first_.empty()) return take(first_);
  Group* group = nullptr;
  Group::Best most;
  for (const auto& one : groups_) {
    const Group::Best& best = one->best(start_s());
    if (best.worth <= most.worth) continue;
    most = best;
    group = one.get();
  }
  if (group == nullptr) return take(last_);
  group->begin(most.cell);
  return group->cell(most.cell).step;
}

int64_t InformativeOrder::entities_left_at_most() const {
  return (left_ + experiments_ - 1) / experiments_;
}

void InformativeOrder::tell(const WalkStep& step, const CellResult& result) {
  const size_t place = place_of(step);
  const auto& [group, i] = group_of_[place];
  if (group == nullptr) return;
  if (result.start_s) starts_s_.push_back(std::max(0.0, *result.start_s));
  group->end(i, result);
}

OpenKnowledge InformativeOrder::knowledge() {
  OpenKnowledge knowledge;
  std::vector<double> factors;
  for (const auto& group : groups_) group->add_knowledge(knowledge, factors);
  if (!factors.empty()) knowledge.factor = median_of(std::move(factors));
  return knowledge;
}

}  // namespace sftbench
