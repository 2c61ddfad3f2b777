// What `expand` prints: rows that programs read back, the count of what is too much, hostile files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/program.h"
#include "sftbench/base/json.h"
#include "sftbench/space/space.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

const std::string kHead =
    "sampleStoreIdentifier: s\n"
    "experiments: [{experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: "
    "SFTTrainer}]\n"
    "entitySpace:\n";
const std::string kRest =
    "- {identifier: number_gpus, propertyDomain: {values: [1]}}\n"
    "- {identifier: model_max_length, propertyDomain: {values: [64]}}\n"
    "- {identifier: batch_size, propertyDomain: {values: [1]}}\n";
const std::string kModel = "- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n";

ProgramResult expand(const std::string& name, const std::string& text,
                     std::vector<std::string> words = {}) {
  const auto folder = fresh_folder("expand_" + name);
  std::ofstream(folder / "space.yaml") << text;
  words.insert(words.begin(), {"expand", "space.yaml"});
  return run_program(words, {}, folder);
}

std::vector<Json> parsed_lines(const std::string& text) {
  std::vector<Json> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
  return rows;
}

// A space in which rules are broken and texts need quoting in every format.
std::string awkward_space() {
  return kHead + kModel + kRest +
         "- {identifier: gpu_model, propertyDomain: {values: [\"a \\\"b\\\", c\", \"--help\", "
         "\"../../etc/passwd\", \"back\\\\slash\", \"\\u00fc\", null]}}\n"
         "- {identifier: number_nodes, propertyDomain: {values: [1, 3]}}\n";
}

TEST(ExpandRowsTest, JsonLinesSayWhatTheSpaceSays) {
  const auto result = expand("jsonl", awkward_space(), {"--format", "jsonl"});
  EXPECT_EQ(result.status, 0) << result.err;
  const Space space = parse_space(awkward_space(), "space.yaml", Catalog::shipped());
  const std::vector<Json> rows = parsed_lines(result.out);
  ASSERT_EQ(rows.size(), 12U);
  for (const Json& row : rows) {
    EXPECT_EQ(row["entity_id"], entity_id(space.entity(row["index"])));
    EXPECT_EQ(row["experiment_id"], "SFTTrainer.finetune_full_benchmark-v1.0.0");
    EXPECT_EQ(row["verdict"] == "valid", row["reason"].empty());
  }
  EXPECT_EQ(rows[0]["verdict"], "valid");
  EXPECT_EQ(rows[11]["reason"], Json::parse(R"([{"code": "RULE_2", "message":
                "number_gpus 1 cannot be divided evenly by number_nodes 3"},
                {"code": "RULE_5", "message":
                "gpu_model is not given although number_gpus 1 is greater than 0"}])"));
  EXPECT_THAT(result.err, HasSubstr("5 valid, 7 invalid"));
}

TEST(ExpandRowsTest, JsonIsOneArrayOfTheSameRows) {
  const auto lines = expand("json_lines", awkward_space(), {"--format", "jsonl"});
  const auto array = expand("json", awkward_space(), {"--format", "json"});
  EXPECT_EQ(Json::parse(array.out), Json(parsed_lines(lines.out)));
}

TEST(ExpandRowsTest, CsvQuotesWhatNeedsIt) {
  const auto result = expand("csv", awkward_space(), {"--format", "csv"});
  EXPECT_EQ(result.out.substr(0, result.out.find('\n')),
            "index,verdict,entity_id,experiment_id,reason");
  const std::string tail =
      "-model_max_length.64-model_name.smollm2-135m-number_gpus.1-number_nodes.1";
  EXPECT_THAT(result.out, HasSubstr("\n0,valid,\"batch_size.1-gpu_model.a \"\"b\"\", c" + tail +
                                    "\",SFTTrainer."));
  EXPECT_THAT(result.out, HasSubstr("\n2,valid,batch_size.1-gpu_model.--help" + tail + ","));
}

