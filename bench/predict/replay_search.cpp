// Searches and predictions replayed on tables of published measurements: how far below the best
// configuration of a model is what is known after k measurements? Regret is 1 - rate / best, in
// tokens per second and GPU, of two things: the best configuration that was measured, and the one
// that would be recommended then, measured or not (its rate in the table; 1 where it died). What died
// in the table is a measurement without a value.
//
// What the cost model says of a model rests on residuals of other models alone. Constants of a GPU
// were fitted on some of the models: the first line names them.
// Usage: replay_search FOLDER [--dump FILE]     (bench/truth/import.sh makes the folder)
//   --dump: the tables, as regret.py reads them
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "published_tables.h"
#include "sftbench/advise/uncertainty.h"
#include "sftbench/advise/until_known.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

constexpr size_t kFewestRows = 16;
constexpr uint64_t kSeeds = 100;
constexpr int64_t kAfter[] = {0, 3, 5, 10, 20};
constexpr double kNear = 0.02;

// Which row is named by what was measured up to now: nothing before the first that ran, where there
// is no prediction.
using Recommend = std::function<std::optional<size_t>(const std::vector<size_t>& measured)>;

Recommend best_measured(const PublishedTable& table) {
  return [&table](const std::vector<size_t>& measured) {
    std::optional<size_t> best;
    for (const size_t row : measured) {
      if (!table.rows[row].rate) continue;
      if (!best || *table.rows[row].rate > *table.rows[*best].rate) best = row;
    }
    return best;
  };
}

// As predict --evidence: what was measured sharpens what was not. As recommend: what does not fit, or
// fits tightly, is not named.
Recommend by_predictions(const PublishedTable& table, const ResidualTable& residuals) {
  return [&table, &residuals](const std::vector<size_t>& measured) {
    std::vector<bool> known(table.rows.size(), false);
    for (const size_t i : measured) known[i] = true;
    const Uncertainty uncertainty(residuals, residuals_of(table, measured));
    std::optional<size_t> best;
    double most = 0;
    for (size_t i = 0; i < table.rows.size(); ++i) {
      const TableRow& row = table.rows[i];
      double expected = known[i] ? row.rate.value_or(0) : 0;
      const double tensors =
          row.tensor_bytes * uncertainty.interval(Figure::kMemory, row.at).center;
      if (!known[i] && row.predicted_rate > 0 && tensors <= row.comfortable_bytes)
        expected = row.predicted_rate / uncertainty.interval(Figure::kTime, row.at).center;
      if (expected <= most) continue;
      most = expected;
      best = i;
    }
    return best;
  };
}

// The next row, and what came of it.
struct Asker {
  std::function<std::optional<size_t>()> next;
  std::function<void(size_t)> tell = [](size_t) {};
};

Asker by_search(const PublishedTable& table, const TableSpace& space, SearchMethod method,
                uint64_t seed) {
  SearchPlan plan;
  plan.method = method;
  plan.maximize = true;
  plan.samples = -1;
  plan.first = 4;
  const auto search = std::make_shared<SpaceSearch>(space, plan, seed);
  return {[search]() -> std::optional<size_t> {
            const auto row = search->next();
            if (!row) return std::nullopt;
            return static_cast<size_t>(*row);
          },
          [search, &table](size_t row) {
            search->tell(static_cast<int64_t>(row), table.rows[row].rate);
          }};
}

Asker until_known(const PublishedTable& table, const ResidualTable& residuals) {
  std::vector<DecisionCell> cells;
  const Uncertainty uncertainty(residuals);
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const TableRow& row = table.rows[i];
    DecisionCell cell{{static_cast<int64_t>(i), 0}, "", row.predicted_rate, row.at, 0};
    if (row.predicted_rate > 0)
      cell.dies =
          uncertainty.chance_above(Figure::kMemory, row.at, row.room_bytes / row.tensor_bytes);
    cells.push_back(std::move(cell));
  }
  const auto source = std::make_shared<UntilKnown>(std::move(cells), residuals, 1);
  return {[source]() -> std::optional<size_t> {
            const auto step = source->next();
            if (!step) return std::nullopt;
            return static_cast<size_t>(step->entity);
          },
          [source, &table](size_t row) {
            source->tell({static_cast<int64_t>(row), 0}, table.rows[row].rate);
          }};
}

struct Score {
  std::map<int64_t, std::vector<double>> measured, recommended;  // regret after so many
  std::vector<double> until_near;                                // measurements
};

double regret(const PublishedTable& table, const std::optional<size_t>& row) {
  return row ? 1 - table.rows[*row].rate.value_or(0) / table.best : 1;
}

