// Sets of data that are mixed: what data_mixture may say, and what of it reaches the job.
#include "sftbench/plan/data_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/mixture.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

std::string refusal(const std::string& mixture) {
  try {
    mixture_sets(Json::parse(mixture));
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kData);
    return error.what();
  }
  return "none";
}

// Two sets, each with what is given behind its path.
std::string two_sets(const std::string& first, const std::string& second) {
  return R"({"datasets": [{"training_data_path": "a")" + first +
         R"(}, {"training_data_path": "b")" + second + "}]}";
}

TEST(MixtureTest, TakesSharesThatAreWholeOrAbsent) {
  for (const auto& [first, second] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {R"(, "sampling": 0.25)", R"(, "sampling": 0.75)"},
           {R"(, "sampling": 1)", R"(, "train_split": 0)"},
           {R"(, "sampling": 0, "eval_split": 0.5)", R"(, "train_split": 0.5, "eval_split": 0.5)"},
           {R"(, "pretokenized": true)",
            R"(, "input_column_name": "q", "output_column_name": "a")"},
           {R"(, "pretokenized": false, "conversation_column": "m")",
            R"(, "dataset_text_field": "t")"}})
    EXPECT_EQ(refusal(two_sets(first, second)), "none") << first << second;
}

TEST(MixtureTest, RefusesWhatIsNoMixtureByItsPlace) {
  for (const auto& [mixture, found] : std::vector<std::pair<std::string, std::string>>{
           {"{}", "has no datasets"},
           {R"({"datasets": []})", "has no datasets"},
           {R"({"datasets": {"a": 1}})", "has no datasets"},
           {R"({"dataset": []})", "found dataset; expected datasets"},
           {R"({"datasets": [3]})", "datasets[0] has no training_data_path"},
           {R"({"datasets": [{"sampling": 1}]})", "datasets[0] has no training_data_path"},
           {two_sets("", R"(, "share": 1)"), "datasets[1].share: no such property"},
           {two_sets("", R"(, "sampling": "1")"), "datasets[1].sampling: found \"1\""},
           {two_sets("", R"(, "pretokenized": 1)"), "datasets[1].pretokenized: found 1"},
           {two_sets(R"(, "eval_split": 1)", ""), "datasets[0].eval_split: found 1.0"},
           {two_sets(R"(, "eval_split": -0.5)", ""), "datasets[0].eval_split: found -0.5"},
           {two_sets(R"(, "train_split": -0.5)", ""), "datasets[0].train_split: found -0.5"},
           {two_sets(R"(, "train_split": 0.75, "eval_split": 0.5)", ""),
            "datasets[0].train_split: found 0.75"},
           {two_sets(R"(, "sampling": 1)", ""), "sampling: 1 of 2 sets have a share"},
           {two_sets(R"(, "sampling": 0.5)", R"(, "sampling": 0.25)"),
            "the shares add up to 0.75; expected 1"},
           {two_sets(R"(, "sampling": 1.5)", R"(, "sampling": -0.5)"), "sampling: found 1.5"},
           {two_sets(R"(, "sampling": -0.5)", R"(, "sampling": 1)"), "sampling: found -0.5"},
           {two_sets(R"(, "pretokenized": true, "conversation_column": "m")", ""),
            "datasets[0]: pretokenized and conversation_column each say"},
           {two_sets("", R"(, "conversation_column": "m", "data_formatter_template": "t")"),
            "datasets[1]: conversation_column and data_formatter_template"},
           {two_sets("", R"(, "data_formatter_template": "t", "output_column_name": "a")"),
            "each say what an entry is"},
           {two_sets(R"(, "input_column_name": "q")", ""),
            "input_column_name is given alone; with output_column_name it works"},
           {two_sets(R"(, "output_column_name": "q")", ""),
            "output_column_name is given alone; with input_column_name it works"},
           {two_sets(R"(, "input_column_name": "q", "output_column_name": "q")", ""),
            "are both q"}})
    EXPECT_THAT(refusal(mixture), HasSubstr(found)) << mixture;
}

TrainingJob mixed(const std::string& mixture) {
  TrainingJob job;
  job.data.mixture = Json::parse(mixture);
  job.data.entry_template = "{{q}}";
  job.data.input_field = "q";
  job.data.output_field = "a";
  job.data.pretokenized = true;
  job.data.text_field = "text";
  return job;
}

