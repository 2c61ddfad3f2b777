// What every option with a number refuses, and how it says so.
#include "cli/number_checks.h"
#include "cli/first_screens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cli/program.h"
#include "sftbench/cli/app.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

bool takes_a_number(const CLI::Option& option) {
  static const std::set<std::string> kNumbers = {"INT", "UINT", "FLOAT", "N", "X", "S"};
  const std::string type = option.get_type_name();
  // Training arguments have domains, which check them. Those of status stand under no heading.
  const bool has_domain = option.get_group() == kTrainingArguments || option.get_group().empty();
  return option.get_items_expected_max() > 0 && !has_domain &&
         kNumbers.count(type.substr(0, type.find(':'))) > 0;
}

std::string refusal(CLI::Option& option, const std::string& word) {
  option.clear();
  option.add_result(word);
  try {
    option.run_callback();
  } catch (const CLI::ValidationError& error) {
    return error.what();
  } catch (const CLI::ParseError& error) {
    return std::string("CLI11's own: ") + error.what();
  }
  return "taken";
}

int check_options(CLI::App& command) {
  int checked = 0;
  for (CLI::Option* option : command.get_options()) {
    if (!takes_a_number(*option)) continue;
    ++checked;
    for (const std::string word : {"nan", "-1", "-1e30", "1e400", "inf", "abc", "1x"}) {
      EXPECT_THAT(refusal(*option, word),
                  testing::StartsWith(option->get_name() + ": found '" + word + "'; expected a "))
          << command.get_name();
    }
  }
  for (CLI::App* sub : command.get_subcommands(nullptr)) checked += check_options(*sub);
  return checked;
}

TEST(NumberChecksTest, EveryOptionWithANumberRefusesWhatIsNone) {
  CLI::App app;
  CommonOptions common;
  int exit_code = 0;
  build_app(app, common, exit_code);
  EXPECT_GT(check_options(app), 60);
}

// What a check leaves of a word, or its error.
std::string checked(const CLI::Validator& check, std::string word) {
  const std::string error = check(word);
  return error.empty() ? word : error;
}

TEST(NumberChecksTest, WholeNumbersAreDecimalAndWithinTheirBounds) {
  EXPECT_EQ(checked(whole_number(-5, 10), "-5"), "-5");
  EXPECT_EQ(checked(whole_number(-5, 10), "10"), "10");
  EXPECT_EQ(checked(whole_number(0, 10), "010"), "10");
  EXPECT_EQ(checked(whole_number(0, 10), "11"), "found '11'; expected a whole number from 0 to 10");
  EXPECT_EQ(checked(whole_number(1), "1.5"),
            "found '1.5'; expected a whole number from 1 to 1000000000000: 50k, 1.5M");
  EXPECT_EQ(checked(whole_number(0, UINT64_MAX), "18446744073709551615"), "18446744073709551615");
  EXPECT_THAT(checked(whole_number(0, UINT64_MAX), "18446744073709551616"), HasSubstr("found"));
}

TEST(NumberChecksTest, CountsHaveOneGrammar) {
  for (const auto& [word, count] : std::map<std::string, std::string>{{"50k", "50000"},
                                                                      {"4k", "4000"},
                                                                      {"50M", "50000000"},
                                                                      {"1.5B", "1500000000"},
                                                                      {"0.1k", "100"},
                                                                      {"1e9", "1000000000"}}) {
    EXPECT_EQ(checked(whole_number(1), word), count) << word;
  }
  for (const std::string word : {"1.2345k", "50K", "50 k", "k", "50kk", "-1k", "nank", "2000000M"})
    EXPECT_THAT(checked(whole_number(1), word), HasSubstr("found '" + word + "'"));
  for (const auto& [command, option] :
       std::map<std::string, std::string>{{"recommend", "--entries"},
                                          {"recommend", "--length"},
                                          {"recommend", "--tokens"},
                                          {"models", "--min-parameters"},
                                          {"predict", "--tokens"},
                                          {"sweep", "--limit"}}) {
    CLI::App app;
    CommonOptions common;
    int exit_code = 0;
    build_app(app, common, exit_code);
    EXPECT_EQ(refusal(*app.get_subcommand(command)->get_option(option), "50k"), "taken") << option;
  }
}

