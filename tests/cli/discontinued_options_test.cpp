// What options and fields that went are answered with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/program.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

TEST(DiscontinuedOptionsTest, NameWhatServesInstead) {
  for (const auto& [option, instead] :
       {std::pair("--distribute-one-rank", "two ranks: --ranks 2, or number_gpus 2"),
        std::pair("--context-rotation=ring", "none of it: keys and values travel in a ring"),
        std::pair("--save-residuals", "bench/truth/residuals.sh"),
        std::pair("--after", "--evidence with own measurements")}) {
    const ProgramResult result = run_program({"predict", option});
    EXPECT_EQ(result.status, 2) << option;
    const std::string name = std::string(option).substr(0, std::string(option).find('='));
    EXPECT_THAT(result.err,
                HasSubstr("sftbench: " + name + ": is no option any more; expected " + instead));
  }
  const ProgramResult property =
      run_program({"expand", "--experiment", "full", "--set", "context_rotation=allgather"});
  EXPECT_EQ(property.status, 2);
  EXPECT_THAT(property.err, HasSubstr("context_rotation is no property any more"));
}

// As version 0.1.0 wrote it. Where it names the ring it is read (OwnModelKeyTest).
TEST(DiscontinuedOptionsTest, AJobThatGatheredKeysIsNotRun) {
  const std::string stored =
      std::string(SFTBENCH_TEST_DATA) + "/results/b8e9c50bf01ea8ad25c868f5a9aa50ef.json";
  Json result = Json::parse(read_file(stored));
  result["job"]["parallel"]["context_rotation"] = "allgather";
  const std::filesystem::path path = fresh_folder("gathered") / "result.json";
  std::ofstream(path) << result;
  const ProgramResult run = run_program({"run", "--job", path.string(), "--dry-run"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("parallel.context_rotation: is not done any more; expected ring"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
