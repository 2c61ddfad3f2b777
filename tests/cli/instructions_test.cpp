// SFTBENCH_ISA as a user types it, with the real engine.
#include <gmock/gmock.h>

#include "cli/trained_run.h"
#include "sftbench/base/cpu_instructions.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

class InstructionsTest : public TrainedRunTest {
 protected:
  Json result_of(const std::string& dtype, const std::string& instructions) const {
    const ProgramResult program =
        run({"--set", "torch_dtype=" + dtype}, 3, "run", {{"SFTBENCH_ISA", instructions}});
    EXPECT_EQ(program.status, 0) << program.err;
    return Json::parse(program.out);
  }
};

TEST_F(InstructionsTest, EachSetTrainsAlikeAndStandsInItsResult) {
  const Json expected = result_of("float32", "")["extra"];
  for (const auto set :
       {CpuInstructions::kBaseline, CpuInstructions::kAvx2, CpuInstructions::kAvx512,
        CpuInstructions::kAvx512Bf16, CpuInstructions::kAmx}) {
    if (set > cpu_instructions())
      break;  // those of tests/limit_libraries.sh hold for libraries, too
    const std::string name(to_string(set));
    const Json result = result_of("bfloat16", name);
    EXPECT_EQ(result["environment"]["cpu_instructions"], name);
    EXPECT_EQ(result["extra"]["compute_dtype"],
              set >= CpuInstructions::kAvx512Bf16 ? "bfloat16" : "float32");
    for (size_t step = 0; step < 3; ++step) {
      EXPECT_NEAR(result["extra"]["loss"][step].get<double>(), expected["loss"][step].get<double>(),
                  0.02)
          << name << ", step " << step;
      const double norm = expected["grad_norm"][step].get<double>();
      EXPECT_NEAR(result["extra"]["grad_norm"][step].get<double>(), norm, 0.03 * norm)
          << name << ", step " << step;
    }
  }
}

TEST(InstructionsNameTest, AWrongNameEndsBeforeAnythingRuns) {
  const ProgramResult program = run_program({"models"}, {{"SFTBENCH_ISA", "axv2"}});
  EXPECT_EQ(program.status, 2);
  EXPECT_THAT(program.err, HasSubstr("SFTBENCH_ISA: unknown instruction set 'axv2'"));
  EXPECT_THAT(program.err, HasSubstr("did you mean 'avx2'?"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
