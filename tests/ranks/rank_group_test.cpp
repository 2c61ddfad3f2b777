#include "sftbench/ranks/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "ranks/ranks_of_test.h"
#include "ranks/rendezvous.h"
#include "sftbench/base/clock.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

void pause(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Until the test's end kills it.
std::string forever(RankGroup&) {
  for (;;) ::pause();
}

// What a rank does whose exchange fails: it asks what all agree on.
std::string exchange_until_failure(RankGroup& group) {
  try {
    for (;;) group.all_gather("on");
  } catch (const RunError& error) {
    const RankFailure failure =
        group.fail({group.rank(), error.code(), error.what(), error.evidence()});
    return RanksOfTest::text_of(error_of(failure, group.ranks()));
  }
}

class RankGroupTest : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, RankGroupTest, testing::Values(1, 2, 5));

TEST_P(RankGroupTest, AllKnowEachOtherAndExchangeTextsInRankOrder) {
  RanksOfTest ranks(GetParam());
  const auto results = ranks.in_threads([](RankGroup& group) {
    std::string result;
    for (const RankInfo& info : group.ranks()) {
      result += std::to_string(info.rank) + std::to_string(info.local_rank) + ";";
      EXPECT_EQ(info.pid, ::getpid());
      EXPECT_FALSE(info.host.empty());
    }
    for (int round = 0; round < 3; ++round) {
      const std::string own = std::to_string(group.rank()) + std::string(1, '\0') +
                              std::string(static_cast<size_t>(group.rank()) * 100000, 'x');
      for (const std::string& text : group.all_gather(own)) {
        result += text.substr(0, 1) + ":" + std::to_string(text.size()) + ";";
      }
    }
    group.leave();
    group.leave();  // once is enough
    return result;
  });
  std::string expected, exchange;
  for (int rank = 0; rank < GetParam(); ++rank) {
    const std::string number = std::to_string(rank);
    expected += number + number + ";";
    exchange += number + ":" + std::to_string(rank * 100000 + 2) + ";";
  }
  EXPECT_THAT(results, Each(expected + exchange + exchange + exchange));
}

TEST_P(RankGroupTest, WhoAsksForAValueWaitsForIt) {
  RanksOfTest ranks(GetParam());
  const int last = GetParam() - 1;
  const auto results = ranks.in_threads([last](RankGroup& group) {
    if (group.rank() == last) {
      pause(0.05);
      group.set("id", std::string("\0\1\2", 3));
    }
    std::string values = group.get("id") + group.get("id");
    group.leave();
    return values;
  });
  EXPECT_THAT(results, Each(std::string("\0\1\2\0\1\2", 6)));
}

TEST(RankGroupsTest, TwoGroupsAtOnceDoNotMix) {
  RanksOfTest first(2, "first"), second(3, "second");
  const RanksOfTest::Body count = [](RankGroup& group) {
    std::string all;
    for (const std::string& text : group.all_gather(group.place().session)) all += text;
    group.leave();
    return all;
  };
  std::vector<std::string> of_first;
  std::thread other([&] { of_first = first.in_threads(count); });
  EXPECT_THAT(second.in_threads(count), Each("secondsecondsecond"));
  other.join();
  EXPECT_THAT(of_first, Each("firstfirst"));
}

TEST(RankGroupsTest, ManyThreadsOfARankAskAtTheSameTime) {
  RanksOfTest ranks(2);
  const auto results = ranks.in_threads([](RankGroup& group) {
    std::vector<std::thread> threads;
    std::atomic<int> right = 0;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&group, &right, i] {
        const std::string key = std::to_string(i);
        group.set(key + " of " + std::to_string(group.rank()), key);
        right += group.get(key + " of " + std::to_string(1 - group.rank())) == key;
      });
    }
    for (std::thread& thread : threads) thread.join();
    group.leave();
    return std::to_string(right);
  });
  EXPECT_THAT(results, Each("4"));
}

