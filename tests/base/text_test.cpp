#include "sftbench/base/text.h"

#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(TextTest, AnAddressIsShownWithoutItsSecrets) {
  const std::pair<const char*, const char*> kWords[] = {
      {"http://me:pw@host:5000/a", "http://***@host:5000/a"},
      {"mlflow=https://me@host?token=t", "mlflow=https://***@host?***"},
      {"--track=mlflow=http://:pw@host/a?b=c", "--track=mlflow=http://***@host/a?***"},
      {"http://host#token=t", "http://host#***"},
      {"http://me:p/w@host", "http://***@host"},  // a password that nobody escaped
      {"http://me:p@w@host", "http://***@host"},
      {"http://me:p?w@host", "http://***"},
      {"http://host?mail=a@b", "http://***"},
      {"http://@", "http://***@"},
      {"s3+x://key@bucket/", "s3+x://***@bucket/"}};
  for (const auto& [word, shown] : kWords) EXPECT_EQ(without_secrets(word), shown);
}

TEST(TextTest, WhatIsNoAddressStaysAsItIs) {
  for (const char* word : {"", "://", "=://a@b", "http://host:5000/a", "a@b", "what? a=b@c",
                           "see http://a@b", "jsonl=a?b", "--set"}) {
    EXPECT_EQ(without_secrets(word), word);
  }
}

TEST(TextTest, WordsAreQuotedWhereAShellNeedsIt) {
  EXPECT_EQ(shell_quoted("model_name=smollm2-135m"), "model_name=smollm2-135m");
  EXPECT_EQ(shell_quoted("a/b.c:d,e@f%g+h"), "a/b.c:d,e@f%g+h");
  EXPECT_EQ(shell_quoted("two words"), "'two words'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("['True']"), "'['\\''True'\\'']'");
}

TEST(TextTest, OfManyPartsTwentyAreNamed) {
  std::vector<std::string> parts(20, "a");
  EXPECT_EQ(join_some(parts), join(parts));
  parts.insert(parts.end(), {"b", "c"});
  EXPECT_EQ(join_some(parts), join(std::vector<std::string>(20, "a")) + " and 2 more");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
