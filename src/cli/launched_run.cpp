#include "cli/launched_run.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <thread>

#include "cli/run_log.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/cli/app.h"
#include "sftbench/cluster/roce.h"

namespace sftbench {
namespace {

// For the ranks that a launcher has started at the same time to come and hear of a problem.
constexpr double kDeclineSeconds = 30;
constexpr double kHeadStartSeconds = 1;

constexpr const char* kNoSecret =
    "the ranks of this job share no secret: on the network between the nodes anybody who guesses "
    "the job's number can join it; set SFTBENCH_JOB_SECRET or SFTBENCH_JOB_SECRET_FILE on all "
    "ranks "
    "(docs/internals/ranks.md)";

int status_of(ReasonCode code) {
  return exit_code(makes_invalid(code) ? Status::kInvalid : Status::kFailed);
}

// Told before the ranks meet, which can take a while.
std::vector<std::string> warnings_about(const RankPlace& place) {
  if (place.nodes == 1 || !place.secret.empty()) return {};
  spdlog::warn("{}", kNoSecret);
  return {kNoSecret};
}

std::unique_ptr<RankGroup> meet(RankPlace place, const Environment& environment,
                                const TrainingJob& job) {
  check_mpirun_address(place, environment);
  place.rendezvous_timeout_s = job.parallel.timeout_s;
  place.communication_timeout_s = job.parallel.timeout_s;
  return join_ranks(place);
}

}  // namespace

void refuse_several_tasks(const std::string& command) {
  const std::optional<RankPlace> place = launcher_place(process_environment());
  if (!place || place->local_size == 1) return;
  throw InputError({{{},
                     0,
                     command,
                     "was started " + std::to_string(place->local_size) + " times on this node" +
                         (place->launcher == "none" ? "" : " by " + place->launcher),
                     "once on a node: it starts the ranks of its measurements itself, and uses all "
                     "of the node",
                     {}}});
}

void require_fit(const TrainingJob& job, const RankPlace& place) {
  const auto started = [&](int ranks) {
    return place.launcher == "none" ? "WORLD_SIZE says " + std::to_string(ranks)
                                    : place.launcher + " started " + std::to_string(ranks);
  };
  if (job.runs > 1) {
    throw InputError(job.experiment +
                     " consists of several runs, and starts the ranks of each itself: start it "
                     "once, on one node");
  }
  if (job.device.ranks != place.world_size) {
    const std::string how = job.device.kind == "cuda" ? "number_gpus" : "--ranks";
    throw InputError("the job has " + counted(job.device.ranks, "rank") + " (" + how + "), and " +
                     started(place.world_size));
  }
  // The experiments know nodes of GPUs only; ranks on CPUs are wherever they were started.
  if (job.device.kind == "cuda" && job.device.nodes != place.nodes) {
    throw InputError("the job has " + counted(job.device.nodes, "node") + " (number_nodes), and " +
                     (place.launcher == "none" ? "its ranks were started on "
                                               : place.launcher + " started its ranks on ") +
                     std::to_string(place.nodes));
  }
}

void let_rank0_speak() {
  std::this_thread::sleep_for(std::chrono::duration<double>(kHeadStartSeconds));
}

int decline(const RankPlace& place, const InputError& error) {
  const bool leads = place.rank == 0;
  if (leads) report(error);
  const bool told = decline_to_join(place, error.what(), kDeclineSeconds);
  if (leads || !told) return leads ? kUsageExitCode : report(error);
  let_rank0_speak();
  return kUsageExitCode;
}

LaunchedRun::LaunchedRun(const RankPlace& place, const TrainingJob& job)
    : environment_(process_environment()),
      warnings_(warnings_about(place)),
      ranks_(meet(place, environment_, job)) {}

std::optional<ErrorClass> LaunchedRun::failure() const {
  const std::optional<RankFailure> failure = ranks_.failure();
  if (!failure) return {};
  const RunError error = error_of(*failure, ranks_.group().ranks());
  return ErrorClass{error.code(), error.what(), error.evidence()};
}

bool LaunchedRun::between_nodes(const TrainingJob& job) const {
  return job.device.kind == "cuda" && job.device.nodes > 1;
}

std::unique_ptr<Backend> LaunchedRun::prepare(
    Backend& own, const TrainingJob& job, bool generate_dataset,
    const std::function<void(const std::string&)>& announce) {
  const bool speaks_for_node = ranks_.group().place().local_rank == 0;
  ranks_.together(job,
                  [&] { prepare_job(job, own, generate_dataset && speaks_for_node, announce); });
  std::unique_ptr<Backend> in_group;
  ranks_.together(job, [&] {
    if (between_nodes(job)) {
      for (const std::string& warning :
           set_up_roce(ranks_.group(), job.parallel.enable_roce, environment_, read_rdma_ports())
               .warnings) {
        warn(warning);
      }
    }
    in_group = make_launched_backend(own, ranks_);
  });
  return in_group;
}

void LaunchedRun::warn(const std::string& warning) {
  spdlog::warn("{}", warning);
  warnings_.push_back(warning);
}

void LaunchedRun::put_warnings(Measurement& measurement) const {
  if (measurement.status != Status::kValid) return;
  for (const std::string& warning : warnings_) measurement.extra["warnings"].push_back(warning);
}

int LaunchedRun::follow(InterruptWatcher& watcher, const TrainingJob& job,
                        const std::optional<ErrorClass>& ending, bool generate_dataset,
                        const SimulatedRun& simulated, const FollowerLog& log_path) {
  if (ending) return leave(status_of(ending->code));
  std::filesystem::create_directories(log_path.growing.parent_path());
  watcher.remove_when_interrupted(log_path.growing);
  const RunLog log(log_path.growing);
  const auto leave_with_log = [&](int exit_status) {
    exit_status = leave(exit_status);
    std::error_code rank0_did;
    if (!std::filesystem::exists(log_path.whole, rank0_did)) {  // else an earlier result's
      std::filesystem::rename(log_path.growing, log_path.whole, rank0_did);
    }
    return exit_status;
  };
  StepLog step_log(log);
  try {
    MeasureOptions options;
    options.observers = {&step_log};
    options.interrupted = [&watcher] { return watcher.requested(); };
    const std::unique_ptr<Backend> own = choose_backend(job, simulated, std::nullopt);
    const std::unique_ptr<Backend> backend =
        prepare(*own, job, generate_dataset, [](const std::string&) {});
    watcher.set_graceful(true);
    const RankRecord record = follow_job(job, *backend, ranks_.group().place(), options);
    watcher.set_graceful(false);
    ranks_.tell(record);
    return leave_with_log(0);
  } catch (const RunError& error) {
    if (watcher.requested()) {
      watcher.remove_files();
      return kInterruptedExitCode;
    }
    log.line("error", reason_text(error.code(), error.what(), error.evidence()));
    return leave_with_log(status_of(error.code()));
  }
}

}  // namespace sftbench
