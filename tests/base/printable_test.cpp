#include "sftbench/base/printable.h"

#include <gtest/gtest.h>

namespace sftbench {
namespace {

TEST(PrintableTest, WhatCanBeReadStays) {
  const std::string text = "rank 3: größer \xe4\xb8\xad \xf0\x9f\x98\x80 \\ \"";
  EXPECT_EQ(printable_line(text), text);
  EXPECT_EQ(printable_text(text + "\n\tline"), text + "\n\tline");
  EXPECT_EQ(printable_line(""), "");
}

TEST(PrintableTest, WhatControlsATerminalIsSpelledOut) {
  EXPECT_EQ(printable_line("\x1b[2J\r\n\t\x7f"), "\\x1b[2J\\x0d\\x0a\\x09\\x7f");
  EXPECT_EQ(printable_text("\x1b]0;mine\x07\n"), "\\x1b]0;mine\\x07\n");
  EXPECT_EQ(printable_line(std::string("\0a", 2)), "\\x00a");
  EXPECT_EQ(printable_line("\xc2\x9b"), "\\xc2\\x9b");           // CSI in one character
  EXPECT_EQ(printable_line("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // turns the direction
  EXPECT_EQ(printable_line("\xe2\x81\xa6x"), "\\xe2\\x81\\xa6x");
}

TEST(PrintableTest, WhatIsNoUtf8IsSpelledOutByteByByte) {
  EXPECT_EQ(printable_line("a\xff\x62"), "a\\xffb");
  EXPECT_EQ(printable_line("\xc3"), "\\xc3");           // cut off
  EXPECT_EQ(printable_line("\xc0\xaf"), "\\xc0\\xaf");  // longer than need be
  EXPECT_EQ(printable_line("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
  EXPECT_EQ(printable_line("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a pair of UTF-16
  EXPECT_EQ(printable_line("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80");
}

}  // namespace
}  // namespace sftbench
