#include "trackers/mlflow.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "sftbench/base/build_info.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/environment.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

// Limits of the API for one request, and of the values of old servers.
constexpr size_t kMostMetrics = 1000;
constexpr size_t kMostParams = 100;
constexpr size_t kLongestParam = 500;
constexpr size_t kLongestTag = 5000;
constexpr size_t kMostWaiting = 50000;  // metrics, half a kilobyte each
constexpr double kLongestWaitSeconds = 60;
constexpr int kFailuresToReport = 3;
constexpr const char* kRunTag = "sftbench.run";

// The server cannot be reached, or not now.
class NotNow : public std::runtime_error {
 public:
  NotNow(const std::string& message, double wait_s)
      : std::runtime_error(message), retry_after_s(wait_s) {}
  double retry_after_s;  // 0: the server did not say
};

int64_t milliseconds(double seconds) {
  return std::llround(seconds * 1e3);
}

// Protocol buffers' JSON has names for what JSON has no number for.
Json number_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::string cut(std::string text, size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  size_t end = most_bytes - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

Json pair_json(const std::string& key, const std::string& value) {
  return {{"key", key}, {"value", value}};
}

std::string param_text(const Json& value) {
  return cut(value.is_string() ? value.get<std::string>()
             : value.is_null() ? std::string("None")
                               : json_text(value),
             kLongestParam);
}

std::string metric_name(const Point& point) {
  if (point.group == PointGroup::kEvaluation) return "eval_" + point.name;
  if (point.group == PointGroup::kSystem) return "system/" + point.name;
  return point.name;
}

// One line of what the server said.
std::string said(const std::string& body) {
  std::string text = body;
  const Json json = Json::parse(body, nullptr, false);
  if (json.is_object() && json.contains("message") && json.at("message").is_string()) {
    text = json.at("message").get<std::string>();
  }
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return cut(text, 300);
}

HttpClientSettings client_settings(const TrackerLimits& limits,
                                   const std::atomic<bool>& cancelled) {
  HttpClientSettings settings;
  settings.timeout_s = limits.request_s;
  settings.connect_timeout_s = limits.request_s / 2;
  settings.token = environment("MLFLOW_TRACKING_TOKEN");
  settings.user = environment("MLFLOW_TRACKING_USERNAME");
  settings.password = environment("MLFLOW_TRACKING_PASSWORD");
  settings.ca_bundle = ca_bundle_of_environment();
  settings.cancelled = [&cancelled] { return cancelled.load(); };
  return settings;
}

}  // namespace

MlflowTracker::MlflowTracker(const std::string& address, const TrackedRun& run,
                             const TrackerLimits& limits, const std::atomic<bool>& cancelled)
    : run_(run),
      limits_(limits),
      cancelled_(cancelled),
      experiment_(environment("MLFLOW_EXPERIMENT_NAME")) {
  if (experiment_.empty()) experiment_ = run.experiment;
  const size_t query = std::min(address.find('?'), address.size());
  query_ = address.substr(query);
  const std::string place = address.substr(0, query);
  api_ = place.substr(0, place.find_last_not_of('/') + 1) + "/api/2.0/mlflow/";
}

void MlflowTracker::begin(const TrainBegin& begin, double wall_s) {
  begin_wall_s_ = wall_s;
  step_ = begin.resumed_step;
  client_ = std::make_unique<HttpClient>(client_settings(limits_, cancelled_));
}

void MlflowTracker::push(const Point& point, bool given) {
  if (metrics_.size() >= kMostWaiting) return;
  metrics_.push_back({{{"key", metric_name(point)},
                       {"value", number_json(point.value)},
                       {"timestamp", milliseconds(point.wall_s)},
                       {"step", point.step}},
                      given});
}

void MlflowTracker::add(const std::vector<Point>& points) {
  for (const Point& point : points) {
    if (point.group == PointGroup::kTraining) step_ = point.step;
    push(point, true);
  }
}

