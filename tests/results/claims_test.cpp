// How a folder's keys are claimed: which kind is chosen, that kinds do not mix, and takeovers from
// processes that are killed or stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "results/temporary_folder.h"
#include "sftbench/base/file.h"
#include "sftbench/results/claim.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr double kShortLeaseSeconds = 0.3;
constexpr int kLostExitCode = 7;

class ClaimsTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(results_ / "tuning"); }

  std::unique_ptr<Claims> leases(double lease_s = kLeaseSeconds) {
    return make_claims(results_, ClaimKind::kLeases, lease_s);
  }
  std::unique_ptr<Claims> locks() { return make_claims(results_, ClaimKind::kLocks); }

  // A process that has claimed "key" with a short lease. It goes on when something is written to
  // `wake_`, and tries to publish then.
  pid_t start_holder() {
    int ready[2], wake[2];
    EXPECT_EQ(::pipe(ready), 0);
    EXPECT_EQ(::pipe(wake), 0);
    const pid_t process = ::fork();
    if (process == 0) {
      ::close(wake[1]);  // so that the end of the parent is seen
      ::_exit(hold(ready[1], wake[0]));
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    wake_ = wake[1];
    return process;
  }

  // Waits until "key" is free, as it must become.
  std::shared_ptr<Claim> acquire_when_free(Claims& claims) {
    std::shared_ptr<Claim> claim;
    while (!(claim = claims.try_acquire("tuning", "key"))) ::usleep(1000);
    return claim;
  }

  std::string error_of(const std::string& wish) {
    try {
      choose_claims(results_, wish);
    } catch (const InputError& error) {
      return error.what();
    }
    return {};
  }

  TemporaryFolder folder_;
  fs::path results_ = folder_.path() / "results";
  fs::path result_ = results_ / "tuning" / "key.json";
  int wake_ = -1;

 private:
  int hold(int ready, int wake) {
    const auto claims = leases(kShortLeaseSeconds);
    const auto claim = claims->try_acquire("tuning", "key");
    char byte = 'r';
    if (!claim || ::write(ready, &byte, 1) != 1 || ::read(wake, &byte, 1) != 1) return 1;
    try {
      claim->publish(result_, "of the one that was stopped");
      return 0;
    } catch (const ClaimLost&) {
      return kLostExitCode;
    }
  }
};

int exit_code_of(pid_t process) {
  int status = 0;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(ClaimsTest, AHolderThatLivesKeepsItForManyLeases) {
  const pid_t process = start_holder();
  const auto claims = leases(kShortLeaseSeconds);
  // Whoever is silent is taken over in this time, as the tests below show.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  bool taken = false;
  while (std::chrono::steady_clock::now() < deadline) {
    taken = taken || claims->try_acquire("tuning", "key") != nullptr;
    ::usleep(10000);
  }
  ASSERT_EQ(::write(wake_, "w", 1), 1);
  const int code = exit_code_of(process);
  // On a machine that stalls for longer than the lease both may happen, but never one without the
  // other.
  EXPECT_EQ(code, taken ? kLostExitCode : 0);
}

TEST_F(ClaimsTest, TheClaimOfAKilledProcessIsTakenOver) {
  const pid_t process = start_holder();
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  const auto claims = leases();
  EXPECT_FALSE(claims->try_acquire("tuning", "key")) << "not before its lease is over";
  const auto watching = leases(kShortLeaseSeconds);
  const auto claim = acquire_when_free(*watching);
  claim->publish(result_, "of the successor");
  EXPECT_EQ(read_file(result_), "of the successor");
}

TEST_F(ClaimsTest, AStoppedProcessCannotWriteOverItsSuccessor) {
  const pid_t process = start_holder();
  ::kill(process, SIGSTOP);
  const auto claims = leases(kShortLeaseSeconds);
  {
    const auto claim = acquire_when_free(*claims);
    claim->publish(result_, "of the successor");
  }
  ASSERT_EQ(::write(wake_, "w", 1), 1);
  ::kill(process, SIGCONT);
  EXPECT_EQ(exit_code_of(process), kLostExitCode);
  EXPECT_EQ(read_file(result_), "of the successor");
}

TEST_F(ClaimsTest, ALossIsToldByADescriptor) {
  const auto claims = leases(kShortLeaseSeconds);
  const auto claim = claims->try_acquire("tuning", "key");
  fs::remove_all(results_ / ".leases" / "key");
  pollfd lost = {claims->lost_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&lost, 1, 60000), 1);
  EXPECT_FALSE(claim->stands());
}

TEST_F(ClaimsTest, UnfinishedFilesOfTheDeadGoAndOthersStay) {
  const auto claims = leases();
  const auto claim = claims->try_acquire("tuning", "alive");
  for (const char* name :
       {"alive.growing.log", "dead.growing.log", ".dead.json.7.tmp", "dead.json"}) {
    std::ofstream(results_ / "tuning" / name) << name;
  }
  claims->remove_leftovers("tuning");
  EXPECT_TRUE(fs::exists(results_ / "tuning" / "alive.growing.log"));
  EXPECT_TRUE(fs::exists(results_ / "tuning" / "dead.json"));
  EXPECT_FALSE(fs::exists(results_ / "tuning" / "dead.growing.log"));
  EXPECT_FALSE(fs::exists(results_ / "tuning" / ".dead.json.7.tmp"));
}

