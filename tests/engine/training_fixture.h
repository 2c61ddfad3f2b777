// A job over the golden runs' files, and an observer that keeps what it is told.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/drawn_weights.h"
#include "sftbench/base/json.h"
#include "sftbench/base/torch.h"
#include "sftbench/checkpoint/safetensors_writer.h"
#include "sftbench/engine/make_engine.h"
#include "sftbench/model/causal_lm.h"

namespace sftbench {

inline std::string training_folder() {
  return SFTBENCH_TEST_DATA "/training";
}

// Checkpoints whose weights follow the rule of tests/reference/drawn.py. They go with the process
// that wrote them, whatever processes it has forked.
class DrawnCheckpoints {
 public:
  ~DrawnCheckpoints() {
    if (::getpid() == owner_) std::filesystem::remove_all(folder_);
  }

  std::string of(const std::string& model) {
    const std::filesystem::path folder = folder_ / model;
    if (exists(folder)) return folder.string();
    create_directories(folder);
    const std::string config = training_folder() + "/" + model + "/config.json";
    std::filesystem::copy_file(config, folder / "config.json");
    const auto lm = make_causal_lm(read_json_file(config), torch::kFloat32, torch::kCPU);
    draw_weights(*lm);
    std::vector<TensorHeader> headers;
    for (const NamedParameter& parameter : lm->parameters())
      headers.push_back({parameter.name, StoredDtype::kF32, parameter.tensor->sizes().vec()});
    SafetensorsWriter writer(folder / "model.safetensors", headers);
    for (const NamedParameter& parameter : lm->parameters())
      writer.append(parameter.tensor->data_ptr(), parameter.tensor->nbytes());
    writer.finish();
    return folder.string();
  }

 private:
  pid_t owner_ = ::getpid();
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("sftbench_drawn_" + std::to_string(owner_));
};

// The models of the golden runs on texts whose weights are drawn, sorted: "cohere2",
// "qwen2_moe-balanced".
inline std::vector<std::string> drawn_models() {
  const std::string end = "-float32.json";
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(training_folder())) {
    const std::string file = entry.path().filename().string();
    if (!file.ends_with(end)) continue;
    const Json golden = read_json_file(entry.path().string());
    const std::string model = golden["model"];
    if (golden.contains("column")) continue;  // on images
    if (exists(std::filesystem::path(training_folder()) / model / "model.safetensors")) continue;
    names.insert(file.substr(0, file.size() - end.size()));
  }
  return {names.begin(), names.end()};
}

// Of a model of the golden runs.
inline std::string weights_directory(const std::string& model) {
  static DrawnCheckpoints drawn;
  const std::string folder = training_folder() + "/" + model;
  return std::filesystem::exists(folder + "/model.safetensors") ? folder : drawn.of(model);
}

class Recorder : public TrainObserver {
 public:
  void on_train_begin(const TrainBegin& event) override { begin = event; }
  void on_step_end(const StepEvent& event, TrainControl& control) override {
    steps.push_back(event);
    control.stop = static_cast<int64_t>(steps.size()) == stop_after_steps;
  }
  void on_evaluation(const EvaluationEvent& event) override { evaluations.push_back(event); }
  void on_train_end(const TrainEnd& event) override { ends.push_back(event); }

  std::vector<double> losses() const { return of_steps(&StepEvent::loss); }
  std::vector<double> norms() const { return of_steps(&StepEvent::grad_norm); }

  TrainBegin begin;
  std::vector<StepEvent> steps;
  std::vector<EvaluationEvent> evaluations;
  std::vector<TrainEnd> ends;
  int64_t stop_after_steps = -1;

 private:
  std::vector<double> of_steps(double StepEvent::*figure) const {
    std::vector<double> values;
    for (const StepEvent& step : steps) values.push_back(step.*figure);
    return values;
  }
};

// What tests/reference/training.py gave to Trainer, as a job. `golden` is the content of its case's
// file.
inline TrainingJob job_of(const Json& golden) {
  const Json& settings = golden["settings"];
  const std::string model = golden["model"];
  TrainingJob job;
  job.model.name = model;
  job.model.weights_directory = weights_directory(model);
  job.model.hf_config = read_json_file(job.model.weights_directory + "/config.json");
  job.model.hf_config.update(golden.value("config", Json::object()));
  job.model.tokenizer_directory = training_folder() + "/tokenizer";
  job.data.path = training_folder() + "/dataset.jsonl";
  job.data.model_max_length = golden["model_max_length"];
  job.batches.per_device_batch_size = settings["per_device_train_batch_size"];
  job.batches.gradient_accumulation_steps = settings["gradient_accumulation_steps"];
  job.batches.num_train_epochs = settings["num_train_epochs"];
  job.batches.max_steps = settings.value("max_steps", job.batches.max_steps);
  job.precision = {.torch_dtype = golden["torch_dtype"].get<ParameterDtype>(),
                   .autocast = golden["autocast"].get<Autocast>()};
  job.optimizer.kind = named<OptimizerKind>(settings.value("optim", "adamw_torch_fused"));
  job.optimizer.epsilon = settings.value("adam_epsilon", job.optimizer.epsilon);
  job.optimizer.learning_rate = settings["learning_rate"];
  job.optimizer.weight_decay = settings.value("weight_decay", job.optimizer.weight_decay);
  job.optimizer.max_grad_norm = settings["max_grad_norm"];
  job.optimizer.warmup_ratio = settings["warmup_steps"];
  job.seed = settings["seed"];
  if (const char* device = std::getenv("SFTBENCH_TEST_DEVICE")) job.device.kind = device;
  return job;
}

inline Json golden_run(const std::string& name) {
  return read_json_file(training_folder() + ("/" + name + ".json"));
}

// A world of one, for prepare_run().
inline RankGroup& alone() {
  static const std::unique_ptr<RankGroup> kAlone = make_single_rank();
  return *kAlone;
}

inline Recorder train(const TrainingJob& job, int64_t stop_after_steps = -1) {
  Recorder recorder;
  recorder.stop_after_steps = stop_after_steps;
  make_engine()->train_job(job, *make_single_rank(), {&recorder}, [] { return false; });
  return recorder;
}

// "CODE: what the engine says of a job that it does not train".
inline std::string refusal_of(const TrainingJob& job) {
  try {
    train(job, 1);
  } catch (const RunError& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no error";
}

}  // namespace sftbench