void replay(const PublishedTable& table, const Asker& asker, const Recommend& recommend,
            Score& score) {
  const Recommend found = best_measured(table);
  std::vector<size_t> measured;
  double near = static_cast<double>(table.rows.size());
  bool is_near = false;
  const auto note = [&](int64_t after) {
    score.measured[after].push_back(regret(table, found(measured)));
    score.recommended[after].push_back(regret(table, recommend(measured)));
  };
  size_t noted = 0;
  while (noted < std::size(kAfter)) {
    if (std::ssize(measured) == kAfter[noted]) {
      note(kAfter[noted++]);
      continue;
    }
    const std::optional<size_t> row = asker.next();
    if (!row) break;
    asker.tell(*row);
    measured.push_back(*row);
    if (is_near || regret(table, found(measured)) > kNear) continue;
    is_near = true;
    near = static_cast<double>(measured.size());
  }
  for (; noted < std::size(kAfter); ++noted) note(kAfter[noted]);  // it has ended: so it stays
  score.until_near.push_back(near);
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(share * static_cast<double>(values.size())))];
}

void print(const char* title, const std::vector<std::pair<std::string, Score>>& scores,
           std::map<int64_t, std::vector<double>> Score::*of) {
  std::printf("| %s |", title);
  for (const int64_t after : kAfter) std::printf(" after %d |", static_cast<int>(after));
  std::printf(" within 2 %% |\n| --- |");
  for (size_t i = 0; i <= std::size(kAfter); ++i) std::printf(" ---: |");
  std::printf("\n");
  for (const auto& [name, score] : scores) {
    std::printf("| %s |", name.c_str());
    for (const int64_t after : kAfter) {
      const std::vector<double>& all = (score.*of).at(after);
      std::printf(" %.1f %%, %.1f %% |", 100 * quantile(all, 0.5), 100 * quantile(all, 0.9));
    }
    std::printf(" %.0f, %.0f |\n", quantile(score.until_near, 0.5),
                quantile(score.until_near, 0.9));
  }
  std::printf("\n");
}

void dump(const std::vector<PublishedTable>& tables, const std::string& file) {
  Json all = Json::array();
  for (const PublishedTable& table : tables) {
    Json rows = Json::array();
    for (const TableRow& row : table.rows) {
      rows.push_back({{"point", point_of(row.evidence)},
                      {"rate", row.rate ? Json(*row.rate) : Json()},
                      {"predicted", row.predicted_rate}});
    }
    all.push_back({{"name", table.name},
                   {"model", table.model},
                   {"best", table.best},
                   {"rows", std::move(rows)}});
  }
  write_file_atomic(file, json_text(all));
}

void run(const std::string& folder, const std::string& dump_to) {
  const std::vector<PublishedTable> tables = published_tables(folder, kFewestRows);
  if (!dump_to.empty()) dump(tables, dump_to);
  size_t rows = 0, died = 0;
  std::string fitted;
  for (const PublishedTable& table : tables) {
    rows += table.rows.size();
    died += table.died();
    if (table.fitted) fitted += (fitted.empty() ? "" : ", ") + table.model;
  }
  std::printf(
      "%zu models of tables, %zu configurations, %zu of which died, %d seeds; fitted: %s\n\n",
      tables.size(), rows, died, static_cast<int>(kSeeds), fitted.c_str());
  std::vector<std::pair<std::string, Score>> scores;
  const auto add = [&](const char* name,
                       const std::function<void(const PublishedTable&, Score&)>& one) {
    Score score;
    for (const PublishedTable& table : tables) one(table, score);
    scores.emplace_back(name, std::move(score));
  };
  const auto seeded = [](SearchMethod method, bool predicts) {
    return [method, predicts](const PublishedTable& table, Score& score) {
      const TableSpace space(table.rows);
      const ResidualTable residuals = without_model(table.model);
      const Recommend recommend =
          predicts ? by_predictions(table, residuals) : best_measured(table);
      for (uint64_t seed = 0; seed < kSeeds; ++seed)
        replay(table, by_search(table, space, method, seed), recommend, score);
    };
  };
  add("random", seeded(SearchMethod::kRandom, false));
  add("Latin hypercube", seeded(SearchMethod::kLatinHypercube, false));
  add("Gaussian process without a cost model, expected improvement",
      seeded(SearchMethod::kBayesian, false));
  add("random, predictions sharpened", seeded(SearchMethod::kRandom, true));
  add("--until-known, predictions sharpened", [](const PublishedTable& table, Score& score) {
    const ResidualTable residuals = without_model(table.model);
    replay(table, until_known(table, residuals), by_predictions(table, residuals), score);
  });
  print("regret of the best that was measured", scores, &Score::measured);
  print("regret of what is recommended", scores, &Score::recommended);
}

}  // namespace
}  // namespace sftbench

int main(int argc, char** argv) {
  try {
    const bool dumps = argc == 4 && std::string(argv[2]) == "--dump";
    if (argc != 2 && !dumps) {
      std::fprintf(stderr, "usage: replay_search FOLDER [--dump FILE]\n");
      return 2;
    }
    sftbench::run(argv[1], dumps ? argv[3] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
