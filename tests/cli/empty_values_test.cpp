// "$UNSET" on a command line: an empty value is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/program.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

TEST(EmptyValuesTest, AreRefusedBeforeAnythingIsDone) {
  const auto folder = fresh_folder("empty_values");
  const std::vector<std::vector<std::string>> given = {
      {"run", "--save-model-dir", ""}, {"run", "--output-dir", ""}, {"run", "--output", ""},
      {"run", "--experiment", ""},     {"run", "--hosts", ""},      {"run", "--chat-template", ""},
      {"sweep", "--set", ""},          {"recommend", "--gpus", ""}, {"models", "NAME", ""},
      {"report", "--experiment", ""}};
  for (std::vector<std::string> words : given) {
    const std::string option = words[1];
    if (option == "NAME") words.erase(words.begin() + 1);
    if (words[0] == "recommend") words.insert(words.end(), {"--model", "llama3.1-8b"});
    if (words[0] == "report") words.insert(words.begin() + 1, ".");
    if (words[0] == "run") {
      words.insert(words.end(), {"--backend", "simulate"});
      for (const char* set :
           {"model_name=smollm2-135m", "number_gpus=0", "batch_size=1", "model_max_length=64"}) {
        words.insert(words.end(), {"--set", set});
      }
      if (option != "--experiment") words.insert(words.end(), {"--experiment", "finetune_lora"});
    }
    const ProgramResult result = run_program(words, {}, folder);
    EXPECT_EQ(result.status, 2) << option;
    EXPECT_THAT(result.err, HasSubstr(": " + option + " has an empty value\n"));
    EXPECT_THAT(file_names_below(folder), testing::IsEmpty()) << option;
  }
}

// "--output-dir=$UNSET"
TEST(EmptyValuesTest, TheNextWordIsNoValueOfAnOptionThatEndsWithAnEqualsSign) {
  const auto folder = fresh_folder("equals");
  const ProgramResult result = run_program({"run", "--output-dir=", "--no-progress"}, {}, folder);
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr(": --output-dir has an empty value\n"));
  std::ofstream(folder / "a.jsonl") << R"({"output": "a --foo= b"})"
                                    << "\n";
  for (const char* text : {"--response-template=", "--response-template=--foo="}) {
    const ProgramResult shown =
        run_program({"dataset", "show", "a.jsonl", text, "-n", "1"}, {}, folder);
    EXPECT_EQ(shown.status, 0) << shown.err;
  }
}

// Texts that an entry may go without.
TEST(EmptyValuesTest, ATextMayBeEmpty) {
  const auto folder = fresh_folder("empty_texts");
  const ProgramResult made = run_program({"dataset", "text", "-o", "a.jsonl", "--entries", "1",
                                          "--prompt", "", "--response-delimiter", ""},
                                         {}, folder);
  EXPECT_EQ(made.status, 0) << made.err;
  const ProgramResult shown =
      run_program({"dataset", "show", "a.jsonl", "--response-template", "", "-n", "1"}, {}, folder);
  EXPECT_THAT(shown.err, testing::Not(HasSubstr("empty value")));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
