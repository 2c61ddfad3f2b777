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

TEST(GroupCellsTest, NamesThatBecomeTheSameAreToldApart) {
  const auto groups =
      group_cells({gpu_cell(1, 1, "Tesla T4"), gpu_cell(1, 1, "Tesla-T4")}, {{}, 0});
  EXPECT_THAT(names(groups), UnorderedElementsAre("gpu1-tesla-t4", "gpu1-tesla-t4-2"));
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
  plan.options.push_back({"--config", (b / "space.yaml").string(), true, true});
  EXPECT_THROW(files_of(plan), InputError);
}

TEST(DnsLabelTest, KeepsLettersDigitsAndSingleDashes) {
  EXPECT_EQ(dns_label("My Space_v1.0!"), "my-space-v1-0");
  EXPECT_EQ(dns_label("--"), "space");
  EXPECT_EQ(dns_label("abc-def", 4), "abc");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
