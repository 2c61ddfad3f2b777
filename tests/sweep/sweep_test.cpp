// Whole sweeps whose children are scripts: each hands back a result that the test has written, or
// none. Results are written beside the loop: the next cell may start before the last one is said to
// be settled.
#include "sftbench/sweep/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <fstream>

#include "results/sample_measurement.h"
#include "results/temporary_folder.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/file.h"
#include "sftbench/base/shared_file.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr const char* kExperiment = "finetune_full_benchmark-v1.0.0";

Space entities_of(const std::string& batch_sizes) {
  SpaceOptions options;
  options.experiment = kExperiment;
  options.assignments = {"model_name=smollm2-135m", "number_gpus=0", "model_max_length=512",
                         "batch_size=" + batch_sizes};
  return space_from_assignments(Catalog::shipped(), options);
}

class Steps : public WalkSource {
 public:
  explicit Steps(int64_t count) : count_(count) {}
  std::optional<WalkStep> next() override {
    if (done_ == count_) return std::nullopt;
    return WalkStep{done_++, 0};
  }
  int64_t entities_left_at_most() const override { return count_ - done_; }
  void jump(double part) override {
    EXPECT_GE(part, 0);
    EXPECT_LT(part, 1);
    ++jumps;
  }
  int jumps = 0;

 private:
  int64_t count_, done_ = 0;
};

// Grants every key, except as a test says.
class FakeClaims : public Claims {
 public:
  explicit FakeClaims(const fs::path& results) : Claims(results) {}

  class Granted : public Claim {
   public:
    explicit Granted(FakeClaims& all) : all_(all) {}
    std::vector<fs::path> files() const override { return {}; }
    bool stands() const override { return all_.stand; }
    void publish(const fs::path& path, std::string_view content) override {
      if (all_.lost-- > 0) throw ClaimLost("node7 has it");
      write_file_atomic(path, content);
    }

   private:
    FakeClaims& all_;
  };

  ClaimKind kind() const override { return ClaimKind::kLeases; }
  std::shared_ptr<Claim> try_acquire(const std::string&, const std::string&,
                                     std::string* holder) override {
    ++asked;
    if (refuse) refuse();
    if (busy-- > 0) {
      *holder = "node7";
      return nullptr;
    }
    stand = true;
    return std::make_shared<Granted>(*this);
  }
  std::optional<std::string> holder(const std::string&, const std::string&) const override {
    return held-- > 0 ? std::optional<std::string>("node8") : std::nullopt;
  }
  void remove_leftovers(const std::string&) override {}
  int lost_fd() const override { return fd; }
  double look_again_s() const override { return 0; }

  int busy = 0, asked = 0;  // times that another has a key
  mutable int held = 0;
  std::atomic<int> lost = 0;
  bool stand = true;
  int fd = -1;
  std::function<void()> refuse;
};

class SweepTest : public testing::Test, public SweepObserver {
 protected:
  SweepTest() {
    options_.breaker_failures = 0;
    options_.executable = folder_.path() / "child.sh";
    resolve_.backend = kBackendSimulate;
    // Its n-th run hands back reply.n, else reply; hang.n stays until it is ended.
    const std::string here = folder_.path().string();
    std::ofstream(options_.executable)
        << "#!/bin/sh\ncd " << here << "\necho x >> runs\nn=$(wc -l < runs)\n"
        << "echo $n > log\n[ -e hang.$n ] && exec sleep 1000\n"
        << "reply=reply\n[ -e reply.$n ] && reply=reply.$n\n"
        << "for fd in /proc/$$/fd/*; do\n  case \"$(readlink $fd)\" in\n"
        << "    *sftbench-reply*) cat $reply > $fd ;;\n  esac\ndone\n";
    fs::permissions(options_.executable, fs::perms::owner_all);
    reply("reply", sample_valid());
  }

