// A head of Ray for tests, which says what Ray 2.60 says; a test lays faults over it.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "huggingface/loopback_server.h"
#include "sftbench/base/json.h"

namespace sftbench {

class FakeRay {
 public:
  struct Job {
    std::vector<std::string> statuses;  // one for each look at it, the last one stays
    std::optional<int> exit_code;
    std::string logs;
    std::string message;
  };

  // The answer instead of Ray's; `nth` counts all requests from 1 on.
  std::function<std::optional<ServedReply>(const ServedRequest&, int nth)> fault =
      [](const ServedRequest&, int) { return std::nullopt; };
  // What becomes of a job; `nth` counts submissions from 1 on.
  std::function<Job(int nth)> fate = [](int) {
    return Job{{"PENDING", "RUNNING", "SUCCEEDED"}, 0, "", ""};
  };

  std::string url() const { return server_.url(); }
  int count(const std::string& ending) const { return server_.count(ending); }

  std::vector<Json> submitted() const {
    const std::lock_guard lock(mutex_);
    return submitted_;
  }
  std::string package() const {
    const std::lock_guard lock(mutex_);
    return package_;
  }
  void forget_all() {
    const std::lock_guard lock(mutex_);
    jobs_.clear();
  }
  void add(const std::string& id, Job job) {
    const std::lock_guard lock(mutex_);
    jobs_[id] = std::move(job);
  }

 private:
  ServedReply answer(const ServedRequest& request) {
    const std::lock_guard lock(mutex_);
    if (auto reply = fault(request, ++requests_)) return *reply;
    const std::string path = request.path();
    const std::string jobs = "/api/jobs/";
    if (path == "/api/version") return {200, {}, R"({"version":"4","ray_version":"2.60.0"})"};
    if (path.rfind("/api/packages/gcs/", 0) == 0) return package_answer(request);
    if (path == jobs) return submission(Json::parse(request.body));
    if (path.rfind(jobs, 0) != 0) return {404, {}, "404: Not Found"};
    const std::string id = path.substr(jobs.size(), path.find('/', jobs.size()) - jobs.size());
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return {404, {}, "Job " + id + " does not exist"};
    return job_answer(path.substr(jobs.size() + id.size()), found->second);
  }

  ServedReply package_answer(const ServedRequest& request) {
    if (request.body.empty()) return {package_.empty() ? 404 : 200, {}, ""};
    package_ = request.body;
    return {};
  }

  ServedReply submission(const Json& request) {
    const auto id = request.at("submission_id").get<std::string>();
    if (jobs_.count(id) != 0) {
      return {
          500, {}, "Job with submission_id " + id + " already exists. Please use a different one"};
    }
    submitted_.push_back(request);
    jobs_[id] = fate(static_cast<int>(submitted_.size()));
    return {200, {}, Json{{"submission_id", id}}.dump()};
  }

  static ServedReply job_answer(const std::string& what, Job& job) {
    if (what == "/logs") return {200, {}, Json{{"logs", job.logs}}.dump()};
    if (what == "/stop") {
      if (job.statuses != std::vector<std::string>{"PENDING"}) job.statuses = {"STOPPED"};
      return {200, {}, R"({"stopped": true})"};
    }
    Json json = {{"status", job.statuses.front()}, {"message", job.message}};
    if (job.statuses.size() > 1) job.statuses.erase(job.statuses.begin());
    if (job.exit_code && json["status"] != "RUNNING" && json["status"] != "PENDING")
      json["driver_exit_code"] = *job.exit_code;
    return {200, {}, json.dump()};
  }

  mutable std::mutex mutex_;
  int requests_ = 0;
  std::string package_;
  std::vector<Json> submitted_;
  std::map<std::string, Job> jobs_;
  // Last: its threads use what stands above.
  LoopbackServer server_{[this](const ServedRequest& request) { return answer(request); }};
};

}  // namespace sftbench
