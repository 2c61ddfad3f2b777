// Searches replayed on tables of published measurements: how far below the best configuration of a
// model is the best one that was found after k measurements? Regret is 1 - found / best, in tokens
// per second and GPU. What died in the table is a measurement without a value.
// Usage: replay_search EVIDENCE...     (bench/truth/import.sh makes the files)
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "sftbench/advise/evidence.h"
#include "sftbench/advise/search.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace {

constexpr size_t kFewestRows = 16;
constexpr uint64_t kSeeds = 100;
constexpr int64_t kAfter[] = {4, 8, 12, 16};
constexpr double kNear = 0.02;

// The rows of a model in one table, as points of the inputs in which they differ.
class TableSpace : public SearchSpace {
 public:
  explicit TableSpace(const std::vector<Evidence>& rows) {
    std::map<std::string, std::set<Json>> values;
    for (const Evidence& row : rows) {
      const Json point = point_of(row);
      for (const auto& [name, value] : point.items()) values[name].insert(value);
    }
    for (const Evidence& row : rows) points_.push_back(features_of(point_of(row), values));
  }

  int64_t size() const override { return std::ssize(points_); }
  size_t dimensions() const override { return dimensions_; }
  const std::vector<size_t>& dimension_of_feature() const override { return of_feature_; }
  std::vector<double> features(int64_t row) const override {
    return points_[static_cast<size_t>(row)];
  }

  // The nearest row: a table is no grid.
  int64_t at(const std::vector<double>& place) const override {
    int64_t nearest = 0;
    double least = HUGE_VAL;
    for (int64_t row = 0; row < size(); ++row) {
      double distance = 0;
      for (size_t i = 0; i < of_feature_.size(); ++i) {
        const double off = points_[static_cast<size_t>(row)][i] - place[of_feature_[i]];
        distance += off * off;
      }
      if (distance >= least) continue;
      least = distance;
      nearest = row;
    }
    return nearest;
  }

 private:
  static Json point_of(const Evidence& row) {
    Json point = row.inputs;
    point["experiment"] = row.experiment;
    return point;
  }

  std::vector<double> features_of(const Json& point,
                                  const std::map<std::string, std::set<Json>>& values) {
    std::vector<double> features;
    std::vector<size_t> of;
    dimensions_ = 0;
    for (const auto& [name, all] : values) {
      const Json value = point.contains(name) ? point.at(name) : Json();
      const bool numeric =
          std::all_of(all.begin(), all.end(), [](const Json& v) { return v.is_number(); });
      if (numeric && value.is_number()) {
        const double low = std::log(std::max(1e-9, all.begin()->get<double>()));
        const double high = std::log(std::max(1e-9, all.rbegin()->get<double>()));
        const double at = std::log(std::max(1e-9, value.get<double>()));
        features.push_back(high > low ? (at - low) / (high - low) : 0.5);
        of.push_back(dimensions_);
      } else {
        for (const Json& one : all) {
          features.push_back(one == value ? std::sqrt(0.5) : 0);
          of.push_back(dimensions_);
        }
      }
      ++dimensions_;
    }
    of_feature_ = std::move(of);
    return features;
  }

  std::vector<std::vector<double>> points_;
  std::vector<size_t> of_feature_;
  size_t dimensions_ = 0;
};

std::optional<double> rate_of(const Evidence& row) {
  if (row.outcome != Outcome::kValid || !row.tokens_per_second) return std::nullopt;
  return *row.tokens_per_second / std::max(1.0, row.inputs.value("number_gpus", 1.0));
}

// By table and model; one row of each configuration.
std::map<std::string, std::vector<Evidence>> groups_of(const std::vector<std::string>& files) {
  std::map<std::string, std::vector<Evidence>> groups;
  std::set<std::string> seen;
  for (const std::string& file : files) {
    for (Evidence& row : read_evidence(file)) {
      if (row.outcome == Outcome::kFailed || (row.outcome == Outcome::kValid && !rate_of(row)))
        continue;
      const std::string group = row.source.substr(0, row.source.rfind(':')) + " " +
                                row.inputs.value("model_name", std::string());
      if (seen.insert(group + row.experiment + row.inputs.dump()).second)
        groups[group].push_back(std::move(row));
    }
  }
  return groups;
}

struct Score {
  std::map<int64_t, std::vector<double>> regret;  // after so many
  std::vector<double> until_near;                 // measurements
};

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(share * static_cast<double>(values.size())))];
}

void replay(const std::vector<Evidence>& rows, SearchMethod method, Score& score) {
  const TableSpace space(rows);
  double best = 0;
  for (const Evidence& row : rows) best = std::max(best, rate_of(row).value_or(0));
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SearchPlan plan;
    plan.method = method;
    plan.maximize = true;
    plan.samples = -1;
    plan.first = 4;
    SpaceSearch search(space, plan, seed);
    double found = 0;
    int64_t count = 0, near = 0;
    while (const std::optional<int64_t> row = search.next()) {
      const std::optional<double> rate = rate_of(rows[static_cast<size_t>(*row)]);
      search.tell(*row, rate);
      found = std::max(found, rate.value_or(0));
      ++count;
      for (const int64_t after : kAfter)
        if (count == after) score.regret[after].push_back(1 - found / best);
      if (near == 0 && found >= (1 - kNear) * best) near = count;
    }
    score.until_near.push_back(static_cast<double>(near));
  }
}

void run(const std::vector<std::string>& files) {
  const std::vector<std::pair<const char*, SearchMethod>> methods = {
      {"random", SearchMethod::kRandom},
      {"Latin hypercube", SearchMethod::kLatinHypercube},
      {"most informative first", SearchMethod::kInformative},
      {"Gaussian process, expected improvement", SearchMethod::kBayesian}};
  std::map<std::string, Score> scores;
  size_t tables = 0, rows_of_all = 0, died = 0;
  for (const auto& [name, rows] : groups_of(files)) {
    if (rows.size() < kFewestRows) continue;
    ++tables;
    rows_of_all += rows.size();
    for (const Evidence& row : rows) died += row.outcome == Outcome::kOutOfMemory ? 1 : 0;
    for (const auto& [method_name, method] : methods) replay(rows, method, scores[method_name]);
  }
  std::printf("%zu models of tables, %zu configurations, %zu of which died, %d seeds\n\n", tables,
              rows_of_all, died, static_cast<int>(kSeeds));
  std::printf("| search |");
  for (const int64_t after : kAfter)
    std::printf(" regret after %d, median, p90 |", static_cast<int>(after));
  std::printf(" measurements until within 2 %%, median, p90 |\n");
  for (const auto& [method_name, method] : methods) {
    const Score& score = scores[method_name];
    std::printf("| %s |", method_name);
    for (const int64_t after : kAfter) {
      const std::vector<double>& regret = score.regret.at(after);
      std::printf(" %.1f %%, %.1f %% |", 100 * quantile(regret, 0.5), 100 * quantile(regret, 0.9));
    }
    std::printf(" %.0f, %.0f |\n", quantile(score.until_near, 0.5),
                quantile(score.until_near, 0.9));
  }
}

}  // namespace
}  // namespace sftbench

int main(int argc, char** argv) {
  try {
    sftbench::run({argv + 1, argv + argc});
    return argc > 1 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
