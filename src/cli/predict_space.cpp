#include "cli/predict_space.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>
#include <tuple>

#include "cli/evidence_option.h"
#include "cli/number_checks.h"
#include "cli/record.h"
#include "sftbench/advise/odds.h"
#include "sftbench/advise/part_predictor.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace {

constexpr int64_t kMostEntities = 2'000'000;

const std::vector<std::string>& sortable() {
  static const std::vector<std::string> kColumns = {"step_s", "tokens_per_s", "memory_GiB"};
  return kColumns;
}

const std::vector<std::string>& verdict_names() {
  static const std::vector<std::string> kNames = {"fits",    "tight",   "oom",
                                                  "unknown", "invalid", "unsupported"};
  return kNames;
}

struct Row {
  int64_t index = 0;
  size_t experiment = 0;
  std::string verdict;
  double step_s = 0, tokens_per_s = 0, memory_gib = 0;
  Range step, memory;  // nine of ten, in s and GiB; 0: nothing was compared
  std::optional<double> memory_risk;
  std::string reason;

  bool is_predicted() const { return step_s > 0; }
  double by(const std::string& column) const {
    if (column == "step_s") return step_s;
    return column == "memory_GiB" ? memory_gib : -tokens_per_s;  // fast ones first
  }
};

void refuse_unknown(const std::string& option, const std::string& found,
                    const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), found) != known.end()) return;
  throw InputError({{{},
                     0,
                     option,
                     "found '" + found + "'",
                     join(known, ", "),
                     nearest_spelling(found, known)}});
}

void refuse_what_cannot_be(const Space& space, const SpacePrediction& wanted) {
  if (!wanted.sort.empty()) refuse_unknown("--sort", wanted.sort, sortable());
  for (const std::string& verdict : wanted.verdicts)
    refuse_unknown("--verdict", verdict, verdict_names());
  const int64_t count = space.entity_count();
  if (count == 0) {
    throw InputError({{space.origin,
                       0,
                       "entitySpace",
                       "has no entity: a range holds no value",
                       "lower < upper",
                       {}}});
  }
  if (count <= kMostEntities) return;
  throw InputError({{space.origin,
                     0,
                     "entitySpace",
                     "has " + std::to_string(count) + " entities",
                     "at most " + std::to_string(kMostEntities) + "; --set narrows it",
                     {}}});
}

void put_figures(const Prediction& prediction, const Uncertainty& uncertainty, Row& row) {
  const Range step = step_range(prediction, uncertainty);
  const Range memory = memory_range(prediction, uncertainty);
  row.step_s = prediction.step_s;
  row.tokens_per_s = prediction.positions_per_second();
  row.memory_gib = prediction.needed_bytes / kGiB;
  if (uncertainty.interval(Figure::kTime, prediction.at).residuals > 0) row.step = step;
  if (uncertainty.interval(Figure::kMemory, prediction.at).residuals == 0) return;
  row.memory = {memory.low / kGiB, row.memory_gib, memory.high / kGiB};
  if (const std::optional<Odds> odds = odds_of(prediction, uncertainty))
    row.memory_risk = odds->dies;
}

bool is_wanted(const Row& row, const SpacePrediction& wanted) {
  return wanted.verdicts.empty() || std::find(wanted.verdicts.begin(), wanted.verdicts.end(),
                                              row.verdict) != wanted.verdicts.end();
}

// Rows of the parts of a space, which threads share. Each takes the next part until none is left.
class SpaceRows {
 public:
  SpaceRows(const LoadedSpace& loaded, const ResolveOptions& options,
            const MachineOverrides& overrides, const SpacePrediction& wanted,
            const Uncertainty& uncertainty)
      : loaded_(loaded),
        options_(options),
        overrides_(overrides),
        wanted_(wanted),
        uncertainty_(uncertainty),
        parts_(loaded.space, options) {}

