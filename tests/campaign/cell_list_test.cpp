// What a shell makes of the list of cells, and of programs of the system.
#include "campaign/cell_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <system_error>

#include "campaign/campaign_fixture.h"
#include "campaign/tool.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(CellListTest, AShellChoosesEachCellByItsWords) {
  WorkerGroup group;
  group.cells = {gpu_cell(16, 2), gpu_cell(16, 2)};
  group.cells[1].entity_id = "a.$(exit 1)-b.it's \"so\"\\-c.`x`";
  const std::string script = cell_list(plan_of({}), group) +
                             "for cell in \"${cells[@]}\"; do eval \"set -- $cell\"; "
                             "printf '<%s>' \"$@\"; echo; done";
  const ToolResult result = run_tool({"bash", "-s"}, script);
  EXPECT_EQ(result.status, 0) << result.err;
  std::string expected;
  for (const CampaignCell& cell : group.cells) {
    expected += "<--entity><" + cell.entity_id + "><--experiment><" + cell.experiment_id + ">\n";
  }
  EXPECT_EQ(result.out, expected);
}

TEST(CellListTest, ACellIsOpenWhereTheProgramWouldMeasureIt) {
  CampaignPlan plan = plan_of({});
  plan.options.clear();
  for (const auto& [action, open] : {std::pair("measure", "open"), std::pair("valid", "settled")}) {
    plan.program = "answer";
    const std::string script = std::string("answer() { echo action,key; echo ") + action +
                               ",\"$*\"; }\n" + cell_list(plan, {}) +
                               "still_open --entity 3 && echo open || echo settled";
    EXPECT_EQ(run_tool({"bash", "-s"}, script).out, std::string(open) + "\n");
  }
}

TEST(ToolTest, TellsOutputErrorAndStatusHoweverLongTheyAre) {
  const std::string text(300'000, 'x');
  const ToolResult result = run_tool({"sh", "-c", "cat; echo problem >&2; exit 3"}, text);
  EXPECT_EQ(result.out, text);
  EXPECT_EQ(result.err, "problem\n");
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(run_tool({"sh", "-c", "kill -TERM $$"}).status, 143);
  EXPECT_FALSE(run_tool({"no-such-program-anywhere"}).found);
  EXPECT_TRUE(run_tool({"true"}).found);
  EXPECT_THROW(run_tool({"/"}), std::system_error) << "a folder is there, and no program";
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
