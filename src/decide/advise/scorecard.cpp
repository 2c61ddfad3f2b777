#include "sftbench/advise/scorecard.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double share_within(const std::vector<double>& sizes, double limit) {
  const auto within =
      std::count_if(sizes.begin(), sizes.end(), [limit](double size) { return size <= limit; });
  return static_cast<double>(within) / static_cast<double>(sizes.size());
}

double percent(double share) {
  return std::round(1000 * share) / 10;
}

std::string text_or(const Json& inputs, const char* property, const char* otherwise) {
  const bool there = inputs.contains(property) && inputs.at(property).is_string();
  return there ? inputs.at(property).get<std::string>() : otherwise;
}

void predict_row(ScoredRow& row, Oracle& oracle, const Experiment& experiment) {
  const Evidence& evidence = row.evidence;
  const Prediction prediction =
      oracle.predict(request_of(experiment, evidence.inputs), evidence.stack);
  row.fit = prediction.fit;
  row.at = prediction.at;
  row.fitted = prediction.fitted;
  if (evidence.outcome != EvidenceOutcome::kValid) return;
  if (evidence.tokens_per_second) {
    row.time_error = *evidence.tokens_per_second / prediction.cost.positions_per_second() - 1;
  }
  if (evidence.allocated_bytes) {
    row.memory_error = prediction.cost.memory.total() / *evidence.allocated_bytes - 1;
  }
}

// The file that a row comes from, without the line.
std::string file_of(const Evidence& evidence) {
  return evidence.source.substr(0, evidence.source.rfind(':'));
}

struct Errors {
  std::vector<double> errors;
  int64_t judged = 0, covered = 0;

  void add(const std::optional<double>& error, const std::optional<bool>& is_covered) {
    if (!error) return;
    errors.push_back(*error);
    if (!is_covered) return;
    ++judged;
    covered += *is_covered ? 1 : 0;
  }
  Json coverage() const {
    if (judged == 0) return {};
    return percent(static_cast<double>(covered) / static_cast<double>(judged));
  }
};

void put_summary(const std::string& group, const std::string& name, const char* figure,
                 const Errors& all, Table& table) {
  if (all.errors.empty()) return;
  const ErrorSummary s = summarize(all.errors);
  table.rows.push_back({group, name, figure, s.rows, percent(s.median), percent(s.p90),
                        percent(s.within_10), percent(s.within_20), percent(s.bias),
                        all.coverage()});
}

using Grouping = std::string (*)(const ScoredRow&);
const std::vector<std::pair<std::string, Grouping>>& groupings() {
  static const std::vector<std::pair<std::string, Grouping>> kAll = {
      {"all", [](const ScoredRow&) { return std::string("all"); }},
      {"source", [](const ScoredRow& row) { return file_of(row.evidence); }},
      {"gpu", [](const ScoredRow& row) { return row.gpu; }},
      {"method", [](const ScoredRow& row) { return row.method; }},
      {"model", [](const ScoredRow& row) { return row.model; }}};
  return kAll;
}

}  // namespace

ErrorSummary summarize(std::vector<double> errors) {
  check(!errors.empty(), "there is something to summarize");
  ErrorSummary summary;
  summary.rows = static_cast<int64_t>(errors.size());
  std::sort(errors.begin(), errors.end());
  summary.bias = quantile(errors, 0.5);
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  summary.median = quantile(errors, 0.5);
  summary.p90 = quantile(errors, 0.9);
  summary.within_10 = share_within(errors, 0.1);
  summary.within_20 = share_within(errors, 0.2);
  return summary;
}

std::vector<ScoredRow> score(const std::vector<Evidence>& rows, Oracle& oracle,
                             const Catalog& catalog) {
  std::vector<ScoredRow> scored;
  scored.reserve(rows.size());
  for (const Evidence& evidence : rows) {
    ScoredRow& row = scored.emplace_back();
    row.evidence = evidence;
    row.gpu = text_or(evidence.inputs, "gpu_model", "CPU");
    row.model = text_or(evidence.inputs, "model_name", "");
    const Experiment* experiment = catalog.experiment(evidence.experiment);
    if (experiment == nullptr) {
      row.problem = "unknown experiment " + evidence.experiment;
      continue;
    }
    row.method = name_of(experiment->tuning);
    try {
      predict_row(row, oracle, *experiment);
    } catch (const RunError& error) {
      row.problem = error.what();
    } catch (const InputError& error) {
      row.problem = error.what();
    }
  }
  return scored;
}