TEST(RankGroupsTest, ARankIsOneOfItsWorld) {
  for (const int rank : {-1, 2}) {
    RankPlace place;
    place.rank = rank;
    place.world_size = 2;
    EXPECT_THROW(join_ranks(place), std::logic_error) << rank;
  }
}

// --- rendezvous ------------------------------------------------------------------------------

const RanksOfTest::Body kLeave = [](RankGroup& group) {
  group.leave();
  return std::string("met");
};

TEST(RendezvousTest, RanksThatDoNotComeAreNamedByAllThatDid) {
  RanksOfTest ranks(6);
  ranks.common().rendezvous_timeout_s = 1.5;
  const double begin_s = steady_seconds();
  const auto results = ranks.in_threads({0, 4}, kLeave);
  EXPECT_LT(steady_seconds() - begin_s, 1.5 + 5);
  EXPECT_THAT(results, Each("NCCL: ranks 1 to 3 and 5 of 6 did not come to 127.0.0.1:" +
                            std::to_string(ranks.common().port) + " within 1.5 s"));
}

TEST(RendezvousTest, WithoutRank0TheOthersSayWhereTheyLooked) {
  RanksOfTest ranks(2);
  ranks.common().port = 1;
  ranks.common().rendezvous_timeout_s = 0.2;
  EXPECT_THAT(ranks.in_threads({1}, kLeave),
              ElementsAre("NCCL: rank 1 did not find rank 0 at 127.0.0.1:1 within 0.2 s"));
}

TEST(RendezvousTest, RanksMayComeInAnyOrder) {
  OwnedFd port = listen_on_loopback();
  RanksOfTest ranks(2);
  ranks.common().port = port_of(port.get());
  port.close();  // rank 0 opens it itself, later
  std::string late;
  std::thread rank0([&] {
    pause(0.2);
    RankPlace place = ranks.common();
    late = RanksOfTest::outcome(place, kLeave);
  });
  EXPECT_THAT(ranks.in_threads({1}, kLeave), ElementsAre("met"));
  rank0.join();
  EXPECT_EQ(late, "met");
}

TEST(RendezvousTest, APortThatIsTakenIsAnErrorOfRank0) {
  const OwnedFd taken = listen_on(0);
  RankPlace place = RanksOfTest(2).common();
  place.port = port_of(taken.get());
  EXPECT_EQ(RanksOfTest::outcome(place, kLeave),
            "NCCL: port " + std::to_string(place.port) +
                ", where ranks are to meet, is taken by another process of this machine; choose "
                "another one");
}

TEST(RendezvousTest, AnotherVersionOfTheProgramEndsItForAll) {
  RanksOfTest ranks(3);
  std::string other;
  std::thread rank2([&] {
    pause(0.1);
    RankPlace place = ranks.common();
    place.rank = 2;
    place.version = "9.9.9";
    other = RanksOfTest::outcome(place, kLeave);
  });
  const auto results = ranks.in_threads({0, 1}, kLeave);
  rank2.join();
  EXPECT_THAT(other, AllOf(StartsWith("NCCL: rank 2 on host "),
                           HasSubstr(") is sftbench 9.9.9, and rank 0 is sftbench ")));
  EXPECT_THAT(results, Each(other));
}

TEST(RendezvousTest, AnotherNumberOfRanksEndsItForAll) {
  RanksOfTest ranks(2);
  std::string other;
  std::thread rank1([&] {
    RankPlace place = ranks.common();
    place.rank = 1;
    place.world_size = 4;
    other = RanksOfTest::outcome(place, kLeave);
  });
  const auto results = ranks.in_threads({0}, kLeave);
  rank1.join();
  EXPECT_THAT(other, HasSubstr("was started as one of 4 ranks, and rank 0 as one of 2"));
  EXPECT_THAT(results, ElementsAre(other));
}

