// Which cells share workers, and what workers are called with.
#include "sftbench/campaign/campaign_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "campaign/campaign_fixture.h"
#include "sftbench/base/error.h"
#include "temporary_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

std::vector<std::string> names(const std::vector<WorkerGroup>& groups) {
  std::vector<std::string> all;
  for (const WorkerGroup& group : groups) all.push_back(group.name);
  return all;
}

TEST(GroupCellsTest, CellsOfEqualNeedAreOneGroupTheLargestFirst) {
  const auto groups = group_cells({gpu_cell(1), cpu_cell(), gpu_cell(8), gpu_cell(16, 2),
                                   gpu_cell(1), gpu_cell(16, 2, "NVIDIA-H100-PCIe", true)},
                                  kByGpus);
  EXPECT_THAT(names(groups),
              ElementsAre("2x-gpu8-nvidia-h100-pcie-roce", "2x-gpu8-nvidia-h100-pcie",
                          "gpu8-nvidia-h100-pcie", "gpu1-nvidia-h100-pcie", "cpu"));
  EXPECT_EQ(groups[3].cells.size(), 2u);
  EXPECT_THAT(groups[3].narrowing,
              ElementsAre(Pair("number_gpus", "1"), Pair("number_nodes", "1")));
}

TEST(GroupCellsTest, AGroupIsNarrowedOnlyByWhatItsCellsAgreeIn) {
  CampaignCell other = cpu_cell();
  other.devices["number_nodes"] = 4;
  const auto groups = group_cells({cpu_cell(), other}, kByGpus);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_THAT(groups[0].narrowing, ElementsAre(Pair("number_gpus", "0")));
}

TEST(GroupCellsTest, WorkersAreAsManyAsAskedForAndNeverMoreThanCells) {
  std::vector<CampaignCell> cells;
  for (int i = 0; i < 20; ++i) cells.push_back(gpu_cell(1));
  EXPECT_EQ(group_cells(cells, kByGpus)[0].workers, 8);
  EXPECT_EQ(group_cells(cells, {{}, 3})[0].workers, 3);
  EXPECT_EQ(group_cells(cells, {{}, 100})[0].workers, 20);
}

TEST(GroupCellsTest, WhatIsSettledNeedsNoWorker) {
  CampaignCell settled = gpu_cell(8);
  settled.open = false;
  const auto groups = group_cells({settled, gpu_cell(1)}, kByGpus);
  EXPECT_THAT(names(groups), ElementsAre("gpu1-nvidia-h100-pcie"));
  EXPECT_TRUE(group_cells({settled}, kByGpus).empty());
}

TEST(GroupCellsTest, ARuleIsLeftToAWorkerThatComesAcrossItElseToOneWithoutDevices) {
  const auto wide = group_cells({gpu_cell(1), invalid_cell()}, {{}, 0});
  EXPECT_THAT(names(wide), ElementsAre("gpu1-nvidia-h100-pcie"));
  EXPECT_EQ(wide[0].cells.size(), 2u);
  const auto narrow = group_cells({gpu_cell(1), invalid_cell(), invalid_cell()}, kByGpus);
  EXPECT_THAT(names(narrow), ElementsAre("gpu1-nvidia-h100-pcie", "rules"));
  EXPECT_EQ(narrow[1].cells.size(), 2u);
  EXPECT_EQ(narrow[1].workers, 1);
  EXPECT_EQ(narrow[1].need, DeviceNeed{});
}

TEST(GroupCellsTest, WorkersOfSeveralNodesComeAcrossNoRule) {
  const auto groups = group_cells({gpu_cell(16, 2), invalid_cell()}, {{}, 0});
  EXPECT_THAT(names(groups), ElementsAre("2x-gpu8-nvidia-h100-pcie", "rules"));
  EXPECT_EQ(groups[0].cells.size(), 1u);
}

TEST(GroupCellsTest, APropertyThatCellsDoNotHaveNarrowsNothing) {
  const auto groups = group_cells({gpu_cell(1)}, {{"cores", "gpu_model"}, 0});
  EXPECT_THAT(groups[0].narrowing, ElementsAre(Pair("gpu_model", "NVIDIA-H100-PCIe")));
}

TEST(DeviceNeedTest, IsToldInWords) {
  EXPECT_EQ(to_string(DeviceNeed{
                .nodes = 2, .gpus_per_node = 8, .gpu_model = "NVIDIA-H100-PCIe", .roce = true}),
            "2 nodes with 8 NVIDIA-H100-PCIe each, RoCE");
  EXPECT_EQ(to_string(DeviceNeed{.gpus_per_node = 1, .gpu_model = "L40S"}), "1 node with 1 L40S");
  EXPECT_EQ(to_string(DeviceNeed{}), "1 node without GPUs");
  EXPECT_EQ(to_string(DeviceNeed{.nodes = 3, .gpu_model = ""}), "3 nodes without GPUs");
  EXPECT_EQ(cell_count(1), "1 cell");
  EXPECT_EQ(cell_count(12), "12 cells");
}

