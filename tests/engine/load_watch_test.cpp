// What a rank tells of itself before it trains.
#include "engine/load_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "engine/training_fixture.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

class LoadRecorder : public TrainObserver {
 public:
  void on_load(const LoadEvent& load) override {
    EXPECT_FALSE(trains_) << "it loads no more once it trains";
    loads.push_back(load);
  }
  void on_train_begin(const TrainBegin& event) override {
    trains_ = true;
    begin = event;
  }

  std::vector<LoadEvent> loads;
  TrainBegin begin;

 private:
  bool trains_ = false;
};

LoadRecorder train_recorded(TrainingJob job) {
  job.batches.max_steps = 1;
  LoadRecorder recorder;
  make_engine()->train_job(job, *make_single_rank(), {&recorder}, [] { return false; });
  return recorder;
}

void expect_all_loaded(const LoadRecorder& recorder, int64_t element_bytes) {
  ASSERT_FALSE(recorder.loads.empty());
  const LoadEvent& last = recorder.loads.back();
  EXPECT_EQ(last.phase, "loading");
  EXPECT_EQ(last.weight_bytes_total, recorder.begin.parameters_total * element_bytes);
  EXPECT_EQ(last.weight_bytes, last.weight_bytes_total);
  EXPECT_GT(last.entries_total, 0);
  EXPECT_EQ(last.entries, last.entries_total);
  for (size_t i = 1; i < recorder.loads.size(); ++i) {
    EXPECT_GE(recorder.loads[i].weight_bytes, recorder.loads[i - 1].weight_bytes);
    EXPECT_GE(recorder.loads[i].entries, recorder.loads[i - 1].entries);
  }
}

TEST(LoadWatchTest, WeightsThatAreReadAndEntriesThatAreTokenizedAreCounted) {
  TrainingJob job = job_of(golden_run("llama-float32"));
  expect_all_loaded(train_recorded(job),
                    job.precision.torch_dtype == ParameterDtype::kFloat32 ? 4 : 2);
}

TEST(LoadWatchTest, WeightsThatAreDrawnAreCounted) {
  TrainingJob job = job_of(golden_run("llama-float32"));
  job.model.weights_directory.clear();
  expect_all_loaded(train_recorded(job),
                    job.precision.torch_dtype == ParameterDtype::kFloat32 ? 4 : 2);
}

TEST(LoadWatchTest, TellsOnlyWhatIsNewAndTheLastOfIt) {
  LoadRecorder recorder;
  {
    LoadWatch watch({&recorder});
    watch.phase("loading");
    watch.weights().total = 100;
    watch.weights().add(50);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    watch.weights().add(50);
  }
  ASSERT_GE(recorder.loads.size(), 2u);
  EXPECT_LE(recorder.loads.size(), 5u) << "nothing is told twice";
  EXPECT_EQ(recorder.loads.back(), (LoadEvent{"loading", 100, 100, 0, 0}));
}

TEST(LoadWatchTest, WithoutObserversNothingHappens) {
  LoadWatch watch;
  watch.phase("loading");
  watch.weights().add(1);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
