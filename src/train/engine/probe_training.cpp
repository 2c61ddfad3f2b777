#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "engine/probe.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/engine/make_engine.h"
#include "sftbench/plan/probe_jobs.h"

namespace sftbench {
namespace {

constexpr size_t kEntries = 64;
constexpr size_t kUnsteady = 2;  // first steps, which ask for memory

// Entries of random tokens, as long as the probe lives.
class RandomEntries {
 public:
  RandomEntries() {
    std::mt19937 generator(42);
    std::uniform_int_distribution<int64_t> token(0, kProbeVocabulary - 1);
    std::ofstream file(path_);
    for (size_t i = 0; i < kEntries; ++i) {
      std::vector<int64_t> ids(kProbeLength);
      for (int64_t& id : ids) id = token(generator);
      file << json_text(Json{{"input_ids", ids}}) << '\n';
    }
    if (!file.flush()) throw RunError(ReasonCode::kInternal, "cannot write " + path_.string());
  }
  ~RandomEntries() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  RandomEntries(const RandomEntries&) = delete;
  RandomEntries& operator=(const RandomEntries&) = delete;

  std::string path() const { return path_.string(); }

 private:
  const std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                      ("sftbench-probe-" + std::to_string(::getpid()) + ".jsonl");
};

class StepRecorder : public TrainObserver {
 public:
  void on_step_end(const StepEvent& event, TrainControl& /*control*/) override {
    steps_.push_back(event);
  }

  Json seconds() const {
    const double whole = median([](const StepEvent& e) { return e.end_s - e.begin_s; });
    const double compute =
        median([](const StepEvent& e) { return e.phases.forward_s + e.phases.backward_s; });
    const double update = median([](const StepEvent& e) { return e.phases.update_s; });
    return {{"compute_s", compute},
            {"update_s", update},
            {"rest_s", std::max(0.0, whole - compute - update)}};
  }

 private:
  template <typename Figure>
  double median(const Figure& figure) const {
    check(steps_.size() > kUnsteady, "the probe's runs have steps");
    std::vector<double> values;
    for (size_t i = kUnsteady; i < steps_.size(); ++i) values.push_back(figure(steps_[i]));
    const auto middle = values.begin() + std::ssize(values) / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

  std::vector<StepEvent> steps_;
};

}  // namespace

Json probe_training(ParameterDtype dtype) {
  const RandomEntries entries;
  Json runs = Json::array();
  for (const TrainingJob& job : probe_jobs(dtype, entries.path())) {
    StepRecorder recorder;
    make_engine()->train_job(job, *make_single_rank(), {&recorder}, [] { return false; });
    runs.push_back(recorder.seconds());
  }
  return runs;
}

}  // namespace sftbench
