#include "cli/sweep_informative.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "sftbench/advise/oracle.h"
#include "sftbench/advise/uncertainty.h"
#include "sftbench/base/error.h"
#include "sftbench/plan/job_steps.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace {

constexpr int64_t kMostOrdered = 20'000;
// Stand for processors that doctor --probe never measured, until results say what they reach.
constexpr double kGuessedFlopsPerS = 1e11;
constexpr double kGuessedGbPerS = 1;

std::optional<double> number_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number() || found->get<double>() <= 0)
    return std::nullopt;
  return found->get<double>();
}

// The step's time is that of one position: it is multiplied with those of the cell's step.
CellResult result_of(const Measurement& measurement, double seconds) {
  CellResult result;
  if (measurement.reason)
    result.ran_out_of_memory = measurement.reason->code == ReasonCode::kOomGpu;
  if (measurement.status != Status::kValid) return result;
  if (const auto rate = number_at(measurement.measured, "dataset_tokens_per_second"))
    result.step_s = 1 / *rate;
  if (const auto run_s = number_at(measurement.measured, "train_runtime"))
    result.start_s = seconds - *run_s;
  const Json peaks = measurement.extra.value(
      Json::json_pointer("/memory_bytes/device_peak_allocated"), Json(Json::array()));
  for (const Json& peak : peaks)
    result.tensor_bytes = std::max(result.tensor_bytes.value_or(0), peak.get<double>());
  return result;
}

CellResult result_of(const StoredResult& stored) {
  CellResult result;
  result.ran_out_of_memory = stored.reason && stored.reason->code == ReasonCode::kOomGpu;
  if (stored.status != Status::kValid) return result;
  const auto rate = stored.measured["dataset_tokens_per_second"].as_number();
  if (rate && *rate > 0) result.step_s = 1 / *rate;
  result.tensor_bytes = stored.figures["device_peak_allocated_bytes"].as_number();
  return result;
}

}  // namespace

// The cost model, with figures that stand for processors that nobody has measured.
class InformativeChooser::Predictor {
 public:
  explicit Predictor(const PlanContext& context)
      : oracle_(context.settings, context.options, known_, context.catalog),
        guessing_oracle_(context.settings, context.options, guessed_, context.catalog) {
    guessed_.flops_per_s = kGuessedFlopsPerS;
    guessed_.inside_gb_per_s = guessed_.between_gb_per_s = kGuessedGbPerS;
  }

  // Of one step: how many positions it has.
  double predict(const MeasurementRequest& request, InformativeCell& cell) {
    try {
      return fill(predict_or_guess(request, cell), cell);
    } catch (const RunError&) {  // the sweep records why it cannot be measured
    } catch (const InputError& error) {
      if (problem_.empty()) problem_ = error.what();
    }
    return 0;
  }

  const std::string& problem() const { return problem_; }
  bool guessed() const { return guessed_any_; }

 private:
  Prediction predict_or_guess(const MeasurementRequest& request, InformativeCell& cell) {
    const bool on_cpu = request.inputs.value("number_gpus", 0.0) == 0;
    if (!on_cpu) return oracle_.predict(request);
    if (!guessed_any_) {
      try {
        return oracle_.predict(request);
      } catch (const InputError&) {  // too little is known of this machine
        guessed_any_ = true;
      }
    }
    cell.guessed = true;
    return guessing_oracle_.predict(request);
  }

  static double fill(const Prediction& prediction, InformativeCell& cell) {
    cell.predicted = prediction.cost.step_s > 0;
    cell.at = prediction.at;
    cell.step_s = prediction.cost.step_s;
    cell.steps = steps_by_id(prediction.job);
    cell.tensor_bytes = prediction.cost.memory.total();
    const double memory = prediction.machine.memory_bytes;
    if (memory > 0 && prediction.job.device.kind == "cuda") {
      const double beside =
          needed_bytes(prediction.cost, prediction.job, prediction.machine) - cell.tensor_bytes;
      cell.room_bytes = std::max(1.0, kUsableMemory * memory - beside);
    }
    return static_cast<double>(prediction.cost.positions);
  }

  MachineOverrides known_, guessed_;
  Oracle oracle_, guessing_oracle_;
  std::string problem_;  // of the first cell that cannot be predicted
  bool guessed_any_ = false;
};

InformativeChooser::InformativeChooser(Walk& walk, const CellPlanner& planner,
                                       const std::string& results, bool retry_failed, int64_t jobs)
    : planner_(planner) {
  if (const int64_t cells = planner.cells(walk.entities_left_at_most()); cells > kMostOrdered) {
    throw InputError({{{},
                       0,
                       "--order",
                       "the space has " + std::to_string(cells) + " cells",
                       "at most " + std::to_string(kMostOrdered) +
                           " for informative, which looks at all of them after each result; --set "
                           "narrows it",
                       {}}});
  }
  std::set<std::string> settled;
  std::error_code error;  // a sweep that is only looked at makes no folder
  const StoreScan scan =
      std::filesystem::exists(results, error) ? ResultStore(results).scan() : StoreScan();
  for (const StoredResult& result : scan.results) {
    if (result.sample != 1) continue;
    const std::string key(result.key);
    stored_[key] = result_of(result);
    if (result.status != Status::kFailed || !retry_failed) settled.insert(key);
  }
  Predictor predictor(planner.context());
  std::vector<InformativeCell> cells;
  std::vector<size_t> stood;
  while (const std::optional<WalkStep> step = walk.next()) {
    const Cell cell = planner.name(*step);
    InformativeCell one;
    one.step = *step;
    asked_[cell.key] = {*step, predictor.predict(cell.request, one)};
    if (settled.count(cell.key) != 0) stood.push_back(cells.size());
    cells.push_back(std::move(one));
  }
  if (!predictor.problem().empty())
    spdlog::warn("what cannot be predicted is measured last: {}", predictor.problem());
  if (predictor.guessed()) {
    spdlog::info(
        "this machine's speed is not known: the first result tells it, sftbench doctor --probe "
        "tells it before");
  }
  source_ =
      std::make_unique<InformativeOrder>(std::move(cells), stood, ResidualTable::shipped(), jobs);
  before_ = source_->knowledge();
}

InformativeChooser::~InformativeChooser() = default;

void InformativeChooser::tell(const Cell& cell, const Outcome& outcome) {
  const auto asked = asked_.find(cell.key);
  if (asked == asked_.end()) return;
  CellResult result;
  if (outcome.measurement != nullptr) {
    result = result_of(*outcome.measurement, outcome.seconds);
  } else if (const auto stored = stored_.find(cell.key); stored != stored_.end()) {
    result = stored->second;
  }
  if (result.step_s) *result.step_s *= asked->second.positions;
  source_->tell(asked->second.step, result);
}

int64_t InformativeChooser::say_how_it_went(bool) const {
  const OpenKnowledge now = source_->knowledge();
  if (now.open == 0) return 0;
  spdlog::info(
      "{} open cells: the time of the median one is predicted within a factor of {:.2f}, nine "
      "times "
      "of ten (without any result {:.2f}), and {} may run out of memory or not (without any {})",
      now.open, now.factor, before_.factor, now.undecided, before_.undecided);
  return 0;
}

}  // namespace sftbench
