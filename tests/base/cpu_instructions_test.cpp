#include "sftbench/base/cpu_instructions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

std::string refusal(const char* wanted, CpuInstructions processor) {
  try {
    choose_instructions(wanted, processor);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CpuInstructionsTest, AreTheProcessorsUnlessLesserOnesAreAskedFor) {
  EXPECT_EQ(choose_instructions(nullptr, CpuInstructions::kAvx512), CpuInstructions::kAvx512);
  EXPECT_EQ(choose_instructions("", CpuInstructions::kAvx2), CpuInstructions::kAvx2);
  EXPECT_EQ(choose_instructions("baseline", CpuInstructions::kAvx512), CpuInstructions::kBaseline);
  EXPECT_EQ(choose_instructions("avx2", CpuInstructions::kAvx512Bf16), CpuInstructions::kAvx2);
  EXPECT_EQ(choose_instructions("avx512_bf16", CpuInstructions::kAvx512Bf16),
            CpuInstructions::kAvx512Bf16);
}

TEST(CpuInstructionsTest, ThatTheProcessorLacksAreRefusedWithThoseThatItHas) {
  const std::string text = refusal("avx512", CpuInstructions::kAvx2);
  EXPECT_THAT(text, HasSubstr("SFTBENCH_ISA: this processor lacks the instructions of 'avx512'"));
  EXPECT_THAT(text, HasSubstr("baseline, avx2"));
}

TEST(CpuInstructionsTest, ThatNobodyKnowsAreRefusedWithTheNearestSpelling) {
  const std::string text = refusal("axv2", CpuInstructions::kAvx512);
  EXPECT_THAT(text, HasSubstr("unknown instruction set 'axv2'"));
  EXPECT_THAT(text, HasSubstr("did you mean 'avx2'?"));
}

// The kernel lists amx_bf16 only where it keeps the tiles' state.
TEST(CpuInstructionsTest, TilesAreMultipliedWhereTheKernelListsThem) {
  const std::string cpuinfo = read_file("/proc/cpuinfo");
  EXPECT_EQ(processor_instructions() == CpuInstructions::kAmx,
            cpuinfo.find(" amx_bf16 ") != std::string::npos);
}

TEST(CpuInstructionsTest, NamesAreThoseOfTheVariable) {
  for (const char* name : {"baseline", "avx2", "avx512", "avx512_bf16", "amx"}) {
    EXPECT_EQ(to_string(choose_instructions(name, CpuInstructions::kAmx)), name);
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
