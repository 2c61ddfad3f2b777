#include "advise/fit_probe.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/plan/probe_jobs.h"

namespace sftbench {
namespace {

// measured = scale x products + launch_s x launches, about.
struct Equation {
  double products, launches, measured;
};

// Neither below 0, of relative errors that are least in their squares.
ProbeFit::Compute solve(const std::vector<Equation>& equations) {
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0;
  for (const Equation& e : equations) {
    const double x = e.products / e.measured, y = e.launches / e.measured;
    aa += x * x;
    ab += x * y;
    bb += y * y;
    a += x;
    b += y;
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant > 0) {
    const double first = (a * bb - b * ab) / determinant;
    const double second = (b * aa - a * ab) / determinant;
    if (first >= 0 && second >= 0) return {first, second};
  }
  // One of them is 0: the other alone, whichever explains more.
  const double first_alone = aa > 0 ? a / aa : 0, second_alone = bb > 0 ? b / bb : 0;
  if (first_alone * a >= second_alone * b) return {first_alone, 0};
  return {0, second_alone};
}

double median(std::vector<double> values) {
  check(!values.empty(), "a probe has runs");
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double typical(const Json& passes, size_t job, const char* part) {
  std::vector<double> values = {passes.at(0).at(job).at(part).get<double>()};
  for (size_t i = 1; i < passes.size(); ++i) values.push_back(passes.at(i).at(job).at(part));
  return median(std::move(values));
}

double variance_between_runs(const Json& passes, size_t job) {
  double sum = 0, squares = 0;
  for (const Json& runs : passes) {
    double step_s = 0;
    for (const char* part : {"compute_s", "update_s", "rest_s"})
      step_s += runs.at(job).at(part).get<double>();
    sum += std::log(step_s);
    squares += std::pow(std::log(step_s), 2);
  }
  const auto n = static_cast<double>(passes.size());
  return n < 2 ? 0 : std::max(0.0, (squares - sum * sum / n) / (n - 1));
}

}  // namespace

ProbeFit fit_to_runs(ParameterDtype dtype, const Json& passes,
                     const std::function<MachineModel(const TrainingJob&)>& alone) {
  std::vector<Equation> full, frozen;
  std::vector<double> update_rates, rests;
  double variance = 0;
  const std::vector<TrainingJob> jobs = probe_jobs(dtype, {});
  for (size_t i = 0; i < jobs.size(); ++i) {
    MachineModel machine = alone(jobs[i]);
    const auto predicted = [&](double scale, double launch_s) {
      machine.compute_scale = scale;
      machine.stack.launch_s = launch_s;
      return predict_step(jobs[i], machine).compute_s;
    };
    const bool trains = row_of(jobs[i].tuning).trains_weights;
    (trains ? full : frozen)
        .push_back({predicted(1, 0), predicted(0, 1), typical(passes, i, "compute_s")});
    rests.push_back(typical(passes, i, "rest_s"));
    variance += variance_between_runs(passes, i) / static_cast<double>(jobs.size());
    if (!trains) continue;  // adapters are too few to tell of memory
    machine.memory_bytes_per_s = 1;
    update_rates.push_back(predict_step(jobs[i], machine).optimizer_s /
                           typical(passes, i, "update_s"));
  }
  return {solve(full), solve(frozen), median(update_rates), median(rests), variance};
}

}  // namespace sftbench
