// TrainingJob <-> JSON. One function names every field; writing and reading are two visitors of it,
// so a new field is one line.
#include "sftbench/plan/training_job.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// What a number may be. A job is written by the program and edited by people.
struct Range {
  double least = 0;
  double most = 0;
};
constexpr double kMostSteps = std::numeric_limits<int32_t>::max();
constexpr Range kCount = {1, kMostSteps};
constexpr Range kCountOrNone = {0, kMostSteps};
constexpr Range kSeconds = {1e-3, 1e9};
constexpr Range kFraction = {0, 1};

template <typename Visitor>
void visit(TrainingJob& job, Visitor& visitor) {
  visitor.field("experiment", job.experiment);
  visitor.field("experiment_id", job.experiment_id);
  visitor.field("entity_id", job.entity_id);
  visitor.field("tuning", job.tuning);
  visitor.field("runs", job.runs, {1, 1000});
  visitor.field("seed", job.seed);
  visitor.field("sample_period_s", job.sample_period_s, kSeconds);
  visitor.field("trace_path", job.trace_path);
  visitor.section("model", [&] {
    visitor.field("name", job.model.name);
    visitor.field("weights_directory", job.model.weights_directory);
    visitor.field("tokenizer_directory", job.model.tokenizer_directory);
    visitor.object("hf_config", job.model.hf_config);
  });
  visitor.section("data", [&] {
    visitor.field("dataset_id", job.data.dataset_id);
    visitor.field("path", job.data.path);
    visitor.field("text_field", job.data.text_field);
    visitor.field("response_template", job.data.response_template);
    visitor.field("model_max_length", job.data.model_max_length, kCount);
    visitor.field("padding", job.data.padding);
    visitor.field("token_cache_directory", job.data.token_cache_directory);
  });
  visitor.section("batches", [&] {
    visitor.field("per_device_batch_size", job.batches.per_device_batch_size, kCount);
    visitor.field("gradient_accumulation_steps", job.batches.gradient_accumulation_steps, kCount);
    visitor.field("max_steps", job.batches.max_steps, {-kMostSteps, kMostSteps});
    visitor.field("num_train_epochs", job.batches.num_train_epochs, {0, 1e9});
    visitor.field("stop_after_seconds", job.batches.stop_after_seconds);
    visitor.field("auto_stop_method", job.batches.auto_stop_method);
  });
  visitor.section("precision", [&] {
    visitor.field("torch_dtype", job.precision.torch_dtype);
    visitor.field("autocast", job.precision.autocast);
  });
  visitor.section("optimizer", [&] {
    visitor.field("name", job.optimizer.name);
    visitor.field("learning_rate", job.optimizer.learning_rate, {0, 1e9});
    visitor.field("weight_decay", job.optimizer.weight_decay);
    visitor.field("beta1", job.optimizer.betas[0], kFraction);
    visitor.field("beta2", job.optimizer.betas[1], kFraction);
    visitor.field("epsilon", job.optimizer.epsilon);
    visitor.field("max_grad_norm", job.optimizer.max_grad_norm);
    visitor.field("schedule", job.optimizer.schedule);
    visitor.object("schedule_options", job.optimizer.schedule_options);
    visitor.field("warmup_ratio", job.optimizer.warmup_ratio, kFraction);
    visitor.field("warmup_steps", job.optimizer.warmup_steps, kCountOrNone);
  });
  visitor.section("device", [&] {
    visitor.field("kind", job.device.kind);
    visitor.field("gpu_model", job.device.gpu_model);
    visitor.field("ranks", job.device.ranks, {1, 65536});
    visitor.field("nodes", job.device.nodes, {1, 65536});
    visitor.field("threads", job.device.threads, {0, 65536});
  });
  visitor.section("parallel", [&] {
    visitor.field("strategy", job.parallel.strategy);
    visitor.field("layer_class", job.parallel.layer_class);
    visitor.field("state_dict_type", job.parallel.state_dict_type);
    visitor.field("use_orig_params", job.parallel.use_orig_params);
    visitor.field("gradient_sync", job.parallel.gradient_sync);
    visitor.field("reduce_dtype", job.parallel.reduce_dtype);
    visitor.field("enable_roce", job.parallel.enable_roce);
    visitor.field("distribute_one_rank", job.parallel.distribute_one_rank);
    visitor.field("timeout_s", job.parallel.timeout_s, kSeconds);
  });
  visitor.section("activations", [&] {
    visitor.field("gradient_checkpointing", job.activations.gradient_checkpointing);
    visitor.field("use_reentrant", job.activations.use_reentrant);
  });
  visitor.section("kernels", [&] {
    visitor.field("flash_attention", job.kernels.flash_attention);
    visitor.field("fused_loss", job.kernels.fused_loss);
    visitor.field("fused_rms_norm", job.kernels.fused_rms_norm);
    visitor.field("fused_rope", job.kernels.fused_rope);
  });
  visitor.section("lora", [&] {
    visitor.field("rank", job.lora.rank, kCount);
    visitor.field("alpha", job.lora.alpha);
    visitor.field("dropout", job.lora.dropout, kFraction);
    visitor.field("target_modules", job.lora.target_modules);
  });
  visitor.section("prompt", [&] {
    visitor.field("virtual_tokens", job.prompt.virtual_tokens, kCount);
    visitor.field("init", job.prompt.init);
    visitor.field("init_text", job.prompt.init_text);
  });
  visitor.section("save", [&] {
    visitor.field("model_directory", job.save.model_directory);
    visitor.field("checkpoint_directory", job.save.checkpoint_directory);
    visitor.field("strategy", job.save.strategy);
    visitor.field("steps", job.save.steps, kCount);
    visitor.field("total_limit", job.save.total_limit, kCountOrNone);
    visitor.field("resume_from", job.save.resume_from);
  });
  visitor.object("entity", job.entity);
  visitor.object("inputs", job.inputs);
}

