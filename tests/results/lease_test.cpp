// Leases: one holder, whatever stops it; and nothing that a superseded one writes is ever seen.
#include "results/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "results/lease_watch.h"
#include "results/temporary_folder.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

class LeaseTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(leases_); }

  std::shared_ptr<Lease> make() { return Lease::try_make(leases_, "tuning", "key", 60); }
  std::string token() { return read_lease(leases_, "key").value().token; }
  // As LeaseClaims does with one that is silent.
  void break_it() { break_lease(leases_, "key", token()); }

  TemporaryFolder folder_;
  fs::path leases_ = folder_.path() / ".leases";
  fs::path result_ = folder_.path() / "tuning" / "key.json";
};

TEST_F(LeaseTest, HasOneHolderWhoIsNamed) {
  const auto lease = make();
  ASSERT_TRUE(lease);
  EXPECT_FALSE(make());
  const LeaseText text = read_lease(leases_, "key").value();
  EXPECT_THAT(text.holder(), HasSubstr("process " + std::to_string(::getpid())));
  EXPECT_EQ(text.experiment, "tuning");
  EXPECT_EQ(text.lease_s, 60);
}

TEST_F(LeaseTest, LeavesNothingBehind) {
  make();
  EXPECT_THAT(lease_names(leases_), IsEmpty());
  EXPECT_TRUE(make());
  EXPECT_THAT(lease_names(leases_), IsEmpty());
}

TEST_F(LeaseTest, AFailedTryLeavesTheHoldersFolder) {
  const auto lease = make();
  make();
  EXPECT_THAT(lease_names(leases_), testing::ElementsAre("key"));
  EXPECT_TRUE(lease->renew());
  EXPECT_TRUE(lease->stands());
}

TEST_F(LeaseTest, ARenewalChangesItsSign) {
  const auto lease = make();
  const std::string before = read_lease(leases_, "key").value().sign;
  EXPECT_TRUE(lease->renew());
  EXPECT_NE(read_lease(leases_, "key").value().sign, before);
}

TEST_F(LeaseTest, PublishesWholeFilesAndKeepsTheClaim) {
  const auto lease = make();
  lease->publish(result_, "first");
  lease->publish(result_, "second");
  EXPECT_EQ(read_file(result_), "second");
  EXPECT_FALSE(make());
  EXPECT_EQ(std::distance(fs::directory_iterator(leases_ / "key"), fs::directory_iterator()), 1);
}

TEST_F(LeaseTest, WhoWasBelievedDeadCanNeitherRenewNorPublish) {
  const auto first = make();
  break_it();
  const auto second = make();
  ASSERT_TRUE(second);
  second->publish(result_, "of the successor");
  EXPECT_THROW(first->publish(result_, "of the dead"), ClaimLost);
  EXPECT_FALSE(first->renew() && first->stands());
  EXPECT_EQ(read_file(result_), "of the successor");
}

TEST_F(LeaseTest, TheLostNamesItsSuccessor) {
  const auto first = make();
  break_it();
  const auto second = make();
  try {
    first->publish(result_, "late");
    FAIL();
  } catch (const ClaimLost& lost) {
    EXPECT_THAT(lost.what(), HasSubstr("process " + std::to_string(::getpid())));
    EXPECT_THAT(lost.what(), HasSubstr("has taken it over"));
  }
}

TEST_F(LeaseTest, GivingBackALostOneLeavesTheSuccessors) {
  auto first = make();
  break_it();
  const auto second = make();
  first.reset();
  EXPECT_FALSE(make());
  second->publish(result_, "kept");
  EXPECT_EQ(read_file(result_), "kept");
}

TEST_F(LeaseTest, BreakingAnOldOneLeavesTheNextHolders) {
  auto first = make();
  const std::string old = token();
  first.reset();
  const auto second = make();
  break_lease(leases_, "key", old);
  EXPECT_TRUE(second->renew());
  EXPECT_TRUE(second->stands());
  EXPECT_FALSE(make());
}

