#include "trackers/aim_info.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "sftbench/base/environment.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

// As the wrapper formats them.
std::string wrapper_time(double wall_s) {
  const auto seconds = static_cast<std::time_t>(wall_s);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%d%m%y-%H%M%S", &parts);
  return text.data();
}

// Indices of CUDA_VISIBLE_DEVICES; what is no number stays a text.
Json visible_device_list() {
  Json devices = Json::array();
  const std::string text = environment("CUDA_VISIBLE_DEVICES");
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    int index = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), index);
    if (!word.empty()) {
      const bool number = error == std::errc() && rest == word.data() + word.size();
      devices.push_back(number ? Json(index) : Json(word));
    }
    begin = end + 1;
  }
  return devices;
}

// Of Aim's name for a reading, and of the device that it is of.
struct AimName {
  std::string name;
  Json context = Json::object();
};

std::optional<AimName> aim_system_name(const std::string& name) {
  static const std::map<std::string_view, const char*> kHost = {
      {"cpu_percent", "__system__cpu"},
      {"memory_percent", "__system__p_memory_percent"},
      {"host_memory_percent", "__system__memory_percent"}};
  static const std::map<std::string_view, const char*> kGpu = {
      {"utilization_percent", "__system__gpu"},
      {"memory_percent", "__system__gpu_memory_percent"},
      {"power_watts", "__system__gpu_power_watts"},
      {"power_percent", "__system__gpu_power_percent"},
      {"temperature_celsius", "__system__gpu_temp"}};
  if (const auto host = kHost.find(name); host != kHost.end())
    return AimName{host->second, Json::object()};
  const size_t split = name.find('_');
  if (name.rfind("gpu", 0) != 0 || split == std::string::npos) return std::nullopt;
  const auto gpu = kGpu.find(std::string_view(name).substr(split + 1));
  if (gpu == kGpu.end()) return std::nullopt;
  return AimName{gpu->second, {{"gpu", std::stoi(name.substr(3, split - 3))}}};
}

std::string wrapper_error(ReasonCode code) {
  if (code == ReasonCode::kOomGpu) return "OutOfGPUMemoryError";
  if (code == ReasonCode::kNccl) return "NCCLError";
  return "Unhandled(" + std::string(to_string(code)) + ")";
}

}  // namespace

class AimInfoTracker::MetricList {
 public:
  void add(const std::string& name, const Json& context, const Aggregate& values) {
    Json aggregated = {{"avg", nullptr}, {"max", nullptr}, {"min", nullptr}};
    if (values.count > 0) {
      aggregated = {{"avg", values.sum / static_cast<double>(values.count)},
                    {"max", values.most},
                    {"min", values.least}};
    }
    list_.push_back({{"name", name}, {"values", std::move(aggregated)}, {"context", context}});
  }
  // A figure of the measurement, where it has it.
  void add(const std::string& name, const Json& context, const Json& figure) {
    if (!figure.is_number()) return;
    Aggregate one;
    one.add(figure.get<double>());
    add(name, context, one);
  }
  Json take() { return std::move(list_); }

 private:
  Json list_ = Json::array();
};

void AimInfoTracker::Aggregate::add(double value) {
  if (!std::isfinite(value)) return;
  least = count == 0 ? value : std::min(least, value);
  most = count == 0 ? value : std::max(most, value);
  sum += value;
  ++count;
}

void AimInfoTracker::begin(const TrainBegin&, double wall_s) {
  begin_wall_s_ = wall_s;
}

void AimInfoTracker::add(const std::vector<Point>& points) {
  for (const Point& point : points) {
    if (point.group == PointGroup::kTraining) training_[point.name].add(point.value);
    if (point.group == PointGroup::kTraining && point.name == "step_seconds")
      steps_.push_back({point.wall_s, point.value});
    if (point.group == PointGroup::kSystem)
      system_[point.name].push_back({point.wall_s, point.value});
  }
  given_ += static_cast<int64_t>(points.size());
}

