// What NcclCommunicator asks of NCCL and of CUDA's streams, in which order, and what it does when
// they fail: with a device that writes down what it is told and does nothing until the test says
// so.
#include "parallel/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "parallel/fork_ranks.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FakeBackend : public NcclBackend {
 public:
  struct FakeEvent : Event {
    FakeEvent(FakeBackend& of, int its_number) : backend(of), number(its_number) {}
    bool reached() override { return number <= backend.reached; }
    FakeBackend& backend;
    int number;
  };

  explicit FakeBackend(int64_t rank = 0, int64_t size = 2) : rank_(rank), size_(size) {}

  int64_t rank() const override { return rank_; }
  int64_t world_size() const override { return size_; }

  void wait_for_caller() override { log("stream waits for caller"); }
  void make_caller_wait(Event& event) override {
    log("caller waits for event " + std::to_string(static_cast<FakeEvent&>(event).number));
  }
  std::unique_ptr<Event> record() override {
    log("event " + std::to_string(++recorded));
    return std::make_unique<FakeEvent>(*this, recorded);
  }
  std::unique_ptr<Event> record_of_caller() override {
    return std::make_unique<FakeEvent>(*this, caller_is_at);
  }
  double seconds(Event& begin, Event& end) override {
    return static_cast<FakeEvent&>(end).number - static_cast<FakeEvent&>(begin).number;
  }
  double time_of(Event& event) override { return 100 + static_cast<FakeEvent&>(event).number; }
  void on_stream(const std::function<void()>& run) override {
    log("on stream");
    run();
  }

  void all_reduce(const torch::Tensor& tensor, Reduction) override { put("all_reduce", tensor); }
  void all_gather(const torch::Tensor&, const torch::Tensor& input) override {
    put("all_gather", input);
  }
  void reduce_scatter(const torch::Tensor&, const torch::Tensor& input) override {
    put("reduce_scatter", input);
  }
  void broadcast(const torch::Tensor& tensor, int64_t) override { put("broadcast", tensor); }
  void all_to_all(const torch::Tensor&, const torch::Tensor& input) override {
    put("all_to_all", input);
  }
  void all_to_all(const torch::Tensor&, const torch::Tensor& input, const std::vector<int64_t>&,
                  const std::vector<int64_t>&) override {
    put("all_to_all of parts", input);
  }
  void barrier() override { put("barrier", {}); }

  std::string error() override { return has_error ? "remote process exited" : ""; }
  void abort() override { ++aborts; }

  bool given_up() const { return give_up_(); }
  void log(const std::string& line) { lines.push_back(line); }

  std::vector<std::string> lines;
  torch::Tensor last_input;
  int recorded = 0;
  int caller_is_at = 0;         // between which events the caller's stream comes to a wait
  std::atomic<int> reached{0};  // events up to this one
  std::atomic<bool> has_error{false};
  std::atomic<int> aborts{0};
  std::function<void()> before_put = [] {};

 private:
  void put(const char* what, const torch::Tensor& input) {
    before_put();
    log(what);
    last_input = input;
  }

  int64_t rank_;
  int64_t size_;
};

// A group whose failure a test can set.
class FakeGroup : public FileRankGroup {
 public:
  explicit FakeGroup(double timeout_s = 60)
      : FileRankGroup("/nonexistent", place_with(timeout_s), {}) {}
  std::optional<RankFailure> failure() const override {
    return has_failed ? std::optional(RankFailure{1, ReasonCode::kOomGpu, "too much", {}})
                      : std::nullopt;
  }
  const std::vector<RankInfo>& ranks() const override { return ranks_; }

  std::atomic<bool> has_failed{false};

 private:
  static RankPlace place_with(double timeout_s) {
    RankPlace place;
    place.world_size = 2;
    place.communication_timeout_s = timeout_s;
    return place;
  }
  std::vector<RankInfo> ranks_ = std::vector<RankInfo>(2);
};

class NcclCommunicatorTest : public ::testing::Test {
 protected:
  void use(double timeout_s) {
    communicator.reset();
    group = std::make_unique<FakeGroup>(timeout_s);
    backend = std::make_shared<FakeBackend>();
    communicator = std::make_unique<NcclCommunicator>(*group, "shards", backend);
  }
  void SetUp() override { use(60); }
  // Whatever a test has left under way ends, or communicators would wait for it.
  void TearDown() override { backend->reached = 1000; }

  CollectiveCounters counter(Collective collective) const {
    return communicator->counters()[static_cast<size_t>(collective)];
  }

