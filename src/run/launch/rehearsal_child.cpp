#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "sftbench/base/companion_library.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/launch/engine_library.h"
#include "sftbench/launch/rehearsal.h"
#include "sftbench/measure/run_record.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {
namespace {

// Which launches belong to the last step: those since the end of the step before.
class LaunchWatch : public TrainObserver {
 public:
  LaunchWatch()
      : report_(function<const char* (*)()>("sftbench_phantom_report")),
        reset_(function<void (*)()>("sftbench_phantom_reset")) {}

  bool wants_memory_peak() const override { return true; }

  void on_step_end(const StepEvent& event, TrainControl&) override {
    last_ = Json::parse(report_());
    host_s_ = event.end_s - event.begin_s;
    reset_();
  }

  const Json& last() const { return last_; }
  double host_s() const { return host_s_; }

 private:
  template <typename Function>
  static Function function(const char* name) {
    void* const found = dlsym(RTLD_DEFAULT, name);
    check(found != nullptr, "a rehearsal is started with the phantom device");
    return reinterpret_cast<Function>(found);
  }

  const char* (*report_)();
  void (*reset_)();
  Json last_;
  double host_s_ = 0;
};

Json rehearse_here(const TrainingJob& job) {
  try {
    const std::unique_ptr<Engine> engine = load_engine("cuda");
    RunRecorder recorder;
    LaunchWatch watch;
    const auto ranks =
        make_lone_rank(static_cast<int>(job.device.ranks), static_cast<int>(job.device.nodes));
    engine->train_job(job, *ranks, {&recorder, &watch}, [] { return false; });
    const TrainEnd& end = recorder.record().end;
    return {{"allocated_peak_bytes", end.device_peak_allocated_bytes.at(0)},
            {"reserved_peak_bytes", end.device_peak_reserved_bytes.at(0)},
            {"peak",
             {{"place", end.memory_peak.place},
              {"allocation_bytes", end.memory_peak.allocation_bytes},
              {"held", end.memory_peak.held}}},
            {"host_s", watch.host_s()},
            {"report", watch.last()}};
  } catch (const std::exception& error) {
    const ErrorClass failure = classify_exception(error, job);
    return {{"failure",
             {{"code", static_cast<int>(failure.code)},
              {"message", failure.message},
              {"evidence", failure.evidence}}}};
  }
}

}  // namespace

int rehearse_for_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string given{std::istreambuf_iterator<char>(std::cin), {}};
  const Json request = unpacked_json(given, "standard input");
  const std::string answer =
      json_text(rehearse_here(training_job_from_json(request.at("job"), "standard input")));
  const bool written = ::write(request.at("answer_fd").get<int>(), answer.data(), answer.size()) ==
                       static_cast<ssize_t>(answer.size());
  std::fflush(nullptr);
  std::_Exit(written ? 0 : 1);  // what libraries do at an exit is of no use here
}

}  // namespace sftbench
