#include "sftbench/measure/event_json.h"

#include "sftbench/base/error.h"
#include "sftbench/base/fields.h"

namespace sftbench {

template <typename Visitor>
void fields(Visitor& visitor, TokenCounts& tokens) {
  visitor("padded", tokens.padded);
  visitor("dataset", tokens.dataset);
  visitor("loss_bearing", tokens.loss_bearing);
  visitor("padding", tokens.padding);
}

template <typename Visitor>
void fields(Visitor& visitor, LoadEvent& load) {
  visitor("phase", load.phase);
  visitor("weight_bytes", load.weight_bytes);
  visitor("weight_bytes_total", load.weight_bytes_total);
  visitor("entries", load.entries);
  visitor("entries_total", load.entries_total);
}

template <typename Visitor>
void fields(Visitor& visitor, TrainBegin& begin) {
  visitor("total_steps", begin.total_steps);
  visitor("parameters_total", begin.parameters_total);
  visitor("parameters_trainable", begin.parameters_trainable);
  visitor("parameters_embedding", begin.parameters_embedding);
  visitor("parameters_idle", begin.parameters_idle);
  visitor("compute_dtype", begin.compute_dtype);
  visitor("padding", begin.padding);
  visitor("tokenizer", begin.tokenizer);
  visitor("weights_seconds", begin.weights_seconds);
  visitor("tokenize_seconds", begin.tokenize_seconds);
  visitor("ranks", begin.ranks);
  visitor("resumed_from", begin.resumed_from);
  visitor("resumed_step", begin.resumed_step);
  visitor("warnings", begin.warnings);
  visitor("data", begin.data);
}

template <typename Visitor>
void fields(Visitor& visitor, StepPhases& phases) {
  visitor("data_s", phases.data_s);
  visitor("forward_s", phases.forward_s);
  visitor("backward_s", phases.backward_s);
  visitor("update_s", phases.update_s);
}

template <typename Visitor>
void fields(Visitor& visitor, StepEvent& event) {
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
  visitor("pause_s", event.pause_s);
  visitor("phases", event.phases);
}

template <typename Visitor>
void fields(Visitor& visitor, EvaluationEvent& event) {
  visitor("step", event.step);
  visitor("epoch", event.epoch);
  visitor("loss", event.loss);
  visitor("token_loss", event.token_loss);
  visitor("entries", event.entries);
  visitor("tokens", event.tokens);
  visitor("seconds", event.seconds);
}

template <typename Visitor>
void fields(Visitor& visitor, RankStep& step) {
  visitor("begin_s", step.begin_s);
  visitor("end_s", step.end_s);
  visitor("communication_wait_s", step.communication_wait_s);
  visitor("samples", step.samples);
  visitor("tokens", step.tokens);
  visitor("pause_s", step.pause_s);
}

template <typename Visitor>
void fields(Visitor& visitor, CollectiveReport& report) {
  visitor("group", report.group);
  visitor("operation", report.operation);
  visitor("calls", report.calls);
  visitor("sent_bytes", report.sent_bytes);
  visitor("seconds", report.seconds);
}

template <typename Visitor>
void fields(Visitor& visitor, RankReport& report) {
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
  visitor("allocation_retries", report.allocation_retries);
  visitor("host_peak_rss_bytes", report.host_peak_rss_bytes);
  visitor("host_peak_tensor_bytes", report.host_peak_tensor_bytes);
}

template <typename Visitor>
void fields(Visitor& visitor, SavedFolder& saved) {
  visitor("path", saved.path);
  visitor("format", saved.format);
  visitor("step", saved.step);
  visitor("bytes", saved.bytes);
  visitor("seconds", saved.seconds);
}

template <typename Visitor>
void fields(Visitor& visitor, UnsavedFolder& unsaved) {
  visitor("path", unsaved.path);
  visitor("step", unsaved.step);
  visitor("problem", unsaved.problem);
}

template <typename Visitor>
void fields(Visitor& visitor, ExpertLoad& load) {
  visitor("count", load.count);
  visitor("per_token", load.per_token);
  visitor("ranks", load.ranks);
  visitor("tokens_per_expert", load.tokens_per_expert);
  visitor("imbalance", load.imbalance);
  visitor("worst_imbalance", load.worst_imbalance);
  visitor("busiest_share", load.busiest_share);
  visitor("rank_imbalance", load.rank_imbalance);
  visitor("tokens_by_layer", load.tokens_by_layer);
}

template <typename Visitor>
void fields(Visitor& visitor, GeneratedText& text) {
  visitor("prompt", text.prompt);
  visitor("expected", text.expected);
  visitor("before", text.before);
  visitor("after", text.after);
}

template <typename Visitor>
void fields(Visitor& visitor, TrainEnd& end) {
  visitor("steps", end.steps);
  visitor("best_step", end.best_step);
  visitor("best_loss", end.best_loss);
  visitor("saved", end.saved);
  visitor("unsaved", end.unsaved);
  visitor("ranks", end.ranks);
  visitor("device_peak_allocated_bytes", end.device_peak_allocated_bytes);
  visitor("device_peak_reserved_bytes", end.device_peak_reserved_bytes);
  visitor("host_peak_rss_bytes", end.host_peak_rss_bytes);
  visitor("experts", end.experts);
  visitor("generated", end.generated);
}

namespace {

template <typename Event>
Event read(const Json& json) {
  Event event;
  try {
    read_fields(json, event);
  } catch (const Json::exception& error) {
    throw InputError("not an event: " + json_problem(error));
  }
  return event;
}

}  // namespace

Json to_json(const LoadEvent& load) {
  return json_of_fields(load);
}
Json to_json(const TrainBegin& begin) {
  return json_of_fields(begin);
}
Json to_json(const StepEvent& event) {
  return json_of_fields(event);
}
Json to_json(const EvaluationEvent& event) {
  return json_of_fields(event);
}
Json to_json(const TrainEnd& end) {
  return json_of_fields(end);
}
Json to_json(const RankReport& report) {
  return json_of_fields(report);
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
EvaluationEvent evaluation_event_from_json(const Json& json) {
  return read<EvaluationEvent>(json);
}
TrainEnd train_end_from_json(const Json& json) {
  return read<TrainEnd>(json);
}
RankReport rank_report_from_json(const Json& json) {
  return read<RankReport>(json);
}

}  // namespace sftbench
