#include "sftbench/base/command_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using Words = std::vector<std::string>;

TEST(CommandTextTest, IsKeptForAShellAndWithoutSecrets) {
  EXPECT_EQ(kept_command(Words{"sftbench", "run", "a b", "mlflow=http://me:p'w@h/a?t=b"}),
            "sftbench run 'a b' 'mlflow=http://***@h/a?***'");
}

TEST(CommandTextTest, AnOldLineIsMaskedWhateverItsQuotes) {
  const std::pair<const char*, const char*> kLines[] = {
      {"", ""},
      {"sftbench run  'a b' ", "sftbench run  'a b' "},
      {"sftbench run --model http://h/a 'it'\\''s'", "sftbench run --model http://h/a 'it'\\''s'"},
      {"--track mlflow=http://me:pw@h --seed 1", "--track 'mlflow=http://***@h' --seed 1"},
      {"--track 'mlflow=http://me:p w@h' --seed 1", "--track 'mlflow=http://***@h' --seed 1"},
      {"'--track=mlflow=http://me:p'\\''w x@h'", "'--track=mlflow=http://***@h'"},
      {"--track \"mlflow=http://h?a=\\\"b c\"", "--track 'mlflow=http://h?***'"},
      {"http://h?a=b\thttp://me@h", "'http://h?***'\t'http://***@h'"},
      {"'http://me:pw@h", "'http://***@h'"},  // cut off
      {"http://h?a\\", "'http://h?***'"}};
  for (const auto& [line, masked] : kLines) {
    EXPECT_EQ(masked_command(line), masked);
    EXPECT_EQ(masked_command(masked), masked) << "masked twice";
  }
}

TEST(CommandTextTest, HiddenWordsReachTheProcessThatGetsTheVariables) {
  const Words words = {"run",  "mlflow=http://me:pw@h",   "--seed",      "1",
                       "\xff", "mlflow=http://me:\xff@h", "http://***@h"};
  Words shown = words;
  std::vector<std::pair<std::string, std::string>> environment;
  hide_secrets(shown, environment);
  EXPECT_THAT(shown, ElementsAre("run", "mlflow=http://***@h", "--seed", "1", "\xff",
                                 "mlflow=http://***@h", "http://***@h"));
  EXPECT_THAT(environment, ElementsAre(Pair("SFTBENCH_HIDDEN_WORD_1", words[1]),
                                       Pair("SFTBENCH_HIDDEN_WORD_5", words[5])));
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  reveal_secrets(shown);
  EXPECT_EQ(shown, words);
  for (const auto& [name, value] : environment) EXPECT_EQ(std::getenv(name.c_str()), nullptr);
}

TEST(CommandTextTest, AVariableOfAnotherCommandChangesNoWord) {
  ::setenv("SFTBENCH_HIDDEN_WORD_0", "http://me:pw@h", 1);
  Words words = {"http://other"};
  reveal_secrets(words);
  EXPECT_THAT(words, ElementsAre("http://other"));
  std::vector<std::pair<std::string, std::string>> environment;
  hide_secrets(words, environment);
  EXPECT_THAT(environment, IsEmpty());
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
