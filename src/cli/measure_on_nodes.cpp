#include "cli/measure_on_nodes.h"

#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/owned_fd.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/launch/interrupt.h"
#include "sftbench/launch/measure_job.h"
#include "sftbench/plan/job_file.h"
#include "sftbench/plan/resolve.h"
#include "sftbench/results/sample_series.h"
#include "sftbench/results/store.h"
#include "sftbench/sweep/interrupt_signals.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// A sweep kills its child 5 s after it has asked it to end. Hosts end their ranks by themselves.
constexpr double kSecondsToEnd = 3;

// The folder in which the ranks measure, beside the results, which all nodes see. A dot before its
// name keeps reports out.
class RankFolder {
 public:
  explicit RankFolder(const fs::path& log)
      : path_(fs::absolute(log.parent_path()) / ("." + log.stem().stem().string() + ".nodes")) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);  // of one that was killed
    fs::create_directories(path_);
  }
  ~RankFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  RankFolder(const RankFolder&) = delete;
  RankFolder& operator=(const RankFolder&) = delete;

  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

// "step 3/5, loss 11.33, ...": the sign of life of the ranks.
void tell_step(const std::string& line, const HeartbeatSender& heartbeats) {
  long long step = 0, steps = 0;
  if (std::sscanf(line.c_str(), "step %lld/%lld", &step, &steps) == 2) {
    heartbeats.rank_step(0, step);
  }
}

// Empty: rank 0 wrote none.
fs::path result_below(const fs::path& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() == ".json" && path.stem().extension().empty()) return path;
  }
  return {};
}

void replace_all(std::string& text, const std::string& before, const std::string& after) {
  for (size_t at = text.find(before); at != std::string::npos;
       at = text.find(before, at + after.size())) {
    text.replace(at, before.size(), after);
  }
}

// The ranks' logs and series get the names that this measurement's own would have.
void take_files(const fs::path& result, const ChildRequest& request, Measurement& measurement) {
  const std::string stem = (result.parent_path() / result.stem()).string();
  std::error_code none;
  for (int rank = 1; rank < request.job.device.ranks; ++rank) {
    fs::rename(log_of_rank(stem + ".log", rank), log_of_rank(request.log, rank), none);
  }
  const auto series = measurement.extra.find("series");
  if (series != measurement.extra.end()) {
    fs::rename(series_beside(result), request.series, none);
    series->erase("file");  // whoever keeps the result names it
  }
  if (!measurement.reason) return;
  const std::string own = fs::path(request.final_log).replace_extension().string();
  for (std::string* text :
       {&measurement.reason->message, &measurement.reason->evidence, &measurement.reason->log}) {
    replace_all(*text, stem, own);
  }
  measurement.reason->log = request.final_log;
}

// The last problem that a rank tells of. That ranks were interrupted follows from another's.
void note_problem(const std::string& line, std::string& problem) {
  constexpr std::string_view kProgram = "sftbench: ", kInterrupted = "interrupted";
  if (line.rfind(kProgram, 0) != 0) return;
  const std::string told = line.substr(kProgram.size());
  if (problem.empty() || told.rfind(kInterrupted, 0) != 0) problem = told;
}

}  // namespace

std::optional<NodeLaunch> launch_of_request(const ChildRequest& request) {
  if (request.job.backend == kBackendSimulate) return std::nullopt;
  const Environment environment = process_environment();
  try {
    return plan_node_launch(request.job, passed_node_options(environment), environment);
  } catch (const InputError& error) {
    throw RunError(ReasonCode::kUnsupported, error.what());
  }
}

Measurement measure_on_nodes(const NodeLaunch& launch, const ChildRequest& request,
                             HeartbeatSender& heartbeats) {
  const MeasureOptions options = {.command = request.command, .log = request.final_log};
  send_begun(request.result_fd, begin_measurement(request.job, request.command, nullptr));
  heartbeats.phase("starting on " + counted(launch.nodes, "node"));
  const RankFolder folder(request.log);
  write_file_atomic(folder / "job.json", json_text(job_file(request.job), 2) + "\n");
  std::vector<std::string> words = {
      "run", "--job", folder / "job.json", "--output", folder / "results", "--format", "json"};
  for (const std::string& tracker : request.trackers) {
    words.insert(words.end(), {"--track", tracker});
  }
  ::unsetenv("CUDA_VISIBLE_DEVICES");  // this node's, by the sweep: each rank sees those of its own
  std::string problem;
  const OwnedFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const InterruptSignals signals;
  const int status = run_on_nodes(launch, words, process_environment(), signals.fd(),
                                  {nowhere.get(),
                                   [&](const std::string& line) {
                                     tell_step(line, heartbeats);
                                     note_problem(line, problem);
                                   },
                                   kSecondsToEnd});
  const fs::path result = result_below(folder / "results");
  if (result.empty()) {
    const bool interrupted = status == kInterruptedExitCode;
    if (problem.empty()) problem = launch.launcher + " ended with status " + std::to_string(status);
    return ended_measurement(request.job,
                             {interrupted ? ReasonCode::kKilled : ReasonCode::kNccl,
                              interrupted ? "interrupted" : "no rank came to a result: " + problem,
                              {}},
                             options, nullptr);
  }
  Measurement measurement = measurement_from_json(read_json_file(result), result.string());
  measurement.command = request.command;
  take_files(result, request, measurement);
  return measurement;
}

}  // namespace sftbench