TEST(DataSetsTest, ASetHasTheFormOfAllOrItsOwn) {
  TrainingJob job =
      mixed(R"({"sets": [{"path": "a", "share": 0.25, "held_out": 0.5, "trained": 0.25},
                                       {"path": "b", "text_field": "t"}], "stopping_strategy": "first_exhausted"})");
  job.data.conversation_field = "messages";
  job.evaluation.strategy = IntervalStrategy::kSteps;
  job.evaluation.split = 0.5;
  const std::vector<DataSet> sets = data_sets(job);
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].source.path, "a");
  EXPECT_EQ(sets[0].share, 0.25);
  EXPECT_EQ(sets[0].held_out, 0.5);
  EXPECT_EQ(sets[0].trained, 0.25);
  EXPECT_TRUE(sets[0].source.pretokenized);
  EXPECT_EQ(sets[0].source.entry_template, "{{q}}");
  EXPECT_EQ(sets[0].source.conversation_field, "");
  EXPECT_EQ(sets[0].source.mixture, Json::object());
  EXPECT_FALSE(sets[1].source.pretokenized);
  EXPECT_EQ(
      sets[1].source.entry_template + sets[1].source.input_field + sets[1].source.output_field, "");
  EXPECT_EQ(sets[1].source.text_field, "t");
  EXPECT_EQ(sets[1].trained, -1) << "all that is not held out";
  EXPECT_EQ(stopping_strategy(job.data), "first_exhausted");
  EXPECT_EQ(stopping_strategy({}), "all_exhausted");
  job.evaluation.strategy = IntervalStrategy::kNo;
  EXPECT_EQ(data_sets(job)[0].held_out, 0) << "nothing is evaluated";
}

TEST(DataSetsTest, OneSetHoldsOutAShareAndNoNumberOfEntries) {
  TrainingJob job;
  job.data.path = "a";
  job.evaluation.split = 0.5;
  EXPECT_EQ(data_sets(job).at(0).held_out, 0);
  job.evaluation.strategy = IntervalStrategy::kEpoch;
  EXPECT_EQ(data_sets(job).at(0).held_out, 0.5);
  job.evaluation.split = 1;  // an entry
  EXPECT_EQ(data_sets(job).at(0).held_out, 0);
  job.evaluation.split = 0.5;
  job.evaluation.path = "b";
  EXPECT_EQ(data_sets(job).at(0).held_out, 0);
}

TEST(DataSetsTest, NamesWhatIsWrongInAJobFile) {
  for (const auto& [mixture, found] : std::vector<std::pair<std::string, std::string>>{
           {R"({"set": []})", "data.mixture.sets: is no list of sets"},
           {R"({"sets": {"a": 1}})", "data.mixture.sets: is no list of sets"},
           {R"({"sets": []})", "data.mixture.sets: is no list of sets"},
           {R"({"sets": [{"path": "a"}, 3]})", "data.mixture.sets[1]: found 3"},
           {R"({"sets": [{"share": 1}]})", "data.mixture.sets[0]: found {\"share\":1}"},
           {R"({"sets": [{"path": "a", "paths": 1}]})", "data.mixture.sets[0].paths: unknown key"},
           {R"({"sets": [{"path": "a", "share": "1"}]})",
            "data.mixture.sets[0].share: found \"1\""}}) {
    try {
      data_sets(mixed(mixture));
      ADD_FAILURE() << mixture;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(found));
    }
  }
}

TEST(DataSetsTest, EntriesAreDividedAsTheJobSays) {
  const auto divided = [](const TrainingJob& job, const std::vector<int64_t>& sizes) {
    return divide_entries(job, data_sets(job), sizes);
  };
  TrainingJob job = mixed(R"({"sets": [{"path": "a"}, {"path": "b"}]})");
  EXPECT_THAT(divided(job, {2, 3}).training, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(divided(job, {2, 3}).evaluation, IsEmpty());
  job.data.most_entries = 1;
  EXPECT_THAT(divided(job, {2, 3}).training, ElementsAre(0, 2));
  job.data.most_entries = 0;
  job.evaluation.strategy = IntervalStrategy::kEpoch;
  job.evaluation.split = 2;  // entries of all
  EXPECT_EQ(divided(job, {2, 3}).training.size(), 3u);
  EXPECT_EQ(divided(job, {2, 3}).evaluation.size(), 2u);
  job.evaluation.split = 5;
  EXPECT_THROW(divided(job, {2, 3}), RunError);
  const TrainingJob shares =
      mixed(R"({"sets": [{"path": "a", "share": 0.9}, {"path": "b", "share": 0.1}]})");
  const std::vector<int64_t> drawn = divided(shares, {1, 3}).training;
  EXPECT_GT(drawn.size(), 4u) << "a begins anew until b has given all";
  EXPECT_THAT(drawn, IsSupersetOf({0, 1, 2, 3}));
}

TEST(DataSetsTest, ConversationsWithoutATemplateLackOne) {
  TrainingJob job;
  EXPECT_FALSE(lacks_chat_template(job));
  job.data.conversation_field = "messages";
  EXPECT_TRUE(lacks_chat_template(job));
  job.data.chat_template = "{{ messages }}";
  EXPECT_FALSE(lacks_chat_template(job));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