TEST(GroupCellsTest, NamesThatBecomeTheSameAreToldApart) {
  const auto groups = group_cells(
      {gpu_cell(1, 1, "Tesla T4"), gpu_cell(1, 1, "Tesla-T4"), gpu_cell(1, 1, "tesla t4")},
      {{}, 0});
  EXPECT_THAT(names(groups),
              UnorderedElementsAre("gpu1-tesla-t4", "gpu1-tesla-t4-2", "gpu1-tesla-t4-3"));
}

TEST(WorkerWordsTest, AreTheCommandLineNarrowedToTheGroup) {
  CampaignPlan plan = plan_of(group_cells({gpu_cell(2), gpu_cell(1)}, {{"number_gpus"}, 0}));
  EXPECT_THAT(worker_words(plan, plan.groups[0]),
              ElementsAre("/opt/sft bench/sftbench", "sweep", "spaces/my space.yaml", "--set",
                          "max_steps=3", "--max-retries", "2", "--set", "number_gpus=2", "--worker",
                          "-o", "results"));
  EXPECT_THAT(worker_words(plan, {}, "/config"),
              ElementsAre("/opt/sft bench/sftbench", "sweep", "/config/my space.yaml", "--set",
                          "number_gpus=[1,2]", "--set", "max_steps=3", "--max-retries", "2",
                          "--worker", "-o", "results"));
}

TEST(WorkerWordsTest, OnlySettingsOfWhatIsNarrowedGiveWay) {
  CampaignPlan plan = plan_of(group_cells({gpu_cell(2)}, {{"number_gpus"}, 0}));
  plan.options = {{"--track", "number_gpus=1", false, true},
                  {"--set", "number_gpus2=1", false, true},
                  {"--set", {}, false, true},
                  {"--set", "number_gpus", false, true}};
  EXPECT_THAT(worker_words(plan, plan.groups[0]),
              ElementsAre("/opt/sft bench/sftbench", "sweep", "--track", "number_gpus=1", "--set",
                          "number_gpus2=1", "--set", "--set", "number_gpus=2", "--worker", "-o",
                          "results"));
}

TEST(AskingWordsTest, ChooseNoCell) {
  CampaignPlan plan = plan_of({});
  for (const char* choice : {"--entity", "--experiment", "--operation"})
    plan.options.push_back({choice, "x", false, true});
  const std::vector<std::string> common = {"spaces/my space.yaml", "--set", "number_gpus=[1,2]",
                                           "--set", "max_steps=3"};
  std::vector<std::string> asking = {"/opt/sft bench/sftbench", "sweep"};
  asking.insert(asking.end(), common.begin(), common.end());
  std::vector<std::string> ranks = {"/opt/sft bench/sftbench", "run"};
  ranks.insert(ranks.end(), common.begin(), common.end());
  for (const char* word : {"--max-retries", "2", "-o", "results", "--dry-run", "--format", "csv"})
    asking.emplace_back(word);
  for (const char* word : {"-o", "results", "--no-progress"}) ranks.emplace_back(word);
  EXPECT_EQ(asking_words(plan), asking);
  EXPECT_EQ(rank_words(plan), ranks);
}

TEST(RankWordsTest, AreThoseThatRunKnows) {
  CampaignPlan plan = plan_of({});
  plan.options.push_back({"--entity", "3", false, true});
  plan.options.push_back({"--operation", "walk.yaml", true, false});
  EXPECT_THAT(
      rank_words(plan),
      ElementsAre("/opt/sft bench/sftbench", "run", "spaces/my space.yaml", "--set",
                  "number_gpus=[1,2]", "--set", "max_steps=3", "-o", "results", "--no-progress"));
}

TEST(FilesTest, AreReadUnderTheirNamesWhichMustDiffer) {
  const std::filesystem::path a = temporary_file("a"), b = temporary_file("b");
  std::filesystem::create_directories(a);
  std::filesystem::create_directories(b);
  std::ofstream(a / "space.yaml") << "one";
  std::ofstream(b / "space.yaml") << "two";
  CampaignPlan plan;
  plan.options = {{"", (a / "space.yaml").string(), true, true}};
  EXPECT_THAT(files_of(plan), ElementsAre(Pair("space.yaml", "one")));
  plan.options.push_back({"--again", (a / "space.yaml").string(), true, true});
  plan.options.push_back({"--set", (b / "space.yaml").string(), false, true});
  plan.options.push_back({"--config", {}, true, true});
  std::ofstream(b / "parameters.json") << "three";
  plan.parameters_file = (b / "parameters.json").string();
  EXPECT_THAT(files_of(plan),
              ElementsAre(Pair("parameters.json", "three"), Pair("space.yaml", "one")));
  plan.options.push_back({"--config", (b / "space.yaml").string(), true, true});
  EXPECT_THROW(files_of(plan), InputError);
}

TEST(DnsLabelTest, KeepsLettersDigitsAndSingleDashes) {
  EXPECT_EQ(dns_label("My Space_v1.0!"), "my-space-v1-0");
  EXPECT_EQ(dns_label("--"), "space");
  EXPECT_EQ(dns_label("abc-def", 4), "abc");
  EXPECT_EQ(dns_label("abc-def", 5), "abc-d");
  EXPECT_EQ(dns_label("\xc3\xa9t\xc3\xa9 7"), "t-7") << "letters of ASCII";
  EXPECT_EQ(dns_label(""), "space");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
