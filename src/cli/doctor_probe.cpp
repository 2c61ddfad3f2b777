#include "cli/doctor_probe.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cli/engine_probe.h"
#include "cli/record.h"
#include "cli/rounding.h"
#include "sftbench/advise/probed_machine.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/cli/app.h"
#include "sftbench/measure/host_info.h"

namespace sftbench {
namespace {

constexpr double kGigaPerSecond = 1e9;
constexpr double kNoisy = 0.1;  // deviation of ln(seconds), from which on people hear of it

// Of one of the small runs, the one in the middle.
double step_ms(const Json& passes, size_t job) {
  std::vector<double> times;
  for (const Json& runs : passes) {
    times.push_back(0);
    for (const char* part : {"compute_s", "update_s", "rest_s"})
      times.back() += 1e3 * runs.at(job).at(part).get<double>();
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

Table table_of(const Json& probe) {
  Table table{{"figure", "value", "unit"}, {}};
  const auto add = [&table](const std::string& figure, double value, const char* unit) {
    table.rows.push_back({figure, rounded_to(value, 100), unit});
  };
  for (const auto& [dtype, rates] : probe.at("dtypes").items()) {
    for (const Json& p : rates.at("products")) {
      const auto size = [&p](size_t i) { return std::to_string(p.at(i).get<int64_t>()); };
      add(dtype + " product " + size(0) + " x " + size(2) + " x " + size(1),
          p.at(3).get<double>() / kGigaPerSecond, "GFLOP/s");
    }
    for (const Json& h : rates.at("head")) {
      add(dtype + " output projection and loss of " + counted(h.at(0).get<int64_t>(), "token"),
          h.at(1).get<double>() / kGigaPerSecond, "GFLOP/s");
    }
    for (const Json& a : rates.at("attention")) {
      add(dtype + " attention of " + counted(a.at(0).get<int64_t>(), "token"),
          a.at(1).get<double>() / kGigaPerSecond, "GFLOP/s");
    }
    add(dtype + " norms and activations",
        rates.at("element_bytes_per_s").get<double>() / kGigaPerSecond, "GB/s");
    const Json& passes = rates.at("runs");
    for (size_t i = 0; i < passes.front().size(); ++i)
      add(dtype + " step of small run " + std::to_string(i + 1), step_ms(passes, i), "ms");
  }
  add("memory", probe.at("memory_bytes_per_s").get<double>() / kGigaPerSecond, "GB/s");
  const Json& links = probe.at("collectives");
  const auto add_link = [&add](const std::string& operation, const Json& times) {
    for (const auto& [state, words] :
         {std::pair("idle", " of 2 ranks"), std::pair("busy", " of 2 ranks that compute")}) {
      const Json& found = times.at(state);
      add(operation + words + ", latency", found.at("latency_s").get<double>() * 1e6, "us");
      add(operation + words, found.at("bytes_per_s").get<double>() / kGigaPerSecond, "GB/s");
    }
  };
  if (links.contains("all_gather")) {
    add_link("all-gather", links.at("all_gather"));
    for (const auto& [dtype, times] : links.at("reduce_scatter").items())
      add_link(dtype + " reduce-scatter", times);
  }
  return table;
}

}  // namespace

int probe_this_machine(OutputFormat format) {
  spdlog::info("measuring this machine for about a minute: leave it alone meanwhile");
  const double begin_s = steady_seconds();
  const EngineProbe found = probe_constants();
  if (!found.problem.empty()) {
    spdlog::error("nothing was measured: {}", found.problem);
    return kFailedExitCode;
  }
  const HostInfo host = read_host_info();
  Json probe = {{"schema", kProbeSchema},
                {"made_at", utc_now_iso8601()},
                {"cpu", host.cpu},
                {"cores", host.cores}};
  probe.update(found.environment);
  if (const Json& links = probe.at("collectives"); links.contains("problem"))
    spdlog::warn("collectives: {}", links.at("problem").get<std::string>());
  const double deviation = std::sqrt(ProbedMachine(probe).run_variance());
  if (deviation > kNoisy) {
    spdlog::warn(
        "runs of one kind took times that lie {:.0f} % apart: other work shares this machine, and "
        "predictions of time cannot be nearer than that",
        100 * deviation);
  }
  write_file_atomic(probe_file(), json_text(probe, 1) + "\n");
  print_table(table_of(probe), format);
  spdlog::info("{}, in {:.0f} s", probe_file().string(), steady_seconds() - begin_s);
  return 0;
}

}  // namespace sftbench