void AimInfoTracker::put_system(MetricList& list, double from_wall_s) const {
  for (const auto& [name, values] : system_) {
    const std::optional<AimName> aim = aim_system_name(name);
    if (!aim) continue;
    Aggregate measured;
    for (const Timed& value : values) {
      if (value.wall_s >= from_wall_s) measured.add(value.value);
    }
    list.add(aim->name, aim->context, measured);
  }
}

Json AimInfoTracker::metrics(const Measurement& measurement, double from_wall_s) const {
  MetricList list;
  const Json nothing = Json::object();
  for (const auto& [name, aim_name] :
       {std::pair{"loss", "loss"}, std::pair{"grad_norm", "grad_norm"},
        std::pair{"learning_rate", "learning_rate"}, std::pair{"epoch", "epoch"},
        std::pair{"step_seconds", "optimization_step_duration"}}) {
    if (const auto found = training_.find(name); found != training_.end())
      list.add(aim_name, nothing, found->second);
  }
  put_system(list, from_wall_s);

  const Json of_training = {{"subset", "train"}};
  const auto figure = [&measurement](const char* name) {
    return measurement.measured.value(name, Json());
  };
  list.add("runtime", of_training, figure("train_runtime"));
  list.add("samples_per_second", of_training, figure("train_samples_per_second"));
  list.add("steps_per_second", of_training, figure("train_steps_per_second"));
  // Trainer counts the tokens of a device, and ado multiplies them by the devices.
  list.add("tokens_per_second", of_training, figure("train_tokens_per_gpu_per_second"));
  const Json additional = {{"scope", "additional_metrics"}};
  const auto extra = [&measurement](const char* pointer) {
    const Json::json_pointer place(pointer);
    return measurement.extra.contains(place) ? measurement.extra.at(place) : Json();
  };
  list.add("dataset_tokens", additional, extra("/tokens/dataset"));
  list.add("model_load_time", additional, extra("/startup_seconds/weights"));
  return list.take();
}

// Readings of the warm-up are left out, as the wrapper does.
Json AimInfoTracker::report(const Measurement& measurement, double end_wall_s) const {
  if (measurement.status != Status::kValid) {
    return {{"error", wrapper_error(measurement.reason->code)},
            {"exception", measurement.reason->message},
            {"run_hash", run_.name},
            {"training_steps", steps_.size()}};
  }
  const auto warmup_steps = std::min(
      static_cast<size_t>(measurement.extra.value("warmup_steps", int64_t{0})), steps_.size());
  const bool warms_up = warmup_steps > 0;
  double warmup_seconds = 0;
  for (size_t i = 0; i < warmup_steps; ++i) warmup_seconds += steps_[i].value;
  const double from_wall_s = warms_up ? steps_[warmup_steps - 1].wall_s : 0;
  return {{"run_hash", run_.name},
          {"metrics", metrics(measurement, from_wall_s)},
          {"hostname", host_name()},
          {"train_time_start", wrapper_time(begin_wall_s_)},
          {"train_time_stop", wrapper_time(end_wall_s)},
          {"cuda_visible_devices", visible_device_list()},
          {"world_rank", "0"},
          {"world_size", std::to_string(run_.ranks)},
          {"training_steps", steps_.size()},
          {"post_warmup_index_for_stable_properties", warms_up ? Json(warmup_steps) : Json()},
          {"warmup_seconds", warms_up ? Json(warmup_seconds) : Json()}};
}

// Of a run that was interrupted the wrapper leaves nothing either.
void AimInfoTracker::end(const TrackerEnding& ending) {
  written_ = given_;
  if (!ending.measurement) return;
  try {
    write_file_atomic(path_, json_text(report(*ending.measurement, ending.wall_s)) + "\n");
  } catch (const InputError& error) {
    written_ = 0;
    throw TrackerFailure(error.what());
  }
}

}  // namespace sftbench
