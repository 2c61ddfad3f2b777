// How long a choice of `sweep --order informative` takes among N made-up cells, results included, in
// milliseconds of a processor.
// Usage: informative [CELLS [CHOICES]]     (10000 cells, 300 choices)
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "sftbench/advise/informative_order.h"

namespace sftbench {
namespace {

constexpr double kGiB = 1 << 30;
constexpr int64_t kJobs = 4;

// Of this process on a processor: what else the machine does counts little.
double now_ms() {
  timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

// A grid of machines, models, methods, ranks, lengths and batches, no two cells alike.
std::vector<InformativeCell> cells_of(int64_t count) {
  const std::vector<std::string> machines = {"NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"};
  std::vector<InformativeCell> cells;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    const auto digit = [&rest](int64_t size) {
      const int64_t value = rest % size;
      rest /= size;
      return value;
    };
    InformativeCell cell;
    cell.step = {i, 0};
    cell.predicted = true;
    const int64_t batch = int64_t{1} << digit(8);
    const int64_t length = int64_t{512} << digit(6);
    const int64_t ranks = int64_t{1} << digit(4);
    cell.at = {machines[static_cast<size_t>(digit(2))],
               "sftbench",
               "full",
               "",
               ranks,
               batch,
               length,
               digit(2) == 0};
    cell.at.model = "model " + std::to_string(rest);
    cell.step_s = 1e-5 * static_cast<double>(batch * length);
    cell.steps = 10;
    cell.tensor_bytes = (8 + 1e-5 * static_cast<double>(batch * length)) * kGiB;
    cell.room_bytes = 78 * kGiB;
    cells.push_back(std::move(cell));
  }
  return cells;
}

void time_choices(int64_t count, int64_t choices, int64_t jobs) {
  const double begun = now_ms();
  InformativeOrder order(cells_of(count), {}, ResidualTable::shipped(), jobs);
  const double made = now_ms() - begun;
  std::mt19937_64 random(42);
  std::normal_distribution<double> off(0, 0.05);
  std::vector<WalkStep> under_way;
  std::vector<double> took;
  const std::vector<InformativeCell> cells = cells_of(count);
  for (int64_t i = 0; i < choices; ++i) {
    const double before = now_ms();
    if (std::ssize(under_way) == jobs) {
      // Any of those under way ends first. One of ten dies.
      std::swap(under_way[random() % under_way.size()], under_way.back());
      const InformativeCell& cell = cells[static_cast<size_t>(under_way.back().entity)];
      CellResult result;
      if (random() % 10 == 0) {
        result.ran_out_of_memory = true;
      } else {
        result.step_s = cell.step_s * std::exp(off(random));
        result.tensor_bytes = cell.tensor_bytes * std::exp(off(random));
      }
      order.tell(under_way.back(), result);
      under_way.pop_back();
    }
    under_way.push_back(*order.next());
    took.push_back(now_ms() - before);
  }
  std::sort(took.begin() + 1, took.end());
  const auto at = [&took](double share) {
    return took[1 + static_cast<size_t>(share * static_cast<double>(took.size() - 2))];
  };
  std::printf("| %d | %d | %.0f | %.1f | %.1f | %.1f | %.1f |\n", static_cast<int>(count),
              static_cast<int>(jobs), made, took.front(), at(0.5), at(0.9), took.back());
}

}  // namespace
}  // namespace sftbench

int main(int argc, char** argv) {
  const int64_t cells = argc > 1 ? std::atoll(argv[1]) : 10'000;
  const int64_t choices = argc > 2 ? std::atoll(argv[2]) : 300;
  if (cells < 10 || choices < 3 || choices > cells) {
    std::fprintf(stderr, "usage: informative [CELLS [CHOICES]]\n");
    return 2;
  }
  std::printf(
      "| cells | at a time | all cells read | first choice | median | 90th percentile | most |\n");
  std::printf("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const int64_t jobs : {int64_t{1}, sftbench::kJobs})
    sftbench::time_choices(cells, choices, jobs);
  return 0;
}
