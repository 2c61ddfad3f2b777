// --track mlflow=URI: a run on an MLflow tracking server, through its REST API 2.0.
//
// Nothing here waits between two attempts: what could not be sent stays in a bounded list, and a
// later flush() tries again. Everything may be sent twice: the run is found by a tag, a parameter
// may be set again to what it is, and of equal metrics the server keeps one.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "sftbench/base/json.h"
#include "sftbench/http/http_client.h"
#include "trackers/tracker.h"

namespace sftbench {

class MlflowTracker : public Tracker {
 public:
  MlflowTracker(const std::string& address, const TrackedRun& run, const TrackerLimits& limits,
                const std::atomic<bool>& cancelled);

  void begin(const TrainBegin& begin, double wall_s) override;
  void add(const std::vector<Point>& points) override;
  void flush() override;
  void end(const TrackerEnding& ending) override;
  int64_t written() const override { return written_; }
  std::string trouble() const override;

 private:
  struct Metric {
    Json json;
    bool given;  // with add(), so that it counts as written
  };

  // The answer's JSON. TrackerFailure when the server refuses.
  Json call(const std::string& path, const Json& body);
  Json answer_of(const HttpAnswer& answer, const std::string& path);
  void open();  // finds or makes the experiment and the run
  std::string find_experiment();
  Json find_run();
  void make_run();
  void send_inputs();
  void send_metrics();
  void close(const TrackerEnding& ending);
  // False when the server could not be reached, or not now: it may be later.
  template <typename Action>
  bool attempt(Action action);
  void push(const Point& point, bool given);

  std::string api_;    // up to the name of a call
  std::string query_;  // of the address, with its "?"; every call has it
  const TrackedRun& run_;
  const TrackerLimits& limits_;
  const std::atomic<bool>& cancelled_;
  std::unique_ptr<HttpClient> client_;
  std::string experiment_;  // its name
  std::string experiment_id_, run_id_;
  bool inputs_sent_ = false;
  double begin_wall_s_ = 0;
  std::deque<Metric> metrics_;  // that wait to be sent
  int64_t written_ = 0;
  int64_t step_ = 0;
  int failures_ = 0;        // in a row
  double next_try_s_ = 0;   // steady_seconds()
  std::string last_error_;  // of these
};

}  // namespace sftbench