  // Those that are wanted, in no order. InputError as Oracle::predict(), of the first part that has
  // one.
  std::vector<Row> all() {
    const int64_t most = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> helpers;
    for (int64_t i = 1; i < std::min(most, parts_.count()); ++i)
      helpers.emplace_back([this] { work(); });
    work();
    for (std::thread& helper : helpers) helper.join();
    if (error_) std::rethrow_exception(error_);
    return std::move(rows_);
  }

 private:
  void work() {
    const Catalog& catalog = Catalog::shipped();
    Oracle oracle(loaded_.settings, options_, overrides_, catalog);
    oracle.rest_on(uncertainty_);
    PartPredictor predictor(loaded_.space, parts_, oracle, catalog.models);
    std::vector<Row> rows;
    for (int64_t part = next_++; part < parts_.count(); part = next_++) {
      try {
        add_part(part, predictor, rows);
      } catch (...) {
        keep_error(part);
        break;
      }
    }
    const std::lock_guard lock(mutex_);
    std::move(rows.begin(), rows.end(), std::back_inserter(rows_));
  }

  void keep_error(int64_t part) {
    next_ = parts_.count();  // the others stop, too
    const std::lock_guard lock(mutex_);
    if (error_ && error_part_ < part) return;
    error_ = std::current_exception();
    error_part_ = part;
  }

  void add_part(int64_t part, PartPredictor& predictor, std::vector<Row>& rows) const {
    for (size_t experiment = 0; experiment < loaded_.space.experiments.size(); ++experiment) {
      for (int64_t number = 0; number < parts_.entities_of_each(); ++number) {
        Row row = row_of(part, number, experiment, predictor);
        if (is_wanted(row, wanted_)) rows.push_back(std::move(row));
      }
    }
  }

  Row row_of(int64_t part, int64_t number, size_t experiment, PartPredictor& predictor) const {
    Row row;
    row.index = parts_.entity(part, number);
    row.experiment = experiment;
    try {
      const Prediction& prediction = predictor.predict(part, number, experiment);
      row.verdict = name_of(prediction.fit);
      put_figures(prediction, uncertainty_, row);
    } catch (const RunError& error) {
      row.verdict = error.code() == ReasonCode::kUnsupported ? "unsupported" : "invalid";
      row.reason = std::string(to_string(error.code())) + ": " + error.what();
    }
    return row;
  }

  const LoadedSpace& loaded_;
  const ResolveOptions& options_;
  const MachineOverrides& overrides_;
  const SpacePrediction& wanted_;
  const Uncertainty& uncertainty_;
  const SpaceParts parts_;
  std::atomic<int64_t> next_ = 0;
  std::mutex mutex_;  // of what follows
  std::vector<Row> rows_;
  std::exception_ptr error_;
  int64_t error_part_ = 0;
};

// The first rows of all, in the space's order or by a column. What cannot be predicted comes last.
void keep_first(const SpacePrediction& wanted, std::vector<Row>& rows) {
  const auto in_space = [](const Row& row) { return std::tie(row.index, row.experiment); };
  const auto is_before = [&](const Row& a, const Row& b) {
    if (wanted.sort.empty()) return in_space(a) < in_space(b);
    if (a.is_predicted() != b.is_predicted()) return a.is_predicted();
    const double of_a = a.is_predicted() ? a.by(wanted.sort) : 0;
    const double of_b = b.is_predicted() ? b.by(wanted.sort) : 0;
    return of_a != of_b ? of_a < of_b : in_space(a) < in_space(b);
  };
  const size_t kept =
      std::min(rows.size(), static_cast<size_t>(wanted.limit.value_or(std::ssize(rows))));
  const auto end = rows.begin() + static_cast<ptrdiff_t>(kept);
  std::partial_sort(rows.begin(), end, rows.end(), is_before);
  rows.erase(end, rows.end());
}

Json significant(double value) {
  if (value <= 0) return {};
  const double scale = std::pow(10, 5 - std::ceil(std::log10(value)));
  return std::round(value * scale) / scale;
}

// "0.68 to 0.78".
Json range_text(const Range& range) {
  if (range.low <= 0) return {};
  return cell_text(significant(range.low)) + " to " + cell_text(significant(range.high));
}

