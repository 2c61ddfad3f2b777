// Templates against transformers' own environment (tests/reference/chat_templates.py), and what a
// template may not do.
#include "sftbench/jinja/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sftbench/base/error.h"

namespace sftbench::jinja {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Json golden(const std::string& name) {
  return read_json_file(std::string(SFTBENCH_TEST_DATA) + "/jinja/" + name);
}

class TemplateTest : public ::testing::Test {
 protected:
  TemplateTest() {
    ::setenv("TZ", "UTC", 1);  // strftime_now tells the local time
    ::tzset();
  }

  static std::string rendered(const std::string& source, const Json& variables = Json::object()) {
    return Template(source, "chat.jinja").render(variables, 0).text;
  }
  static std::string error_of(const std::string& source, const Json& variables = Json::object()) {
    try {
      return "rendered: " + rendered(source, variables);
    } catch (const InputError& error) {
      return error.what();
    }
  }
};

void expect_as_expected(const Json& expected, const std::string& source, const Json& variables,
                        std::time_t now) {
  try {
    const Rendered ours = Template(source, "chat.jinja").render(variables, now);
    ASSERT_FALSE(expected.contains("error"))
        << source << "\ngave " << ours.text << "\nexpected " << expected["error"];
    EXPECT_EQ(ours.text, expected["text"].get<std::string>()) << source;
    Json spans = Json::array();
    for (const Span& span : ours.generation) spans.push_back({span.begin, span.end});
    EXPECT_EQ(spans, expected["generation"]) << source;
  } catch (const InputError& error) {
    EXPECT_TRUE(expected.contains("error")) << source << "\n" << error.what();
    EXPECT_THAT(error.what(), StartsWith("chat.jinja:")) << "with a line: " << source;
  }
}

TEST_F(TemplateTest, ArgumentsThatAMethodDoesNotTakeAreNamed) {
  EXPECT_THAT(error_of("{{ 'a'.removeprefix(by='b') }}"),
              HasSubstr("removeprefix() got an unexpected argument 'by'"));
  EXPECT_THAT(error_of("{{ 'a'.removeprefix('b', affix='c') }}"),
              HasSubstr("removeprefix() got a second argument 'affix'"));
  EXPECT_THAT(error_of("{{ 'a'.removeprefix('b', 'c') }}"),
              HasSubstr("removeprefix() takes at most 1 arguments (2 given)"));
  EXPECT_THAT(error_of("{{ 'a'.removeprefix() }}"),
              HasSubstr("removeprefix() missing required argument 'affix'"));
}

// Python: an octal escape has up to three digits, and '\\8' none.
TEST_F(TemplateTest, EscapesAreThoseOfPython) {
  for (const auto& [escaped, text] :
       std::vector<std::pair<std::string, std::string>>{{"\\101", "A"},
                                                        {"\\1012", "A2"},
                                                        {"\\1018", "A8"},
                                                        {"\\78", "\a8"},
                                                        {"\\7", "\a"},
                                                        {"\\8", "\\8"},
                                                        {"\\q", "\\q"},
                                                        {"\\x41", "A"},
                                                        {"\\u00e9f", "\u00E9f"},
                                                        {"\\U0001F600", "\U0001F600"}}) {
    EXPECT_EQ(rendered("{{ '" + escaped + "' }}"), text) << escaped;
  }
  for (const char* cut : {"\\x4", "\\x4g", "\\u00e", "\\U0001F60"})
    EXPECT_THAT(error_of(std::string("{{ '") + cut + "' }}"), HasSubstr("truncated")) << cut;
}

// As Python 3 computes and prints them.
TEST_F(TemplateTest, ArithmeticIsThatOfPython) {
  for (const auto& [expression, result] :
       std::vector<std::pair<std::string, std::string>>{{"2.0 ** 3", "8.0"},
                                                        {"(-2.0) ** 3", "-8.0"},
                                                        {"0.0 ** 2", "0.0"},
                                                        {"0.0 ** 0", "1.0"},
                                                        {"4 ** 0.5", "2.0"},
                                                        {"2 ** -1", "0.5"},
                                                        {"3 ** 0", "1"},
                                                        {"(-3) ** 3", "-27"},
                                                        {"3 ** 4", "81"},
                                                        {"-7.5 // 2", "-4.0"},
                                                        {"7.5 // -2", "-4.0"},
                                                        {"-7.5 % 2", "0.5"},
                                                        {"7.5 % -2", "-0.5"},
                                                        {"7 % -2", "-1"},
                                                        {"-7 % 2", "1"},
                                                        {"-7 // 2", "-4"},
                                                        {"7 // -2", "-4"},
                                                        {"6 // -2", "-3"},
                                                        {"6.0 % -2", "-0.0"},
                                                        {"-6.0 % 2", "0.0"},
                                                        {"1.0 // 0.1", "9.0"},
                                                        {"-1.0 // 0.1", "-10.0"},
                                                        {"1.0 % 0.1", "0.09999999999999995"},
                                                        {"0.0 // -3", "-0.0"},
                                                        {"-0.5 // 2.0", "-1.0"},
                                                        {"0 % -3", "0"},
                                                        {"6.0 % 2", "0.0"},
                                                        {"7 / 2", "3.5"},
                                                        {"2.5 - 1", "1.5"},
                                                        {"3 * 1.5", "4.5"},
                                                        {"'ab' * -1", ""},
                                                        {"[1] * 2", "[1, 1]"},
                                                        {"-0.0 | abs", "0.0"}})
    EXPECT_EQ(rendered("{{ " + expression + " }}"), result) << expression;
  for (const auto& [expression, error] : std::vector<std::pair<std::string, std::string>>{
           {"0.0 ** -1", "cannot be raised to a negative power"},
           {"(-8.0) ** 0.5", "complex"},
           {"1.5 / 0", "division by zero"},
           {"1 / 0", "division by zero"},
           {"1.5 % 0", "by zero"},
           {"1 // 0", "by zero"}})
    EXPECT_THAT(error_of("{{ " + expression + " }}"), HasSubstr(error)) << expression;
}

TEST_F(TemplateTest, SnippetsRenderAsInTransformers) {
  const Json cases = golden("snippets.json");
  for (const Json& one : cases["cases"]) {
    expect_as_expected(one, one["template"], cases["variables"], cases["now"].get<std::time_t>());
  }
  EXPECT_GE(cases["cases"].size(), 150u);
}

// Each group's expressions that render, and those that Python refuses.
TEST_F(TemplateTest, ProductsOfOperatorsFiltersAndMethodsRenderAsInTransformers) {
  size_t compared = 0;
  for (const Json& group : golden("products.json")) {
    std::vector<std::string> texts;
    for (const Json& one : group["render"])
      texts.push_back(error_of("{{ " + one.get<std::string>() + " }}"));
    std::string all;
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_THAT(texts[i], StartsWith("rendered: ")) << group["render"][i];
      all += (i == 0 ? "" : "|") +
             texts[i].substr(std::min(texts[i].size(), std::strlen("rendered: ")));
    }
    EXPECT_EQ(all, group["text"].get<std::string>()) << group["render"];
    for (const Json& one : group["fail"]) {
      EXPECT_THAT(error_of("{{ " + one.get<std::string>() + " }}"), StartsWith("chat.jinja:"))
          << one;
      ++compared;
    }
    compared += texts.size();
  }
  EXPECT_GT(compared, 8000u);
}

