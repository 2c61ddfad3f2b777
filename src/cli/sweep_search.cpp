#include "cli/sweep_search.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "cli/sweep_view.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/results/store.h"
#include "sftbench/results/table.h"
#include "sftbench/space/validity.h"

namespace sftbench {
namespace {

const char* method_name(SearchMethod method) {
  switch (method) {
    case SearchMethod::kRandom:
      return "random";
    case SearchMethod::kLatinHypercube:
      return "Latin hypercube";
    case SearchMethod::kBayesian:
      return "Gaussian process and expected improvement";
  }
  return "";
}

[[noreturn]] void refuse_plan(const Operation& operation, const std::string& key,
                              std::string message, std::string expected, std::string nearest = {}) {
  throw InputError({{operation.origin, operation.parameters_line, "operation.parameters." + key,
                     std::move(message), std::move(expected), std::move(nearest)}});
}

// The index of the entity with these values; what a point does not name has to have one value
// alone.
int64_t entity_of(const Json& point, const Space& space, const Operation& operation) {
  constexpr const char* kKey = "tuneConfig.search_alg.params.points_to_evaluate";
  int64_t entity = 0;
  size_t used = 0;
  for (const Dimension& dimension : space.dimensions) {
    const std::string& name = dimension.property().identifier;
    std::optional<int64_t> index;
    if (point.contains(name)) {
      ++used;
      for (int64_t i = 0; i < dimension.size() && !index; ++i) {
        if (dimension.value(i) == point.at(name)) index = i;
      }
      if (!index)
        refuse_plan(operation, kKey,
                    name + " " + json_text(point.at(name)) + " is not in the space",
                    "one of its " + std::to_string(dimension.size()) + " values");
    } else if (dimension.size() == 1) {
      index = 0;
    } else {
      refuse_plan(operation, kKey, "a point without " + name, "a value for every property");
    }
    entity = entity * dimension.size() + *index;
  }
  if (used != point.size())
    refuse_plan(operation, kKey, "a point has properties that the space has not",
                "those of entitySpace");
  return entity;
}

SearchPlan complete(const CellPlanner& planner, const Operation& operation) {
  SearchPlan plan = *operation.search;
  const PlanContext& context = planner.context();
  if (context.space.experiments.size() != 1) {
    refuse_plan(operation, "tuneConfig.metric",
                "the space has " + std::to_string(context.space.experiments.size()) +
                    " experiments, and " + plan.metric + " of which one is not said",
                "a search of one experiment: --experiment chooses it");
  }
  std::vector<std::string> known;
  for (const auto& measured : context.space.experiments.front().experiment->measured)
    known.push_back(measured.identifier);
  if (std::find(known.begin(), known.end(), plan.metric) == known.end()) {
    refuse_plan(operation, "tuneConfig.metric", "'" + plan.metric + "' is not measured",
                "one of " + join(known), nearest_spelling(plan.metric, known));
  }
  for (const Json& point : plan.given)
    plan.points.push_back(entity_of(point, context.space, operation));
  return plan;
}

}  // namespace

SearchChooser::SearchChooser(const CellPlanner& planner, const Operation& operation, uint64_t seed,
                             const std::string& results, int64_t jobs)
    : planner_(planner),
      plan_(complete(planner, operation)),
      jobs_(std::max<int64_t>(1, jobs)),
      space_(planner.context().space),
      search_(space_, plan_, seed, [this](int64_t entity) {
        return validate(planner_.name({entity, 0}).request.inputs,
                        planner_.context().catalog.models)
            .empty();
      }) {
  const StoreScan scan = ResultStore(results).scan();
  for (const StoredResult& result : scan.results) {
    const auto value = result.measured[plan_.metric].as_number();
    if (result.status == Status::kValid && value) stored_[std::string(result.key)] = *value;
  }
  spdlog::info("search by {}, for the {} {}, seed {}", method_name(plan_.method),
               plan_.maximize ? "highest" : "lowest", plan_.metric, seed);
}

std::optional<WalkStep> SearchChooser::next() {
  const std::optional<int64_t> candidate = search_.next();
  if (!candidate) return std::nullopt;
  const WalkStep step = {*candidate, 0};
  asked_[planner_.name(step).key] = *candidate;
  return step;
}

bool SearchChooser::waits(int64_t under_way) const {
  const bool by_results = plan_.method == SearchMethod::kBayesian || plan_.patience >= 0;
  return by_results && under_way >= jobs_;
}

void SearchChooser::tell(const Cell& cell, const Outcome& outcome) {
  const auto asked = asked_.find(cell.key);
  if (asked == asked_.end()) return;
  std::optional<double> value;
  if (outcome.measurement == nullptr) {
    const auto stored = stored_.find(cell.key);
    if (stored != stored_.end()) value = stored->second;
  } else if (outcome.status == Status::kValid) {
    const Json& measured = outcome.measurement->measured;
    if (measured.contains(plan_.metric)) value = measured.at(plan_.metric).get<double>();
  }
  search_.tell(asked->second, value);
  ++told_;
  if (!value) return;
  ++valid_;
  if (best_ && (plan_.maximize ? *value <= *best_ : *value >= *best_)) return;
  best_ = value;
  best_label_ = cell_label(planner_.context().space, cell);
}

void SearchChooser::say_how_it_went() const {
  if (!best_) {
    spdlog::info("searched {}, none of them valid", counted(told_, "cell"));
  } else {
    spdlog::info("searched {}, {} of them valid: the {} {} is {}, of {}", counted(told_, "cell"),
                 valid_, plan_.maximize ? "highest" : "lowest", plan_.metric, cell_text(*best_),
                 best_label_);
  }
}

}  // namespace sftbench
