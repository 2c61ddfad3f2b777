#include "ranks/coordinator.h"

#include "ranks/hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

// Letters as "to kind: parts".
std::vector<std::string> texts(const std::vector<Coordinator::Letter>& letters) {
  std::vector<std::string> result;
  for (const Coordinator::Letter& letter : letters) {
    std::string text =
        std::to_string(letter.to) + " " + std::to_string(static_cast<int>(letter.message.kind));
    for (const std::string& part : letter.message.parts) text += " " + part;
    result.push_back(text);
  }
  return result;
}

std::string kind(MessageKind kind) {
  return std::to_string(static_cast<int>(kind));
}

// The failure that all ranks were told at last; "" when none was.
std::string verdict_in(const std::vector<Coordinator::Letter>& letters) {
  std::string verdict;
  for (const Coordinator::Letter& letter : letters) {
    if (letter.message.kind != MessageKind::kVerdict) continue;
    const RankFailure failure = failure_of(letter.message);
    verdict = std::string(to_string(failure.code)) + " of rank " + std::to_string(failure.rank) +
              ": " + failure.message;
  }
  return verdict;
}

class CoordinatorTest : public testing::Test {
 protected:
  void fails(int rank, ReasonCode code, const std::string& message, double now_s) {
    coordinator_.receive(rank, failure_message(MessageKind::kFail, {rank, code, message, {}}),
                         now_s);
  }
  void live(const std::vector<int>& ranks, double now_s) {
    for (const int rank : ranks) coordinator_.receive(rank, {MessageKind::kAlive, {}}, now_s);
  }
  std::string verdict() { return verdict_in(coordinator_.take_letters()); }

  Coordinator coordinator_{
      3, {.communication_timeout_s = 10, .alive_period_s = 1, .grace_s = 1.5}, 100};
};

TEST_F(CoordinatorTest, AnExchangeIsCompleteWhenTheLastRankHasCome) {
  coordinator_.receive(2, {MessageKind::kGather, {"c"}}, 100);
  coordinator_.receive(0, {MessageKind::kGather, {""}}, 101);
  EXPECT_THAT(coordinator_.take_letters(), IsEmpty());
  coordinator_.receive(1, {MessageKind::kGather, {"b"}}, 102);
  const std::string gathered = kind(MessageKind::kGathered) + "  b c";
  EXPECT_THAT(texts(coordinator_.take_letters()),
              ElementsAre("0 " + gathered, "1 " + gathered, "2 " + gathered));
  EXPECT_THROW(
      {
        coordinator_.receive(1, {MessageKind::kGather, {"b"}}, 103);
        coordinator_.receive(1, {MessageKind::kGather, {"again"}}, 103);
      },
      RunError);
}

TEST_F(CoordinatorTest, WhoAsksForAValueGetsItWhenItIsThere) {
  coordinator_.receive(1, {MessageKind::kGet, {"7", "address"}}, 100);
  coordinator_.receive(2, {MessageKind::kGet, {"0", "other"}}, 100);
  EXPECT_THAT(coordinator_.take_letters(), IsEmpty());
  coordinator_.receive(0, {MessageKind::kSet, {"address", "here"}}, 101);
  EXPECT_THAT(texts(coordinator_.take_letters()),
              ElementsAre("1 " + kind(MessageKind::kValue) + " 7 here"));
  coordinator_.receive(2, {MessageKind::kGet, {"1", "address"}}, 102);
  EXPECT_THAT(texts(coordinator_.take_letters()),
              ElementsAre("2 " + kind(MessageKind::kValue) + " 1 here"));
}

TEST_F(CoordinatorTest, OutOfMemoryIsTheVerdictHoweverLateItIsReported) {
  fails(1, ReasonCode::kNccl, "lost peer", 100);
  fails(2, ReasonCode::kInternal, "shapes", 100.5);
  EXPECT_EQ(verdict(), "");
  fails(0, ReasonCode::kOomHost, "no memory", 101);
  EXPECT_EQ(verdict(), "OOM_HOST of rank 0: no memory");
}

TEST_F(CoordinatorTest, GpuMemoryOutranksHostMemory) {
  fails(0, ReasonCode::kOomHost, "host", 100);
  fails(1, ReasonCode::kOomGpu, "gpu", 100);
  fails(2, ReasonCode::kOomGpu, "too", 100);
  EXPECT_EQ(verdict(), "OOM_GPU of rank 1: gpu");
}

TEST_F(CoordinatorTest, ARanksOwnErrorOutranksTroubleWithCommunication) {
  fails(0, ReasonCode::kNccl, "lost peer", 100);
  fails(2, ReasonCode::kNccl, "lost peer", 100);
  fails(1, ReasonCode::kData, "no such file", 100.2);
  EXPECT_EQ(verdict(), "DATA of rank 1: no such file");
}

