// What trackers cost a step, within one process: training goes on while all four trackers get its
// events for a few seconds, get none for as long, twice, and get them again (on, off, off, on).
// Processes of one kind differ by a fifth, neighboring seconds of one process do not.
// SmolLM2-135M's shapes.
//
//   alternate_trackers MLFLOW_ADDRESS [--length 64] [--block-seconds 4] [--groups 20]
//
// Prints the median of the ratios on/off of groups with the interval that holds it in 95 of 100
// cases, and what can be counted without a comparison: the processor time of the trackers' threads,
// and how long the training thread was inside of them. bench/trackers/overhead.py starts it beside
// a stand-in of a server.
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/prepare_parallel.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/file.h"
#include "sftbench/engine/make_engine.h"
#include "sftbench/measure/system_sampler.h"
#include "sftbench/trackers/trackers.h"
#include "step/children.h"

namespace {

using namespace sftbench;
namespace fs = std::filesystem;

struct Options {
  std::string mlflow;
  int64_t length = 64, groups = 20;
  double block_s = 4;
};

Options parse(int argc, char** argv) {
  if (argc < 2) throw std::invalid_argument("usage: alternate_trackers MLFLOW_ADDRESS [options]");
  Options options;
  options.mlflow = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--length") {
      options.length = std::stoll(value);
    } else if (name == "--groups") {
      options.groups = std::stoll(value);
    } else if (name == "--block-seconds") {
      options.block_s = std::stod(value);
    } else {
      throw std::invalid_argument("unknown option " + name);
    }
  }
  if (options.block_s < 3) throw std::invalid_argument("--block-seconds is below 3");
  return options;
}

std::set<std::string> thread_ids() {
  std::set<std::string> ids;
  for (const auto& task : fs::directory_iterator("/proc/self/task"))
    ids.insert(task.path().filename());
  return ids;
}

// Of threads that still run.
double processor_seconds(const std::set<std::string>& threads) {
  double total_ns = 0;
  for (const std::string& id : threads)
    total_ns += std::stod(read_file("/proc/self/task/" + id + "/schedstat"));
  return total_ns * 1e-9;
}

// Hands events on while its block is one with trackers, and notes how long steps take in each.
class Alternating : public TrainObserver {
 public:
  Alternating(const Options& options, Trackers& trackers)
      : options_(options), trackers_(trackers) {}

  void on_train_begin(const TrainBegin& begin) override { trackers_.on_train_begin(begin); }

  void on_step_end(const StepEvent& event, TrainControl& control) override {
    if (event.step == 1) {
      block_begin_s_ = event.end_s;  // the first step warms up
      return;
    }
    constexpr double kSettling_s =
        1.5;  // trackers look once a second for what the block before left
    if (event.begin_s - block_begin_s_ > kSettling_s)
      seconds_[static_cast<size_t>(block_)].push_back(event.end_s - event.begin_s);
    if (is_on()) {
      const double begin_s = steady_seconds();
      trackers_.on_step_end(event, control);
      inside_s_ += steady_seconds() - begin_s;
      tracked_s_ += event.end_s - event.begin_s;
      ++tracked_steps_;
    }
    if (event.end_s - block_begin_s_ < options_.block_s) return;
    block_begin_s_ = event.end_s;
    if (++block_ == 4 * options_.groups) control.stop = true;
    seconds_.resize(static_cast<size_t>(block_) + 1);
  }

  void on_sample(const SystemReading& reading) {
    if (is_on()) trackers_.on_sample(reading);
  }

  // Median seconds of a step in each block, whole groups of on, off, off, on.
  std::vector<double> medians() const {
    std::vector<double> all;
    for (std::vector<double> block : seconds_) {
      if (block.empty()) continue;
      std::nth_element(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(block.size() / 2),
                       block.end());
      all.push_back(block[block.size() / 2]);
    }
    all.resize(all.size() / 4 * 4);
    return all;
  }

