// Everything that a user can get wrong in a space file or on the command line, with the message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/program.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

constexpr const char* kHead = "sampleStoreIdentifier: s\n";
constexpr const char* kFull =
    "experiments: [{experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: "
    "SFTTrainer}]\n";

std::string space_with(const std::string& entity_space, const std::string& experiments = kFull) {
  return kHead + experiments + "entitySpace:\n" + entity_space;
}

const std::string kRest =
    "- {identifier: number_gpus, propertyDomain: {values: [0]}}\n"
    "- {identifier: model_max_length, propertyDomain: {values: [64]}}\n"
    "- {identifier: batch_size, propertyDomain: {values: [1]}}\n";
const std::string kModel = "- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n";

ProgramResult run_space(const std::string& name, const std::string& text,
                        std::vector<std::string> words = {}) {
  const auto folder = fresh_folder("bad_input_" + name);
  std::ofstream(folder / "space.yaml") << text;
  words.insert(words.begin(), {"run", "space.yaml", "--weights", "random", "--output", "results"});
  const ProgramResult result = run_program(words, {}, folder);
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(file_names_below(folder / "results"), testing::IsEmpty());
  return result;
}

TEST(BadInputTest, UnknownKeyIsNamedWithLineAndNearest) {
  const auto result = run_space("key", space_with(kModel + kRest) + "metdata: {}\n");
  EXPECT_THAT(result.err, HasSubstr("space.yaml:8: metdata: unknown key"));
  EXPECT_THAT(result.err, HasSubstr("did you mean 'metadata'?"));
}

TEST(BadInputTest, UnknownPropertyIsNamedWithLineAndNearest) {
  const auto result = run_space(
      "property",
      space_with(kModel + kRest + "- {identifier: max_stesp, propertyDomain: {values: [1]}}\n"));
  EXPECT_THAT(result.err, HasSubstr("space.yaml:8: "));
  EXPECT_THAT(result.err, HasSubstr("'max_stesp'"));
  EXPECT_THAT(result.err, HasSubstr("did you mean 'max_steps'?"));
}

TEST(BadInputTest, UnknownModelIsNamedWithLineAndNearest) {
  const auto result = run_space(
      "model",
      space_with("- {identifier: model_name, propertyDomain: {values: [smollm2-135]}}\n" + kRest));
  EXPECT_THAT(result.err, HasSubstr("space.yaml:4: "));
  EXPECT_THAT(result.err, HasSubstr("smollm2-135"));
  EXPECT_THAT(result.err, HasSubstr("did you mean 'smollm2-135m'?"));
}

TEST(BadInputTest, UnknownOptimizerIsNamedWithNearest) {
  const auto result =
      run_space("optimizer", space_with(kModel + kRest), {"--set", "optim=adamw_torh"});
  EXPECT_THAT(result.err, HasSubstr("--set optim: 'adamw_torh' is no value of optim"));
  EXPECT_THAT(result.err, HasSubstr("did you mean 'adamw_torch'?"));
  // The default, which begins like that, sooner than the shortest name that does.
  const auto begun = run_space("optimizer", space_with(kModel + kRest), {"--set", "optim=adam"});
  EXPECT_THAT(begun.err, HasSubstr("did you mean 'adamw_torch'?"));
}

TEST(BadInputTest, UnknownDatasetIsNamedWithNearest) {
  const auto result = run_space("dataset", space_with(kModel + kRest),
                                {"--set", "dataset_id=news-tokens-16384plus-entries-4095"});
  EXPECT_THAT(result.err, HasSubstr("news-tokens-16384plus-entries-4095"));
  EXPECT_THAT(result.err, HasSubstr("did you mean 'news-tokens-16384plus-entries-4096'?"));
}

TEST(BadInputTest, UnknownExperimentIsNamedWithNearest) {
  const std::string experiments =
      "experiments: [{experimentIdentifier: finetune_ful_benchmark-v1.0.0, actuatorIdentifier: "
      "SFTTrainer}]\n";
  const auto in_file = run_space("experiment", space_with(kModel + kRest, experiments));
  EXPECT_THAT(in_file.err, HasSubstr("space.yaml:2: "));
  EXPECT_THAT(in_file.err, HasSubstr("did you mean 'finetune_full_benchmark-v1.0.0'?"));
  const ProgramResult option = run_program(
      {"run", "--experiment", "finetune_full_benchmrk-v1.0.0", "--set", "number_gpus=0"});
  EXPECT_EQ(option.status, 2);
  EXPECT_THAT(option.err, HasSubstr("did you mean 'finetune_full_benchmark-v1.0.0'?"));
}

TEST(BadInputTest, YamlSyntaxErrorHasItsLine) {
  const auto result = run_space("yaml", std::string(kHead) + "entitySpace:\n- {identifier: [\n");
  EXPECT_THAT(result.err, testing::ContainsRegex("space\\.yaml:[0-9]+: "));
}

TEST(BadInputTest, ValuesOutsideTheirDomainsAreAllListedAtOnce) {
  const auto result = run_space(
      "domain",
      space_with(kModel + "- {identifier: number_gpus, propertyDomain: {values: [33]}}\n"
                          "- {identifier: model_max_length, propertyDomain: {values: [0]}}\n"
                          "- {identifier: batch_size, propertyDomain: {values: [one]}}\n"));
  EXPECT_THAT(result.err, HasSubstr("space.yaml:5: "));
  EXPECT_THAT(result.err, HasSubstr("33"));
  EXPECT_THAT(result.err, HasSubstr("space.yaml:6: "));
  EXPECT_THAT(result.err, HasSubstr("space.yaml:7: "));
  EXPECT_THAT(result.err, HasSubstr("'one'"));
}

TEST(BadInputTest, SeveralEntitiesAreAskedToBeChosenFrom) {
  const auto result = run_space(
      "several",
      space_with(kModel + "- {identifier: number_gpus, propertyDomain: {values: [0]}}\n"
                          "- {identifier: model_max_length, propertyDomain: {values: [64, 128]}}\n"
                          "- {identifier: batch_size, propertyDomain: {values: [1]}}\n"));
  EXPECT_THAT(result.err, HasSubstr("2 "));
  EXPECT_THAT(result.err, HasSubstr("--entity"));
  EXPECT_THAT(result.err, HasSubstr("model_max_length.64"));
}

TEST(BadInputTest, AMissingSpaceFileIsNamed) {
  const ProgramResult result = run_program({"run", "no_such_space.yaml"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("no_such_space.yaml"));
  EXPECT_THAT(result.err, HasSubstr("No such file or directory"));
}

TEST(BadInputTest, AnAssignmentWithoutAValueIsNamed) {
  const auto result = run_space("assignment", space_with(kModel + kRest), {"--set", "batch_size"});
  EXPECT_THAT(result.err, HasSubstr("batch_size"));
  EXPECT_THAT(result.err, HasSubstr("property=value"));
}

TEST(BadInputTest, AJobFileThatIsNoJobIsNamed) {
  const auto folder = fresh_folder("bad_job");
  std::ofstream(folder / "job.json") << "{\"experiment\": \n";
  const ProgramResult syntax = run_program({"run", "--job", "job.json"}, {}, folder);
  EXPECT_EQ(syntax.status, 2);
  EXPECT_THAT(syntax.err, HasSubstr("sftbench: job.json:2: not JSON"));
  std::ofstream(folder / "job.json") << "{\"experiment\": 7}\n";
  const ProgramResult wrong = run_program({"run", "--job", "job.json"}, {}, folder);
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("job.json: experiment: "));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