// As when a launcher ends all others because one has crashed, and they hear of that first.
TEST_F(CoordinatorTest, ThatRanksWereAskedToEndIsTheCauseOnlyWhereThereIsNoOther) {
  const auto asked = [this](int rank, double now_s) {
    coordinator_.receive(
        rank,
        failure_message(MessageKind::kFail, {rank, ReasonCode::kKilled, "interrupted", {}, true}),
        now_s);
  };
  asked(0, 100);
  asked(1, 100.1);
  EXPECT_EQ(verdict(), "");
  coordinator_.lose(2, 100.4);
  EXPECT_EQ(verdict(), "KILLED of rank 2: the process ended");

  coordinator_ = Coordinator(3, {}, 100);
  for (const int rank : {1, 0, 2}) asked(rank, 100);
  const auto letters = coordinator_.take_letters();
  EXPECT_EQ(verdict_in(letters), "KILLED of rank 1: interrupted");
  EXPECT_TRUE(failure_of(letters.back().message).asked);
}

TEST_F(CoordinatorTest, OfTwoOwnErrorsTheFirstIsTheCause) {
  coordinator_.lose(2, 100);
  fails(0, ReasonCode::kInternal, "connection closed by peer", 100);
  fails(1, ReasonCode::kNccl, "lost peer", 100);
  EXPECT_EQ(verdict(), "KILLED of rank 2: the process ended");
}

TEST_F(CoordinatorTest, ARankThatSaysNothingIsWaitedForNoLongerThanTheGracePeriod) {
  fails(1, ReasonCode::kInternal, "shapes", 100);
  EXPECT_EQ(coordinator_.due_s(), 101.5);
  live({0, 2}, 101.4);
  coordinator_.tick(101.4);
  EXPECT_EQ(verdict(), "");
  coordinator_.tick(101.5);
  EXPECT_EQ(verdict(), "INTERNAL of rank 1: shapes");
  fails(0, ReasonCode::kOomGpu, "too late", 101.6);
  EXPECT_EQ(verdict(), "");
}

TEST_F(CoordinatorTest, ASilentRankIsNamed) {
  live({0, 1}, 110.05);
  coordinator_.tick(110.05);
  fails(0, ReasonCode::kNccl, "all_gather: 10 s are over", 110.1);
  fails(1, ReasonCode::kNccl, "all_gather: 10 s are over", 110.1);
  coordinator_.tick(112);
  EXPECT_EQ(verdict(), "NCCL of rank 2: no sign of life for 10 s");
}

TEST_F(CoordinatorTest, ARankThatFellSilentJustBeforeADeadlineIsNamedInPlaceOfThoseThatNoticed) {
  live({0, 1}, 106);
  fails(0, ReasonCode::kNccl, "all_gather: 5 s are over", 106);
  coordinator_.receive(1, {MessageKind::kFail, {}}, 106);
  coordinator_.tick(107.5);
  EXPECT_EQ(verdict(), "NCCL of rank 2: no sign of life for 7 s");
}

TEST_F(CoordinatorTest, ARankThatDoesNotComeToAnExchangeIsNamed) {
  coordinator_.receive(0, {MessageKind::kGather, {"a"}}, 100);
  coordinator_.receive(1, {MessageKind::kGather, {"b"}}, 105);
  live({0, 1, 2}, 109.9);
  coordinator_.tick(109.9);
  EXPECT_THAT(coordinator_.take_letters(), IsEmpty());
  live({0, 1, 2}, 110);
  coordinator_.tick(110);
  coordinator_.tick(111.5);
  EXPECT_EQ(verdict(), "NCCL of rank 2: it did not join the other ranks within 10 s");
}

TEST_F(CoordinatorTest, AfterTheFarewellNobodyIsMissed) {
  for (const int rank : {1, 0, 2}) coordinator_.receive(rank, {MessageKind::kLeave, {}}, 100);
  const std::string farewell = kind(MessageKind::kFarewell);
  EXPECT_THAT(texts(coordinator_.take_letters()),
              ElementsAre("0 " + farewell, "1 " + farewell, "2 " + farewell));
  coordinator_.lose(1, 101);
  coordinator_.tick(500);
  EXPECT_THAT(coordinator_.take_letters(), IsEmpty());
}

TEST_F(CoordinatorTest, WhoEndsBeforeAllHaveLeftIsMissed) {
  coordinator_.receive(1, {MessageKind::kLeave, {}}, 100);
  coordinator_.lose(1, 101);
  coordinator_.tick(103);
  EXPECT_EQ(verdict(), "KILLED of rank 1: the process ended");
}