TEST(RendezvousTest, ARankOfAnotherJobIsTurnedAwayAndTheRightOneWelcome) {
  RanksOfTest ranks(2);
  std::string other;
  std::thread rank1([&] {
    RankPlace place = ranks.common();
    place.rank = 1;
    place.session = "another";
    other = RanksOfTest::outcome(place, kLeave);
    pause(0.05);
    place.session = ranks.common().session;
    EXPECT_EQ(RanksOfTest::outcome(place, kLeave), "met");
  });
  EXPECT_THAT(ranks.in_threads({0}, kLeave), ElementsAre("met"));
  rank1.join();
  EXPECT_THAT(other, AllOf(StartsWith("NCCL: turned away by rank 0: rank 1 on host "),
                           HasSubstr("belongs to another job than this rank 0's")));
}

TEST(RendezvousTest, ASecondRankOfTheSameNumberIsTurnedAwayAndMentioned) {
  RanksOfTest ranks(3);
  ranks.common().rendezvous_timeout_s = 2;
  std::string second;
  std::thread again([&] {
    pause(0.2);
    RankPlace place = ranks.common();
    place.rank = 1;
    second = RanksOfTest::outcome(place, kLeave);
  });
  const auto results = ranks.in_threads({0, 1}, kLeave);
  again.join();
  const std::string process = std::to_string(::getpid());
  EXPECT_THAT(second, AllOf(StartsWith("NCCL: turned away by rank 0: rank 1 on host "),
                            HasSubstr("is there already, as process " + process)));
  EXPECT_THAT(results, Each(AllOf(StartsWith("NCCL: rank 2 of 3 did not come"),
                                  HasSubstr("; turned away: rank 1 on host"))));
}

TEST(RendezvousTest, ARankThatDeclinesEndsItForAllAtOnce) {
  RanksOfTest ranks(4);  // rank 3 never comes: nobody waits for it
  bool told = false;
  std::thread rank2([&] {
    pause(0.1);
    told = decline_to_join(ranks.place(2), "--optim: unknown\n--sead: unknown", 20);
  });
  const double begin_s = steady_seconds();
  const auto results = ranks.in_threads({0, 1}, kLeave);
  rank2.join();
  EXPECT_TRUE(told);
  EXPECT_LT(steady_seconds() - begin_s, 5);
  EXPECT_THAT(results, Each(AllOf(StartsWith("input: rank 2 on host "),
                                  HasSubstr("): --optim: unknown\n--sead: unknown"))));
}

TEST(RendezvousTest, WhenRank0DeclinesAllWhoComeHearOfIt) {
  RanksOfTest ranks(4);
  bool told = false;
  std::thread rank0([&] { told = decline_to_join(ranks.place(0), "no such file", 20); });
  // Rank 3 has the same problem: it is told, and has nothing to tell.
  std::thread rank3([&] { EXPECT_TRUE(decline_to_join(ranks.place(3), "no such file", 20)); });
  const auto results = ranks.in_threads({1, 2}, kLeave);
  rank0.join();
  rank3.join();
  EXPECT_TRUE(told);
  EXPECT_THAT(results,
              Each(AllOf(StartsWith("input: rank 0 on host "), HasSubstr("): no such file"))));
}

TEST(RendezvousTest, WhoDeclinesWaitsNoLongerThanItsPatience) {
  RanksOfTest ranks(2);
  const double begin_s = steady_seconds();
  EXPECT_FALSE(decline_to_join(ranks.place(0), "no such file", 0.2));
  EXPECT_FALSE(decline_to_join(ranks.place(1), "no such file", 0.2));
  EXPECT_LT(steady_seconds() - begin_s, 5);
}