class Writer {
 public:
  template <typename Value>
  void field(const char* key, const Value& value, const Range& = {}) {
    (*at_)[key] = value;
  }
  void object(const char* key, const Json& value) { (*at_)[key] = value; }

  template <typename Body>
  void section(const char* key, const Body& body) {
    Json inner = Json::object();
    Json* outer = std::exchange(at_, &inner);
    body();
    at_ = outer;
    (*at_)[key] = std::move(inner);
  }

  Json take() { return std::move(root_); }

 private:
  Json root_ = Json::object();
  Json* at_ = &root_;
};

constexpr size_t kMostErrors = 100;
constexpr size_t kLongestName = 200;

class Reader {
 public:
  Reader(const Json& root, std::string origin) : origin_(std::move(origin)), at_(&root) {
    if (!root.is_object()) error("", "not an object", "a training job");
  }

  // False when the job does not have it.
  template <typename Value>
  bool field(const char* key, Value& value) {
    const Json* found = member(key);
    if (found == nullptr) return false;
    const bool right = matches(*found, value);
    if (right) value = found->get<Value>();
    if (!right) error(key, "found " + found->dump().substr(0, 60), expectation(value));
    return right;
  }

  template <typename Number>
  void field(const char* key, Number& value, const Range& range) {
    if (!field(key, value)) return;
    const auto number = static_cast<double>(value);
    if (number >= range.least && number <= range.most) return;
    const auto text = [](double bound) { return json_text(Json(static_cast<Number>(bound))); };
    error(key, "found " + json_text(Json(value)),
          "a number from " + text(range.least) + " to " + text(range.most));
  }

  void object(const char* key, Json& value) {
    const Json* found = member(key);
    if (found == nullptr) return;
    if (found->is_object()) {
      value = *found;
    } else {
      error(key, "found " + found->dump().substr(0, 60), "an object");
    }
  }