void judge_coverage(std::vector<ScoredRow>& rows, const ResidualTable& table) {
  const auto judge = [&table](Figure figure, const ScoredRow& row,
                              const std::optional<double>& error) -> std::optional<bool> {
    const bool is_fitted = row.fitted && figure == Figure::kTime;
    if (!error || is_fitted) return std::nullopt;
    const Interval interval = table.interval(figure, row.at, row.at.model);
    if (interval.residuals == 0) return std::nullopt;
    const double ratio = 1 / (1 + *error);
    return ratio >= interval.low && ratio <= interval.high;
  };
  for (ScoredRow& row : rows) {
    row.time_covered = judge(Figure::kTime, row, row.time_error);
    row.memory_covered = judge(Figure::kMemory, row, row.memory_error);
  }
}

std::vector<Residual> residuals_of(const std::vector<ScoredRow>& rows) {
  std::vector<Residual> residuals;
  for (const ScoredRow& row : rows) {
    const auto add = [&](Figure figure, const std::optional<double>& error) {
      if (error) residuals.push_back({row.at, figure, row.fitted, false, -std::log1p(*error)});
    };
    add(Figure::kTime, row.time_error);
    add(Figure::kMemory, row.memory_error);
  }
  return residuals;
}

Table score_table(const std::vector<ScoredRow>& rows) {
  Table table{{"group", "name", "figure", "rows", "median_%", "p90_%", "within_10_%", "within_20_%",
               "bias_%", "covered_%"},
              {}};
  for (const auto& [group, name_of_row] : groupings()) {
    std::map<std::string, std::pair<Errors, Errors>> groups;
    for (const ScoredRow& row : rows) {
      auto& [time, memory] = groups[name_of_row(row)];
      time.add(row.time_error, row.time_covered);
      memory.add(row.memory_error, row.memory_covered);
    }
    for (const auto& [name, errors] : groups) {
      put_summary(group, name, "time", errors.first, table);
      put_summary(group, name, "memory", errors.second, table);
    }
  }
  return table;
}

Table verdict_table(const std::vector<ScoredRow>& rows) {
  Table table{{"measured", "rows", "said_fits", "said_tight", "said_oom", "not_predicted"}, {}};
  for (const auto& [outcome, name] : {std::pair(EvidenceOutcome::kValid, "ran"),
                                      std::pair(EvidenceOutcome::kOutOfMemory, "died")}) {
    int64_t counts[5] = {};
    for (const ScoredRow& row : rows) {
      if (row.evidence.outcome != outcome) continue;
      ++counts[0];
      ++counts[row.fit == Fit::kUnknown ? 4 : 1 + static_cast<int>(row.fit)];
    }
    if (counts[0] == 0) continue;
    table.rows.push_back({name, counts[0], counts[1], counts[2], counts[3], counts[4]});
  }
  return table;
}

Table scored_rows(const std::vector<ScoredRow>& rows) {
  Table table{{"source", "method", "model", "gpu", "gpus", "length", "batch", "tokens_per_s",
               "time_error_%", "memory_GB", "memory_error_%", "verdict", "problem"},
              {}};
  for (const ScoredRow& row : rows) {
    const Evidence& e = row.evidence;
    const auto input = [&e](const char* name) {
      return e.inputs.contains(name) ? Json(e.inputs.at(name)) : Json();
    };
    table.rows.push_back(
        {e.source, row.method, row.model, row.gpu, input("number_gpus"), input("model_max_length"),
         input("batch_size"), e.tokens_per_second ? Json(*e.tokens_per_second) : Json(),
         row.time_error ? Json(percent(*row.time_error)) : Json(),
         e.allocated_bytes ? Json(std::round(*e.allocated_bytes / 1e7) / 100) : Json(),
         row.memory_error ? Json(percent(*row.memory_error)) : Json(),
         row.fit == Fit::kUnknown ? Json() : Json(name_of(row.fit)),
         row.problem.empty() ? Json() : Json(row.problem)});
  }
  return table;
}

}  // namespace sftbench
