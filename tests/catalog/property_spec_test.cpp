// What each kind of property takes, keys results by, and asks for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/catalog/experiment.h"

namespace sftbench {
namespace SFTBENCH_FILE {

PropertySpec of(PropertyKind kind) {
  PropertySpec spec;
  spec.kind = kind;
  return spec;
}

PropertySpec grid(PropertyKind kind, double lower, double upper, double interval) {
  PropertySpec spec = of(kind);
  spec.range = NumberRange{lower, upper, interval};
  return spec;
}

PropertySpec one_of(const std::vector<std::string>& values) {
  PropertySpec spec = of(PropertyKind::kString);
  spec.values = values;
  return spec;
}

std::optional<Json> accepted(const PropertySpec& spec, const std::string& yaml) {
  return spec.accept(parse_yaml(yaml, "x"));
}

void takes(const PropertySpec& spec, const std::vector<const char*>& legal,
           const std::vector<const char*>& others) {
  for (const char* yaml : legal) EXPECT_TRUE(accepted(spec, yaml)) << yaml;
  for (const char* yaml : others) EXPECT_FALSE(accepted(spec, yaml)) << yaml;
}

TEST(PropertyKindTest, KindsHaveNames) {
  for (const char* name :
       {"string", "integer", "number", "boolean", "string_list", "module_names", "object"}) {
    ASSERT_TRUE(find_property_kind(name)) << name;
    EXPECT_EQ(to_string(*find_property_kind(name)), name);
  }
  EXPECT_FALSE(find_property_kind("text"));
}

TEST(NumberPropertyTest, AGridBeginsAtItsLowerEndAndEndsBelowItsUpperOne) {
  PropertySpec even = grid(PropertyKind::kInteger, 2, 10, 2);
  takes(even, {"2", "4", "8", "8.0"}, {"0", "1", "3", "9", "10", "12", "[2]", "~", "two"});
  takes(grid(PropertyKind::kInteger, 1, 10, 3), {"1", "4", "7"}, {"2", "3", "5", "6", "10"});
  even.zero_is_invalid = true;
  takes(even, {"0", "2", "0.0"}, {"-2", "1", "10"});
  takes(grid(PropertyKind::kNumber, 0.5, 2, 0.5), {"0.5", "1", "1.5"}, {"0", "0.75", "2", "-0.5"});
}

TEST(NumberPropertyTest, WithoutAnIntervalEveryNumberBetweenTheEndsIsLegal) {
  takes(grid(PropertyKind::kNumber, 0.5, 2, 0), {"0.5", "0.75", "1.999"}, {"0.499", "2", "2.5"});
  takes(grid(PropertyKind::kInteger, 0, 3, 0), {"0", "1", "2"}, {"0.5", "3", "-1"});
  takes(of(PropertyKind::kNumber), {"-1e300", "0.1", "7"}, {".inf", "-.inf", ".nan"});
  takes(of(PropertyKind::kInteger), {"-70000", "7", "7.0"}, {"7.5"});
}

// YAML 1.1 has no number 1e3. Whoever writes quotation marks means a text.
TEST(NumberPropertyTest, ALiteralThatYamlTakesForTextIsANumberWhereAllOfItIsOne) {
  const PropertySpec any = of(PropertyKind::kNumber);
  EXPECT_EQ(accepted(any, "1e3"), Json(1000.0));
  EXPECT_EQ(accepted(any, "-25E-1"), Json(-2.5));
  takes(any, {"+1e2"}, {"'1e3'", "''", "1e", "e3", ".", "1e999", "nan", "1e3x", "1 e3"});
}

TEST(BooleanPropertyTest, TakesZeroAndOneToo) {
  const PropertySpec spec = of(PropertyKind::kBoolean);
  takes(spec, {"true", "off", "0", "1"}, {"2", "-1", "0.5", "'1'", "[true]", "~"});
  EXPECT_EQ(spec.canonical(1), Json(true));
  EXPECT_EQ(spec.canonical(true), Json(true));
  EXPECT_EQ(spec.canonical(0), Json(false));
  EXPECT_EQ(spec.canonical(false), Json(false));
}

TEST(TextPropertyTest, IsOneOfTheValuesOrAnyWhereTheSetIsOpen) {
  PropertySpec spec = one_of({"a", "no", "2.8"});
  takes(spec, {"a", "no", "2.8", "'2.8'"},
        {"b", "yes", "2.9", "'None'", "''", "~", "[a]", "{a: b}"});
  EXPECT_EQ(accepted(spec, "no"), Json("no"));
  EXPECT_EQ(accepted(spec, "2.8"), Json("2.8"));
  spec.nullable = true;
  takes(spec, {"a", "None", "''", "~"}, {"b", "none"});
  spec.nullable = false;
  spec.open = true;
  takes(spec, {"a", "b", "7", "None", "\"b \\u00a0\\u00e9~\"", "\" \""}, {"''", "~", "[b]"});
}

TEST(TextPropertyTest, HasNoControlCharacters) {
  PropertySpec spec = one_of({});
  spec.open = true;
  takes(spec, {"\" \"", "\"~\"", "\"\\u00a0\"", "\"\\u0120\""},
        {"\"a\\x1f\"", "\"a\\x00\"", "\"a\\x7f\"", "\"a\\u0080\"", "\"a\\u009fb\"", "\"\\u009b\""});
}

TEST(TextPropertyTest, NumbersMayStandForValues) {
  PropertySpec spec = one_of({"a", "b"});
  takes(spec, {"a"}, {"1", "'1'"});
  spec.numbered = true;
  takes(spec, {"a", "b", "1", "2", "'2'"}, {"0", "3", "1.5", "'0'", "'3'"});
  EXPECT_EQ(spec.canonical(1), "a");
  EXPECT_EQ(spec.canonical("2"), "b");
  EXPECT_EQ(spec.canonical("b"), "b");
}

TEST(TextPropertyTest, AnEscapedTextMayHaveLineEndsAndTabs) {
  PropertySpec spec = one_of({});
  spec.escaped = true;
  EXPECT_EQ(accepted(spec, "\"a\\n\\tb\""), Json("a\\n\\tb"));
  takes(spec, {"a"}, {"\"\\e\"", "\"\\x7f\"", "''", "None", "7", "[a]"});
  spec.nullable = true;
  EXPECT_EQ(accepted(spec, "''"), Json(""));
  EXPECT_EQ(accepted(spec, "None"), Json("None"));
  spec.open = true;
  EXPECT_EQ(accepted(spec, "7"), Json("7"));
}

TEST(TextPropertyTest, ATextInOneLineKeepsItsLineEnds) {
  PropertySpec spec = one_of({});
  spec.open = true;
  takes(spec, {"a"}, {"\"a\\n\""});
  spec.one_line = true;
  EXPECT_EQ(accepted(spec, "a"), Json("a"));
  EXPECT_EQ(accepted(spec, "\"a\\n\""), Json(one_line_text("a\n")));
  spec.open = false;
  takes(spec, {}, {"a", "\"a\\n\""});
}

TEST(ListPropertyTest, HasSoManyOfTheValues) {
  PropertySpec spec = of(PropertyKind::kStringList);
  spec.values = {"True", "False"};
  spec.length = 2;
  takes(spec, {"[True, False]", "['True', no]"},
        {"[True]", "[True, True, True]", "[True, maybe]", "[True, [True]]", "[True, ~]",
         "{a: 1, b: 2}", "True", "None", "~"});
  spec.nullable = true;
  takes(spec, {"[True, False]", "None", "~"}, {"True", "[None]"});
  EXPECT_EQ(spec.canonical(Json::parse(R"([true, "False"])")), Json::parse(R"(["True", "False"])"));
  EXPECT_EQ(spec.canonical(Json::parse("[false]")), Json::parse(R"(["False"])"));
}

TEST(ModuleNamesPropertyTest, AreAListOrARegularExpression) {
  const PropertySpec spec = of(PropertyKind::kModuleNames);
  const std::pair<const char*, Json> kCases[] = {
      {"[q_proj, layers.0-x, '1']", {"q_proj", "layers.0-x", "1"}},
      {"q_proj", Json::array({"q_proj"})},
      {"' q_proj , k_proj,v'", {"q_proj", "k_proj", "v"}},
      {"all-linear", Json::array({"all-linear"})},
      {"7", Json::array({"7"})},
      {"None", "None"},
      {"'.*[qk]_proj'", ".*[qk]_proj"},
      {"'a,,b'", "a,,b"},
      {"'a,'", "a,"},
      {"'a b,c'", "a b,c"}};
  for (const auto& [yaml, names] : kCases) {
    ASSERT_TRUE(accepted(spec, yaml)) << yaml;
    EXPECT_EQ(*accepted(spec, yaml), names) << yaml;
    EXPECT_EQ(spec.canonical(names), names) << yaml;
  }
  takes(spec, {},
        {"[]", "['a b']", "['']", "[[a]]", "[a, {b: c}]", "''", "\"a\\n\"", "{a: b}", "~"});
}

TEST(ObjectPropertyTest, IsAMappingOrItsJson) {
  const PropertySpec spec = of(PropertyKind::kObject);
  const Json text = R"({"a":1,"b":[true]})";
  EXPECT_EQ(accepted(spec, "{a: 1, b: [yes]}"), text);
  EXPECT_EQ(accepted(spec, "' { \"a\": 1, \"b\": [true] }'"), text);
  EXPECT_EQ(spec.canonical(text), text);
  takes(spec, {}, {"[1]", "'[1]'", "'7'", "7", "a", "'{'", "true", "~"});
}

TEST(PropertySpecTest, OneFormKeysResults) {
  EXPECT_EQ(of(PropertyKind::kInteger).canonical(8.0).dump(), "8");
  EXPECT_EQ(of(PropertyKind::kNumber).canonical(8).dump(), "8.0");
  PropertySpec text = of(PropertyKind::kString);
  EXPECT_EQ(text.canonical("None"), "None");
  EXPECT_EQ(text.canonical(""), "");
  EXPECT_EQ(text.canonical("A100-80G"), "A100-80G") << "the name of no GPU here";
  EXPECT_TRUE(text.canonical(nullptr).is_null());
  text.nullable = true;
  EXPECT_TRUE(text.canonical("None").is_null());
  EXPECT_TRUE(text.canonical("").is_null());
  EXPECT_EQ(text.canonical("none"), "none");
  text.values_from = "gpus";
  EXPECT_EQ(text.canonical("A100-80G"), "NVIDIA-A100-SXM4-80GB");
  EXPECT_EQ(text.canonical(7), 7);
}

TEST(PropertySpecTest, ErrorsSayWhatIsExpected) {
  EXPECT_EQ(of(PropertyKind::kInteger).expectation(), "an integer");
  EXPECT_EQ(of(PropertyKind::kNumber).expectation(), "a number");
  EXPECT_EQ(grid(PropertyKind::kInteger, 2, 10, 2).expectation(), "an integer from 2 to 8");
  EXPECT_EQ(grid(PropertyKind::kNumber, 0.5, 2, 0.5).expectation(),
            "a number from 0.5 to 1.5 in steps of 0.5");
  EXPECT_EQ(grid(PropertyKind::kNumber, 0, 2, 0).expectation(), "a number from 0 to below 2");
  EXPECT_EQ(of(PropertyKind::kBoolean).expectation(), "true or false");
  EXPECT_EQ(of(PropertyKind::kObject).expectation(), "a JSON object");
  EXPECT_EQ(of(PropertyKind::kModuleNames).expectation(),
            "all-linear, names of modules with commas between them, or a regular expression");
  PropertySpec list = of(PropertyKind::kStringList);
  list.values = {"True", "False"};
  list.length = 3;
  EXPECT_EQ(list.expectation(), "a list of 3 of True or False");
  list.nullable = true;
  EXPECT_EQ(list.expectation(), "a list of 3 of True or False or None");
}

// More values than a line of an error should list.
TEST(PropertySpecTest, ErrorsListValuesUpToSixteen) {
  EXPECT_EQ(one_of({"a", "b"}).expectation(), "one of a, b");
  const std::vector<std::string> sixteen(16, "x");
  EXPECT_THAT(one_of(sixteen).expectation(), testing::StartsWith("one of x, x, "));
  EXPECT_EQ(one_of(std::vector<std::string>(17, "x")).expectation(),
            "one of 17 values (`sftbench experiments ID`)");
  PropertySpec names = one_of(sixteen);
  names.values_from = "models";
  EXPECT_EQ(names.expectation(), "a model (`sftbench models`; any other goes with --model DIR|ID)");
  names.open = true;
  EXPECT_EQ(names.expectation(), "a text without control characters");
  names.values_from = "gpus";
  EXPECT_EQ(names.expectation(), "the product name of a GPU (`sftbench gpus`)");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