TEST_F(ClaimsTest, ALookTellsTheHolderAndMakesNothing) {
  for (const ClaimKind kind : {ClaimKind::kLocks, ClaimKind::kLeases}) {
    const TemporaryFolder folder;
    fs::create_directories(folder.path() / "tuning");
    const auto claims = make_claims(folder.path(), kind);
    EXPECT_EQ(claims->holder("tuning", "key"), std::nullopt);
    EXPECT_TRUE(fs::is_empty(folder.path() / "tuning"));
    auto claim = claims->acquire("tuning", "key");
    EXPECT_THAT(claims->holder("tuning", "key"),
                testing::Optional(HasSubstr("process " + std::to_string(::getpid()))));
    claim.reset();
    EXPECT_EQ(claims->holder("tuning", "key"), std::nullopt);
  }
}

TEST_F(ClaimsTest, AKeyThatIsHeldIsRefusedWithItsHolder) {
  for (const auto& claims : {leases()}) {
    const auto claim = claims->acquire("tuning", "key");
    try {
      claims->acquire("tuning", "key");
      FAIL();
    } catch (const KeyBusy& error) {
      EXPECT_THAT(error.what(), HasSubstr("process " + std::to_string(::getpid())));
    }
  }
}

TEST_F(ClaimsTest, BothKindsAreListedAndOnlyWhileTheyAreHeld) {
  std::ofstream(results_ / "tuning" / "left.lock") << "nobody, process 1";
  {
    const auto claims = locks();
    const auto lock = claims->try_acquire("tuning", "locked");
    const std::vector<SeenClaim> seen = list_claims(results_);
    ASSERT_THAT(seen, SizeIs(1));
    EXPECT_EQ(seen[0].key, "locked");
    EXPECT_EQ(seen[0].experiment, "tuning");
    EXPECT_EQ(seen[0].process, ::getpid());
    EXPECT_EQ(seen[0].lease_s, 0);
  }
  const auto claims = leases();
  const auto lease = claims->try_acquire("tuning", "leased");
  const std::vector<SeenClaim> seen = list_claims(results_);
  ASSERT_THAT(seen, SizeIs(1));
  EXPECT_EQ(seen[0].key, "leased");
  EXPECT_EQ(seen[0].experiment, "tuning");
  EXPECT_EQ(seen[0].process, ::getpid());
  EXPECT_EQ(seen[0].lease_s, kLeaseSeconds);
  EXPECT_LT(seen[0].silent_s, 60);
}

TEST_F(ClaimsTest, ALocalDiskIsClaimedByLocks) {
  const ClaimChoice choice = choose_claims("/dev/shm");
  EXPECT_EQ(choice.kind, ClaimKind::kLocks);
  EXPECT_EQ(to_string(choice), "locks (tmpfs)");
}

TEST_F(ClaimsTest, AFileSystemThatIsNoDiskIsClaimedByLeases) {
  const ClaimChoice choice = choose_claims("/proc");
  EXPECT_EQ(choice.kind, ClaimKind::kLeases);
  EXPECT_EQ(choice.why, "its type is not known");
}

TEST_F(ClaimsTest, AFolderThatIsNotThereYetIsJudgedByTheOneAroundIt) {
  EXPECT_EQ(to_string(choose_claims("/dev/shm/a/b/c")), "locks (tmpfs)");
  EXPECT_FALSE(fs::exists("/dev/shm/a"));
}

TEST_F(ClaimsTest, ChoosingLeavesNothing) {
  choose_claims(results_ / "tuning");
  EXPECT_TRUE(fs::is_empty(results_ / "tuning"));
}

TEST_F(ClaimsTest, OnceThereAreLeasesAllUseThem) {
  EXPECT_EQ(choose_claims(results_, "leases").kind, ClaimKind::kLeases);
  leases();
  EXPECT_EQ(choose_claims(results_).kind, ClaimKind::kLeases);
  EXPECT_THAT(error_of("locks"), HasSubstr("--locking: found locks"));
  EXPECT_THAT(error_of("locks"), HasSubstr(".leases says that others work there with leases"));
}

TEST_F(ClaimsTest, AnUnknownWishIsRefusedWithTheNearest) {
  EXPECT_THAT(error_of("lease"), HasSubstr("found 'lease'"));
  EXPECT_THAT(error_of("lease"), HasSubstr("did you mean 'leases'?"));
}

TEST_F(ClaimsTest, LeasesDoNotBeginWhereSomebodyMeasuresWithLocks) {
  const auto claims = locks();
  auto lock = claims->try_acquire("tuning", "key");
  try {
    leases();
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("measures here with locks"));
  }
  lock = claims->try_acquire("tuning", "other");
  EXPECT_TRUE(lock) << "and the locks go on";
}

TEST_F(ClaimsTest, LocksEndWhereLeasesHaveBegun) {
  const auto claims = locks();
  leases();
  EXPECT_THROW(claims->try_acquire("tuning", "key"), InputError);
  EXPECT_THAT(list_claims(results_), IsEmpty());
}

TEST_F(ClaimsTest, SaysWhyLeasesCannotBeMade) {
  std::ofstream(results_ / ".leases") << "in the way";
  try {
    leases();
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr(".leases: cannot make the folder of leases: "));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