TEST(ExpandRowsTest, LimitAndEntityTakeAPart) {
  const auto ids = [](const std::vector<Json>& rows) {
    std::vector<int64_t> indices;
    for (const Json& row : rows) indices.push_back(row["index"]);
    return indices;
  };
  const auto first = expand("limit", awkward_space(), {"--format", "jsonl", "--limit", "3"});
  EXPECT_THAT(ids(parsed_lines(first.out)), testing::ElementsAre(0, 1, 2));
  const auto more = expand("limit_more", awkward_space(), {"--format", "jsonl", "--limit", "99"});
  EXPECT_EQ(parsed_lines(more.out).size(), 12U);
  const auto one = expand("entity", awkward_space(), {"--format", "jsonl", "--entity", "11"});
  EXPECT_THAT(ids(parsed_lines(one.out)), testing::ElementsAre(11));
  const auto none = expand("limit_none", awkward_space(), {"--limit", "0"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("--limit"));
}

TEST(ExpandRowsTest, AFullDiskIsAnError) {
  const auto folder = fresh_folder("expand_full");
  std::ofstream(folder / "space.yaml") << awkward_space();
  const std::string command = std::string(SFTBENCH_EXECUTABLE) + " expand " +
                              (folder / "space.yaml").string() + " --format csv >/dev/full 2>" +
                              (folder / "err").string();
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 2);
  std::ifstream file(folder / "err");
  const std::string err((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(err, HasSubstr("the standard output takes no more: No space left on device"));
}

// --- too much ------------------------------------------------------------------------------------

const std::string kBillions =
    kHead + kModel +
    "- {identifier: number_gpus, propertyDomain: {domainRange: [0, 33], interval: 1}}\n"
    "- {identifier: model_max_length, propertyDomain: {domainRange: [1, 131073], interval: 1}}\n"
    "- {identifier: batch_size, propertyDomain: {domainRange: [1, 4097], interval: 1}}\n";

TEST(ExpandBillionsTest, AreCountedAtOnceAndNotPrinted) {
  const auto all = expand("billions", kBillions);
  EXPECT_EQ(all.status, 2);
  EXPECT_EQ(all.out, "");
  EXPECT_THAT(all.err,
              HasSubstr("space.yaml: entitySpace: has 17716740096 entities under 1 experiment; "
                        "expected at most 10000000 rows, or --limit N for the first N entities"));
  const auto count = expand("billions_count", kBillions, {"--count", "--format", "jsonl"});
  EXPECT_EQ(Json::parse(count.out), Json::parse(R"({"entities": 17716740096, "experiments": 1,
                            "measurements": 17716740096})"));
  const auto last =
      expand("billions_last", kBillions,
             {"--format", "jsonl", "--entity",
              "batch_size.4096-model_max_length.131072-model_name.smollm2-135m-number_gpus.32"});
  EXPECT_EQ(Json::parse(last.out)["index"], 17716740095);
  const auto none = expand("billions_none", kBillions, {"--entity", "model_name.smollm2-135m"});
  EXPECT_THAT(none.err, HasSubstr("no entity has the id 'model_name.smollm2-135m'"));
  for (const ProgramResult* result : {&all, &count, &last, &none}) {
    EXPECT_LT(result->wall_s, 5);
    EXPECT_LT(result->peak_rss_kib, 65536);
  }
}

TEST(ExpandBillionsTest, MoreThanCanBeCountedIsAnError) {
  std::string text = kBillions;
  for (const char* property : {"stop_after_seconds", "max_steps", "num_train_epochs"}) {
    text += std::string("- {identifier: ") + property +
            ", propertyDomain: {domainRange: [1, 10000], interval: 1}}\n";
  }
  const auto result = expand("uncountable", text, {"--count"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("entitySpace: has more entities than can be counted"));
}

// --- hostile files -------------------------------------------------------------------------------

TEST(HostileSpaceTest, AliasBombsAndDeepNestingAreErrors) {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name <= 'k'; ++name) {
    const std::string before = std::string("*") + static_cast<char>(name - 1);
    bomb += std::string(1, name) + ": &" + name + " [" + before;
    for (int i = 0; i < 9; ++i) bomb += ", " + before;
    bomb += "]\n";
  }
  const auto aliases = expand("aliases", bomb);
  EXPECT_EQ(aliases.status, 2);
  EXPECT_THAT(aliases.err, HasSubstr("more than 1000000 nodes, copies by alias included"));
  const auto nested = expand("nested", "a: " + std::string(100000, '[') + "\n");
  EXPECT_EQ(nested.status, 2);
  EXPECT_THAT(nested.err, HasSubstr("space.yaml:1: nested deeper than 100 levels"));
  EXPECT_LT(aliases.peak_rss_kib, 1 << 20);
}

TEST(HostileSpaceTest, LinesOfTenMegabytesAreReadAndShownShortened) {
  const std::string text = kHead + kModel + kRest +
                           "- {identifier: torch_dtype, propertyDomain: " + "{values: [" +
                           std::string(10 << 20, 'x') + "]}}\n";
  const auto result = expand("long_line", text);
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("space.yaml:8: entitySpace[4].propertyDomain.values[0]: '" +
                                    std::string(60, 'x') + "...' is no value of torch_dtype"));
  EXPECT_LT(result.err.size(), 1000U);
  const auto too_long = expand("too_long", "a: " + std::string(17 << 20, 'x') + "\n");
  EXPECT_EQ(too_long.status, 2);
  EXPECT_THAT(too_long.err, HasSubstr("space.yaml: larger than 16 MiB"));
}

TEST(HostileSpaceTest, WhatATerminalWouldObeyIsRefusedAndNotRepeated) {
  const auto result =
      expand("controls", kHead + kModel + kRest +
                             "- {identifier: gpu_model, propertyDomain: {values: "
                             "[\"\\e[31mred\", \"a\\nb\", \"\\x9b\"]}}\n"
                             "- {identifier: \"\\e[2Jx\", propertyDomain: {values: [1]}}\n"
                             "\"\\e]0;title\\a\": 1\n");
  EXPECT_EQ(result.status, 2);
  const std::string at = "space.yaml:8: entitySpace[4].propertyDomain.values";
  EXPECT_THAT(result.err, HasSubstr(at + "[0]: ' [31mred' is no value of gpu_model; "));
  EXPECT_THAT(result.err, HasSubstr(at + "[1]: 'a b' is no value of gpu_model; "));
  EXPECT_THAT(result.err, HasSubstr(at + "[2]: "));
  EXPECT_THAT(result.err, HasSubstr("space.yaml:9: entitySpace[5].identifier: unknown property ' "
                                    "[2Jx'"));
  EXPECT_THAT(result.err, HasSubstr("space.yaml:10:  ]0;title : unknown key"));
  EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
  EXPECT_EQ(result.err.find('\a'), std::string::npos);
}

TEST(HostileSpaceTest, LongNamesAreShownShortened) {
  const auto result =
      expand("long_names", kHead + kModel + kRest + "- {identifier: " + std::string(2 << 20, 'y') +
                               ", propertyDomain: {values: [1]}}\n" + "? " +
                               std::string(100000, 'z') + "\n: 1\n");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("unknown property 'yyy"));
  EXPECT_THAT(result.err, HasSubstr("space.yaml:10: zzz"));
  EXPECT_LT(result.err.size(), 4000U);
}

TEST(HostileSpaceTest, PathsAndNamesMayLookLikeAnything) {
  const auto folder = fresh_folder("expand_paths");
  for (const char* name : {"--help", "a b\nc.yaml", "..yaml"}) {
    std::ofstream(folder / name) << awkward_space();
    const auto result = run_program({"expand", "--format", "jsonl", "--", name}, {}, folder);
    EXPECT_EQ(result.status, 0) << name << result.err;
    EXPECT_EQ(parsed_lines(result.out).size(), 12U) << name;
  }
  const auto value = expand("set", awkward_space(), {"--set", "gpu_model=--count", "--count"});
  EXPECT_EQ(value.status, 0);
  EXPECT_THAT(value.out, HasSubstr("measurements"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
