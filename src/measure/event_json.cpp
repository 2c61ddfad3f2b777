// One function names every field of a structure; writing and reading are two visitors of it.
#include "sftbench/measure/event_json.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

template <typename Visitor>
void visit(TokenCounts& tokens, Visitor& visitor) {
  visitor("padded", tokens.padded);
  visitor("dataset", tokens.dataset);
  visitor("loss_bearing", tokens.loss_bearing);
  visitor("padding", tokens.padding);
}

template <typename Visitor>
void visit(LoadEvent& load, Visitor& visitor) {
  visitor("phase", load.phase);
  visitor("weight_bytes", load.weight_bytes);
  visitor("weight_bytes_total", load.weight_bytes_total);
  visitor("entries", load.entries);
  visitor("entries_total", load.entries_total);
}

template <typename Visitor>
void visit(TrainBegin& begin, Visitor& visitor) {
  visitor("total_steps", begin.total_steps);
  visitor("parameters_total", begin.parameters_total);
  visitor("parameters_trainable", begin.parameters_trainable);
  visitor("parameters_embedding", begin.parameters_embedding);
  visitor("compute_dtype", begin.compute_dtype);
  visitor("padding", begin.padding);
  visitor("tokenizer", begin.tokenizer);
  visitor("weights_seconds", begin.weights_seconds);
  visitor("tokenize_seconds", begin.tokenize_seconds);
  visitor("ranks", begin.ranks);
  visitor("resumed_from", begin.resumed_from);
  visitor("resumed_step", begin.resumed_step);
  visitor("warnings", begin.warnings);
}

template <typename Visitor>
void visit(StepEvent& event, Visitor& visitor) {
  visitor("step", event.step);
  visitor("epoch", event.epoch);
  visitor("begin_s", event.begin_s);
  visitor("end_s", event.end_s);
  visitor("loss", event.loss);
  visitor("grad_norm", event.grad_norm);
  visitor("update_skipped", event.update_skipped);
  visitor("learning_rate", event.learning_rate);
  visitor("samples", event.samples);
  visitor("micro_batches", event.micro_batches);
  visitor("tokens", event.tokens);
  visitor("attention_flops", event.attention_flops);
  visitor("device_allocated_bytes", event.device_allocated_bytes);
  visitor("saving_s", event.saving_s);
}

template <typename Visitor>
void visit(RankStep& step, Visitor& visitor) {
  visitor("begin_s", step.begin_s);
  visitor("end_s", step.end_s);
  visitor("communication_wait_s", step.communication_wait_s);
  visitor("samples", step.samples);
  visitor("tokens", step.tokens);
  visitor("saving_s", step.saving_s);
}

template <typename Visitor>
void visit(CollectiveReport& report, Visitor& visitor) {
  visitor("group", report.group);
  visitor("operation", report.operation);
  visitor("calls", report.calls);
  visitor("sent_bytes", report.sent_bytes);
  visitor("seconds", report.seconds);
}

template <typename Visitor>
void visit(RankReport& report, Visitor& visitor) {
  visitor("rank", report.rank);
  visitor("node", report.node);
  visitor("host", report.host);
  visitor("steps", report.steps);
  visitor("collectives", report.collectives);
  visitor("parameter_bytes", report.parameter_bytes);
  visitor("gradient_bytes", report.gradient_bytes);
  visitor("optimizer_state_bytes", report.optimizer_state_bytes);
  visitor("gathered_peak_bytes", report.gathered_peak_bytes);
  visitor("device_peak_allocated_bytes", report.device_peak_allocated_bytes);
  visitor("device_peak_reserved_bytes", report.device_peak_reserved_bytes);
  visitor("host_peak_rss_bytes", report.host_peak_rss_bytes);
}

template <typename Visitor>
void visit(SavedFolder& saved, Visitor& visitor) {
  visitor("path", saved.path);
  visitor("format", saved.format);
  visitor("step", saved.step);
  visitor("bytes", saved.bytes);
  visitor("seconds", saved.seconds);
}

template <typename Visitor>
void visit(TrainEnd& end, Visitor& visitor) {
  visitor("steps", end.steps);
  visitor("saved", end.saved);
  visitor("ranks", end.ranks);
  visitor("device_peak_allocated_bytes", end.device_peak_allocated_bytes);
  visitor("device_peak_reserved_bytes", end.device_peak_reserved_bytes);
  visitor("host_peak_rss_bytes", end.host_peak_rss_bytes);
}

template <typename Value>
constexpr bool kIsStructure = std::is_class_v<Value> && !std::is_same_v<Value, std::string>;

class Writer {
 public:
  template <typename Value>
  void operator()(const char* key, Value& value) {
    json_[key] = written(value);
  }

  template <typename Value>
  static Json written(std::vector<Value>& values) {
    Json list = Json::array();
    for (Value& value : values) list.push_back(written(value));
    return list;
  }

  template <typename Value>
  static Json written(Value& value) {
    if constexpr (kIsStructure<Value>) {
      Writer writer;
      visit(value, writer);
      return std::move(writer.json_);
    } else {
      return value;
    }
  }

  // JSON has no numbers that are not finite.
  static Json written(double& value) {
    if (std::isfinite(value)) return value;
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }

 private:
  Json json_ = Json::object();
};

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  template <typename Value>
  void operator()(const char* key, Value& value) {
    read(json_.at(key), value);
  }

  template <typename Value>
  static void read(const Json& json, std::vector<Value>& values) {
    values.resize(json.get_ref<const Json::array_t&>().size());
    for (size_t i = 0; i < values.size(); ++i) read(json[i], values[i]);
  }

  template <typename Value>
  static void read(const Json& json, Value& value) {
    if constexpr (kIsStructure<Value>) {
      Reader reader(json);
      visit(value, reader);
    } else {
      json.get_to(value);
    }
  }

  static void read(const Json& json, double& value) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (json == "nan") {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (json == "inf" || json == "-inf") {
      value = json == "inf" ? kInfinity : -kInfinity;
    } else {
      json.get_to(value);
    }
  }

 private:
  const Json& json_;
};

template <typename Event>
Json written(Event event) {
  return Writer::written(event);
}

template <typename Event>
Event read(const Json& json) {
  Event event;
  try {
    Reader::read(json, event);
  } catch (const Json::exception& error) {
    throw InputError("not an event: " + json_problem(error));
  }
  return event;
}

}  // namespace

Json to_json(const LoadEvent& load) {
  return written(load);
}
Json to_json(const TrainBegin& begin) {
  return written(begin);
}
Json to_json(const StepEvent& event) {
  return written(event);
}
Json to_json(const TrainEnd& end) {
  return written(end);
}
Json to_json(const RankReport& report) {
  return written(report);
}

LoadEvent load_event_from_json(const Json& json) {
  return read<LoadEvent>(json);
}
TrainBegin train_begin_from_json(const Json& json) {
  return read<TrainBegin>(json);
}
StepEvent step_event_from_json(const Json& json) {
  return read<StepEvent>(json);
}
TrainEnd train_end_from_json(const Json& json) {
  return read<TrainEnd>(json);
}
RankReport rank_report_from_json(const Json& json) {
  return read<RankReport>(json);
}

}  // namespace sftbench
