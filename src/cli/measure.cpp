#include "cli/measure.h"

#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "cli/backend_options.h"
#include "cli/child_side.h"
#include "cli/measure_on_nodes.h"
#include "cli/run_log.h"
#include "cli/track_options.h"
#include "cli/training_log.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/cli/app.h"
#include "sftbench/launch/child_reply.h"
#include "sftbench/launch/child_request.h"
#include "sftbench/launch/measure_job.h"

namespace sftbench {
namespace {

RankedSpec ranked_spec(const ChildRequest& request, HeartbeatSender& heartbeats) {
  RankedSpec spec;
  spec.log = request.log;
  spec.final_log = request.final_log;
  spec.host_memory_bytes = request.host_memory_bytes;
  // The parent takes the end of this pipe for the end of all that this measurement consists of.
  spec.inherited_fds = {request.heartbeat_fd};
  spec.on_rank_step = [&](int rank, int64_t step) { heartbeats.rank_step(rank, step); };
  spec.on_whereabouts = [&](const std::vector<std::string>& whereabouts) {
    heartbeats.whereabouts(whereabouts);
  };
  return spec;
}

// Blocked before the first thread starts, so that a measurement on several nodes can wait for them
// (signalfd) and end the far ranks; all others end by them at once.
void mask_ending_signals(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(how, &signals, nullptr);
}

Measurement measure_request(const ChildRequest& request, const RunLog& log) {
  const TrainingJob& job = request.job;
  HeartbeatSender heartbeats(request.heartbeat_fd);
  try {
    if (const auto launch = launch_of_request(request)) {
      return measure_on_nodes(*launch, request, heartbeats);
    }
  } catch (const RunError& error) {
    const MeasureOptions options = {.command = request.command, .log = request.final_log};
    return ended_measurement(job, classify_exception(error, job), options, nullptr);
  }
  mask_ending_signals(SIG_UNBLOCK);
  StepLog step_log(log);
  std::vector<TrainObserver*> observers = {&step_log, &heartbeats};
  std::optional<TrainingLog> training_log;
  if (!job.save.output_directory.empty()) {
    observers.push_back(&training_log.emplace(job.save));
  }
  const std::unique_ptr<Backend> backend = choose_backend(
      job, {request.simulate, request.sample, request.attempt}, ranked_spec(request, heartbeats));
  MeasureOptions options = {.command = request.command,
                            .log = request.final_log,
                            .observers = observers,
                            .series = request.series,
                            .begun = [&](const Measurement& begun) {
                              send_begun(request.result_fd, begun);
                              if (!backend->starts_ranks()) limit_memory(request.host_memory_bytes);
                              heartbeats.phase("preparing");
                            }};
  std::vector<TrackerSpec> specs;
  for (const std::string& text : request.trackers) specs.push_back(tracker_of(text));
  TrackedMeasurement tracked(specs, job, request.sample, request.command);
  tracked.add_to(options);
  try {
    if (request.generate_dataset) heartbeats.phase("dataset");
    prepare_job(job, *backend, request.generate_dataset,
                [](const std::string& line) { spdlog::info("{}", line); });
  } catch (const std::exception& error) {
    Measurement ended =
        ended_measurement(job, classify_exception(error, job), options, backend->nvml());
    tracked.finish(ended);
    return ended;
  }
  heartbeats.phase("engine");
  spdlog::info("measuring {} with {}", job.entity_id, job.experiment_id);
  Measurement measurement = measure_job(job, *backend, options);
  if (!specs.empty()) heartbeats.phase("writing to trackers");
  tracked.finish(measurement);
  return measurement;
}

}  // namespace

int measure_for_parent() {
  ::prctl(PR_SET_NAME, "sftbench");  // else the name of the link /proc/self/exe
  // A parent that is gone is noticed by its pipe (end_with_parent), a full disk by the write.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  mask_ending_signals(SIG_BLOCK);
  const RunLog log;
  try {
    const ChildRequest request = child_request_from_json(
        unpacked_json(read_standard_input(), "standard input"), "standard input");
    empty_standard_input();
    end_with_parent(request.heartbeat_fd);
    prefer_to_be_killed();
    pin_to_cores(request.cpus);
    const Measurement measurement = measure_request(request, log);
    if (const auto& reason = measurement.reason) {
      log.line("error", reason_text(reason->code, reason->message, reason->evidence));
    }
    send_result(request.result_fd, measurement);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sftbench %s is what a sweep starts for each measurement: %s\n",
                 kMeasureCommand, error.what());
    return kUsageExitCode;
  }
  std::fflush(nullptr);
  std::_Exit(0);  // what libtorch and the driver's libraries do at an exit takes long and can crash
}

}  // namespace sftbench
