// The values that trackers get of a step, an evaluation and a reading, and the names that runs
// have.
#include "trackers/points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "sftbench/plan/resolve.h"
#include "trackers/tracked_run.h"
#include "trackers/tracker.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::map<std::string, double> values_of(const std::vector<Point>& points) {
  std::map<std::string, double> values;
  for (const Point& point : points) values[point.name] = point.value;
  return values;
}

TEST(PointsTest, AStepThatTookNoTimeHasNoRate) {
  StepEvent step = step_of_test(3);
  step.end_s = step.begin_s;
  EXPECT_THAT(values_of(PointMaker::of_step(step, 1)),
              ElementsAre(Pair("epoch", 0.75), Pair("grad_norm", 2.25), Pair("learning_rate", 1e-5),
                          Pair("loss", 8.5), Pair("step_seconds", 0)));
  step.end_s += 0.5;
  step.device_allocated_bytes = 1;
  EXPECT_THAT(
      values_of(PointMaker::of_step(step, 1)),
      ElementsAre(Pair("dataset_tokens_per_second", 1536), Pair("device_allocated_bytes", 1),
                  Pair("epoch", 0.75), Pair("grad_norm", 2.25), Pair("learning_rate", 1e-5),
                  Pair("loss", 8.5), Pair("step_seconds", 0.5), Pair("tokens_per_second", 2048)));
}

// The perplexity is the exponential of the mean loss over tokens.
TEST(PointsTest, AnEvaluationHasALossAndAPerplexity) {
  EvaluationEvent event;
  event.step = 7;
  event.loss = 3;
  event.token_loss = std::log(20.0);
  const std::vector<Point> points = PointMaker::of_evaluation(event, 5);
  ASSERT_EQ(points.size(), 2);
  EXPECT_EQ(points[0].name, "loss");
  EXPECT_EQ(points[0].value, 3);
  EXPECT_EQ(points[1].name, "perplexity");
  EXPECT_DOUBLE_EQ(points[1].value, 20);
  EXPECT_EQ(points[1].step, 7);
  EXPECT_EQ(points[1].wall_s, 5);
}

TEST(PointsTest, AShareOfTheCpuIsThatSinceTheReadingBefore) {
  SystemReading reading;
  reading.memory_percent = 5;
  reading.host_memory_percent = 25;
  reading.time_s = 10;
  reading.cpu_seconds = 6;
  PointMaker maker;
  EXPECT_THAT(values_of(maker.of_reading(reading, 1)),
              ElementsAre(Pair("host_memory_percent", 25), Pair("memory_percent", 5)));
  EXPECT_EQ(maker.of_reading(reading, 1).size(), 2) << "no time has passed";
  reading.time_s = 14;
  reading.cpu_seconds = 8;
  const std::vector<Point> points = maker.of_reading(reading, 1);
  EXPECT_EQ(values_of(points)["cpu_percent"], 50);  // 2 s of 4
  EXPECT_EQ(points.front().step, 2) << "two readings came before";
}

TEST(PointsTest, AGpuHasWhatItsDriverTells) {
  SystemReading reading;
  reading.gpus.resize(2);
  reading.gpus[0].power_watts = 90;
  reading.gpus[0].power_limit_watts = 0;
  reading.gpus[1].power_limit_watts = 300;
  reading.gpus[1].temperature_celsius = 60;
  reading.gpus[1].memory_percent = 30;
  EXPECT_THAT(values_of(PointMaker().of_reading(reading, 1)),
              ElementsAre(Pair("gpu0_power_watts", 90), Pair("gpu1_memory_percent", 30),
                          Pair("gpu1_temperature_celsius", 60), Pair("host_memory_percent", 0),
                          Pair("memory_percent", 0)));
  reading.gpus[0].power_limit_watts = 360;
  EXPECT_EQ(values_of(PointMaker().of_reading(reading, 1))["gpu0_power_percent"], 25);
  reading.gpus[0].power_limit_watts = 1;
  EXPECT_EQ(values_of(PointMaker().of_reading(reading, 1))["gpu0_power_percent"], 9000);
}

TEST(PointsTest, OfAMeasurementOnlyNumbersAreValues) {
  Measurement measurement;
  measurement.measured = {{"train_runtime", 5.5}, {"dtype", "bfloat16"}, {"rate", nullptr}};
  EXPECT_THAT(values_of(points_of_measurement(measurement, 3, 1)),
              ElementsAre(Pair("train_runtime", 5.5)));
  measurement.measured = Json::object();
  EXPECT_THAT(points_of_measurement(measurement, 3, 1), IsEmpty());
}

TEST(TrackedRunTest, ARepeatHasItsSampleBehindTheKey) {
  TrainingJob job;
  job.experiment = "tuning";
  job.inputs = {{"batch_size", 4}};
  job.device.ranks = 8;
  const std::string key = measurement_key(job.experiment, job.inputs);
  EXPECT_EQ(tracked_run(job, 1, "run").name, key);
  const TrackedRun second = tracked_run(job, 2, "run");
  EXPECT_EQ(second.name, key + ".2");
  EXPECT_EQ(second.key, key);
  EXPECT_EQ(second.ranks, 8);
  EXPECT_EQ(second.gpus, 0);
  job.device.kind = "cuda";
  EXPECT_EQ(tracked_run(job, 1, "run").gpus, 8);
}

TEST(TrackedRunTest, TheNameIsPutInEveryPlaceOfTheKey) {
  TrackedRun run;
  run.name = "abc";
  EXPECT_EQ(file_of_run("/{key}/{key}{key}.jsonl", run), "/abc/abcabc.jsonl");
  run.name = "{key}";
  EXPECT_EQ(file_of_run("/{key}/x", run), "/{key}/x") << "what is put in is not replaced again";
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
