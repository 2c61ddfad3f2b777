// An MLflow tracking server of a few lines: what tests need of its REST API, kept in memory. A test
// lays faults over it through `fault`. The real server is asked in tests/trackers/read_back.py.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "huggingface/loopback_server.h"
#include "sftbench/base/json.h"

namespace sftbench {

class FakeMlflow {
 public:
  // An answer in place of the server's own, for a path behind /api/2.0/mlflow/.
  std::function<std::optional<ServedReply>(const std::string& path)> fault =
      [](const std::string&) { return std::nullopt; };

  std::string url() const { return server_.url(); }
  int count(const std::string& path) const { return server_.count(path); }
  std::vector<ServedRequest> requests() const { return server_.requests(); }

  struct Run {
    std::map<std::string, std::string> tags, params;
    std::vector<Json> metrics;  // each once
    std::vector<std::string> statuses;
  };
  std::map<std::string, Run> runs() const {
    const std::lock_guard lock(mutex_);
    return runs_;
  }

 private:
  ServedReply serve(const ServedRequest& request) {
    const std::string path = request.path().substr(std::string("/api/2.0/mlflow/").size());
    if (auto reply = fault(path)) return *reply;
    const Json body = request.body.empty() ? Json::object() : Json::parse(request.body);
    const std::lock_guard lock(mutex_);
    ServedReply reply;
    if (path == "experiments/get-by-name" && !experiment_made_) {
      reply.status = 404;
      reply.body = R"({"error_code":"RESOURCE_DOES_NOT_EXIST","message":"no such experiment"})";
    } else {
      reply.body = answer(path, body).dump();
    }
    return reply;
  }

  Json answer(const std::string& path, const Json& body) {
    if (path == "experiments/get-by-name") return {{"experiment", {{"experiment_id", "7"}}}};
    if (path == "experiments/create") {
      experiment_made_ = true;
      return {{"experiment_id", "7"}};
    }
    if (path == "runs/search") return search(body.at("filter").get<std::string>());
    if (path == "runs/create") {
      const std::string id = "run" + std::to_string(runs_.size());
      for (const Json& tag : body.at("tags")) put(runs_[id].tags, tag);
      runs_[id].statuses.emplace_back("RUNNING");
      return {{"run", {{"info", {{"run_id", id}}}}}};
    }
    Run& run = runs_.at(body.at("run_id").get<std::string>());
    if (path == "runs/update") run.statuses.push_back(body.at("status").get<std::string>());
    for (const Json& tag : body.value("tags", Json::array())) put(run.tags, tag);
    for (const Json& param : body.value("params", Json::array())) put(run.params, param);
    for (const Json& metric : body.value("metrics", Json::array())) {
      if (std::find(run.metrics.begin(), run.metrics.end(), metric) == run.metrics.end())
        run.metrics.push_back(metric);
    }
    return Json::object();
  }

  static void put(std::map<std::string, std::string>& texts, const Json& pair) {
    texts[pair.at("key").get<std::string>()] = pair.at("value").get<std::string>();
  }

  // tags.`sftbench.run` = 'NAME'
  Json search(const std::string& filter) const {
    const size_t begin = filter.find('\'') + 1;
    const std::string name = filter.substr(begin, filter.rfind('\'') - begin);
    Json found = Json::array();
    for (const auto& [id, run] : runs_) {
      if (run.tags.at("sftbench.run") == name) found.push_back({{"info", {{"run_id", id}}}});
    }
    return found.empty() ? Json::object() : Json{{"runs", found}};
  }

  mutable std::mutex mutex_;
  bool experiment_made_ = false;
  std::map<std::string, Run> runs_;
  LoopbackServer server_{[this](const ServedRequest& request) { return serve(request); }};
};

}  // namespace sftbench
