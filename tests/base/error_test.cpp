#include "sftbench/base/error.h"

#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(DiagnosticTest, TextNamesFileLineKeyFoundExpectedAndNearest) {
  EXPECT_EQ(to_string(Diagnostic{.file = "space.yaml",
                                 .line = 12,
                                 .key = "entitySpace[2].identifier",
                                 .message = "unknown property 'batchsize'",
                                 .expected = "a property of the experiment",
                                 .nearest = "batch_size"}),
            "space.yaml:12: entitySpace[2].identifier: unknown property 'batchsize'; expected a "
            "property of the "
            "experiment; did you mean 'batch_size'?");
}

TEST(InputErrorTest, ListsEveryDiagnostic) {
  Diagnostic first;
  first.message = "one";
  Diagnostic second;
  second.message = "two";
  EXPECT_STREQ(InputError({first, second}).what(), "one\ntwo");
}

TEST(ReasonCodeTest, NamesAreThoseOfTheResultFiles) {
  EXPECT_EQ(to_string(ReasonCode::kOomGpu), "OOM_GPU");
  EXPECT_EQ(to_string(ReasonCode::kRule7), "RULE_7");
  EXPECT_EQ(to_string(ReasonCode::kInternal), "INTERNAL");
}

TEST(CheckTest, BrokenPromiseNamesThePlace) {
  EXPECT_NO_THROW(check(true, "fine"));
  EXPECT_THROW(check(false, "not fine"), std::logic_error);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
