// Real ranks on CPUs while somebody on the machine connects to every port that they open: at the
// rendezvous, while Gloo connects, in training and at the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/trained_run.h"
#include "launch/processes_of_test.h"
#include "ranks/hammer_of_test.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

class StrangersRunTest : public TrainedRunTest {
 protected:
  void SetUp() override {
#if !SFTBENCH_HAS_GLOO
    GTEST_SKIP() << "this build has no Gloo for ranks on CPUs";
#endif
  }
};

TEST_F(StrangersRunTest, ChangeNothing) {
  const std::vector<std::string> words = {"--ranks", "2"};
  const ProgramResult alone = run(words, 4);
  ASSERT_EQ(alone.status, 0) << alone.err;
  const ProcessesOfTest processes;
  std::filesystem::remove_all(folder_ / "results");
  Hammer hammer([&] { return processes.alive(); });
  const ProgramResult beset = run(words, 4, "run", {processes.variable()});
  EXPECT_GT(hammer.stop(), 0);
  ASSERT_EQ(beset.status, 0) << beset.err;
  EXPECT_EQ(Json::parse(beset.out)["extra"]["loss"], Json::parse(alone.out)["extra"]["loss"]);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
