#include "sftbench/base/terminal_text.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(TerminalTextTest, OrdinaryTextStaysAsItIs) {
  for (const char* text : {"", "smollm2-135m", "größe 日本語 🦙 ~", "a\\x1b"}) {
    EXPECT_TRUE(is_terminal_line(text)) << text;
    EXPECT_EQ(terminal_line(text), text);
    EXPECT_EQ(terminal_text(text), text);
  }
}

TEST(WrappedTest, LongLinesAreBrokenBetweenWordsAndIndented) {
  EXPECT_EQ(wrapped("one two three", 80), "one two three");
  EXPECT_EQ(wrapped("one two three four", 9), "one two\n  three\n  four");
  EXPECT_EQ(wrapped("one two three", 0), "one two three");
  EXPECT_EQ(wrapped("one two", 8, 5), "one\n  two") << "the first line has five columns already";
  EXPECT_EQ(wrapped("  one two\nthree", 6), "  one\n    two\nthree");
  EXPECT_EQ(wrapped("a bbbbbbbbbbbb c", 5), "a\n  bbbbbbbbbbbb\n  c") << "words stay whole";
  EXPECT_EQ(wrapped("größe größe", 11), "größe größe") << "characters count, not bytes";
  EXPECT_EQ(wrapped("a  b\n", 80), "a  b\n");
  EXPECT_EQ(wrapped("", 5), "");
}

TEST(WrappedTest, ALineIsCutBetweenCharactersAndLeavesAColumnFree) {
  EXPECT_EQ(cut_to("größe", 0), "größe");
  EXPECT_EQ(cut_to("größe", 6), "größe");
  EXPECT_EQ(cut_to("größe", 5), "größ");
  EXPECT_EQ(cut_to("größe", 4), "grö");
  EXPECT_EQ(cut_to("", 4), "");
}

TEST(WrappedTest, AFileHasNoColumns) {
  const int file = ::open("/dev/null", O_WRONLY);
  EXPECT_EQ(terminal_columns(file), 0u);
  ::close(file);
}

TEST(TerminalTextTest, WhatATerminalObeysIsSpelledOut) {
  EXPECT_EQ(terminal_line("\x1b[2Jgone\x07"), "\\x1b[2Jgone\\x07");
  EXPECT_EQ(terminal_line("50 %\r100 %"), "50 %\\x0d100 %");
  EXPECT_EQ(terminal_line(std::string_view("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(terminal_line("\xc2\x9b"
                          "31m"),
            "\\x9b31m")
      << "CSI as one character of UTF-8";
  EXPECT_EQ(terminal_line("a\u202eb\u2066c\u2028d\u200fe"), "a\\u202eb\\u2066c\\u2028d\\u200fe");
}

TEST(TerminalTextTest, BytesThatAreNotUtf8AreSpelledOut) {
  EXPECT_EQ(terminal_line("\x9b"
                          "31m"),
            "\\x9b31m")
      << "CSI of a terminal that reads bytes";
  EXPECT_EQ(terminal_line("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(terminal_line("\xc0\x9b"), "\\xc0\\x9b") << "overlong";
  EXPECT_EQ(terminal_line("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "surrogate";
  EXPECT_EQ(terminal_line("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond U+10FFFF";
}

TEST(TerminalTextTest, MessagesKeepTheirLinesAndCellsDoNot) {
  EXPECT_EQ(terminal_text("a\n\tb\x1b"), "a\n\tb\\x1b");
  EXPECT_EQ(terminal_line("a\n\tb"), "a\\n\\tb");
  EXPECT_FALSE(is_terminal_line("a\nb"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