TEST_F(TemplateTest, ConversationsRenderAsInTransformers) {
  for (const Json& one : golden("chats.json")) {
    for (const Json& conversation : one["cases"]) {
      expect_as_expected(conversation, one["template"], conversation["variables"], 0);
    }
  }
}

TEST_F(TemplateTest, ErrorsSayTheLine) {
  EXPECT_EQ(error_of("one\n{% if x %}\ntwo {{ x.y.z }}\n{% endif %}", {{"x", "text"}}),
            "chat.jinja:3: 'str object' has no attribute 'y'");
  EXPECT_EQ(error_of("a\n{{ raise_exception('no tools here') }}"),
            "chat.jinja:2: the template refuses: no tools here");
  EXPECT_EQ(error_of("{{ 1\n + }}"), "chat.jinja:2: unexpected '}}'");
  EXPECT_EQ(error_of("\n{{ x | uper }}"),
            "chat.jinja:2: no filter 'uper' is known here; did you mean 'upper'?");
  EXPECT_EQ(error_of("{% include 'x' %}"),
            "chat.jinja:1: 'include' is not done here: a chat template stands alone");
  EXPECT_EQ(error_of("{% if x %}"), "chat.jinja:1: the template ends before 'endif'");
}

// --- a template is not trusted -------------------------------------------------------------------

