#include "sftbench/launch/child_reply.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/measure/proc.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {
namespace {

constexpr double kResidentPeriodSeconds = 0.2;  // reading it costs as much as a short step
constexpr size_t kMostWhereaboutsBytes = 1024;
constexpr const char* kResultOrigin = "a child's reply";

void write_line(int fd, const char* kind, const Measurement& measurement) {
  const std::string line = json_text(Json{{kind, to_json(measurement)}}) + "\n";
  for (size_t done = 0; done < line.size();) {
    const ssize_t written = ::write(fd, line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      throw InputError(std::string("the result cannot be handed over: ") + std::strerror(errno));
    done += static_cast<size_t>(written);
  }
}

template <typename Number>
void take(const Json& line, const char* key, Number& number) {
  if (const auto found = line.find(key); found != line.end() && found->is_number())
    found->get_to(number);
}

void take_line(const Json& line, Heartbeat& heartbeat) {
  if (const auto phase = line.find("phase"); phase != line.end() && phase->is_string()) {
    phase->get_to(heartbeat.phase);
  }
  int rank = 0;
  take(line, "rank", rank);
  take(line, "total_steps", heartbeat.total_steps);
  take(line, "loss", heartbeat.loss);
  take(line, "tokens_per_s", heartbeat.tokens_per_s);
  take(line, "memory_bytes", heartbeat.memory_bytes);
  if (line.contains("step")) take(line, "step", heartbeat.steps_by_rank[rank]);
}

}  // namespace

HeartbeatSender::HeartbeatSender(int fd, int rank) : fd_(fd), rank_(rank) {
  if (fd_ >= 0) ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
}

void HeartbeatSender::send(const Json& line) const {
  if (fd_ < 0) return;
  const std::string text = json_text(line) + "\n";
  // Lines are shorter than PIPE_BUF: each arrives whole or not at all.
  [[maybe_unused]] const ssize_t dropped_when_full = ::write(fd_, text.data(), text.size());
}

void HeartbeatSender::phase(const std::string& name) {
  send({{"phase", name}});
}

void HeartbeatSender::rank_step(int rank, int64_t step) const {
  send({{"rank", rank}, {"step", step}});
}

void HeartbeatSender::whereabouts(const std::vector<std::string>& whereabouts) const {
  send({{"whereabouts", whereabouts_text(whereabouts).substr(0, kMostWhereaboutsBytes)}});
}

void HeartbeatSender::on_load(const LoadEvent& load) {
  phase(load_text(load));
}

void HeartbeatSender::on_train_begin(const TrainBegin& begin) {
  send({{"phase", "training"}, {"rank", rank_}, {"step", 0}, {"total_steps", begin.total_steps}});
}

void HeartbeatSender::on_step_end(const StepEvent& event, TrainControl&) {
  if (padded_tokens_ == 0) begin_s_ = event.begin_s;
  padded_tokens_ += event.tokens.padded;
  const double seconds = event.end_s - begin_s_;
  if (const double now_s = steady_seconds(); now_s - memory_read_s_ > kResidentPeriodSeconds) {
    memory_read_s_ = now_s;
    resident_bytes_ = resident_bytes();
  }
  send({{"rank", rank_},
        {"step", event.step},
        {"loss", event.loss},
        {"tokens_per_s", seconds > 0 ? static_cast<double>(padded_tokens_) / seconds : 0.0},
        {"memory_bytes",
         event.device_allocated_bytes > 0 ? event.device_allocated_bytes : resident_bytes_}});
}

void HeartbeatSender::on_evaluation(const EvaluationEvent&) {
  phase("training");
}

void send_begun(int result_fd, const Measurement& measurement) {
  write_line(result_fd, "begun", measurement);
}

void send_result(int result_fd, const Measurement& measurement) {
  write_line(result_fd, "result", measurement);
}

void take_heartbeats(std::string& text, Heartbeat& heartbeat) {
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const Json line = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                  text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (!line.is_object()) continue;
    if (const auto places = line.find("whereabouts"); places != line.end()) {
      if (places->is_string()) places->get_to(heartbeat.whereabouts);
      continue;
    }
    take_line(line, heartbeat);
    heartbeat.received_s = steady_seconds();
  }
  text.erase(0, begin);
  if (heartbeat.steps_by_rank.empty()) return;
  heartbeat.step =
      std::min_element(heartbeat.steps_by_rank.begin(), heartbeat.steps_by_rank.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; })
          ->second;
}

ChildReply parse_reply(std::string_view text) {
  ChildReply reply;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    try {
      const Json line = parse_json(text.substr(begin, end - begin), kResultOrigin);
      for (const auto& [kind, measurement] : line.items()) {
        auto& place = kind == "result" ? reply.result : reply.begun;
        place = measurement_from_json(measurement, kResultOrigin);
      }
    } catch (const InputError&) {
      continue;  // only a child that overwrites its own memory gets here; its end says more
    }
  }
  return reply;
}

}  // namespace sftbench
