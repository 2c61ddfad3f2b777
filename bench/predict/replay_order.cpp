// What a sweep that is cut short knows of the rest: published tables, measured in the table's order, in
// random ones and in that of `sweep --order informative`, up to a share of the time that all rows take.
// Then all others are predicted as `predict --evidence` does. The figures are the error of their time
// and the share of wrong verdicts (dies or not). A run is 100 steps and 20 seconds, and one that dies a
// step and 20 seconds. What the cost model says of a model rests on residuals of other models alone.
// Usage: replay_order FOLDER     (bench/truth/import.sh makes the folder)
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

#include "published_tables.h"
#include "sftbench/advise/uncertainty.h"

namespace sftbench {
namespace {

constexpr size_t kFewestRows = 16;
constexpr uint64_t kSeeds = 100;
constexpr double kShares[] = {0, 0.01, 0.03, 0.1, 0.3};
constexpr double kStartSeconds = 20;

struct Known {
  std::vector<double> errors;
  double wrong = 0, verdicts = 0, measured = 0, replays = 0;
};
using Score = std::vector<Known>;  // of each share

double seconds_of(const TableRow& row) {
  if (!row.rate) return kStartSeconds + row.step_s;
  const double step_s =
      row.predicted_rate > 0 ? row.step_s * row.predicted_rate / *row.rate : row.step_s;
  return kStartSeconds + kStepsOfRow * step_s;
}

void look(const PublishedTable& table, const ResidualTable& residuals,
          const std::vector<size_t>& measured, Known& known) {
  const Uncertainty uncertainty(residuals, residuals_of(table, measured));
  known.measured += static_cast<double>(measured.size());
  ++known.replays;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const TableRow& row = table.rows[i];
    const bool is_measured = std::count(measured.begin(), measured.end(), i) > 0;
    if (is_measured || row.predicted_rate <= 0) continue;
    ++known.verdicts;
    const double dies =
        uncertainty.chance_above(Figure::kMemory, row.at, row.room_bytes / row.tensor_bytes);
    known.wrong += (dies > 0.5) == row.rate.has_value() ? 1 : 0;
    if (!row.rate) continue;
    const double expected = row.predicted_rate / uncertainty.interval(Figure::kTime, row.at).center;
    known.errors.push_back(std::abs(expected / *row.rate - 1));
  }
}

// Measures as many of the order as end in time.
template <typename Next>
void replay(const PublishedTable& table, const ResidualTable& residuals, Next next, Score& score) {
  double all_s = 0, spent_s = 0;
  for (const TableRow& row : table.rows) all_s += seconds_of(row);
  std::vector<size_t> measured;
  std::optional<size_t> row = next();
  for (size_t share = 0; share < std::size(kShares); ++share) {
    while (row && spent_s + seconds_of(table.rows[*row]) <= kShares[share] * all_s) {
      spent_s += seconds_of(table.rows[*row]);
      measured.push_back(*row);
      row = next();
    }
    look(table, residuals, measured, score[share]);
  }
}

void replay_list(const PublishedTable& table, const ResidualTable& residuals,
                 const std::vector<size_t>& order, Score& score) {
  size_t at = 0;
  replay(
      table, residuals,
      [&]() { return at < order.size() ? std::optional(order[at++]) : std::nullopt; }, score);
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(share * static_cast<double>(values.size())))];
}

void print(const char* name, const Score& score) {
  std::printf("| %s |", name);
  for (const Known& known : score)
    std::printf(" %.1f: %.1f %%, %.1f %%; %.1f %% |", known.measured / known.replays,
                100 * quantile(known.errors, 0.5), 100 * quantile(known.errors, 0.9),
                100 * known.wrong / known.verdicts);
  std::printf("\n");
}

void run(const std::string& folder) {
  const std::vector<PublishedTable> tables = published_tables(folder, kFewestRows);
  Score listed(std::size(kShares)), random(listed), informative(listed);
  for (const PublishedTable& table : tables) {
    const ResidualTable residuals = without_model(table.model);
    std::vector<size_t> order(table.rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    replay_list(table, residuals, order, listed);
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      std::mt19937_64 generator(seed);
      std::shuffle(order.begin(), order.end(), generator);
      replay_list(table, residuals, order, random);
    }
    InformativeOrder cells(informative_cells(table), {}, residuals, 1);
    std::optional<size_t> last;
    replay(
        table, residuals,
        [&]() -> std::optional<size_t> {
          if (last) cells.tell({static_cast<int64_t>(*last), 0}, result_of(table.rows[*last]));
          const auto step = cells.next();
          last = step ? std::optional(static_cast<size_t>(step->entity)) : std::nullopt;
          return last;
        },
        informative);
  }
  std::printf("| order |");
  for (const double share : kShares) std::printf(" after %.0f %% of the time |", 100 * share);
  std::printf("\n| --- |");
  for (size_t i = 0; i < std::size(kShares); ++i) std::printf(" ---: |");
  std::printf("\n");
  print("the table's", listed);
  print("random", random);
  print("informative", informative);
}

}  // namespace
}  // namespace sftbench

int main(int argc, char** argv) {
  try {
    if (argc != 2) {
      std::fprintf(stderr, "usage: replay_order FOLDER\n");
      return 2;
    }
    sftbench::run(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
