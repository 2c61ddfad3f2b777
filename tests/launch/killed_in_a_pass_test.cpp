// Ranks of real training that are killed in a forward and in a backward pass: all end, the outcome
// says which rank it was and where the ranks were, nothing half-written stays, and the next run
// works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "launch/job_of_child.h"
#include "launch/processes_of_test.h"
#include "sftbench/base/error.h"
#include "sftbench/launch/ranked_engine.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// Also for ranks to meet, which takes them seconds on a busy machine; a rank that is killed is
// missed at once.
constexpr double kDeadlineSeconds = 30;

#ifdef SFTBENCH_KILLING_ENGINE
constexpr const char* kKillingEngine = SFTBENCH_KILLING_ENGINE;
constexpr const char* kRealEngine = SFTBENCH_REAL_ENGINE;
#else
constexpr const char* kKillingEngine = nullptr;
constexpr const char* kRealEngine = "";
#endif

class KilledInAPassTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (kKillingEngine == nullptr) GTEST_SKIP() << "this build has no training engine";
#if !SFTBENCH_HAS_GLOO
    GTEST_SKIP() << "this build has no Gloo";
#endif
    std::ofstream dataset(folder_ / "dataset.jsonl");
    for (int i = 0; i < 16; ++i) {
      dataset << R"({"output": "word )" << i << R"(\n\n### Response: words of the day"})"
              << "\n";
    }
  }
  ~KilledInAPassTest() override {
    EXPECT_THAT(processes_.alive(), IsEmpty());
  }

  static fs::path empty_folder() {
    // Tests of one parameter run side by side: each has a folder of its own.
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(name.begin(), name.end(), '/', '.');
    const fs::path folder = fs::path(testing::TempDir()) / ("killed_in_a_pass." + name);
    fs::remove_all(folder);
    fs::create_directories(folder);
    return folder;
  }

  // Two steps of two micro-batches by two ranks under FULL_SHARD, with a checkpoint after the
  // first.
  TrainingJob job() const {
    TrainingJob job = small_job(2);
    job.data.path = (folder_ / "dataset.jsonl").string();
    job.batches.gradient_accumulation_steps = 2;
    job.precision = {.torch_dtype = ParameterDtype::kFloat32, .autocast = Autocast::kNo};
    job.device.kind = "cpu";
    job.device.ranks = 2;
    job.device.threads = 1;
    job.parallel.strategy = Strategy::kFullShard;
    job.parallel.timeout_s = kDeadlineSeconds;
    job.save.strategy = IntervalStrategy::kSteps;
    job.save.steps = 1;
    job.save.checkpoint_directory = (folder_ / "checkpoints").string();
    return job;
  }

  // What ended it, "CODE: message [evidence]"; "" when it ended well.
  std::string train(const TrainingJob& job, const std::string& killed_at) const {
    RankedSpec spec;
    spec.log = temporary_file("growing.log");
    spec.final_log = "results/x.log";
    spec.environment = {{"SFTBENCH_ENGINE", kKillingEngine},
                        {"REAL_ENGINE", kRealEngine},
                        {"KILLED_AT", killed_at},
                        {"OMP_WAIT_POLICY", "passive"},
                        processes_.variable()};
    spec.executable = SFTBENCH_EXECUTABLE;
    try {
      RankedEngine(job, spec).train_job(job, *make_single_rank(), {}, [] { return false; });
      return "";
    } catch (const RunError& error) {
      return std::string(to_string(error.code())) + ": " + error.what() + " [" + error.evidence() +
             "]";
    }
  }

  std::vector<std::string> checkpoints() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints")) {
      if (entry.is_directory()) names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const fs::path folder_ = empty_folder();
  ProcessesOfTest processes_;
};

TEST_P(KilledInAPassTest, AllEndAndTheOutcomeTellsWhere) {
  const std::string pass = std::string("in the ") + GetParam() + " pass of step 2";
  TrainingJob job = KilledInAPassTest::job();
  const double begin_s = steady_seconds();
  const std::string ending = train(job, "rank 1 " + pass);
  EXPECT_LT(steady_seconds() - begin_s, kDeadlineSeconds + 10);
  EXPECT_THAT(ending, StartsWith("KILLED: rank 1: the process was ended from outside by SIGKILL; "
                                 "its log: results/x.rank1.log"));
  EXPECT_THAT(ending, HasSubstr("last seen: rank 0 " + pass + "; rank 1 " + pass + " or later]"));
  EXPECT_THAT(processes_.alive(), IsEmpty());
  EXPECT_THAT(checkpoints(), testing::ElementsAre("checkpoint-1"));

  job.save.resume_from = (folder_ / "checkpoints" / "checkpoint-1").string();
  EXPECT_EQ(train(job, ""), "");
  EXPECT_THAT(checkpoints(), testing::ElementsAre("checkpoint-1", "checkpoint-2"));
}

// The others wait for its rows.
TEST_P(KilledInAPassTest, ARankThatHasExpertsEndsTheOthers) {
  TrainingJob job = KilledInAPassTest::job();
  job.model.hf_config = read_json_file(std::string(SFTBENCH_SOURCE_DIR) +
                                       "/tests/reference/models/granitemoe_plain/config.json");
  job.model.hf_config["vocab_size"] = 1000;
  job.parallel.expert_ranks = 2;
  const std::string ending =
      train(job, std::string("rank 1 in the ") + GetParam() + " pass of step 2");
  EXPECT_THAT(ending, StartsWith("KILLED: rank 1: the process was ended from outside by SIGKILL"));
  EXPECT_THAT(ending, HasSubstr(std::string(GetParam()) + " pass of step 2"));
  EXPECT_THAT(processes_.alive(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Passes, KilledInAPassTest, testing::Values("forward", "backward"),
                         [](const auto& pass) { return std::string(pass.param); });

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