template <typename Action>
bool MlflowTracker::attempt(Action action) {
  try {
    action();
    failures_ = 0;
    last_error_.clear();
    return true;
  } catch (const NotNow& error) {
    last_error_ = error.what();
    const double wait_s = error.retry_after_s > 0
                              ? error.retry_after_s
                              : limits_.first_wait_s * std::ldexp(1.0, std::min(failures_, 16));
    next_try_s_ = steady_seconds() + std::min(kLongestWaitSeconds, wait_s);
    ++failures_;
    return false;
  }
}

void MlflowTracker::flush() {
  if (!client_ || steady_seconds() < next_try_s_) return;
  attempt([this] {
    open();
    send_metrics();
  });
}

std::string MlflowTracker::trouble() const {
  return failures_ >= kFailuresToReport ? last_error_ : std::string();
}

Json MlflowTracker::answer_of(const HttpAnswer& answer, const std::string& path) {
  if (answer.status >= 200 && answer.status < 300) {
    Json json = Json::parse(answer.body, nullptr, false);
    if (json.is_object()) return json;
    throw TrackerFailure("what answers is no MLflow server: " + path + " gave no JSON");
  }
  const std::string status = "status " + std::to_string(answer.status);
  const bool passes = answer.status == 408 || answer.status == 429 || answer.status >= 500;
  if (passes)
    throw NotNow(path + ": " + status + " (" + said(answer.body) + ")", answer.retry_after_s);
  throw TrackerFailure("the server refuses " + path + " with " + status + ": " + said(answer.body));
}

Json MlflowTracker::call(const std::string& path, const Json& body) {
  try {
    return answer_of(client_->post_json(api_ + path + query_, json_text(body)), path);
  } catch (const NoAnswer& error) {
    throw NotNow(error.what(), 0);
  }
}

// Empty when there is none.
std::string MlflowTracker::find_experiment() {
  const std::string path = "experiments/get-by-name";
  try {
    const HttpAnswer answer = client_->get(api_ + path + (query_.empty() ? "?" : query_ + "&") +
                                           "experiment_name=" + client_->escaped(experiment_));
    if (answer.status == 404 && answer.body.find("RESOURCE_DOES_NOT_EXIST") != std::string::npos)
      return {};
    const Json experiment = answer_of(answer, path).value("experiment", Json::object());
    if (experiment.value("lifecycle_stage", "active") != "active") {
      throw TrackerFailure("the experiment '" + experiment_ +
                           "' is deleted there; restore it, or set MLFLOW_EXPERIMENT_NAME");
    }
    return experiment.value("experiment_id", "");
  } catch (const NoAnswer& error) {
    throw NotNow(error.what(), 0);
  }
}

Json MlflowTracker::find_run() {
  const Json found =
      call("runs/search", {{"experiment_ids", Json::array({experiment_id_})},
                           {"filter", "tags.`" + std::string(kRunTag) + "` = '" + run_.name + "'"},
                           {"max_results", 1}});
  const Json runs = found.value("runs", Json::array());
  return runs.empty() ? Json() : runs.front();
}

void MlflowTracker::make_run() {
  Json tags = Json::array();
  const auto tag = [&tags](const std::string& key, const std::string& value) {
    tags.push_back(pair_json(key, cut(value, kLongestTag)));
  };
  tag(kRunTag, run_.name);
  tag("sftbench.key", run_.key);
  tag("sftbench.experiment", run_.experiment_id);
  tag("sftbench.entity", run_.entity_id);
  tag("sftbench.command", run_.command);
  tag("sftbench.version", build_info().version);
  tag("sftbench.commit", build_info().commit);
  tag("mlflow.source.name", "sftbench");
  tag("mlflow.source.type", "LOCAL");
  const std::string name = cut(run_.name + "-" + run_.entity_id, 250);
  tag("mlflow.runName", name);
  const Json made = call("runs/create", {{"experiment_id", experiment_id_},
                                         {"run_name", name},
                                         {"start_time", milliseconds(begin_wall_s_)},
                                         {"tags", std::move(tags)}});
  run_id_ = made.at("run").at("info").at("run_id").get<std::string>();
}