  template <typename Body>
  void section(const char* key, const Body& body) {
    const Json* found = member(key);
    if (found == nullptr) return;
    if (!found->is_object()) {
      error(key, "found " + found->dump().substr(0, 60), "an object");
      return;
    }
    const Json* outer = std::exchange(at_, found);
    const std::string outer_path = std::exchange(path_, path_ + key + ".");
    std::vector<std::string> outer_known = std::exchange(known_, {});
    body();
    reject_unknown();
    at_ = outer;
    path_ = outer_path;
    known_ = std::move(outer_known);
  }

  void reject_unknown() {
    if (!at_->is_object()) return;
    for (const auto& [key, value] : at_->items()) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      if (errors_.size() == kMostErrors) return;  // the first hundred say enough
      error(key.substr(0, kLongestName), "unknown key", "one of " + join(known_),
            nearest_spelling(key, known_));
    }
  }

  void throw_if_failed() {
    if (!errors_.empty()) throw InputError(std::move(errors_));
  }

 private:
  const Json* member(const char* key) {
    known_.emplace_back(key);
    if (!at_->is_object()) return nullptr;
    const auto found = at_->find(key);
    if (found != at_->end()) return &*found;
    error(key, "missing", {});
    return nullptr;
  }

  void error(const std::string& key, std::string message, std::string expected,
             std::string nearest = {}) {
    errors_.push_back(
        {origin_, 0, path_ + key, std::move(message), std::move(expected), std::move(nearest)});
  }

  static bool matches(const Json& json, const std::string&) { return json.is_string(); }
  static bool matches(const Json& json, const std::vector<std::string>&) {
    return json.is_array() && std::all_of(json.begin(), json.end(),
                                          [](const Json& element) { return element.is_string(); });
  }
  static bool matches(const Json& json, bool) { return json.is_boolean(); }
  static bool matches(const Json& json, double) { return json.is_number(); }
  static bool matches(const Json& json, int64_t) {
    const bool too_large = json.is_number_unsigned() &&
                           json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
    return json.is_number_integer() && !too_large;
  }
  static bool matches(const Json& json, uint64_t) { return json.is_number_unsigned(); }

  static std::string expectation(const std::string&) { return "text"; }
  static std::string expectation(const std::vector<std::string>&) { return "a list of texts"; }
  static std::string expectation(bool) { return "true or false"; }
  static std::string expectation(double) { return "a number"; }
  static std::string expectation(int64_t) { return "an integer"; }
  static std::string expectation(uint64_t) { return "an integer of at least 0"; }

  std::string origin_;
  const Json* at_;
  std::string path_;
  std::vector<std::string> known_;
  std::vector<Diagnostic> errors_;
};

// Among the inputs, where results of another backend differ; there only if it is not the default.
std::string backend_of(const Json& inputs, const std::string& origin) {
  const auto found = inputs.find("backend");
  if (found == inputs.end()) return kBackendLibtorch;
  if (*found == kBackendLibtorch || *found == kBackendSimulate) return *found;
  throw InputError({{origin,
                     0,
                     "inputs.backend",
                     "found " + json_text(*found),
                     std::string(kBackendLibtorch) + " or " + kBackendSimulate,
                     {}}});
}

}  // namespace

const std::vector<std::string>& known_paddings() {
  static const std::vector<std::string> kPaddings = {"longest", "max_length", "none", "packed"};
  return kPaddings;
}

Json to_json(const TrainingJob& job) {
  TrainingJob copy = job;  // one visitor serves both ways and takes references that can be written
  Writer writer;
  visit(copy, writer);
  return writer.take();
}

TrainingJob training_job_from_json(const Json& json, const std::string& origin) {
  TrainingJob job;
  Reader reader(json, origin);
  visit(job, reader);
  reader.reject_unknown();
  reader.throw_if_failed();
  job.backend = backend_of(job.inputs, origin);
  return job;
}

}  // namespace sftbench