// --- messages on the wire --------------------------------------------------------------------

TEST(MessageTest, AnyBytesComeBackFromAnyPieces) {
  const Message message = {MessageKind::kSet, {std::string("\0\xff\n", 3), "", "text"}};
  const std::string frames = encode(message) + encode({MessageKind::kAlive, {}});
  MessageReader reader(1000);
  std::vector<Message> messages;
  for (const char byte : frames) {
    reader.append(&byte, 1);
    while (auto next = reader.next()) messages.push_back(*next);
  }
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].kind, message.kind);
  EXPECT_EQ(messages[0].parts, message.parts);
  EXPECT_THAT(messages[1].parts, IsEmpty());
}

TEST(MessageTest, WhatIsNoMessageIsRefusedBeforeItTakesMemory) {
  const auto problem = [](const std::string& bytes) -> std::string {
    MessageReader reader(1000);
    reader.append(bytes.data(), bytes.size());
    try {
      return reader.next() ? "a message" : "more is to come";
    } catch (const RunError& error) {
      return error.what();
    }
  };
  const std::string no_rank = "a rank was sent what no rank sends: ";
  EXPECT_EQ(problem("GET / HTTP/1.1\r\n"),
            no_rank + "a message of 542393671 bytes, where at most 1000 are expected");
  EXPECT_EQ(problem(std::string("\0\0\0\0", 4)),
            no_rank + "a message of 0 bytes, where at most 1000 are expected");
  EXPECT_EQ(problem(std::string("\1\0\0\0\x63", 5)), no_rank + "a message of kind 99");
  EXPECT_EQ(problem(std::string("\3\0\0\0\5\1\1", 7)), no_rank + "a text without its length");
  EXPECT_EQ(problem(std::string("\6\0\0\0\5\xff\xff\xff\xff!", 10)),
            no_rank + "a text that is longer than its message");
  EXPECT_EQ(problem(std::string("\7\0\0\0\5\2\0", 7)), "more is to come");
}

TEST(MessageTest, AFrameThatWasChangedLeftOutOrSentAgainIsRefused) {
  const std::string frame = encode({MessageKind::kSet, {"key", "value"}});
  Sealer sealer("key of this direction");
  const std::string first = frame + sealer.next(frame);
  const std::string second = frame + sealer.next(frame);
  const auto taken = [](const std::string& bytes, const std::string& key) {
    MessageReader reader(1000);
    reader.expect_seals(key);
    reader.append(bytes.data(), bytes.size());
    int count = 0;
    try {
      while (reader.next()) ++count;
    } catch (const RunError&) {
      count += 100;
    }
    return count;
  };
  EXPECT_EQ(taken(first + second, "key of this direction"), 2);
  EXPECT_EQ(taken(first + second, "key of the other one"), 100);
  EXPECT_EQ(taken(first + first, "key of this direction"), 101);
  EXPECT_EQ(taken(second, "key of this direction"), 100);
  for (size_t at = 0; at < first.size(); ++at) {
    std::string changed = first;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_NE(taken(changed, "key of this direction") % 100, 1) << "byte " << at;
  }
}

TEST(MessageTest, WhatOthersSayIsMadePrintable) {
  const Message message = failure_message(
      MessageKind::kFail, {1, ReasonCode::kData, "line\x1b[2J\nnext", "\xff\x07", false});
  EXPECT_EQ(failure_of(message).message, "line\\x1b[2J\nnext");
  EXPECT_EQ(failure_of(message).evidence, "\\xff\\x07");
  Coordinator coordinator(2, {}, 0);
  coordinator.receive(1, {MessageKind::kAlive, {"here\x1b\n"}}, 0);
  EXPECT_EQ(coordinator.whereabouts()[1], "here\\x1b\\n");
  Hello hello{
      .version = "1\x1b", .session = "s", .info = {.rank = 1, .host = "h\n"}, .problem = "p\r"};
  hello = hello_from(to_message(hello));
  EXPECT_EQ(hello.version + hello.info.host + hello.problem, "1\\x1bh\\np\\x0d");
}

TEST(MessageTest, NumbersAndFailuresAreCheckedToo) {
  EXPECT_EQ(number_of("-12"), -12);
  for (const char* text : {"", "1x", " 1", "99999999999999999999"}) {
    EXPECT_THROW(number_of(text), RunError) << text;
  }
  EXPECT_THROW(failure_of({MessageKind::kFail, {"1", "99", "", "", ""}}), RunError);
  EXPECT_THROW(failure_of({MessageKind::kFail, {"1", "0", "", ""}}), RunError);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
