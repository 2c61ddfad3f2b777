// What the model writes before and after training. That rows token by token have the logits of
// whole rows stands in model/decoding_test.cpp.
#include "engine/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/saving_fixture.h"
#include "parallel/rank_processes.h"
#include "sftbench/engine/engine.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kHeldOut = SFTBENCH_TEST_DATA "/evaluation/dataset.jsonl";

TrainingJob generating(const std::string& model = "llama", int64_t texts = 3) {
  TrainingJob job = saving_job("", model);
  job.save = {};
  job.optimizer.learning_rate = 0.05;  // four steps have to show
  job.evaluation = {.path = kHeldOut,
                    .strategy = IntervalStrategy::kEpoch,
                    .generated = texts,
                    .max_new_tokens = 7};
  return job;
}

std::vector<std::string> written(const SavedRun& run) {
  std::vector<std::string> texts;
  for (const GeneratedText& text : run.end.generated) {
    texts.push_back(text.before);
    texts.push_back(text.after);
  }
  return texts;
}

TEST(Generation, GoesOnWithThePromptsOfTheFirstHeldOutEntries) {
  const SavedRun run = run_of(generating(), alone());
  ASSERT_EQ(run.end.generated.size(), 2U) << "in the third entry nothing bears loss";
  bool learned = false;
  for (const GeneratedText& text : run.end.generated) learned |= text.before != text.after;
  EXPECT_TRUE(learned);
  for (const GeneratedText& text : run.end.generated) {
    EXPECT_THAT(text.prompt, ::testing::EndsWith("### Response:"));
    EXPECT_FALSE(text.expected.empty());
    EXPECT_THAT(text.expected, ::testing::Not(HasSubstr("### Response:")));
  }
}

TEST(Generation, ChangesNoBitOfTraining) {
  for (const char* model : {"llama", "granitemoehybrid"}) {
    TrainingJob silent = generating(model);
    silent.evaluation.generated = 0;
    const SavedRun with = run_of(generating(model), alone()), without = run_of(silent, alone());
    EXPECT_EQ(with.losses, without.losses);
    EXPECT_TRUE(without.end.generated.empty());
    for (const auto& [name, value] : without.at_end)
      EXPECT_TRUE(torch::equal(with.at_end.at(name), value)) << name;
  }
}

TEST(Generation, IsTheSameBeforeAndAfterStepsThatLearnNothing) {
  TrainingJob job = generating("mixtral", 2);
  job.optimizer.learning_rate = 0;
  for (const GeneratedText& text : run_of(job, alone()).end.generated)
    EXPECT_EQ(text.before, text.after);
}

TEST(Generation, IsTheSameOnSeveralRanks) {
  TrainingJob job = generating();
  const std::vector<std::string> expected = written(run_of(job, alone()));
  for (const char* strategy : {"FULL_SHARD", "NO_SHARD"}) {
    const TrainingJob divided = on_ranks(job, 2, strategy);
    run_ranks({.ranks = 2}, [&](RankGroup& group) {
      EXPECT_EQ(written(run_of(divided, group)), expected) << strategy;
    });
  }
}

TEST(Evaluation, BeforeTheFirstStepIsNoneOfTheBest) {
  TrainingJob job = generating();
  job.evaluation.on_start = true;
  job.evaluation.generated = 0;
  job.optimizer.learning_rate = 10;  // makes it worse
  const SavedRun run = run_of(job, alone());
  ASSERT_EQ(run.evaluations.size(), 2U);
  EXPECT_EQ(run.evaluations[0].step, 0);
  EXPECT_LT(run.evaluations[0].loss, run.evaluations[1].loss);
  EXPECT_EQ(run.end.best_step, 4);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