TEST_F(TemplateTest, LoopsForEverEnd) {
  EXPECT_THAT(error_of("{% for a in range(100000) %}{% for b in range(100000) %}{{ a * b }}{% "
                       "endfor %}{% endfor %}"),
              HasSubstr("the template takes more than"));
}

TEST_F(TemplateTest, MemoryIsBounded) {
  EXPECT_THAT(error_of("{{ 'x' * 10000000000 }}"), HasSubstr("MiB of values"));
  EXPECT_THAT(error_of("{{ [0] * 4611686018427387904 }}"), HasSubstr("MiB of values"));
  EXPECT_THAT(error_of("{% set ns = namespace(x='0123456789') %}{% for i in range(60) %}{% set "
                       "ns.x = ns.x + ns.x %}"
                       "{% endfor %}{{ ns.x | length }}"),
              HasSubstr("MiB of values"));
  EXPECT_THAT(error_of("{{ 'x' | indent(100000000000) }}"), HasSubstr("MiB of values"));
  EXPECT_THAT(error_of("{{ 'a'.replace('', 'x' * 1000000).replace('x', 'y' * 1000000) }}"),
              HasSubstr("MiB of values"));
  EXPECT_THAT(error_of("{{ '%999999999d' % 1 }}"), HasSubstr("format"));
}

TEST_F(TemplateTest, DepthIsBounded) {
  EXPECT_THAT(error_of("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}"),
              HasSubstr("recursion depth"));
  EXPECT_THAT(error_of(std::string("{{ ") + std::string(100000, '(') + "1" +
                       std::string(100000, ')') + " }}"),
              HasSubstr("nested more than"));
  std::string sum = "{{ 1", negated = "{{ ", chain = "{{ x";
  for (int i = 0; i < 100000; ++i) sum += " + 1", negated += "not ", chain += ".a";
  EXPECT_THAT(error_of(sum + " }}"), HasSubstr("nested more than"));
  EXPECT_THAT(error_of(negated + "1 }}"), HasSubstr("nested more than"));
  EXPECT_THAT(error_of(chain + " }}"), HasSubstr("nested more than"));
  std::string blocks;
  for (int i = 0; i < 100000; ++i) blocks += "{% if 1 %}";
  EXPECT_THAT(error_of(blocks), HasSubstr("nested more than"));
  EXPECT_THAT(error_of("{% set ns = namespace(x=[]) %}{% for i in range(10000) %}{% set ns.x = "
                       "[ns.x] %}{% endfor %}"),
              HasSubstr("within each other"));
  Json deep = 1;
  for (int i = 0; i < 300; ++i) deep = Json::array({deep});
  EXPECT_THAT(error_of("{{ x }}", {{"x", deep}}), HasSubstr("within each other"));
}

TEST_F(TemplateTest, ValuesThatHoldEachOtherAreFreed) {
  EXPECT_EQ(
      rendered("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns.self.self is defined }}"),
      "True");
  EXPECT_EQ(rendered("{% macro m() %}{{ n }}{% endmacro %}{% set n = m %}x"), "x");
}

TEST_F(TemplateTest, NothingOutsideIsInReach) {
  for (const char* name :
       {"''.__class__", "self._x", "range.__globals__", "namespace.__init__", "cycler", "lipsum"}) {
    EXPECT_THAT(error_of(std::string("{{ (") + name + ").x }}"), HasSubstr("chat.jinja:1: "))
        << name;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::jinja