  double inside_s() const { return inside_s_; }    // of the training thread, in trackers
  double tracked_s() const { return tracked_s_; }  // of all steps that they heard of
  int64_t tracked_steps() const { return tracked_steps_; }

 private:
  bool is_on() const { return block_ % 4 == 0 || block_ % 4 == 3; }

  const Options& options_;
  Trackers& trackers_;
  double inside_s_ = 0, tracked_s_ = 0;
  int64_t tracked_steps_ = 0;
  std::atomic<int64_t> block_ = 0;
  double block_begin_s_ = 0;
  std::vector<std::vector<double>> seconds_ = std::vector<std::vector<double>>(1);
};

std::vector<TrackerSpec> all_trackers(const std::string& mlflow, const fs::path& folder) {
  return {{TrackerKind::kTensorboard, folder / "runs"},
          {TrackerKind::kMlflow, mlflow},
          {TrackerKind::kAimInfo, folder / "aim.json"},
          {TrackerKind::kJsonl, folder / "log.jsonl"}};
}

// The order statistics that hold the median in 95 of 100 cases, from the binomial distribution's
// normal approximation.
std::pair<double, double> interval_of_median(const std::vector<double>& sorted) {
  const auto n = static_cast<double>(sorted.size());
  const auto low = static_cast<size_t>(std::max(0.0, std::floor(n / 2 - 0.98 * std::sqrt(n))));
  return {sorted[low], sorted[sorted.size() - 1 - low]};
}

void report(const Alternating& steps, double threads_s) {
  const std::vector<double> blocks = steps.medians();
  std::vector<double> ratios;
  for (size_t i = 0; i + 3 < blocks.size(); i += 4)
    ratios.push_back((blocks[i] + blocks[i + 3]) / (blocks[i + 1] + blocks[i + 2]));
  if (ratios.empty()) throw std::runtime_error("the run ended before the first group did");
  std::sort(ratios.begin(), ratios.end());
  const auto [low, high] = interval_of_median(ratios);
  std::printf("groups %zu, steps of %.1f ms, on/off: median %.4f, 95 %% interval %.4f to %.4f\n",
              ratios.size(), blocks[1] * 1e3, ratios[ratios.size() / 2], low, high);
  const auto count = static_cast<double>(steps.tracked_steps());
  std::printf(
      "%.0f tracked steps: %.1f us each in which training waits, %.1f us of the trackers' threads, "
      "together %.3f %% of a step\n",
      count, steps.inside_s() / count * 1e6, threads_s / count * 1e6,
      (steps.inside_s() + threads_s) / steps.tracked_s() * 100);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    std::string pattern = (fs::temp_directory_path() / "alternate.XXXXXX").string();
    const fs::path folder = mkdtemp(pattern.data());
    bench::Work work;
    work.length = options.length;
    work.steps = 1000;  // texts; they are read again, epoch after epoch
    TrainingJob job = bench::random_job("full", work, (folder / "texts.jsonl").string());
    job.batches.max_steps = 1'000'000;

    const std::set<std::string> before = thread_ids();
    TrackedRun run;
    run.key = run.name = run.experiment = "alternate";
    Trackers trackers(all_trackers(options.mlflow, folder), run, [](const std::string& problem) {
      std::fprintf(stderr, "%s\n", problem.c_str());
    });
    std::set<std::string> threads;
    for (const std::string& id : thread_ids())
      if (!before.count(id)) threads.insert(id);

    Alternating steps(options, trackers);
    const std::unique_ptr<SystemSource> source = make_system_source(nullptr, 0);
    SystemSampler sampler(*source, 1, [&](const SystemReading& r) { steps.on_sample(r); });
    make_engine()->train_job(job, *make_single_rank(), {&steps, &sampler}, [] { return false; });
    report(steps, processor_seconds(threads));
    fs::remove_all(folder);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "alternate_trackers: %s\n", error.what());
    return 1;
  }
}