  void reply(const std::string& name, const Measurement& measurement) const {
    write_file_atomic(folder_.path() / name, Json{{"result", to_json(measurement)}}.dump() + "\n");
  }
  void hang(int run) const {
    std::ofstream(folder_.path() / ("hang." + std::to_string(run))) << "x";
  }
  size_t runs() const {
    const fs::path file = folder_.path() / "runs";
    return fs::exists(file) ? read_file(file).size() / 2 : 0;
  }
  std::string key(int64_t entity = 0) const { return planner_.name({entity, 0}).key; }
  fs::path result(int64_t entity = 0, int sample = 1) const {
    return store_.result_path(kExperiment, key(entity), sample);
  }

  SweepEnd sweep(int64_t cells, int interrupt_fd = -1) {
    Machine machine({0}, {}, Catalog::shipped().gpus, options_.jobs);
    walk_.emplace(cells);
    sweep_.emplace(*walk_, planner_, machine, store_, claims_, options_, *this, interrupt_fd);
    return sweep_->run();
  }
  const SweepState& state() const { return sweep_->state(); }

  void told(const std::string& what, const Cell& cell, const std::string& more = "") {
    events_.push_back(what + " " + std::to_string(cell.step.entity) + "." +
                      std::to_string(cell.sample) + more);
  }
  void on_begin(const SweepState& state) override { EXPECT_EQ(state.settled(), 0); }
  void on_start(const Cell& cell, const Share&) override {
    told("start", cell);
    if (at_start) at_start();
  }
  void on_warning(const Cell& cell, const std::string& text) override {
    told("warning", cell, " " + text);
  }
  void on_settled(const Cell& cell, const Outcome& outcome) override {
    told(std::string(to_string(outcome.status)), cell, outcome.measurement ? "" : " before");
    if (outcome.measurement != nullptr) seconds_.push_back(outcome.seconds);
    if (at_end) at_end();
  }
  void on_sample(const Cell& cell, const Outcome&) override { told("sample", cell); }
  void on_retry(const Cell& cell, const Outcome&) override { told("retry", cell); }
  void on_busy(const Cell& cell, const std::string& holder) override {
    told("busy", cell, " " + holder);
  }
  void on_lost(const Cell& cell, const std::string& why) override { told("lost", cell, " " + why); }
  void on_note(const std::string& note) override { events_.push_back("note " + note); }
  void on_tick(const SweepState& state) override {
    most_running_ = std::max(most_running_, state.running.size());
    last_unread_ = state.unread;
  }

  TemporaryFolder folder_;
  ResultStore store_{folder_.path() / "results"};
  FakeClaims claims_{folder_.path() / "results"};
  const Space space_ = entities_of("[1, 2, 4]");
  const ActuatorSettings settings_;
  ResolveOptions resolve_;
  const Machine machine_{{0}, {}, Catalog::shipped().gpus, 1};
  const CellPlanner planner_{
      {space_, settings_, resolve_, Catalog::shipped(), machine_, nullptr, {}}};
  SweepOptions options_;
  std::optional<Steps> walk_;
  std::optional<Sweep> sweep_;
  std::function<void()> at_start, at_end;
  std::vector<std::string> events_;
  std::vector<double> seconds_;
  size_t most_running_ = 0;
  int64_t last_unread_ = -1;
};

const OutcomeKind kGood = {Status::kValid, std::nullopt};

TEST_F(SweepTest, MeasuresEachCellOnceAndCountsIt) {
  EXPECT_EQ(sweep(3), SweepEnd::kComplete);
  EXPECT_EQ(state().cells_at_most, 3);
  EXPECT_EQ(state().now, (std::map<OutcomeKind, int64_t>{{kGood, 3}}));
  EXPECT_THAT(events_, UnorderedElementsAre("start 0.1", "valid 0.1", "start 1.1", "valid 1.1",
                                            "start 2.1", "valid 2.1"));
  EXPECT_EQ(runs(), 3);
  EXPECT_THAT(seconds_, testing::Each(testing::Gt(0)));
  EXPECT_EQ(read_json_file(result(2).string()).at("environment").at("concurrent_cells"), 0);
  EXPECT_THAT(sweep_->left(), IsEmpty());
  EXPECT_EQ(sweep_->message(), "");
  EXPECT_EQ(most_running_, 1);
  EXPECT_TRUE(state().running.empty());
}

