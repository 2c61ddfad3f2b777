// Workers as jobs of a Ray cluster. Ray runs a job once, wherever its resources are; this process
// follows the jobs, starts lost ones again, and may itself be lost: the same command finds its jobs
// by their submission ids.
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <ostream>

#include "campaign/ray_client.h"
#include "campaign/ray_package.h"
#include "campaign/worker_status.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/base/text.h"
#include "sftbench/campaign/engines.h"
#include "sftbench/http/http_client.h"

namespace sftbench {
namespace {

constexpr double kLogSeconds = 3;
constexpr double kLongestWaitSeconds = 10;
constexpr int64_t kCpusForGpu = 2;  // ado's convention
const std::string kNodesScript = "ray_nodes.py";

// To start the worker again would not change it.
bool has_meaning(int exit_code) {
  return exit_code == kUsageStatus || exit_code == kFailedStatus || exit_code == kRemainsStatus;
}

enum class WorkerState { kToSubmit, kFollowed, kEnded };

struct RayWorker {
  const WorkerGroup* group = nullptr;
  std::string id;  // of its first attempt
  std::string name;
  WorkerState state = WorkerState::kToSubmit;
  int attempt = 1;
  int restarts = 0;
  size_t log_bytes = 0;  // that were shown
  double next_log_s = 0;
  double say_pending_s = 0;
  int status = 0;

  std::string submission_id() const {
    return attempt == 1 ? id : id + "-" + std::to_string(attempt);
  }
};

class RayEngine : public CampaignEngine {
 public:
  RayEngine(RaySettings settings, CampaignLog log)
      : settings_(std::move(settings)),
        log_(std::move(log)),
        client_(settings_.address, [this] { return !stopping_ && signal_waits(); }) {}

  std::string default_program() const override { return "sftbench"; }
  bool waits_for_workers() const override { return true; }

  int start(const CampaignPlan& plan, std::ostream& out) override {
    take(plan);
    greet();
    package_ = ray_package(files());
    out << counted(std::ssize(workers_), "job") << " on Ray at " << shown_url(settings_.address)
        << std::endl;
    while (!all_ended()) {
      if (!step()) return interrupted_ > 0 ? kInterruptedStatus : kFailedStatus;
      if (interrupted_ > 1) return kInterruptedStatus;
    }
    if (interrupted_ > 0) return kInterruptedStatus;
    return exit_status();
  }

 private:
  void take(const CampaignPlan& plan) {
    plan_ = plan;
    if (std::filesystem::path(plan_.output).is_relative()) {
      throw InputError({{{},
                         0,
                         "--output",
                         "found '" + plan_.output + "'",
                         "an absolute path, of a folder that all nodes of the cluster share",
                         {}}});
    }
    if (!plan_.secrets.empty()) {
      throw InputError({{{},
                         0,
                         "--env",
                         "Ray shows the environment of a job to whoever sees its dashboard",
                         plan_.secrets.front() + " where Ray's nodes start, as in their image or a "
                                                 "Secret of Kubernetes",
                         {}}});
    }
    if (!plan_.parameters_file.empty()) {
      plan_.environment["SFTTRAINER_PARAMETERS_FILE"] = place_of_file(plan_.parameters_file, ".");
    }
    for (const WorkerGroup& group : plan_.groups) {
      const std::string campaign =
          digest(plan_.digest + "\n" + plan_.output + "\n" + group.name).substr(0, 16);
      for (int64_t i = 1; i <= group.workers; ++i) {
        RayWorker worker;
        worker.group = &group;
        worker.id = "sftbench-" + campaign + "-w" + std::to_string(i);
        worker.name = group.name + "/" + std::to_string(i);
        workers_.push_back(std::move(worker));
      }
    }
  }

  // The first request: whoever cannot be reached now was not named rightly.
  void greet() {
    try {
      log_.info("Ray " + terminal_line(client_.version()) + " at " + shown_url(settings_.address));
    } catch (const RayAway& away) {
      throw InputError({{{},
                         0,
                         "--ray-address",
                         away.what(),
                         "the address of a Ray cluster's dashboard, as http://head:8265",
                         {}}});
    } catch (const RayCancelled&) {
      interrupted();
    }
  }

  bool all_ended() const {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const RayWorker& worker) { return worker.state == WorkerState::kEnded; });
  }

  int exit_status() const {
    int status = 0;
    for (const RayWorker& worker : workers_) {
      if (worker.status == kUsageStatus) return kUsageStatus;
      if (worker.status == kRemainsStatus && status == 0) status = kRemainsStatus;
      if (worker.status != 0 && worker.status != kRemainsStatus) status = kFailedStatus;
    }
    return status;
  }

