#include "cli/sweep_until_known.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "cli/sweep_view.h"
#include "sftbench/advise/odds.h"
#include "sftbench/advise/oracle.h"
#include "sftbench/advise/uncertainty.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/results/left_out.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace {

constexpr int64_t kMostDecided = 20'000;
constexpr size_t kMostLeftOutNamed = 20;
constexpr double kOneRunShare = 0.01;  // within which the rate of one run is taken to be known

std::string contest_part(const Json& inputs, const char* name) {
  return inputs.contains(name) ? json_text(inputs.at(name)) : std::string();
}

// Why it was left out.
std::string reason_text(const LeftOut& left) {
  if (left.dies > kSurelyDies)
    return fmt::format("it runs out of memory with a probability of {:.1f} %", 100 * left.dies);
  return fmt::format("at most {:.2f} times what the best has", left.most);
}

}  // namespace

Decision::Decision(Walk& walk, const CellPlanner& planner, const DevicePrices& prices,
                   const std::string& results, int64_t jobs)
    : planner_(planner), prices_(prices), results_(results) {
  if (const int64_t cells = planner.cells(walk.entities_left_at_most()); cells > kMostDecided) {
    throw InputError({{{},
                       0,
                       "--until-known",
                       "the space has " + std::to_string(cells) + " cells",
                       "at most " + std::to_string(kMostDecided) +
                           ", which are looked at again after each result; --set narrows it",
                       {}}});
  }
  const StoreScan scan = ResultStore(results).scan();
  for (const StoredResult& result : scan.results) {
    const auto rate = result.measured["dataset_tokens_per_second"].as_number();
    if (result.status == Status::kValid && rate) stored_[std::string(result.key)] = *rate;
  }
  const PlanContext& context = planner.context();
  const MachineOverrides overrides;
  Oracle oracle(context.settings, context.options, overrides, context.catalog);
  const Uncertainty uncertainty(ResidualTable::shipped());
  std::vector<DecisionCell> cells;
  while (const std::optional<WalkStep> step = walk.next()) {
    const Cell cell = planner.name(*step);
    steps_[cell.key] = *step;
    cells.push_back(decision_of(*step, cell, oracle, uncertainty));
  }
  if (!unpredicted_.empty()) spdlog::warn("what cannot be predicted is measured: {}", unpredicted_);
  source_ = std::make_unique<UntilKnown>(std::move(cells), ResidualTable::shipped(), jobs);
}

DecisionCell Decision::decision_of(const WalkStep& step, const Cell& cell, Oracle& oracle,
                                   const Uncertainty& uncertainty) {
  const Json& inputs = cell.inputs;
  const auto gpus = inputs.value("number_gpus", 0.0);
  const std::string gpu = inputs.value("gpu_model", Json()).is_string()
                              ? inputs.at("gpu_model").get<std::string>()
                              : std::string();
  DecisionCell decision;
  decision.step = step;
  // As results/best.h.
  decision.contest = cell.request.experiment + contest_part(inputs, "model_name") +
                     contest_part(inputs, "model_max_length") +
                     (prices_.per_hour(gpu, gpus) ? " by price" : " by rate");
  try {
    const Prediction prediction = oracle.predict(cell.request);
    decision.at = prediction.at;
    decision.predicted =
        merit(inputs, static_cast<double>(prediction.cost.positions) / prediction.cost.step_s);
    if (const std::optional<Odds> odds = odds_of(prediction, uncertainty))
      decision.dies = odds->dies;
  } catch (const RunError&) {  // the sweep records why it cannot be measured
  } catch (const InputError& error) {
    if (unpredicted_.empty()) unpredicted_ = error.what();
  }
  return decision;
}

// Of all devices.
double Decision::merit(const Json& inputs, double dataset_tokens_per_s) const {
  const auto gpus = inputs.value("number_gpus", 0.0);
  const Json gpu = inputs.value("gpu_model", Json());
  const auto price =
      prices_.per_hour(gpu.is_string() ? gpu.get<std::string>() : std::string(), gpus);
  return dataset_tokens_per_s / std::max(1.0, gpus) / price.value_or(1.0);
}

void Decision::tell(const Cell& cell, const Outcome& outcome) {
  const auto step = steps_.find(cell.key);
  if (step == steps_.end()) return;
  std::optional<double> rate;
  double within = kOneRunShare;
  if (outcome.measurement != nullptr) {
    const Json& measured = outcome.measurement->measured;
    if (outcome.status == Status::kValid && measured.contains("dataset_tokens_per_second"))
      rate = measured.at("dataset_tokens_per_second").get<double>();
    const Json known = outcome.measurement->extra.value(
        Json::json_pointer("/stopped_when_known/within_percent"), Json());
    if (known.is_number()) within = std::max(within, known.get<double>() / 100);
  } else if (const auto stored = stored_.find(cell.key); stored != stored_.end()) {
    rate = stored->second;
  }
  source_->tell(step->second, rate ? std::optional(merit(cell.inputs, *rate)) : std::nullopt,
                within);
}

// For whoever looks at the folder later, and does not find them.
void Decision::record(const std::vector<LeftOut>& left) const {
  StreamingDigest space;  // of the keys, in their order
  for (const auto& [key, step] : steps_) space.add(key.data(), key.size());
  std::vector<LeftOutCell> cells;
  for (const LeftOut& one : left) {
    const Cell cell = planner_.name(one.step);
    const bool dies = one.dies > kSurelyDies;
    cells.push_back({cell.request.experiment, cell.key, cell.request.entity_id,
                     cell_label(planner_.context().space, cell),
                     dies ? std::string(to_string(ReasonCode::kOomGpu)) : "BEATEN",
                     dies || !std::isfinite(one.most) ? std::nullopt : std::optional(one.most),
                     one.dies, reason_text(one), utc_now_iso8601()});
  }
  try {
    write_left_out(results_, space.text().substr(0, 16), cells);
  } catch (const InputError& error) {
    spdlog::warn("what was left out is not recorded: {}", error.what());
  }
}

int64_t Decision::say_how_it_went(bool complete) const {
  if (!complete) return 0;
  std::vector<LeftOut> left = source_->left_out();
  std::stable_sort(left.begin(), left.end(),
                   [](const LeftOut& a, const LeftOut& b) { return a.most > b.most; });
  record(left);
  if (left.empty()) return 0;
  spdlog::info(
      "{} cells were not measured, since they cannot be the best of their model, "
      "experiment and length; nine of ten predictions hold",
      left.size());
  const Space& space = planner_.context().space;
  for (size_t i = 0; i < std::min(left.size(), kMostLeftOutNamed); ++i) {
    const std::string label = cell_label(space, planner_.name(left[i].step));
    spdlog::info("left out {}: {}", label, reason_text(left[i]));
  }
  if (left.size() > kMostLeftOutNamed) spdlog::info("and {} more", left.size() - kMostLeftOutNamed);
  return static_cast<int64_t>(left.size());
}

}  // namespace sftbench