TEST_F(SweepTest, AsManyRunBesideEachOtherAsAreAskedFor) {
  options_.jobs = 2;
  EXPECT_EQ(sweep(2), SweepEnd::kComplete);
  EXPECT_EQ(most_running_, 2);
  for (const int64_t entity : {0, 1})
    EXPECT_EQ(read_json_file(result(entity).string()).at("environment").at("concurrent_cells"), 1);
}

TEST_F(SweepTest, WhatTheStoreHoldsIsNotMeasuredAgainUnlessItFailed) {
  store_.write(sample_valid(), key(0));
  store_.write(sample_invalid(), key(1));
  store_.write(sample_failed(), key(2));
  EXPECT_EQ(sweep(3), SweepEnd::kComplete);
  EXPECT_THAT(events_,
              ElementsAre("valid 0.1 before", "invalid 1.1 before", "start 2.1", "valid 2.1"));
  EXPECT_EQ(state().settled(), 3);
  EXPECT_EQ(state().before.at(Status::kInvalid), 1);
  std::ofstream(result(0)) << "{";
  events_.clear();
  EXPECT_EQ(sweep(1), SweepEnd::kComplete);
  ASSERT_EQ(events_.size(), 3);
  EXPECT_THAT(events_[0], HasSubstr("; it is measured anew, the file is kept aside"));
}

TEST_F(SweepTest, AFailedCellHasSoManyRetries) {
  options_.max_retries = 1;
  for (const char* name : {"reply.1", "reply.2", "reply.3"}) reply(name, sample_failed());
  EXPECT_EQ(sweep(1), SweepEnd::kComplete);
  EXPECT_THAT(events_, ElementsAre("start 0.1", "retry 0.1", "start 0.1", "failed 0.1"));
  EXPECT_EQ(state().now,
            (std::map<OutcomeKind, int64_t>{{{Status::kFailed, ReasonCode::kNccl}, 1}}));
  events_.clear();
  EXPECT_EQ(sweep(1), SweepEnd::kComplete);
  EXPECT_THAT(events_, ElementsAre("start 0.1", "retry 0.1", "start 0.1", "valid 0.1"));
  options_.retry_failed = false;
  store_.write(sample_failed(), key(1));
  events_.clear();
  EXPECT_EQ(sweep(2), SweepEnd::kComplete);
  EXPECT_THAT(events_, ElementsAre("valid 0.1 before", "failed 1.1 before"));
}

TEST_F(SweepTest, SamplesFollowEachOtherAsLongAsTheyAreValid) {
  options_.repeats = 3;
  reply("reply.5", sample_failed());
  EXPECT_EQ(sweep(2), SweepEnd::kComplete);
  EXPECT_EQ(runs(), 5);
  EXPECT_TRUE(fs::exists(result(0, 3)));
  EXPECT_EQ(store_.status_of(kExperiment, key(1), 2), Status::kFailed);
  EXPECT_FALSE(fs::exists(result(1, 3)));
  EXPECT_EQ(state().now.at(kGood), 1);
  EXPECT_EQ(state().now.at({Status::kFailed, ReasonCode::kNccl}), 1);
  options_.repeats = 1;
  options_.single_measurement = false;
  EXPECT_EQ(sweep(1), SweepEnd::kComplete);
  EXPECT_TRUE(fs::exists(result(0, 4))) << "one more is added";
}

TEST_F(SweepTest, ALimitCountsCellsAndNotTheirRetries) {
  options_.limit = 2;
  options_.max_retries = 1;
  reply("reply.1", sample_failed());
  EXPECT_EQ(sweep(3), SweepEnd::kLimit);
  EXPECT_EQ(runs(), 3);
  EXPECT_EQ(state().now.at(kGood), 2);
  EXPECT_EQ(sweep(2), SweepEnd::kComplete) << "what the store holds does not count";
  options_.limit = 1;
  EXPECT_EQ(sweep(3), SweepEnd::kComplete) << "there was no more";
}