  // The error that everything ends with, once it does.
  RunError failure() {
    const double end_s = steady_seconds() + 10;
    while (steady_seconds() < end_s) {
      try {
        communicator->all_reduce(torch::ones({1}), Reduction::kSum);
      } catch (const RunError& error) {
        return error;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return RunError(ReasonCode::kInternal, "no failure within 10 s");
  }

  std::unique_ptr<FakeGroup> group;
  std::shared_ptr<FakeBackend> backend;
  std::unique_ptr<NcclCommunicator> communicator;
};

TEST_F(NcclCommunicatorTest, AnOperationComesBehindTheCallersStreamAndTheCallerWaitsForItsEnd) {
  const torch::Tensor whole = torch::zeros({2, 3});
  PendingCollective pending = communicator->all_gather(whole, whole[0]);
  backend->log("caller goes on");
  pending.wait();
  EXPECT_THAT(backend->lines, ElementsAre("stream waits for caller", "event 1", "all_gather",
                                          "event 2", "caller goes on", "caller waits for event 2"));
}

TEST_F(NcclCommunicatorTest, OperationsAreIssuedInOrderAndWaitedForInAny) {
  const torch::Tensor whole = torch::zeros({2, 3});
  PendingCollective first = communicator->all_gather(whole, whole[0]);
  PendingCollective second = communicator->reduce_scatter(whole[0], whole);
  second.wait();
  first.wait();
  second.wait();  // was waited for
  EXPECT_THAT(backend->lines,
              ElementsAre("stream waits for caller", "event 1", "all_gather", "event 2",
                          "stream waits for caller", "event 3", "reduce_scatter", "event 4",
                          "caller waits for event 4", "caller waits for event 2"));
}

TEST_F(NcclCommunicatorTest, ACallersStreamThatComesFirstIsCountedUntilTheEnd) {
  const torch::Tensor whole = torch::zeros({2, 3});
  PendingCollective early = communicator->all_gather(whole, whole[0]);     // ends at 2
  PendingCollective late = communicator->reduce_scatter(whole[0], whole);  // ends at 4
  backend->caller_is_at = 1;
  early.wait();
  backend->caller_is_at = 9;  // long after its end
  late.wait();
  EXPECT_EQ(communicator->take_wait_seconds(), 0) << "nothing has ended";
  backend->reached = 10;
  EXPECT_EQ(communicator->take_wait_seconds(), 1);
  EXPECT_EQ(communicator->take_wait_seconds(), 0) << "taken";
}

TEST_F(NcclCommunicatorTest, TensorsLiveUntilTheyAreWaitedFor) {
  torch::Tensor whole = torch::zeros({2, 3});
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage(whole.storage().getWeakStorageImpl());
  PendingCollective pending = communicator->reduce_scatter(torch::zeros({3}), whole);
  whole = torch::Tensor();
  backend->last_input = torch::Tensor();
  EXPECT_FALSE(storage.expired());
  backend->reached = backend->recorded;
  communicator->counters();  // that the device is done is not enough
  EXPECT_FALSE(storage.expired());
  pending.wait();
  EXPECT_TRUE(storage.expired());
}

TEST_F(NcclCommunicatorTest, NothingIsPutOnTheStreamForNoElements) {
  const torch::Tensor none = torch::zeros({2, 0});
  communicator->all_gather(none, none[0]).wait();
  EXPECT_THAT(backend->lines, ElementsAre());
  EXPECT_EQ(counter(Collective::kAllGather).calls, 1);
}

TEST_F(NcclCommunicatorTest, InputsAreHandedOnInPlace) {
  const torch::Tensor whole = torch::zeros({2, 3}, torch::kBFloat16);
  communicator->all_gather(whole, whole[1]).wait();
  EXPECT_EQ(backend->last_input.data_ptr(), whole[1].data_ptr());
  communicator->reduce_scatter(whole[1], whole).wait();
  EXPECT_EQ(backend->last_input.data_ptr(), whole.data_ptr());
}

TEST_F(NcclCommunicatorTest, AFloat32OutputMakesABfloat16InputFloat32BeforeItTravels) {
  const torch::Tensor input = torch::arange(8, torch::kFloat32).to(torch::kBFloat16).view({2, 4});
  communicator->reduce_scatter(torch::zeros({4}), input).wait();
  EXPECT_THAT(backend->lines, ElementsAre("stream waits for caller", "event 1", "on stream",
                                          "reduce_scatter", "event 2", "caller waits for event 2"));
  EXPECT_TRUE(torch::equal(backend->last_input, torch::arange(8, torch::kFloat32)));
  backend->reached = backend->recorded;
  EXPECT_EQ(counter(Collective::kReduceScatter).sent_bytes, 4 * 4);

  const void* const kept = backend->last_input.data_ptr();
  communicator->reduce_scatter(torch::zeros({2}), input[0].view({2, 2})).wait();
  EXPECT_EQ(backend->last_input.data_ptr(), kept);
}

TEST_F(NcclCommunicatorTest, CountersAreOfOperationsWhoseEndWasSeen) {
  const torch::Tensor whole = torch::zeros({2, 3});
  PendingCollective first = communicator->all_gather(whole, whole[0]);
  PendingCollective second = communicator->all_gather(whole, whole[0]);
  EXPECT_EQ(counter(Collective::kAllGather).calls, 0);
  backend->reached = 2;
  EXPECT_EQ(counter(Collective::kAllGather).calls, 1);
  EXPECT_EQ(counter(Collective::kAllGather).sent_bytes, 12);
  EXPECT_EQ(counter(Collective::kAllGather).seconds, 1);  // between events 1 and 2
  backend->reached = 4;
  EXPECT_EQ(counter(Collective::kAllGather).calls, 2);
}

TEST_F(NcclCommunicatorTest, AListenerIsToldOfOperationsWhoseEndWasSeen) {
  std::vector<CollectiveSpan> spans;
  communicator->on_end([&](const CollectiveSpan& span) { spans.push_back(span); });
  const torch::Tensor whole = torch::zeros({2, 3});
  PendingCollective first = communicator->all_gather(whole, whole[0]);
  PendingCollective second = communicator->reduce_scatter(whole[0], whole);
  backend->reached = 3;  // the second one is under way
  communicator->counters();
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].collective, Collective::kAllGather);
  EXPECT_EQ(spans[0].bytes, 24);
  EXPECT_EQ(spans[0].begin_s, 101);
  EXPECT_EQ(spans[0].end_s, 102);
  backend->reached = 4;
  communicator->counters();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[1].collective, Collective::kReduceScatter);
}

