#include "fit_residuals.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

constexpr int kPasses = 4;
constexpr uint64_t kSeed = 42;

using Groups = std::map<std::string, std::vector<Residual>>;

Groups groups_of(const std::vector<Residual>& rows,
                 const std::function<std::string(const Residual&)>& name) {
  Groups groups;
  for (const Residual& row : rows) groups[name(row)].push_back(row);
  return groups;
}

std::string machine_and_stack(const Residual& row) {
  return row.at.machine + '/' + row.at.stack;
}

double log_likelihood(const Groups& groups, const Spread& spread) {
  double sum = 0;
  for (const auto& [name, rows] : groups) sum += ResidualProcess(rows, spread).log_likelihood();
  return sum;
}

// One parameter after another, each among values a factor apart.
Spread likeliest(const Groups& groups) {
  Spread spread = {2e-3, 2e-3, 1e-3, 2, 2e-4, 1};
  constexpr double kFactors[] = {0.1, 0.25, 0.5, 0.8, 1.25, 2, 4, 10};
  double best = log_likelihood(groups, spread);
  for (int pass = 0; pass < kPasses; ++pass) {
    for (double Spread::*parameter :
         {&Spread::offset, &Spread::model, &Spread::near, &Spread::distance, &Spread::noise}) {
      const double before = spread.*parameter;
      double chosen = before;
      for (const double factor : kFactors) {
        spread.*parameter = std::clamp(before * factor, 1e-6, 16.0);
        const double likelihood = log_likelihood(groups, spread);
        if (likelihood <= best) continue;
        best = likelihood;
        chosen = spread.*parameter;
      }
      spread.*parameter = chosen;
    }
  }
  return spread;
}

Json row_json(const Residual& row) {
  return {name_of(row.figure),  row.at.machine, row.at.stack, row.at.method,
          row.at.model,         row.at.ranks,   row.at.batch, row.at.length,
          row.at.checkpointing, row.fitted,     row.assumed,  std::round(row.log_ratio * 1e4) / 1e4,
          row.at.nodes};
}

Json spread_json(const Spread& s) {
  return {{"offset", s.offset},     {"model", s.model}, {"near", s.near},
          {"distance", s.distance}, {"noise", s.noise}, {"widening", s.widening}};
}

}  // namespace

std::vector<Replayed> replay(const std::vector<Residual>& rows, const Spread& spread,
                             size_t known) {
  std::map<std::string, std::vector<const Residual*>> groups;
  for (const Residual& row : rows)
    groups[machine_and_stack(row) + '/' + row.at.model].push_back(&row);
  std::vector<Replayed> replayed;
  std::mt19937_64 generator(kSeed);
  for (const auto& [name, group] : groups) {
    if (group.size() <= known) continue;
    for (const Residual* row : group) {
      std::vector<const Residual*> others = group;
      std::erase(others, row);
      std::vector<Residual> measured;
      for (size_t i = 0; i < known; ++i) {
        const size_t drawn = i + generator() % (others.size() - i);
        std::swap(others[i], others[drawn]);
        measured.push_back(*others[i]);
      }
      replayed.push_back({row, ResidualProcess(std::move(measured), spread).at(row->at)});
    }
  }
  return replayed;
}

Spread fit_spread(const std::vector<Residual>& rows, Figure figure, size_t known) {
  std::vector<Residual> compared;
  for (const Residual& row : rows) {
    if (row.figure == figure && !row.fitted && !row.assumed) compared.push_back(row);
  }
  check(!compared.empty(), "there are residuals to fit");
  Spread spread = likeliest(groups_of(compared, machine_and_stack));
  std::vector<double> deviations;
  for (const Replayed& one : replay(compared, spread, known))
    deviations.push_back(std::abs(one.row->log_ratio - one.guess.mean) / one.guess.deviation);
  if (deviations.empty()) return spread;
  std::sort(deviations.begin(), deviations.end());
  const auto n = static_cast<double>(deviations.size());
  const double rank = std::min(n, std::ceil(kIntervalLevel * (n + 1)));
  spread.widening = deviations[static_cast<size_t>(rank) - 1];
  return spread;
}

ResidualTable compare_all(const std::vector<Evidence>& evidence, const ActuatorSettings& settings,
                          const Catalog& catalog) {
  const auto compare = [&](const std::string& shares_of) {
    MachineOverrides overrides;
    overrides.shares_of = shares_of;
    Oracle oracle(settings, {}, overrides, catalog);
    std::vector<Residual> residuals = residuals_of(score(evidence, oracle, catalog));
    for (Residual& residual : residuals) residual.assumed = !shares_of.empty();
    return residuals;
  };
  std::vector<Residual> residuals = compare({});
  std::set<std::string> machines;
  for (const Residual& residual : residuals) {
    if (residual.figure == Figure::kTime) machines.insert(residual.at.machine);
  }
  machines.erase("CPU");
  for (const std::string& other : machines) {
    for (Residual& residual : compare(other)) {
      const bool is_own = residual.at.machine == other || residual.at.machine == "CPU";
      if (!is_own && residual.figure == Figure::kTime) residuals.push_back(std::move(residual));
    }
  }
  constexpr size_t kKnown = 5;
  std::map<Figure, Spread> spreads;
  for (const Figure figure : {Figure::kTime, Figure::kMemory})
    spreads[figure] = fit_spread(residuals, figure, kKnown);
  return {std::move(residuals), std::move(spreads)};
}

std::string text_of(const ResidualTable& table) {
  const Json columns = {"figure",  "machine",   "stack",  "method",        "model",
                        "ranks",   "batch",     "length", "checkpointing", "fitted",
                        "assumed", "log_ratio", "nodes"};
  const Json spreads = {{"time", spread_json(table.spread(Figure::kTime))},
                        {"memory", spread_json(table.spread(Figure::kMemory))}};
  std::string text =
      std::string("{\"schema\": \"") + kResidualSchema +
      "\", \"made_by\": \"bench/truth/residuals.sh\",\n\"spread\": " + json_text(spreads) +
      ",\n\"columns\": " + json_text(columns) + ",\n\"rows\": [";
  const char* separator = "\n";
  for (const Residual& row : table.rows()) {
    text += separator + json_text(row_json(row));
    separator = ",\n";
  }
  return text + "]}\n";
}

namespace {

void sharpen(std::vector<ScoredRow>& rows, Figure figure, const Spread& spread, size_t known) {
  const bool of_time = figure == Figure::kTime;
  std::vector<Residual> residuals;
  std::vector<ScoredRow*> scored;
  for (ScoredRow& row : rows) {
    std::optional<double>& error = of_time ? row.time_error : row.memory_error;
    if (!error) continue;
    residuals.push_back({row.at, figure, row.fitted, false, -std::log1p(*error)});
    scored.push_back(&row);
    error.reset();
  }
  for (const Replayed& one : replay(residuals, spread, known)) {
    ScoredRow& row = *scored[static_cast<size_t>(one.row - residuals.data())];
    const double off = one.row->log_ratio - one.guess.mean;
    (of_time ? row.time_error : row.memory_error) = std::expm1(-off);
    (of_time ? row.time_covered : row.memory_covered) =
        std::abs(off) <= spread.widening * one.guess.deviation;
  }
}

}  // namespace

void sharpen(std::vector<ScoredRow>& rows, const ResidualTable& table, size_t known) {
  for (const Figure figure : {Figure::kTime, Figure::kMemory})
    sharpen(rows, figure, table.spread(figure), known);
}

}  // namespace sftbench