  // Looks at every job once. False: the head was away for too long.
  bool step() {
    try {
      for (RayWorker& worker : workers_) {
        if (stopping_ && worker.state == WorkerState::kToSubmit) worker.state = WorkerState::kEnded;
        if (worker.state == WorkerState::kToSubmit) submit(worker);
        if (worker.state == WorkerState::kFollowed) follow(worker);
      }
      if (away_since_s_) log_.info("Ray at " + shown_url(settings_.address) + " is back");
      away_since_s_.reset();
      wait(settings_.poll_s);
    } catch (const RayCancelled&) {
      interrupted();
    } catch (const RayAway& away) {
      return wait_for_head(away.what());
    }
    return true;
  }

  bool wait_for_head(const std::string& problem) {
    const double now_s = steady_seconds();
    if (!away_since_s_) {
      away_since_s_ = now_s;
      log_.warn(problem + "; trying again for " +
                std::to_string(std::lround(settings_.patience_s)) + " s");
    }
    const double away_s = now_s - *away_since_s_;
    if (stopping_ || away_s > settings_.patience_s) {
      log_.warn(problem + "; jobs that run go on, and the same command follows them again");
      return false;
    }
    wait(std::clamp(away_s, settings_.poll_s, kLongestWaitSeconds));
    return true;
  }

  void submit(RayWorker& worker) {
    // An attempt that ended before this command began was another command's.
    for (std::optional<RayJob> job; (job = client_.find(worker.submission_id()));
         ++worker.attempt) {
      if (!job->ended()) return attach(worker, "runs already");
    }
    const std::string package_name = ray_package_name(package_);
    client_.ensure_package(package_name, package_);
    const bool is_new = client_.submit(request_of(worker, package_name));
    attach(worker, is_new ? "is submitted" : "runs already");
  }