void MlflowTracker::open() {
  if (experiment_id_.empty()) experiment_id_ = find_experiment();
  if (experiment_id_.empty()) {
    try {
      experiment_id_ =
          call("experiments/create", {{"name", experiment_}}).value("experiment_id", "");
    } catch (const TrackerFailure&) {  // another measurement was faster
      experiment_id_ = find_experiment();
      if (experiment_id_.empty()) throw;
    }
  }
  if (run_id_.empty()) {
    if (const Json run = find_run(); !run.is_null()) {
      run_id_ = run.at("info").at("run_id").get<std::string>();
      call("runs/update", {{"run_id", run_id_}, {"status", "RUNNING"}});
    } else {
      make_run();
    }
  }
  if (!inputs_sent_) send_inputs();
}

void MlflowTracker::send_inputs() {
  Json params = Json::array();
  const auto send = [&] {
    if (!params.empty()) call("runs/log-batch", {{"run_id", run_id_}, {"params", params}});
    params = Json::array();
  };
  for (const auto& [name, value] : run_.inputs.items()) {
    params.push_back(pair_json(name, param_text(value)));
    if (params.size() == kMostParams) send();
  }
  send();
  inputs_sent_ = true;
}

void MlflowTracker::send_metrics() {
  while (!metrics_.empty()) {
    const size_t count = std::min(kMostMetrics, metrics_.size());
    Json batch = Json::array();
    for (size_t i = 0; i < count; ++i) batch.push_back(metrics_[i].json);
    call("runs/log-batch", {{"run_id", run_id_}, {"metrics", std::move(batch)}});
    for (size_t i = 0; i < count; ++i) {
      written_ += metrics_.front().given ? 1 : 0;
      metrics_.pop_front();
    }
  }
}

void MlflowTracker::close(const TrackerEnding& ending) {
  const Measurement* measurement = ending.measurement.get();
  Json tags = Json::array();
  if (measurement != nullptr) {
    tags.push_back(pair_json("sftbench.status", std::string(to_string(measurement->status))));
    if (const auto& reason = measurement->reason) {
      tags.push_back(pair_json("sftbench.reason", std::string(to_string(reason->code))));
      tags.push_back(pair_json("sftbench.message", cut(reason->message, kLongestTag)));
    }
  }
  if (!tags.empty()) call("runs/log-batch", {{"run_id", run_id_}, {"tags", std::move(tags)}});
  const char* status = measurement == nullptr                  ? "KILLED"
                       : measurement->status == Status::kValid ? "FINISHED"
                                                               : "FAILED";
  call("runs/update",
       {{"run_id", run_id_}, {"status", status}, {"end_time", milliseconds(ending.wall_s)}});
}

// A server that was down before gets one more try, one that never answered in this run three: cells
// of a sweep that take a second each must not wait ten for it. Any other has until the time is
// over.
void MlflowTracker::end(const TrackerEnding& ending) {
  if (ending.measurement) {
    for (const Point& point : points_of_measurement(*ending.measurement, step_, ending.wall_s)) {
      push(point, false);
    }
  }
  const bool was_down = failures_ >= kFailuresToReport;
  while (!attempt([&] {
    open();
    send_metrics();
    close(ending);
  })) {
    const double now_s = steady_seconds();
    const bool never_answered = run_id_.empty() && failures_ >= kFailuresToReport;
    if (was_down || never_answered || cancelled_ || next_try_s_ >= ending.deadline_s) {
      throw TrackerFailure(last_error_);
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(std::max(0.0, next_try_s_ - now_s)));
  }
}

}  // namespace sftbench