TEST_F(NcclCommunicatorTest, ADeadlineThatPassesAbortsOnceAndNamesTheOldestOperation) {
  use(0.2);
  const torch::Tensor whole = torch::zeros({2, 3});
  PendingCollective first = communicator->all_gather(whole, whole[0]);
  PendingCollective second = communicator->reduce_scatter(whole[0], whole);
  const double begin_s = steady_seconds();
  while (backend->aborts == 0 && steady_seconds() < begin_s + 10) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GT(steady_seconds() - begin_s, 0.15);
  try {
    second.wait();
    ADD_FAILURE() << "no error";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kNccl);
    EXPECT_STREQ(error.what(),
                 "all_gather #1 of group shards (2 ranks, 24 bytes) was not done within 0.2 s on "
                 "rank 0: another rank is stuck, cannot be reached or has started something else");
  }
  EXPECT_THROW(first.wait(), RunError);
  const size_t issued = backend->lines.size();
  EXPECT_THROW(communicator->all_gather(whole, whole[0]), RunError);
  EXPECT_EQ(backend->lines.size(), issued);
  communicator->abort("again");
  EXPECT_EQ(backend->aborts, 1);
}

TEST_F(NcclCommunicatorTest, TheDeadlineOfAnOperationBeginsWhenTheOneBeforeItEnds) {
  use(1);
  const torch::Tensor whole = torch::zeros({2, 3});
  std::vector<PendingCollective> pending;
  for (int i = 0; i < 4; ++i) pending.push_back(communicator->all_gather(whole, whole[0]));
  // 1.6 s after its start the last one ends, each 0.4 s after the one before.
  for (int i = 1; i <= 4; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    backend->reached = 2 * i;
  }
  EXPECT_NO_THROW(pending.back().wait());
  EXPECT_EQ(counter(Collective::kAllGather).calls, 4);
  EXPECT_EQ(backend->aborts, 0);
}

TEST_F(NcclCommunicatorTest, AnErrorThatNcclReportsLaterEndsTheCommunicator) {
  const torch::Tensor whole = torch::zeros({2, 3});
  PendingCollective pending = communicator->all_gather(whole, whole[0]);
  backend->has_error = true;
  const RunError error = failure();
  EXPECT_STREQ(
      error.what(),
      "all_gather #1 of group shards (2 ranks, 24 bytes) on rank 0: NCCL reports an error");
  EXPECT_EQ(error.evidence(), "remote process exited");
  EXPECT_EQ(backend->aborts, 1);
}

