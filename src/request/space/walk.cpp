#include <algorithm>
#include <utility>

#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/space/operation.h"
#include "space/shuffle.h"

namespace sftbench {
namespace {

// Weights are read per model, tokens are counted per model, dataset and length.
const std::vector<std::string> kSharing = {"model_name", "dataset_id", "model_max_length"};

std::vector<std::string> dimension_names(const Space& space) {
  std::vector<std::string> names;
  for (const Dimension& dimension : space.dimensions)
    names.push_back(dimension.property().identifier);
  return names;
}

[[noreturn]] void fail(const Operation& operation, const char* key, std::string message,
                       std::string expected, std::string nearest = {}) {
  throw InputError(
      {{operation.origin, operation.parameters_line, std::string("operation.parameters.") + key,
        std::move(message), std::move(expected), std::move(nearest)}});
}

bool is_grouped(WalkOrder order) {
  return order == WalkOrder::kSequentialGrouped || order == WalkOrder::kRandomGrouped;
}

// The dimensions with those of the groups first, else in their own order: ado's groups come in the
// order in which the expansion first meets them. kShared is told which property matters more.
std::vector<size_t> nesting_of(const std::vector<std::string>& names, const Operation& operation) {
  std::vector<size_t> nesting;
  const auto take = [&nesting](size_t i) {
    if (std::find(nesting.begin(), nesting.end(), i) == nesting.end()) nesting.push_back(i);
  };
  if (operation.order == WalkOrder::kShared) {
    for (const std::string& property : kSharing) {
      const auto found = std::find(names.begin(), names.end(), property);
      if (found != names.end()) take(static_cast<size_t>(found - names.begin()));
    }
  } else if (is_grouped(operation.order)) {
    const auto& grouping = operation.grouping;
    for (size_t i = 0; i < names.size(); ++i) {
      if (std::find(grouping.begin(), grouping.end(), names[i]) != grouping.end()) take(i);
    }
  }
  for (size_t i = 0; i < names.size(); ++i) take(i);
  return nesting;
}

}  // namespace

Walk::Walk(const Space& space, const Operation& operation, uint64_t seed, Lookup recorded)
    : space_(space),
      recorded_(std::move(recorded)),
      sampler_(operation.sampler),
      filter_(operation.filter),
      order_(operation.order),
      seed_(seed),
      limit_(operation.number_entities.value_or(space.entity_count())),
      is_counted_(operation.number_entities.has_value()) {
  const std::vector<std::string> names = dimension_names(space);
  if (limit_ > space.entity_count()) {
    fail(operation, "numberEntities", "asks for " + counted(limit_, "entity", "entities"),
         "at most " + std::to_string(space.entity_count()) + ", the size of the space");
  }
  if (is_grouped(order_)) {
    for (const std::string& property : operation.grouping) {
      if (std::find(names.begin(), names.end(), property) != names.end()) continue;
      fail(operation, "samplerConfig.grouping", "'" + property + "' is not in entitySpace",
           "one of " + join(names), nearest_spelling(property, names));
    }
  }
  nesting_ = nesting_of(names, operation);
  for (const Dimension& dimension : space.dimensions) {
    const auto& grouping = operation.grouping;
    if (std::find(grouping.begin(), grouping.end(), dimension.property().identifier) ==
        grouping.end())
      members_ *= dimension.size();
  }
  const bool chooses = sampler_ != Sampler::kGenerator || filter_ != EntityFilter::kNone;
  spans_.emplace_back(0, chooses ? space.entity_count() : limit_);
}

// Digits of `position` in the mixed radix of the nested dimensions, put back in the space's order.
int64_t Walk::entity_at(int64_t position) const {
  if (order_ == WalkOrder::kRandom) return shuffled(position, space_.entity_count(), seed_);
  if (order_ == WalkOrder::kRandomGrouped) {
    const int64_t groups = space_.entity_count() / members_;
    position = shuffled(position / members_, groups, seed_) * members_ + position % members_;
  }
  std::vector<int64_t> digits(nesting_.size());
  for (size_t i = nesting_.size(); i-- > 0;) {
    const int64_t size = space_.dimensions[nesting_[i]].size();
    digits[nesting_[i]] = position % size;
    position /= size;
  }
  int64_t entity = 0;
  for (size_t i = 0; i < digits.size(); ++i) {
    entity = entity * space_.dimensions[i].size() + digits[i];
  }
  return entity;
}

bool Walk::wanted(int64_t entity) const {
  if (sampler_ == Sampler::kGenerator && filter_ == EntityFilter::kNone) return true;
  size_t known = 0;
  size_t measured = 0;
  const size_t experiments = space_.experiments.size();
  for (size_t i = 0; recorded_ && i < experiments; ++i) {
    const Recorded recorded = recorded_(entity, i);
    known += recorded != Recorded::kNothing ? 1 : 0;
    measured += recorded == Recorded::kFinal ? 1 : 0;
  }
  if (sampler_ == Sampler::kSelector && known == 0) return false;
  switch (filter_) {
    case EntityFilter::kNone:
      return true;
    case EntityFilter::kMeasured:
      return measured == experiments;
    case EntityFilter::kUnmeasured:
      return measured == 0;
    case EntityFilter::kPartial:
      return measured > 0 && measured < experiments;
  }
  return true;
}

std::string Walk::why_fewer(const std::string& results) const {
  const bool chooses = sampler_ != Sampler::kGenerator || filter_ != EntityFilter::kNone;
  if (!chooses || sampled_ == limit_ || (sampled_ > 0 && !is_counted_)) return {};
  std::string text = sampled_ == 0 ? "no entity is taken: "
                                   : std::to_string(sampled_) + " of " +
                                         counted(limit_, "entity is", "entities are") + " taken: ";
  if (filter_ == EntityFilter::kNone) {
    return text + "a selector takes those that have results, and " + results + " has " +
           (sampled_ == 0 ? "none" : "no more") +
           " of this space; samplerType generator takes new ones";
  }
  const char* wanted = filter_ == EntityFilter::kMeasured     ? "measured"
                       : filter_ == EntityFilter::kUnmeasured ? "unmeasured"
                                                              : "partly measured";
  if (sampler_ == Sampler::kSelector) text += "of those that have results, ";
  return text + "the filter takes those that are " + wanted + " in " + results;
}

void Walk::jump(double part) {
  if (sampler_ != Sampler::kGenerator || filter_ != EntityFilter::kNone) return;
  int64_t left = positions_left();
  if (left == 0) return;
  int64_t ahead =
      std::clamp<int64_t>(static_cast<int64_t>(part * static_cast<double>(left)), 0, left - 1);
  for (auto span = spans_.begin(); span != spans_.end(); ++span) {
    const auto [from, to] = *span;
    if (ahead >= to - from) {
      ahead -= to - from;
      continue;
    }
    spans_.erase(span);
    if (ahead > 0) spans_.emplace_back(from, from + ahead);
    spans_.emplace_back(from + ahead, to);
    return;
  }
}

std::optional<WalkStep> Walk::next() {
  while (!following_) {
    while (!spans_.empty() && spans_.back().first == spans_.back().second) spans_.pop_back();
    if (sampled_ == limit_ || spans_.empty()) return std::nullopt;
    const int64_t entity = entity_at(spans_.back().first++);
    if (!wanted(entity)) continue;
    ++sampled_;
    following_ = WalkStep{entity, 0};
  }
  const WalkStep step = *following_;
  if (++following_->experiment == space_.experiments.size()) following_.reset();
  return step;
}

int64_t Walk::positions_left() const {
  int64_t left = 0;
  for (const auto& [from, to] : spans_) left += to - from;
  return left;
}

int64_t Walk::entities_left_at_most() const {
  return std::min(limit_ - sampled_, positions_left());
}

}  // namespace sftbench
