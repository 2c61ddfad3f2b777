#include "sftbench/base/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

const std::string kLatin1 = "caf\xe9";

TEST(JsonTextTest, BytesThatAreNoUtf8AreReplaced) {
  const Json json = {{"path", "/data/" + kLatin1}, {kLatin1, {1, 2}}};
  const Json read = parse_json(json_text(json), "text");
  EXPECT_EQ(read, Json({{"path", "/data/caf\uFFFD"}, {"caf\uFFFD", {1, 2}}}));
  EXPECT_EQ(json_text(Json("caf\u00e9")), "\"caf\u00e9\"");
  EXPECT_EQ(json_text(Json({{"a", 1}}), 2), "{\n  \"a\": 1\n}");
}

TEST(JsonTextTest, WhatIsHandedOverKeepsEveryByte) {
  const Json json = {{"path", "/data/" + kLatin1},
                     {"number", -1.5},
                     {"seed", 42U},
                     {"list", {"x"}},
                     {"none", nullptr},
                     {"yes", true}};
  const Json read = unpacked_json(packed_json(json), "standard input");
  EXPECT_EQ(read, json);
  EXPECT_EQ(read.at("path"), "/data/" + kLatin1);
  EXPECT_TRUE(read.at("seed").is_number_unsigned());
  EXPECT_EQ(read.items().begin().key(), "path");  // in the order in which it was written
}

TEST(JsonTextTest, WhatIsNotHandedOverByThisProgramIsRefused) {
  for (const std::string text : {"", "{\"path\": 1}", "\xff\xff"}) {
    try {
      unpacked_json(text, "standard input");
      ADD_FAILURE() << "no error for '" << text << "'";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("standard input: not what this program hands"));
    }
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