// Intervals are one text for people, and two numbers for programs.
void put_column_names(bool for_people, Table& table) {
  const auto add = [&table](const std::vector<std::string>& names) {
    table.columns.insert(table.columns.end(), names.begin(), names.end());
  };
  if (for_people) {
    add({"step_s", "90_%_of_steps", "tokens_per_s", "memory_GiB", "90_%_of_memory", "oom_%",
         "reason"});
  } else {
    add({"step_s", "step_s_low", "step_s_high", "tokens_per_s", "tokens_per_s_low",
         "tokens_per_s_high", "memory_GiB", "memory_GiB_low", "memory_GiB_high", "oom_%",
         "reason"});
  }
}

void put_figures(const Row& row, bool for_people, std::vector<Json>& cells) {
  const auto add = [&cells](double figure) { cells.push_back(significant(figure)); };
  add(row.step_s);
  if (for_people) {
    cells.push_back(range_text(row.step));
    add(row.tokens_per_s);
    add(row.memory_gib);
    cells.push_back(range_text(row.memory));
  } else {
    const double tokens = row.tokens_per_s * row.step_s;
    add(row.step.low);
    add(row.step.high);
    add(row.tokens_per_s);
    add(row.step.high > 0 ? tokens / row.step.high : 0);
    add(row.step.low > 0 ? tokens / row.step.low : 0);
    add(row.memory_gib);
    add(row.memory.low);
    add(row.memory.high);
  }
  cells.push_back(row.memory_risk ? Json(std::round(1000 * *row.memory_risk) / 10) : Json());
}

// The dimensions that have several values tell rows apart.
Table table_of(const Space& space, const std::vector<Row>& rows, bool for_people) {
  Table table{{"index", "verdict"}, {}};
  std::vector<size_t> shown;
  for (size_t i = 0; i < space.dimensions.size(); ++i) {
    if (space.dimensions[i].size() < 2) continue;
    shown.push_back(i);
    table.columns.push_back(space.dimensions[i].property().identifier);
  }
  const bool several = space.experiments.size() > 1;
  if (several) table.columns.push_back("experiment_id");
  put_column_names(for_people, table);
  for (const Row& row : rows) {
    std::vector<Json> cells = {row.index, row.verdict};
    const Entity entity = space.entity(row.index);
    for (const size_t i : shown) cells.push_back(entity.values[i].second);
    if (several) cells.push_back(experiment_id(space.experiments[row.experiment]));
    put_figures(row, for_people, cells);
    cells.push_back(row.reason.empty() ? Json() : Json(row.reason));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace

void add_space_prediction_options(CLI::App& command, SpacePrediction& wanted) {
  command.add_option("--sort", wanted.sort, "of several entities: the fastest or smallest first")
      ->type_name("step_s|tokens_per_s|memory_GiB");
  command
      .add_option("--verdict", wanted.verdicts,
                  "of several entities: only these; may be given more than once")
      ->type_name("fits|tight|oom|unknown|invalid|unsupported")
      ->allow_extra_args(false);
  command.add_option("--limit", wanted.limit, "of several entities: only the first N rows")
      ->type_name("N")
      ->transform(whole_number(1));
}

void predict_space(const LoadedSpace& loaded, const ResolveOptions& options,
                   const MachineOverrides& overrides, const SpacePrediction& wanted,
                   const std::string& evidence, OutputFormat format) {
  const Space& space = loaded.space;
  refuse_what_cannot_be(space, wanted);
  Oracle oracle(loaded.settings, options, overrides, Catalog::shipped());
  const Uncertainty uncertainty = uncertainty_with(evidence, oracle);
  std::vector<Row> rows = SpaceRows(loaded, options, overrides, wanted, uncertainty).all();
  const size_t found = rows.size();
  keep_first(wanted, rows);
  const bool for_people = format == OutputFormat::kTable || format == OutputFormat::kMarkdown;
  print_table(table_of(space, rows, for_people), format);
  spdlog::debug("predictions, nothing was measured: {} of {} rows", rows.size(), found);
}

}  // namespace sftbench