TEST(RendezvousTest, StrangersDoNotDisturb) {
  RanksOfTest ranks(2);
  std::string why;
  std::vector<OwnedFd> strangers;
  for (const std::string text : {"", "GET / HTTP/1.1\r\n\r\n", "\x02"}) {
    strangers.push_back(connect_to("127.0.0.1", ranks.common().port, 1, why));
    ASSERT_TRUE(strangers.back()) << why;
    ASSERT_EQ(::write(strangers.back().get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  EXPECT_THAT(ranks.in_threads(kLeave), Each("met"));
}

TEST(RendezvousTest, ARankThatIsKilledWhileItWaitsIsNamedAtOnce) {
  RanksOfTest ranks(4);
  const pid_t waiting = ranks.in_process(2, kLeave);
  std::thread killer([&] {
    pause(0.2);
    ::kill(waiting, SIGKILL);
  });
  const double begin_s = steady_seconds();
  const auto results = ranks.in_threads({0, 1}, kLeave);
  killer.join();
  EXPECT_LT(steady_seconds() - begin_s, 5);
  EXPECT_THAT(results, Each(AllOf(StartsWith("KILLED: rank 2"),
                                  HasSubstr("the process ended before all ranks had come"))));
}

TEST(RendezvousTest, WhenRank0IsKilledTheOthersSaySo) {
  RanksOfTest ranks(3);
  const pid_t rank0 = ranks.in_process(0, kLeave);
  std::thread killer([&] {
    pause(0.2);
    ::kill(rank0, SIGKILL);
  });
  EXPECT_THAT(ranks.in_threads({1}, kLeave),
              ElementsAre("KILLED: rank 0: the process ended before all ranks had come"));
  killer.join();
}

// --- failures --------------------------------------------------------------------------------

TEST(RankFailureTest, AKilledRankIsNamedByAllAtOnce) {
  RanksOfTest ranks(4);
  const pid_t victim = ranks.in_process(2, forever);
  std::atomic<double> killed_s = 0;
  std::thread killer([&] {
    pause(0.3);
    killed_s = steady_seconds();
    ::kill(victim, SIGKILL);
  });
  const auto results = ranks.in_threads({0, 1, 3}, exchange_until_failure);
  EXPECT_LT(steady_seconds() - killed_s, 5);  // milliseconds, but on a busy machine; not 20 s
  killer.join();
  EXPECT_THAT(results, Each("KILLED: rank 2: the process ended"));
}

TEST(RankFailureTest, WhenRank0IsKilledTheOthersNameIt) {
  RanksOfTest ranks(3);
  const pid_t victim = ranks.in_process(0, forever);
  std::thread killer([&] {
    pause(0.3);
    ::kill(victim, SIGKILL);
  });
  EXPECT_THAT(ranks.in_threads({1, 2}, exchange_until_failure),
              Each("KILLED: rank 0: the process ended"));
  killer.join();
}

TEST(RankFailureTest, ARankThatIsStoppedIsSilentAndNamed) {
  RanksOfTest ranks(3);
  ranks.common().communication_timeout_s = 2;
  const pid_t victim = ranks.in_process(1, forever);
  std::thread stopper([&] {
    pause(0.3);
    ::kill(victim, SIGSTOP);
  });
  // One waits for the silent rank, the other looks for itself.
  const auto results = ranks.in_threads({0, 2}, [](RankGroup& group) {
    if (group.rank() == 2) return exchange_until_failure(group);
    while (!group.failure()) pause(0.01);
    return RanksOfTest::text_of(
        error_of(group.fail({0, ReasonCode::kNccl, "lost peer", {}}), group.ranks()));
  });
  stopper.join();
  EXPECT_THAT(results, Each(StartsWith("NCCL: rank 1: ")));
}

TEST(RankFailureTest, AStoppedRank0IsNamedByTheOthers) {
  RanksOfTest ranks(2);
  ranks.common().communication_timeout_s = 0.5;
  const pid_t victim = ranks.in_process(0, forever);
  std::thread stopper([&] {
    pause(0.3);
    ::kill(victim, SIGSTOP);
  });
  const double begin_s = steady_seconds();
  const auto results = ranks.in_threads({1}, [](RankGroup& group) {
    const std::string failure = exchange_until_failure(group);
    group.outlast_rank0(60);  // that has nothing to say any more
    return failure;
  });
  EXPECT_THAT(results, ElementsAre("NCCL: rank 0: no sign of life for 0.5 s"));
  EXPECT_LT(steady_seconds() - begin_s, 30);
  stopper.join();
}

TEST(RankFailureTest, AllAgreeOnWhatARankReports) {
  RanksOfTest ranks(3);
  const auto results = ranks.in_threads([](RankGroup& group) {
    if (group.rank() != 1) return exchange_until_failure(group);
    group.all_gather("on");
    const RankFailure failure = group.fail({1, ReasonCode::kData, "no such file", "line 3"});
    EXPECT_EQ(failure.evidence, "line 3");
    return RanksOfTest::text_of(error_of(failure, group.ranks()));
  });
  EXPECT_THAT(results, Each("DATA: rank 1: no such file"));
}

TEST(RankFailureTest, OutOfMemoryIsTheCauseThoughOthersReportALostPeerFirst) {
  RanksOfTest ranks(3);
  const auto results = ranks.in_threads([](RankGroup& group) {
    RankFailure own = {group.rank(), ReasonCode::kNccl, "lost peer", {}};
    if (group.rank() == 2) {
      pause(0.2);
      own = {2, ReasonCode::kOomGpu, "CUDA out of memory", {}};
    }
    return RanksOfTest::text_of(error_of(group.fail(own), group.ranks()));
  });
  EXPECT_THAT(results, Each("OOM_GPU: rank 2: CUDA out of memory"));
}

TEST(RankFailureTest, WhoWaitsElsewhereIsWokenOnce) {
  RanksOfTest ranks(2);
  const auto results = ranks.in_threads([](RankGroup& group) {
    std::atomic<int> calls = 0;
    group.on_failure([&](const RankFailure& failure) {
      EXPECT_EQ(failure.rank, 1);
      ++calls;
    });
    const std::vector<std::string> all = group.all_gather("registered");
    if (group.rank() == 1) group.fail({1, ReasonCode::kInternal, "shapes", {}});
    while (calls == 0) pause(0.001);
    group.fail({group.rank(), ReasonCode::kNccl, "woken", {}});
    pause(0.05);
    return std::to_string(calls) + " " + group.failure()->message;
  });
  EXPECT_THAT(results, Each("1 shapes"));
}

TEST(RankFailureTest, WhoRegistersAfterAFailureIsWokenToo) {
  RanksOfTest ranks(1);
  EXPECT_THAT(ranks.in_threads([](RankGroup& group) {
    group.fail({0, ReasonCode::kInternal, "shapes", {}});
    std::atomic<bool> woken = false;
    group.on_failure([&](const RankFailure&) { woken = true; });
    while (!woken) pause(0.001);
    return std::string("woken");
  }),
              ElementsAre("woken"));
}

TEST(RankFailureTest, ARankThatEndsWhileOthersLeaveIsMissed) {
  RanksOfTest ranks(3);
  const auto results = ranks.in_threads([](RankGroup& group) {
    if (group.rank() == 1) {
      pause(0.1);
      return std::string("gone");
    }
    try {
      group.leave();
      return std::string("left");
    } catch (const RunError& error) {
      return RanksOfTest::text_of(error);
    }
  });
  EXPECT_THAT(results, ElementsAre("KILLED: rank 1: the process ended", "gone",
                                   "KILLED: rank 1: the process ended"));
}

TEST(RankFailureTest, AValueThatNobodySetsIsAnError) {
  RanksOfTest ranks(1);
  ranks.common().communication_timeout_s = 0.1;
  EXPECT_THAT(ranks.in_threads([](RankGroup& group) { return group.get("id"); }),
              ElementsAre("NCCL: no rank has set 'id' within 0.1 s"));
}

TEST(RankFailureTest, OtherRanksCanLetRank0EndFirst) {
  RanksOfTest ranks(2);
  std::atomic<bool> rank0_told = false;
  const auto results = ranks.in_threads([&](RankGroup& group) {
    group.fail({group.rank(), ReasonCode::kData, "no such file", {}});
    if (group.rank() == 0) {
      pause(0.3);
      rank0_told = true;
    } else {
      group.outlast_rank0(20);
    }
    return std::string(rank0_told ? "told" : "too early");
  });
  EXPECT_THAT(results, Each("told"));
}

size_t count_known(const std::vector<std::string>& whereabouts) {
  return whereabouts.size() -
         static_cast<size_t>(std::count(whereabouts.begin(), whereabouts.end(), ""));
}

TEST(RankFailureTest, ARankThatStallsIsLastSeenWhereItSaid) {
  RanksOfTest ranks(3);
  ranks.common().communication_timeout_s = 2;
  const auto results = ranks.in_threads([](RankGroup& group) {
    group.at(group.rank() == 1 ? "in the forward pass of step 7" : "in the update of step 7");
    if (group.rank() == 1) {
      while (!group.failure()) pause(0.01);
      group.fail({1, ReasonCode::kNccl, "woken", {}});
      return std::string();
    }
    while (group.rank() == 0 && count_known(group.whereabouts()) < 3) pause(0.01);
    EXPECT_THROW(group.all_gather("on"), RunError);
    return group.fail({group.rank(), ReasonCode::kNccl, "lost", {}}).evidence;
  });
  const std::string places =
      "last seen: rank 1 in the forward pass of step 7; ranks 0 and 2 in the update of step 7";
  EXPECT_THAT(results, ElementsAre(places, "", places));
}

TEST(RankFailureTest, WhenARankIsKilledTheOthersSayAnewWhereTheyAre) {
  RanksOfTest ranks(3);
  const pid_t victim = ranks.in_process(1, [](RankGroup& group) {
    group.at("in the forward pass of step 7");
    return forever(group);
  });
  const auto results = ranks.in_threads({0, 2}, [&](RankGroup& group) {
    group.at("in the update of step 6");
    if (group.rank() == 0) {
      while (count_known(group.whereabouts()) < 3) pause(0.01);
    }
    group.at("in the backward pass of step 7");
    if (group.rank() == 0) ::kill(victim, SIGKILL);
    while (!group.failure()) pause(0.01);
    return group.fail({group.rank(), ReasonCode::kNccl, "lost", {}}).evidence;
  });
  EXPECT_THAT(results, Each("last seen: rank 1 in the forward pass of step 7 or later; ranks 0 "
                            "and 2 in the backward pass of step 7"));
}

TEST(RankFailureTest, WhenRank0IsKilledTheOthersSayWhereTheyWere) {
  RanksOfTest ranks(2);
  const pid_t victim = ranks.in_process(0, forever);
  const auto results = ranks.in_threads({1}, [&](RankGroup& group) {
    group.at("in the forward pass of step 7");
    ::kill(victim, SIGKILL);
    while (!group.failure()) pause(0.01);
    return group.fail({1, ReasonCode::kNccl, "lost", {}}).evidence;
  });
  EXPECT_THAT(results, ElementsAre("last seen: rank 1 in the forward pass of step 7"));
}

TEST(RankFailureTest, ErrorsNameTheHostWhereThereAreSeveral) {
  const RankFailure failure = {1, ReasonCode::kNccl, "lost", "line"};
  EXPECT_STREQ(error_of(failure, {{.host = "a"}}).what(), "lost");
  EXPECT_STREQ(error_of(failure, {{.host = "a"}, {.host = "a"}}).what(), "rank 1: lost");
  EXPECT_STREQ(error_of(failure, {{.host = "a"}, {.host = "b"}}).what(), "rank 1 on host b: lost");
  EXPECT_EQ(error_of(failure, {{.host = "a"}, {.host = "b"}}).evidence(), "line");
}

TEST(RankFailureTest, RanksAreNamedInRuns) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({3, 4}), "ranks 3 and 4");
  EXPECT_EQ(ranks_text({1, 2, 3, 5, 7, 8}), "ranks 1 to 3, 5, 7 and 8");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
