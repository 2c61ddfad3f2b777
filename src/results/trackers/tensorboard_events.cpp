#include "trackers/tensorboard_events.h"

#include "sftbench/base/json_text.h"
#include "trackers/record.h"

namespace sftbench {
namespace {

constexpr int kTypeString = 1, kTypeBool = 2, kTypeFloat64 = 3;  // of hparams' DataType
constexpr int kFloatTensor = 1;                                  // DT_FLOAT

// 0 stands for itself: as in Python's writers, it is left out.
Protobuf event_at(double wall_s, int64_t step) {
  Protobuf event;
  event.add_double(1, wall_s);
  if (step != 0) event.add_int(2, step);
  return event;
}

std::string summary_event(double wall_s, int64_t step, const Protobuf& value) {
  Protobuf event = event_at(wall_s, step);
  event.add(5, Protobuf().add(1, value));
  return tf_record(event.bytes());
}

// A summary without a value, for what stands in its metadata.
std::string hparams_event(double wall_s, const char* tag, int field, const Protobuf& content) {
  const Protobuf data = Protobuf().add(field, content);
  const Protobuf plugin = Protobuf().add_bytes(1, "hparams").add_bytes(2, data.bytes());
  const Protobuf empty_shape = Protobuf().add(2, Protobuf());  // one dimension without entries
  const Protobuf tensor = Protobuf().add_int(1, kFloatTensor).add(2, empty_shape);
  const Protobuf value =
      Protobuf().add_bytes(1, tag).add(8, tensor).add(9, Protobuf().add(1, plugin));
  return summary_event(wall_s, 0, value);
}

int type_of(const Json& value) {
  if (value.is_boolean()) return kTypeBool;
  return value.is_number() ? kTypeFloat64 : kTypeString;
}

// google.protobuf.Value.
Protobuf value_of(const Json& value) {
  if (value.is_boolean()) return Protobuf().add_int(4, value.get<bool>() ? 1 : 0);
  if (value.is_number()) return Protobuf().add_double(2, value.get<double>());
  if (value.is_string()) return Protobuf().add_bytes(3, value.get<std::string>());
  return Protobuf().add_bytes(3, value.is_null() ? "None" : json_text(value));
}

}  // namespace

std::string version_event(double wall_s) {
  const Protobuf source = Protobuf().add_bytes(1, "sftbench");
  return tf_record(
      Protobuf().add_double(1, wall_s).add_bytes(3, "brain.Event:2").add(10, source).bytes());
}

std::string session_start_event(double wall_s, int64_t step) {
  constexpr int kStart = 1;
  return tf_record(event_at(wall_s, step).add(7, Protobuf().add_int(1, kStart)).bytes());
}

std::string scalar_event(double wall_s, int64_t step, const std::string& tag, double value) {
  return summary_event(wall_s, step,
                       Protobuf().add_bytes(1, tag).add_float(2, static_cast<float>(value)));
}

std::string experiment_event(double wall_s, const Json& inputs,
                             const std::vector<std::string>& metric_tags) {
  Protobuf experiment;
  experiment.add_double(3, wall_s);
  for (const auto& [name, value] : inputs.items()) {
    experiment.add(4, Protobuf().add_bytes(1, name).add_int(4, type_of(value)));
  }
  for (const std::string& tag : metric_tags) {
    experiment.add(5, Protobuf().add(1, Protobuf().add_bytes(2, tag)));
  }
  return hparams_event(wall_s, "_hparams_/experiment", 2, experiment);
}

std::string run_inputs_event(double wall_s, const Json& inputs, const std::string& group) {
  Protobuf start;
  for (const auto& [name, value] : inputs.items()) {
    start.add(1, Protobuf().add_bytes(1, name).add(2, value_of(value)));
  }
  start.add_bytes(4, group).add_double(5, wall_s);
  return hparams_event(wall_s, "_hparams_/session_start_info", 3, start);
}

std::string run_end_event(double wall_s, bool succeeded) {
  constexpr int kSuccess = 1, kFailure = 2;
  const Protobuf end = Protobuf().add_int(1, succeeded ? kSuccess : kFailure).add_double(2, wall_s);
  return hparams_event(wall_s, "_hparams_/session_end_info", 4, end);
}

}  // namespace sftbench
