// training_logs.jsonl against what fms-hf-tuning's callback wrote under Trainer over the same steps
// (tests/reference/training_logs.py).
#include "cli/training_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "cli/program.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;

SavePlan plan_of(const fs::path& folder, const std::string& strategy, int64_t steps) {
  SavePlan plan;
  plan.output_directory = folder.string();
  plan.log_strategy = *find_named<IntervalStrategy>(strategy);
  plan.log_steps = steps;
  return plan;
}

void replay(const Json& events, TrainObserver& log) {
  TrainBegin begin;
  begin.total_steps = events.back().at("step").get<int64_t>();
  log.on_train_begin(begin);
  TrainControl control;
  for (const Json& event : events) {
    const int64_t step = event.at("step").get<int64_t>();
    const double epoch = event.at("epoch").get<double>();
    if (event.contains("loss")) {
      StepEvent end;
      end.step = step;
      end.epoch = epoch;
      end.loss = event.at("loss").get<double>();
      log.on_step_end(end, control);
    } else {
      EvaluationEvent evaluation;
      evaluation.step = step;
      evaluation.epoch = epoch;
      evaluation.loss = event.at("eval_loss").get<double>();
      log.on_evaluation(evaluation);
    }
  }
  log.on_train_end({});
}

std::vector<Json> lines_of(const fs::path& folder) {
  std::vector<Json> lines;
  std::ifstream file(folder / "training_logs.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST(TrainingLogTest, IsWhatFmsHfTuningWrites) {
  const Json cases = read_json_file(std::string(SFTBENCH_TEST_DATA) + "/training_logs.json");
  ASSERT_EQ(cases.size(), 7);
  for (const Json& one : cases) {
    SCOPED_TRACE(one.at("name"));
    const fs::path folder = fresh_folder("training_log") / "out";
    TrainingLog log(plan_of(folder, one.at("strategy"), one.at("steps")));
    replay(one.at("events"), log);
    const std::vector<Json> lines = lines_of(folder);
    ASSERT_EQ(lines.size(), one.at("lines").size());
    for (size_t i = 0; i < lines.size(); ++i) {
      const Json& data = lines[i].at("data");
      const Json& expected = one.at("lines")[i].at("data");
      EXPECT_EQ(lines[i].at("name"), one.at("lines")[i].at("name"));
      EXPECT_EQ(data.at("epoch"), expected.at("epoch"));
      EXPECT_EQ(data.at("step"), expected.at("step"));
      EXPECT_NEAR(data.at("value").get<double>(), expected.at("value").get<double>(), 1e-5);
      EXPECT_EQ(data.at("timestamp").get<std::string>().size(),
                expected.at("timestamp").get<std::string>().size());
    }
  }
}

TEST(TrainingLogTest, ThatCannotBeWrittenEndsNoRun) {
  const Json events = Json::parse(R"([{"step": 1, "epoch": 1.0, "loss": 2.0}])");
  const fs::path folder = fresh_folder("training_log");
  const fs::path path = folder / "training_logs.jsonl";
  fs::create_directory(path);
  TrainingLog blocked(plan_of(folder, "epoch", 500));
  replay(events, blocked);
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  TrainingLog pipe(plan_of(folder, "epoch", 500));
  replay(events, pipe);
  fs::remove(path);
  std::ofstream(folder / "victim") << "precious";
  fs::create_symlink("victim", path);
  TrainingLog link(plan_of(folder, "epoch", 500));
  replay(events, link);
  std::string kept;
  std::ifstream(folder / "victim") >> kept;
  EXPECT_EQ(kept, "precious");
  fs::remove(path);
  TrainingLog good(plan_of(folder, "epoch", 500));
  replay(events, good);
  EXPECT_EQ(lines_of(folder).size(), 1);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
