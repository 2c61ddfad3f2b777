#include "sftbench/cli/measure.h"

#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "cli/child_side.h"
#include "cli/measuring_session.h"
#include "cli/run_log.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/cli/app.h"
#include "sftbench/base/build_info.h"
#include "sftbench/launch/child_reply.h"
#include "sftbench/launch/child_request.h"

namespace sftbench {
namespace {

Measurement measure(const ChildRequest& request, const RunLog& log) {
  HeartbeatSender heartbeats(request.heartbeat_fd);
  StepLog step_log(log);
  MeasuringSession session(request.job,
                           {request.backend, request.simulate, request.sample, request.attempt});
  session.settings().observers = {&step_log, &heartbeats};
  session.settings().command = request.command;
  session.settings().log = request.final_log;
  session.settings().begun = [&](const Measurement& begun) {
    send_begun(request.result_fd, begun);
    if (!session.starts_ranks()) limit_memory(request.host_memory_bytes);
    heartbeats.phase("preparing");
  };
  session.ranked().log = request.log;
  session.ranked().final_log = request.final_log;
  session.ranked().host_memory_bytes = request.host_memory_bytes;
  // The parent takes the end of this pipe for the end of all that this measurement consists of.
  session.ranked().inherited_fds = {request.heartbeat_fd};
  session.ranked().on_rank_step = [&](int rank, int64_t step) { heartbeats.rank_step(rank, step); };
  session.ranked().on_whereabouts = [&](const std::vector<std::string>& whereabouts) {
    heartbeats.whereabouts(whereabouts);
  };
  const auto logged = [&log](Measurement measurement) {
    if (const auto& reason = measurement.reason)
      log.line("error", reason_text(reason->code, reason->message, reason->evidence));
    return measurement;
  };
  try {
    if (request.generate_dataset) heartbeats.phase("dataset");
    session.prepare(request.generate_dataset,
                    [](const std::string& line) { spdlog::info("{}", line); });
  } catch (const std::exception& error) {
    return logged(session.ended(classify_exception(error, request.job)));
  }
  heartbeats.phase("engine");
  spdlog::info("measuring {} with {}", request.job.entity_id, request.job.experiment_id);
  return logged(session.train());
}

}  // namespace

int measure_for_parent() {
  ::prctl(PR_SET_NAME, "sftbench");  // else the name of the link /proc/self/exe
  // A parent that is gone is noticed by its pipe (end_with_parent), a full disk by the write.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const RunLog log;
  try {
    const ChildRequest request = child_request_from_json(
        unpacked_json(read_standard_input(), "standard input"), "standard input");
    empty_standard_input();
    end_with_parent(request.heartbeat_fd);
    prefer_to_be_killed();
    pin_to_cores(request.cpus);
    send_result(request.result_fd, measure(request, log));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sftbench %s is what a sweep starts for each measurement: %s\n",
                 kMeasureCommand, error.what());
    return kUsageExitCode;
  }
  std::fflush(nullptr);
  std::_Exit(0);  // what libtorch and the driver's libraries do at an exit takes long and can crash
}

}  // namespace sftbench
