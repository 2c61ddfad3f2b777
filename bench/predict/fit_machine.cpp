// Finds the constants of one GPU model (config/machines.yaml) from evidence: those with which the
// cost model's steps come nearest to the measured ones, in the mean of |log(predicted / measured)|.
// Models are split: the first list is fitted, all others are reported.
// Usage: fit_machine PEAK_TFLOPS MEMORY_GB_PER_S CONFIG MODEL[,MODEL...] EVIDENCE...
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <set>

#include "sftbench/advise/scorecard.h"
#include "sftbench/base/error.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/plan/actuator.h"

namespace sftbench {
namespace {

constexpr double kTera = 1e12;
constexpr int kPasses = 6;

struct Constant {
  const char* name;
  double unit;  // of a share, or 1
  double low, high;
  std::optional<double> MachineOverrides::*place;
};

class Fit {
 public:
  Fit(double peak_tflops, double gb_per_s, const std::string& config)
      : constants_(
            {{"reached", peak_tflops * kTera, 0.2, 1, &MachineOverrides::flops_per_s},
             {"attention", peak_tflops * kTera, 0.1, 1, &MachineOverrides::attention_flops_per_s},
             {"elements", gb_per_s, 0.3, 1, &MachineOverrides::element_gb_per_s},
             {"inside GB/s", 1, 20, 300, &MachineOverrides::inside_gb_per_s}}),
        settings_(read_actuator_settings(config, nullptr, {}, warnings_)) {}

  void run(const std::vector<Evidence>& rows) {
    for (int pass = 0; pass < kPasses; ++pass) {
      for (const Constant& constant : constants_) narrow(rows, constant);
    }
    for (const Constant& constant : constants_) {
      std::printf("%-12s %.3f\n", constant.name, *(overrides_.*constant.place) / constant.unit);
    }
  }

  std::vector<ScoredRow> predict(const std::vector<Evidence>& rows) {
    Oracle oracle(settings_, {}, overrides_, Catalog::shipped());
    return score(rows, oracle, Catalog::shipped());
  }

 private:
  double error(const std::vector<Evidence>& rows) {
    double sum = 0;
    for (const ScoredRow& row : predict(rows)) {
      if (row.time_error) sum += std::abs(std::log1p(*row.time_error));
    }
    return sum;
  }

  // Golden-section search over one constant, in logarithms.
  void narrow(const std::vector<Evidence>& rows, const Constant& constant) {
    const double golden = (std::sqrt(5.0) - 1) / 2;
    double low = std::log(constant.low), high = std::log(constant.high);
    const auto at = [&](double x) {
      overrides_.*constant.place = std::exp(x) * constant.unit;
      return error(rows);
    };
    while (high - low > 0.01) {
      const double left = high - golden * (high - low), right = low + golden * (high - low);
      (at(left) < at(right) ? high : low) = at(left) < at(right) ? right : left;
    }
    at((low + high) / 2);
  }

  std::vector<Constant> constants_;
  std::vector<Diagnostic> warnings_;
  ActuatorSettings settings_;
  MachineOverrides overrides_;
};

std::set<std::string> split(const std::string& list) {
  std::set<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    parts.insert(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

int run(int argc, char** argv) {
  if (argc < 6) throw InputError("fit_machine PEAK_TFLOPS GB_PER_S CONFIG MODEL,... EVIDENCE...");
  const std::set<std::string> fitted = split(argv[4]);
  std::vector<Evidence> training, others;
  for (int i = 5; i < argc; ++i) {
    for (Evidence& row : read_evidence(argv[i])) {
      const std::string model = row.inputs.at("model_name").get<std::string>();
      (fitted.contains(model) ? training : others).push_back(std::move(row));
    }
  }
  Fit fit(std::stod(argv[1]), std::stod(argv[2]), argv[3]);
  fit.run(training);
  std::cout << "\nfitted models\n"
            << render(score_table(fit.predict(training)), OutputFormat::kTable);
  if (others.empty()) return 0;
  std::cout << "\nother models\n" << render(score_table(fit.predict(others)), OutputFormat::kTable);
  return 0;
}

}  // namespace
}  // namespace sftbench

int main(int argc, char** argv) {
  try {
    return sftbench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fit_machine: %s\n", error.what());
    return 2;
  }
}