TEST(NumberChecksTest, NumbersIncludeTheirBounds) {
  EXPECT_EQ(checked(number(0.01, 3600), "0.01"), "0.01");
  EXPECT_EQ(checked(number(0.01, 3600), "3.6e3"), "3.6e3");
  EXPECT_EQ(checked(number(0.01, 3600), "0"), "found '0'; expected a number from 0.01 to 3600");
  EXPECT_EQ(checked(above_zero(), "0"), "found '0'; expected a number above 0");
}

TEST(NumberChecksTest, DurationsHaveOneGrammar) {
  const CLI::Validator any = duration(0, 1e9);
  for (const auto& [word, seconds] : std::map<std::string, std::string>{{"90", "90"},
                                                                        {"0", "0"},
                                                                        {"0.5", "0.5"},
                                                                        {"1e3", "1000"},
                                                                        {"90s", "90"},
                                                                        {"1.5m", "90"},
                                                                        {"1h30m", "5400"},
                                                                        {"1h 30m", "5400"},
                                                                        {" 2 h ", "7200"},
                                                                        {"1d2h3m4s", "93784"}}) {
    EXPECT_EQ(checked(any, word), seconds) << word;
  }
  for (const std::string word :
       {"", " ", "h", "1h30", "1h 30", "1 30m", "30m!", "-1h", "1w", "1e3s", "inf", "1H"}) {
    EXPECT_EQ(checked(any, word),
              "found '" + word +
                  "'; expected a duration from 0 to 1000000000 s: 90, 90s, 30m, 2h, 1h 30m, 1d");
  }
  EXPECT_EQ(checked(duration(0.1, 86400), "1d"), "86400");
  EXPECT_THAT(checked(duration(0.1, 86400), "25h"), HasSubstr("from 0.1 to 86400 s"));
}

// Whatever the option, "1h30m" is a time where "90" is one.
TEST(NumberChecksTest, EveryOptionOfATimeTakesADuration) {
  CLI::App app;
  CommonOptions common;
  int exit_code = 0;
  build_app(app, common, exit_code);
  std::set<std::string> found;
  for (CLI::App* command : app.get_subcommands(nullptr)) {
    for (CLI::Option* option : command->get_options()) {
      const std::string help = option->get_description();
      const bool of_time = help.rfind("time ", 0) == 0 || help.rfind("seconds", 0) == 0 ||
                           help.find(" seconds ") != std::string::npos ||
                           option->get_name() == "--deadline";
      if (!of_time || option->get_items_expected_max() == 0) continue;
      found.insert(command->get_name() + " " + option->get_name());
      EXPECT_EQ(refusal(*option, "1h"), "taken") << command->get_name() << option->get_name();
      EXPECT_EQ(option->get_option_text().rfind("DURATION", 0), 0u) << option->get_name();
    }
  }
  EXPECT_GE(found.size(), 15u);
}

TEST(NumberChecksTest, BytesHaveUnits) {
  EXPECT_EQ(checked(byte_count(), "64GiB"), std::to_string(int64_t{64} << 30));
  EXPECT_EQ(checked(byte_count(), "250MB"), "250000000");
  EXPECT_EQ(checked(byte_count(), "17"), "17");
  for (const std::string word : {"-1", "0", "GiB", "1.5GiB", "64GiX", "9EiB", "99999999TiB", ""}) {
    EXPECT_EQ(checked(byte_count(), word),
              "found '" + word + "'; expected a whole number of bytes above 0: 64GiB");
  }
}

TEST(NumberChecksTest, AnOptionTwiceOrWithoutItsValueIsSaidInWords) {
  const auto error = [](const std::vector<std::string>& words) {
    const ProgramResult result = run_program(words);
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_THAT(error({"expand", "--limit", "1", "--limit", "2"}),
              HasSubstr("--limit: given 2 times; expected once"));
  EXPECT_THAT(error({"expand", "--limit"}), HasSubstr("--limit: its value is missing"));
  EXPECT_THAT(error({"run", "--dry-run=x"}), HasSubstr("--dry-run: found 'x'; expected no value"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
