#include "trackers/worker.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"

namespace sftbench {
namespace {

// Beyond a deadline: what a cancelled request needs to come back.
constexpr double kGraceSeconds = 2;

std::chrono::duration<double> duration_of(double count) {
  return std::chrono::duration<double>(count);
}

}  // namespace

// The thread owns it, too: one that hangs in a write to a dead file system outlives its worker.
struct Trackers::Worker::State {
  State(const TrackerSpec& spec, const TrackedRun& tracked, const TrackerLimits& all,
        std::function<void(const std::string&)> teller)
      : name(spec.shown()),
        limits(all),
        report(std::move(teller)),
        run(tracked),
        tracker(make_tracker(spec, run, limits, cancelled)) {}

  // --- the tracker's thread ---

  void process(std::vector<TrackedEvent> events) {
    for (TrackedEvent& event : events) {
      std::vector<Point> points;
      if (const auto* begin = std::get_if<TrainBegin>(&event.what)) {
        begin_with(*begin, event.wall_s);
      } else if (const auto* step = std::get_if<StepEvent>(&event.what)) {
        points = PointMaker::of_step(*step, event.wall_s);
      } else if (const auto* evaluation = std::get_if<EvaluationEvent>(&event.what)) {
        points = PointMaker::of_evaluation(*evaluation, event.wall_s);
      } else {
        points = maker.of_reading(std::get<SystemReading>(event.what), event.wall_s);
      }
      given += static_cast<int64_t>(points.size());
      if (points.empty()) continue;
      if (!begun) begin_with({}, event.wall_s);
      guarded([&] { tracker->add(points); });
    }
    guarded([&] { tracker->flush(); });
    if (const std::string trouble = tracker->trouble(); !trouble.empty()) tell(trouble);
  }

  void begin_with(const TrainBegin& begin, double wall_s) {
    if (std::exchange(begun, true)) return;
    guarded([&] { tracker->begin(begin, wall_s); });
  }

  void end(const TrackerEnding& how) {
    begin_with({}, how.wall_s);
    guarded([&] { tracker->end(how); });
    if (const std::string trouble = tracker->trouble(); !trouble.empty()) tell(trouble);
    const std::lock_guard lock(mutex);
    lost = given - tracker->written();
  }

  // A tracker that failed is asked for nothing more.
  template <typename Action>
  void guarded(Action action) {
    if (failed) return;
    try {
      action();
    } catch (const std::exception& error) {
      failed = true;
      tell(error.what());
    }
  }

  void tell(const std::string& what) {
    {
      const std::lock_guard lock(mutex);
      if (!problem.empty()) return;
      problem = "tracker " + name + ": " + what;
    }
    report(problem + "; the run goes on without it");
  }

  const std::string name;
  const TrackerLimits limits;
  const std::function<void(const std::string&)> report;
  const TrackedRun run;
  std::atomic<bool> cancelled = false;
  const std::unique_ptr<Tracker> tracker;
  PointMaker maker;
  bool begun = false;
  bool failed = false;
  int64_t given = 0;  // points

  // --- shared ---

  std::mutex mutex;
  std::condition_variable wake, ended;
  std::vector<TrackedEvent> queue;
  size_t overflow = 0;  // events that found the queue full
  std::optional<TrackerEnding> ending;
  bool done = false;
  int64_t lost = 0;     // points
  std::string problem;  // the first one
};

Trackers::Worker::Worker(const TrackerSpec& spec, const TrackedRun& run,
                         const TrackerLimits& limits,
                         std::function<void(const std::string&)> report)
    : state_(std::make_shared<State>(spec, run, limits, std::move(report))),
      thread_([state = state_] { Worker::run(state); }) {}

Trackers::Worker::~Worker() {
  bool done = false;
  {
    const std::lock_guard lock(state_->mutex);
    done = state_->done;
  }
  state_->cancelled = true;
  if (done) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Trackers::Worker::push(TrackedEvent event) {
  const std::lock_guard lock(state_->mutex);
  if (state_->queue.size() >= state_->limits.queue_events) {
    ++state_->overflow;
    return;
  }
  state_->queue.push_back(std::move(event));
  // Else the thread comes by itself: waking it for each step would cost the step more than the
  // event.
  if (state_->queue.size() == state_->limits.queue_events / 2) state_->wake.notify_one();
}

void Trackers::Worker::run(const std::shared_ptr<State>& state) {
  for (;;) {
    std::vector<TrackedEvent> events;
    std::optional<TrackerEnding> ending;
    {
      std::unique_lock lock(state->mutex);
      state->wake.wait_for(lock, duration_of(state->limits.period_s), [&] {
        return state->ending || state->queue.size() >= state->limits.queue_events / 2;
      });
      events.swap(state->queue);
      ending = state->ending;
    }
    state->process(std::move(events));
    if (!ending) continue;
    state->end(*ending);
    const std::lock_guard lock(state->mutex);
    state->done = true;
    state->ended.notify_all();
    return;
  }
}

void Trackers::Worker::ask_to_end(const TrackerEnding& ending) {
  const std::lock_guard lock(state_->mutex);
  state_->ending = ending;
  state_->wake.notify_one();
}

std::string Trackers::Worker::wait_for_end() {
  std::unique_lock lock(state_->mutex);
  const auto is_done = [this] { return state_->done; };
  const double left_s = std::max(0.0, state_->ending->deadline_s - steady_seconds());
  if (!state_->ended.wait_for(lock, duration_of(left_s), is_done)) {
    state_->cancelled = true;
    state_->ended.wait_for(lock, duration_of(kGraceSeconds), is_done);
  }
  std::string text = state_->problem;
  if (!state_->done) {
    text += (text.empty() ? "tracker " + state_->name + ": " : "; ") +
            std::string("it did not end in time, and what it lacks is not known");
  } else if (state_->lost > 0) {
    text += (text.empty() ? "tracker " + state_->name + ": " : "; ") +
            std::to_string(state_->lost) + " of " +
            counted(state_->given, "value was", "values were") + " not written";
  } else if (!state_->failed) {
    text.clear();  // it passed, and all is there
  }
  if (state_->overflow > 0) {
    text += (text.empty() ? "tracker " + state_->name + ": " : "; ") +
            counted(state_->overflow, "event was", "events were") + " dropped, as it was too slow";
  }
  const bool told = !state_->problem.empty();
  lock.unlock();
  if (!told && !text.empty()) state_->report(text);
  return text;
}

}  // namespace sftbench