TEST_F(SweepTest, QuickFailuresInARowEndIt) {
  options_.breaker_failures = 2;
  options_.breaker_quick_s = 600;
  reply("reply", sample_failed());
  EXPECT_EQ(sweep(3), SweepEnd::kTripped);
  EXPECT_EQ(runs(), 2);
  EXPECT_THAT(sweep_->message(), HasSubstr("2 measurements in a row failed"));
  EXPECT_EQ(state().settled(Status::kFailed), 2);
}

TEST_F(SweepTest, BehindItsDeadlineNothingIsStarted) {
  options_.until_s = steady_seconds() - 1;
  EXPECT_EQ(sweep(3), SweepEnd::kDeadline);
  EXPECT_EQ(runs(), 0);
  options_.until_s = steady_seconds() + 3600;
  EXPECT_EQ(sweep(3), SweepEnd::kComplete);
}

TEST_F(SweepTest, AnInterruptEndsWhatRunsAndKeepsNothingOfIt) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  hang(2);
  int starts = 0;
  at_start = [&] {
    if (++starts != 2) return;
    EXPECT_EQ(::write(fds[1], std::string(128, 'x').data(), 128), 128);
  };
  EXPECT_EQ(sweep(3, fds[0]), SweepEnd::kInterrupted);
  EXPECT_THAT(events_, UnorderedElementsAre("start 0.1", "valid 0.1", "start 1.1"));
  EXPECT_FALSE(fs::exists(result(1)));
  EXPECT_FALSE(fs::exists(store_.growing_log_path(kExperiment, key(1))));
  ::close(fds[0]);
  ::close(fds[1]);
}

TEST_F(SweepTest, AFolderThatIsRemovedEndsIt) {
  at_start = [&] { fs::rename(store_.directory() / kExperiment, folder_.path() / "moved"); };
  EXPECT_EQ(sweep(3), SweepEnd::kStoreFailed);
  EXPECT_THAT(sweep_->message(), HasSubstr("while the sweep ran"));
}

TEST_F(SweepTest, WhatIsGoneAtTheEndIsNotCounted) {
  at_end = [&] { fs::remove(result(0)); };
  EXPECT_EQ(sweep(2), SweepEnd::kStoreFailed);
  EXPECT_EQ(sweep_->message(), "1 result that was settled is gone");
  EXPECT_EQ(state().now.at(kGood), 1);
  at_end = [&] {
    fs::remove(result(0));
    fs::remove(result(1));
  };
  EXPECT_EQ(sweep(2), SweepEnd::kStoreFailed);
  EXPECT_EQ(sweep_->message(), "2 results that were settled are gone");
  EXPECT_THAT(state().now, IsEmpty());
  EXPECT_THAT(state().before, IsEmpty());
}

TEST_F(SweepTest, ACellThatAnotherMeasuresIsLookedAtAgain) {
  claims_.busy = 2;
  EXPECT_EQ(sweep(1), SweepEnd::kComplete);
  EXPECT_THAT(events_, ElementsAre("busy 0.1 node7", "start 0.1", "valid 0.1"));
  EXPECT_EQ(claims_.asked, 3);
  EXPECT_EQ(walk_->jumps, 0);
}

TEST_F(SweepTest, AWorkerGoesOnElsewhereWhereItMeetsAnother) {
  options_.worker = true;
  claims_.held = 2;
  EXPECT_EQ(sweep(1), SweepEnd::kComplete);
  EXPECT_THAT(events_, ElementsAre("busy 0.1 node8", "start 0.1", "valid 0.1"));
  EXPECT_EQ(claims_.asked, 1);
  EXPECT_EQ(walk_->jumps, 2);
}

TEST_F(SweepTest, AResultWhoseClaimWasLostIsMeasuredAgain) {
  claims_.lost = 1;
  EXPECT_EQ(sweep(1), SweepEnd::kComplete);
  EXPECT_THAT(events_, ElementsAre("start 0.1", "lost 0.1 node7 has it", "start 0.1", "valid 0.1"));
}