TEST_F(NcclCommunicatorTest, ARefusedOperationEndsTheCommunicator) {
  backend->before_put = [] { throw RunError(ReasonCode::kNccl, "invalid usage"); };
  const RunError error = failure();
  EXPECT_STREQ(error.what(),
               "all_reduce #1 of group shards (2 ranks, 4 bytes) on rank 0: could "
               "not be started");
  EXPECT_EQ(error.evidence(), "invalid usage");
  EXPECT_EQ(backend->aborts, 1);
}

TEST_F(NcclCommunicatorTest, WhatTheRankGroupKnowsIsTheError) {
  PendingCollective pending = communicator->all_reduce(torch::ones({1}), Reduction::kSum);
  group->has_failed = true;
  const RunError error = failure();
  EXPECT_EQ(error.code(), ReasonCode::kOomGpu);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1"), HasSubstr("too much")));
}

TEST_F(NcclCommunicatorTest, AnAbortEndsABarrier) {
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    communicator->abort("the test says so");
  });
  try {
    communicator->barrier();
    ADD_FAILURE() << "no error";
  } catch (const RunError& error) {
    EXPECT_STREQ(error.what(), "communication in group shards was ended: the test says so");
  }
  aborter.join();
}

TEST_F(NcclCommunicatorTest, ABarrierReturnsWhenTheDeviceIsThere) {
  std::thread device([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    backend->reached = 1000;
  });
  const double begin_s = steady_seconds();
  communicator->barrier();
  EXPECT_GT(steady_seconds() - begin_s, 0.09);
  device.join();
}

// NCCL takes an operation only when all ranks are connected: an abort must get through meanwhile.
TEST_F(NcclCommunicatorTest, AnAbortReachesAnOperationThatNcclHasNotTakenYet) {
  std::atomic<bool> inside{false};
  backend->before_put = [&] {
    inside = true;
    const double end_s = steady_seconds() + 10;
    while (!backend->given_up() && steady_seconds() < end_s) std::this_thread::yield();
    EXPECT_EQ(backend->aborts, 0) << "aborted while a thread was inside of NCCL";
    throw RunError(ReasonCode::kNccl, "given up");
  };
  std::thread aborter([&] {
    while (!inside) std::this_thread::yield();
    communicator->abort("enough");
  });
  const double begin_s = steady_seconds();
  EXPECT_THROW(communicator->all_reduce(torch::ones({1}), Reduction::kSum), RunError);
  aborter.join();
  EXPECT_LT(steady_seconds() - begin_s, 5);
  EXPECT_EQ(backend->aborts, 1);
  EXPECT_THAT(failure().what(), HasSubstr("was ended: enough"));
}

TEST_F(NcclCommunicatorTest, EndsWhenWhatIsUnderWayHasEnded) {
  const torch::Tensor whole = torch::zeros({2, 3});
  communicator->all_gather(whole, whole[0]).wait();
  std::thread device([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    backend->reached = 2;
  });
  const double begin_s = steady_seconds();
  communicator.reset();
  EXPECT_GT(steady_seconds() - begin_s, 0.09);
  EXPECT_EQ(backend->aborts, 0);
  device.join();
}

TEST_F(NcclCommunicatorTest, EndsAfterTheDeadlineWhenWhatIsUnderWayNeverEnds) {
  use(0.2);
  const torch::Tensor whole = torch::zeros({2, 3});
  communicator->all_gather(whole, whole[0]).wait();
  communicator.reset();
  EXPECT_EQ(backend->aborts, 1);
}

TEST_F(NcclCommunicatorTest, CountsByTheFormulas) {
  communicator.reset();
  backend = std::make_shared<FakeBackend>(/*rank=*/2, /*size=*/4);
  communicator = std::make_unique<NcclCommunicator>(*group, "world", backend);
  const torch::Tensor whole = torch::zeros({4, 5});
  communicator->all_gather(whole, whole[2]).wait();
  communicator->reduce_scatter(whole[2], whole).wait();
  communicator->all_to_all(torch::zeros({4, 5}), whole).wait();
  communicator->all_reduce_now(whole);
  communicator->broadcast(whole, 2).wait();
  communicator->broadcast(whole, 3).wait();  // this rank is the last after rank 3
  backend->reached = 1000;
  EXPECT_EQ(counter(Collective::kAllGather).sent_bytes, 60);
  EXPECT_EQ(counter(Collective::kReduceScatter).sent_bytes, 60);
  EXPECT_EQ(counter(Collective::kAllToAll).sent_bytes, 60);
  EXPECT_EQ(counter(Collective::kAllReduce).sent_bytes, 120);
  EXPECT_EQ(counter(Collective::kBroadcast).sent_bytes, 80);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