TEST_F(LeaseTest, NeverTwoHoldersWhileTheyComeAndGo) {
  std::atomic<int> holders = 0, most = 0, times = 0;
  const auto work = [&] {
    while (times < 400) {
      const auto lease = make();
      if (!lease) continue;
      const int now = ++holders;
      if (now > most) most = now;
      ++times;
      --holders;
    }
  };
  std::thread first(work), second(work), third(work);
  first.join();
  second.join();
  third.join();
  EXPECT_EQ(most, 1);
  EXPECT_THAT(lease_names(leases_), IsEmpty());
}

// A publishes for as long as it can. However it is overtaken, what B writes behind its claim stays.
TEST_F(LeaseTest, NothingThatIsWrittenBehindATakeoverIsOverwritten) {
  for (int round = 0; round < 100; ++round) {
    const auto first = make();
    std::atomic<bool> begun = false;
    std::thread writer([&] {
      try {
        while (true) {
          first->publish(result_, "A");
          begun = true;
        }
      } catch (const ClaimLost&) {
        return;
      }
    });
    while (!begun) std::this_thread::yield();
    break_it();
    const auto second = make();
    ASSERT_TRUE(second);
    second->publish(result_, "B");
    writer.join();
    ASSERT_EQ(read_file(result_), "B");
  }
}

TEST_F(LeaseTest, AForeignOrCutOffClaimIsReadAsOne) {
  fs::create_directories(leases_ / "key");
  std::ofstream(leases_ / "key" / "token.claim") << "garbage";
  const LeaseText text = read_lease(leases_, "key").value();
  EXPECT_EQ(text.token, "token");
  EXPECT_EQ(text.lease_s, kLeaseSeconds);
  EXPECT_FALSE(make());
  break_it();
  EXPECT_TRUE(make());
}

TEST_F(LeaseTest, AClaimNamesNoFolderElsewhere) {
  fs::create_directories(leases_ / "key");
  std::ofstream(leases_ / "key" / "token.claim")
      << "0\n{\"experiment\": \"../../elsewhere\", \"lease_s\": 1}\n";
  EXPECT_EQ(read_lease(leases_, "key").value().experiment, "elsewhere");
}

TEST_F(LeaseTest, AnEmptyFolderIsNobodys) {
  fs::create_directories(leases_ / "key");
  EXPECT_FALSE(read_lease(leases_, "key"));
  EXPECT_TRUE(make());
}

TEST_F(LeaseTest, SaysWhereItCannotBeMade) {
  fs::remove_all(leases_);
  std::ofstream(leases_) << "in the way";
  try {
    make();
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot make the folder of a lease: Not a directory"));
  }
}

TEST(LeaseWatchTest, WhatChangesIsAlive) {
  LeaseWatch watch;
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(watch.silent("key", "sign " + std::to_string(i), 1, i * 0.4));
  }
}

TEST(LeaseWatchTest, WhatDoesNotChangeForItsLeaseIsSilent) {
  LeaseWatch watch;
  EXPECT_FALSE(watch.silent("key", "same", 1, 10.0));
  EXPECT_FALSE(watch.silent("key", "same", 1, 10.4));
  EXPECT_FALSE(watch.silent("key", "same", 1, 10.8));
  EXPECT_TRUE(watch.silent("key", "same", 1, 11.2));
}

TEST(LeaseWatchTest, AGapInTheWatchingProvesNothing) {
  LeaseWatch watch;
  EXPECT_FALSE(watch.silent("key", "same", 60, 0));
  EXPECT_FALSE(watch.silent("key", "same", 60, 5000)) << "this process may have been stopped";
  EXPECT_TRUE(watch.silent("key", "same", 60, 10000));
}

TEST(LeaseWatchTest, WhatIsGoneIsForgotten) {
  LeaseWatch watch;
  EXPECT_FALSE(watch.silent("key", "same", 1, 0));
  watch.keep_only({});
  EXPECT_FALSE(watch.silent("key", "same", 1, 100));
  EXPECT_FALSE(watch.silent("key", "same", 1, 100.4));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