  void attach(RayWorker& worker, const std::string& how) {
    worker.state = WorkerState::kFollowed;
    worker.log_bytes = 0;
    worker.say_pending_s = steady_seconds() + settings_.pending_s;
    log_.info(worker.name + ": job " + worker.submission_id() + " " + how);
  }

  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all = files_of(plan_);
    for (const WorkerGroup& group : plan_.groups) {
      if (group.need.nodes > 1)
        all[kNodesScript] = read_file(resource_directory() / "experiments/launch" / kNodesScript);
    }
    return all;
  }

  // What a node gives to a cell.
  static Json bundle_of(const DeviceNeed& need) {
    const bool cpus = need.gpus_per_node == 0;
    Json bundle = {{"CPU", cpus && need.cores > 0
                               ? need.cores
                               : kCpusForGpu * std::max<int64_t>(1, need.gpus_per_node)}};
    if (!cpus) bundle.update({{"GPU", need.gpus_per_node}, {need.gpu_model, need.gpus_per_node}});
    if (need.nodes > 1) bundle["full-worker"] = 1;
    if (need.roce) bundle["RoCE"] = 1;
    return bundle;
  }

  Json request_of(const RayWorker& worker, const std::string& package_name) const {
    const std::vector<std::string> words = worker_words(plan_, *worker.group, ".");
    Json environment = Json::object();
    Json literal = Json::object();
    // Ray puts the values of its own variables in place of $NAME, and knows no escape.
    for (const auto& [name, value] : plan_.environment)
      (value.find('$') == std::string::npos ? environment : literal)[name] = value;
    Json request = {
        {"submission_id", worker.submission_id()},
        {"runtime_env", {{"working_dir", "gcs://" + package_name}, {"env_vars", environment}}},
        {"metadata", {{"name", "sftbench " + plan_.name + " " + worker.name}}}};
    Json bundle = bundle_of(worker.group->need);
    if (worker.group->need.nodes > 1) {
      const Json need = {
          {"nodes", worker.group->need.nodes}, {"bundle", bundle}, {"environment", literal}};
      request["entrypoint"] =
          "python3 " + kNodesScript + " " + shell_quoted(json_text(need)) + " " + shell_line(words);
      return request;  // it asks for nothing: what it reserves is there for its actors
    }
    std::string line = shell_line(words);
    for (const auto& [name, value] : literal.items())
      line = name + "=" + shell_quoted(value.get<std::string>()) + " " + line;
    request["entrypoint"] = line;
    request["entrypoint_num_cpus"] = bundle["CPU"];
    bundle.erase("CPU");
    if (bundle.contains("GPU")) request["entrypoint_num_gpus"] = bundle["GPU"];
    bundle.erase("GPU");
    if (!bundle.empty()) request["entrypoint_resources"] = bundle;
    return request;
  }

  void follow(RayWorker& worker) {
    const std::optional<RayJob> job = client_.find(worker.submission_id());
    if (!job) {  // a head that was started anew knows of none
      log_.warn(worker.name + ": Ray has lost job " + worker.submission_id());
      restart(worker, worker.attempt);
      return;
    }
    if (stopping_ && job->status == RayStatus::kPending) {
      worker.state = WorkerState::kEnded;
      log_.info(worker.name + " has not started yet, and Ray stops it as soon as it does");
      return;
    }
    if (job->status == RayStatus::kPending && steady_seconds() >= worker.say_pending_s) {
      worker.say_pending_s = std::numeric_limits<double>::infinity();
      log_.info(worker.name + ": " + job->message);
    }
    if (job->ended() || steady_seconds() >= worker.next_log_s) show_log(worker, job->ended());
    if (job->ended()) end(worker, *job);
  }

  // What is new of whole lines; at the end all of it.
  void show_log(RayWorker& worker, bool ended) {
    const std::string text = client_.logs(worker.submission_id());
    worker.next_log_s = steady_seconds() + kLogSeconds;
    while (worker.log_bytes < text.size()) {
      const size_t line_end = text.find('\n', worker.log_bytes);
      if (line_end == std::string::npos && !ended) return;
      const size_t end = std::min(line_end, text.size());
      log_.info(worker.name + "  " +
                terminal_line(text.substr(worker.log_bytes, end - worker.log_bytes)));
      worker.log_bytes = end + 1;
    }
  }

  void end(RayWorker& worker, const RayJob& job) {
    worker.state = WorkerState::kEnded;
    if (job.status == RayStatus::kSucceeded) {
      log_.info(worker.name + " has ended well");
    } else if (job.status == RayStatus::kStopped) {
      worker.status = kInterruptedStatus;
      log_.info(worker.name + " was stopped");
    } else if (job.exit_code && has_meaning(*job.exit_code)) {
      worker.status = *job.exit_code;
      log_.warn(worker.name + " has ended with status " + std::to_string(*job.exit_code));
    } else {
      log_.warn(worker.name + " was lost" + (job.message.empty() ? "" : ": " + job.message));
      worker.status = kFailedStatus;
      restart(worker, worker.attempt + 1);
    }
  }

  void restart(RayWorker& worker, int attempt) {
    worker.state = WorkerState::kEnded;
    if (stopping_) return;
    worker.status = kFailedStatus;
    if (worker.restarts == kMostRestarts) {
      log_.warn(worker.name + " was lost " + counted(worker.restarts + 1, "time") +
                " and is given up");
      return;
    }
    ++worker.restarts;
    worker.attempt = attempt;
    worker.status = 0;
    worker.state = WorkerState::kToSubmit;
  }

  bool signal_waits() const {
    pollfd fd = {settings_.interrupt_fd, POLLIN, 0};
    return settings_.interrupt_fd >= 0 && ::poll(&fd, 1, 0) > 0;
  }

  void wait(double seconds) {
    pollfd fd = {settings_.interrupt_fd, POLLIN, 0};
    if (::poll(&fd, 1, static_cast<int>(std::lround(seconds * 1000))) > 0) interrupted();
  }

  void interrupted() {
    signalfd_siginfo signal;
    if (::read(settings_.interrupt_fd, &signal, sizeof signal) < 0) return;
    ++interrupted_;
    if (interrupted_ > 1) return;
    stopping_ = true;
    log_.info("interrupted: the jobs are asked to stop");
    try {
      for (const RayWorker& worker : workers_) {
        if (worker.state == WorkerState::kFollowed) client_.stop(worker.submission_id());
      }
    } catch (const RayAway& away) {
      log_.warn(std::string(away.what()) + "; jobs that run go on");
    }
  }

  RaySettings settings_;
  CampaignLog log_;
  bool stopping_ = false;
  int interrupted_ = 0;
  RayClient client_;
  CampaignPlan plan_;
  std::string package_;
  std::vector<RayWorker> workers_;
  std::optional<double> away_since_s_;
};

}  // namespace

std::unique_ptr<CampaignEngine> make_ray_engine(RaySettings settings, CampaignLog log) {
  return std::make_unique<RayEngine>(std::move(settings), std::move(log));
}

}  // namespace sftbench