TEST_F(SweepTest, AChildWhoseClaimWasLostIsEnded) {
  hang(1);
  claims_.fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  int starts = 0;
  at_start = [&] {
    // The first child may be ended before it has counted itself.
    if (++starts > 1) {
      fs::remove(folder_.path() / "hang.1");
      return;
    }
    claims_.stand = false;
    ::eventfd_write(claims_.fd, 1);
  };
  EXPECT_EQ(sweep(1), SweepEnd::kComplete);
  EXPECT_THAT(events_, ElementsAre("start 0.1",
                                   "lost 0.1 another process has taken its claim over, as this one "
                                   "was stopped",
                                   "start 0.1", "valid 0.1"));
  ::close(claims_.fd);
}

TEST_F(SweepTest, AWorkerReadsWhatStandsThereLast) {
  options_.worker = true;
  store_.write(sample_valid(), key(0));
  store_.write(sample_failed(), key(1));
  EXPECT_EQ(sweep(3), SweepEnd::kComplete);
  EXPECT_EQ(events_.front(), "start 2.1");
  EXPECT_THAT(events_, UnorderedElementsAre("start 2.1", "valid 2.1", "valid 0.1 before",
                                            "start 1.1", "valid 1.1"));
  EXPECT_EQ(state().unread, 0);
  EXPECT_EQ(last_unread_, 0);
  EXPECT_EQ(state().settled(), 3);
}

TEST_F(SweepTest, OnlyAWorkerLeavesWhatDoesNotFit) {
  options_.preflight = [](const TrainingJob&, const Share&) { return "405 GiB are needed"; };
  EXPECT_EQ(sweep(1), SweepEnd::kComplete);
  EXPECT_THAT(events_, ElementsAre("start 0.1", "warning 0.1 405 GiB are needed", "valid 0.1"));
  options_.worker = true;
  EXPECT_EQ(sweep(3), SweepEnd::kComplete);
  ASSERT_EQ(sweep_->left().size(), 1);
  EXPECT_EQ(sweep_->left()[0].cells, 2);
}

TEST_F(SweepTest, ACellWhoseFilesCannotBeKeptFailsWithoutAChild) {
  options_.repeats = 2;
  options_.max_retries = 3;
  options_.keep = [](const Cell& cell, TrainingJob&) {
    if (cell.step.entity == 0 || cell.sample == 2) throw InputError("no room");
  };
  EXPECT_EQ(sweep(2), SweepEnd::kComplete);
  EXPECT_THAT(events_, UnorderedElementsAre("failed 0.1", "start 1.1", "sample 1.1", "failed 1.2"));
  EXPECT_EQ(state().now.at({Status::kFailed, ReasonCode::kWeights}), 2);
  EXPECT_THAT(seconds_, ElementsAre(0, 0));
}

TEST_F(SweepTest, WhatAMeasurementCouldNotSaveIsSaid) {
  Measurement measurement = sample_valid();
  measurement.extra["unsaved"] = Json::parse(R"([{"path": "/a", "problem": "no room"}])");
  reply("reply", measurement);
  EXPECT_EQ(sweep(2), SweepEnd::kComplete);
  EXPECT_THAT(events_, testing::Contains("warning 0.1 cannot save /a: no room"));
  EXPECT_EQ(state().unsaved, 2);
}

TEST_F(SweepTest, ANameThatIsTakenBlocksItsCellAndAFullDiskAll) {
  claims_.refuse = [this] {
    if (claims_.asked == 1) throw NameTaken("/x", "claim", "a folder stands there");
  };
  EXPECT_EQ(sweep(2), SweepEnd::kComplete);
  EXPECT_THAT(events_, ElementsAre("start 1.1", "valid 1.1"));
  ASSERT_EQ(sweep_->left().size(), 1);
  EXPECT_THAT(sweep_->left()[0].reason, HasSubstr("a folder stands there"));
  claims_.refuse = [] { throw InputError("No space left on device"); };
  EXPECT_EQ(sweep(3), SweepEnd::kStoreFailed);
  EXPECT_EQ(sweep_->message(), "No space left on device");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
