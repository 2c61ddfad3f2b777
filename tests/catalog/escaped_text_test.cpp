#include <gtest/gtest.h>

#include "sftbench/catalog/experiment.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(EscapedTextTest, EscapesAreThoseOfPython) {
  EXPECT_EQ(unescaped_text("\\n### R\\t\\\\ \\x41\\u00e9 \\q é"), "\n### R\t\\ Aé \\q é");
  EXPECT_EQ(unescaped_text("\\r\\'\\\"\\a\\b\\f\\v\\0"), std::string("\r'\"\a\b\f\v\0", 8));
  EXPECT_EQ(unescaped_text("\\"), "\\");
  EXPECT_EQ(unescaped_text(std::string_view("\\n").substr(0, 1)), "\\")
      << "what follows is another's";
  EXPECT_EQ(unescaped_text("a\\"), "a\\");
  EXPECT_EQ(unescaped_text("nt"), "nt");
  EXPECT_EQ(unescaped_text("a\\nb"), "a\nb");
  for (const char* none : {"\\x4", "\\x4g", "\\u00e", "\\ud800", "\\udfff", "\\x-1", "\\q", "\\1"})
    EXPECT_EQ(unescaped_text(none), none);
  EXPECT_EQ(escaped_text("\n\t\r é"), "\\n\\t\\r é");
}

// Codes at which UTF-8 becomes a byte longer, and those beside the halves of pairs.
TEST(EscapedTextTest, CodesBecomeUtf8) {
  EXPECT_EQ(unescaped_text("\\u007f\\u0080\\u07ff\\u0800"), "\x7F\u0080\u07FF\u0800");
  EXPECT_EQ(unescaped_text("\\ud7ff\\ue000\\uffff"), "\uD7FF\uE000\uFFFF");
}

TEST(EscapedTextTest, ALineHoldsEveryTextAndGivesItBack) {
  EXPECT_EQ(one_line_text("a \\ b~"), "a \\ b~");
  EXPECT_EQ(one_line_text("\x1F"), "{#- escaped -#}\\x1f");
  EXPECT_EQ(one_line_text("\x7F"), "{#- escaped -#}\\x7f");
  EXPECT_EQ(one_line_text("a\\n\n é"), "{#- escaped -#}a\\\\n\\n é");
  for (const char* text : {"", "a \\ b", "a\\n\n\x1F \x7F é~", "\\x41\n"})
    EXPECT_EQ(whole_text(one_line_text(text)), text);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
