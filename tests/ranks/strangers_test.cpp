// Who has no business in a job and connects to it all the same: nobody gets in, and what the ranks
// do is as if nobody had come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>

#include "ranks/hammer_of_test.h"
#include "ranks/hello.h"
#include "ranks/ranks_of_test.h"
#include "ranks/reception.h"
#include "ranks/rendezvous.h"
#include "sftbench/ranks/peer_sockets.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const RanksOfTest::Body kLeave = [](RankGroup& group) {
  group.leave();
  return std::string("met");
};

void pause(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

constexpr const char* kEscape = "\x1b]0;mine\x07\x1b[2J";

// What somebody would say who knows everything of the job but its secret.
Hello forged(const RankPlace& place) {
  return {.version = version_of(place),
          .session = place.session,
          .world_size = place.world_size,
          .info = {.rank = 1, .host = "elsewhere", .pid = 1},
          .problem = {}};
}

struct Forgery {
  const char* name;
  void (*change)(Hello&);
};

class ForgedGreetingTest : public testing::TestWithParam<Forgery> {};

INSTANTIATE_TEST_SUITE_P(
    Greetings, ForgedGreetingTest,
    testing::Values(Forgery{"of_a_rank", [](Hello&) {}},
                    Forgery{"of_another_version", [](Hello& hello) { hello.version = "9.9.9"; }},
                    Forgery{"of_another_world", [](Hello& hello) { hello.world_size = 7; }},
                    Forgery{"of_an_impossible_rank", [](Hello& hello) { hello.info.rank = 99; }},
                    Forgery{"with_a_problem", [](Hello& hello) { hello.problem = kEscape; }}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(ForgedGreetingTest, ChangesNothing) {
  RanksOfTest ranks(3);
  Hello hello = forged(ranks.common());
  GetParam().change(hello);
  std::string why;
  Connection stranger(connect_to("127.0.0.1", ranks.common().port, 1, why));
  stranger.send(to_message(hello));
  ASSERT_TRUE(stranger.flush());
  EXPECT_THAT(ranks.in_threads(kLeave), Each("met"));
}

// Who listens where rank 0 is expected before rank 0 does.
TEST(StrangersTest, WhoPosesAsRank0IsNotBelieved) {
  RanksOfTest ranks(2);
  RankPlace guest = ranks.common();
  guest.rank = 1;
  OwnedFd trap = listen_on_loopback();
  guest.port = port_of(trap.get());
  std::thread stranger([&] {
    OwnedFd caught;
    while (!caught) caught = OwnedFd(::accept4(trap.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Connection impostor(std::move(caught));
    impostor.send({MessageKind::kAccepted, {}});
    impostor.send({MessageKind::kRefused, {"", kEscape}});
    impostor.flush();
    pause(0.2);
    trap.close();
    impostor = Connection(OwnedFd());
    RankPlace host = guest;
    host.rank = 0;
    EXPECT_EQ(RanksOfTest::outcome(host, kLeave), "met");
  });
  EXPECT_EQ(RanksOfTest::outcome(guest, kLeave), "met");
  stranger.join();
}

TEST(StrangersTest, WhoHasAnotherSecretIsNotLetInAndMentionedShouldRanksBeMissing) {
  RanksOfTest ranks(3);
  ranks.common().rendezvous_timeout_s = 2;
  std::string stranger;
  std::thread other([&] {
    RankPlace place = ranks.common();
    place.rank = 1;
    place.secret = "the secret of another job";
    place.rendezvous_timeout_s = 1;
    stranger = RanksOfTest::outcome(place, kLeave);
  });
  const auto results = ranks.in_threads({0, 1}, kLeave);
  other.join();
  EXPECT_THAT(stranger, HasSubstr("rank 1 did not find rank 0 at 127.0.0.1:"));
  EXPECT_THAT(results, Each(AllOf(HasSubstr("NCCL: rank 2 of 3 did not come"),
                                  HasSubstr("without this job's secret, the last from 127.0.0.1"),
                                  Not(HasSubstr("secret of")))));
}

TEST(StrangersTest, ARankOfAnotherJobWithTheSameSecretIsTurnedAway) {
  RanksOfTest ranks(2);
  RankPlace other = ranks.common();
  other.rank = 1;
  other.session = "another";
  std::string answer;
  std::thread stranger([&] { answer = RanksOfTest::outcome(other, kLeave); });
  std::thread late([&] {
    stranger.join();
    EXPECT_THAT(ranks.in_threads({1}, kLeave), ElementsAre("met"));
  });
  EXPECT_THAT(ranks.in_threads({0}, kLeave), ElementsAre("met"));
  late.join();
  EXPECT_THAT(answer, HasSubstr("belongs to another job than this rank 0's"));
}

// Garbage, other protocols, huge lengths and silence, hundreds of times a second, and more of them
// at once than there is room for. The deadlines are those of a busy machine: what is tested is who
// meets whom.
constexpr double kFloodTimeoutS = 300;

TEST(StrangersTest, RanksMeetInAFlood) {
  RanksOfTest ranks(4);
  ranks.common().rendezvous_timeout_s = ranks.common().communication_timeout_s = kFloodTimeoutS;
  Hammer hammer([] { return std::vector<pid_t>{::getpid()}; }, 2 * kMostStrangers);
  std::atomic<bool> first_ended = false;
  std::thread late([&] {
    while (hammer.connections() < 1000 && !first_ended) pause(0.01);
    if (first_ended) return;
    EXPECT_THAT(ranks.in_threads({1, 2, 3}, kLeave), Each("met"));
  });
  EXPECT_THAT(ranks.in_threads({0}, kLeave), ElementsAre("met"));
  first_ended = true;
  late.join();
  EXPECT_GE(hammer.stop(), 1000);
}

TEST(StrangersTest, PeersConnectInAFloodAndKnowWhoIsWho) {
  RanksOfTest ranks(4);
  ranks.common().rendezvous_timeout_s = ranks.common().communication_timeout_s = kFloodTimeoutS;
  Hammer hammer([] { return std::vector<pid_t>{::getpid()}; });
  const auto results = ranks.in_threads([&](RankGroup& group) {
    if (group.rank() == 2) {
      while (hammer.connections() < 300) pause(0.01);
    }
    const std::vector<OwnedFd> sockets = connect_peers(group, "t", {0, 1, 2, 3}, "127.0.0.1");
    std::string heard;
    const char own = static_cast<char>('0' + group.rank());
    for (const OwnedFd& socket : sockets) {
      if (!socket) continue;
      EXPECT_EQ(::send(socket.get(), &own, 1, 0), 1);
    }
    for (const OwnedFd& socket : sockets) {
      char other = '-';
      pollfd entry = {socket.get(), POLLIN, 0};
      if (socket && ::poll(&entry, 1, 5000) == 1) {
        EXPECT_EQ(::recv(socket.get(), &other, 1, 0), 1);
      }
      heard += other;
    }
    group.leave();
    return heard;
  });
  EXPECT_THAT(results, ElementsAre("-123", "0-23", "01-3", "012-"));
}

// Ranks stay until each has its answer: one that left earlier would be what the others name.
TEST(StrangersTest, APeerThatDoesNotComeIsNamed) {
  RanksOfTest ranks(3);
  ranks.common().communication_timeout_s = 3;
  std::atomic<int> answered = 0;
  const auto results = ranks.in_threads([&](RankGroup& group) {
    std::string answer = "stays away";
    try {
      if (group.rank() != 2) connect_peers(group, "mesh", {0, 1, 2}, "127.0.0.1");
    } catch (const RunError& error) {
      answer = error.what();
    }
    ++answered;
    while (answered < 3) pause(0.05);
    return answer;
  });
  EXPECT_THAT(results, ElementsAre("rank 0 could not connect with rank 2 for mesh within 3 s",
                                   "rank 1 could not connect with rank 2 for mesh within 3 s",
                                   "stays away"));
}

// Without a secret, on one node.
TEST(StrangersTest, AnotherUsersProcessIsNotLetIn) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can start a process of another user";
  RanksOfTest ranks(2);
  ranks.common().secret.clear();
  RankPlace other = ranks.common();
  other.rank = 1;
  other.rendezvous_timeout_s = 0.5;
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    ::_exit(RanksOfTest::outcome(other, kLeave) == "met" ? 1 : 0);
  }
  std::thread late([&] {
    int status = -1;
    ::waitpid(stranger, &status, 0);
    EXPECT_EQ(status, 0) << "the other user's process was let in";
    EXPECT_THAT(ranks.in_threads({1}, kLeave), ElementsAre("met"));
  });
  EXPECT_THAT(ranks.in_threads({0}, kLeave), ElementsAre("met"));
  late.join();
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
