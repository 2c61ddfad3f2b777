#include "sftbench/base/waiting_threads.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace sftbench {
namespace SFTBENCH_FILE {

constexpr const char* kSpins = "GOMP_SPINCOUNT";
constexpr const char* kPolicy = "OMP_WAIT_POLICY";

std::optional<std::string> value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void set(const char* name, const std::optional<std::string>& value) {
  value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
}

class WaitingThreadsTest : public ::testing::Test {
 protected:
  WaitingThreadsTest() : spins_(value_of(kSpins)), policy_(value_of(kPolicy)) {
    set(kSpins, {});
    set(kPolicy, {});
  }
  ~WaitingThreadsTest() override {
    set(kSpins, spins_);
    set(kPolicy, policy_);
  }

 private:
  const std::optional<std::string> spins_, policy_;
};

TEST_F(WaitingThreadsTest, LookForEachOtherForLessThanATimeSlice) {
  limit_spinning();
  ASSERT_TRUE(value_of(kSpins));
  const int spins = std::stoi(*value_of(kSpins));
  EXPECT_GT(spins, 0);
  EXPECT_LT(spins, 300'000) << "libgomp's own choice";
}

TEST_F(WaitingThreadsTest, DoWhatTheEnvironmentSays) {
  set(kSpins, "77");
  limit_spinning();
  EXPECT_EQ(value_of(kSpins), "77");

  set(kSpins, {});
  set(kPolicy, "active");
  limit_spinning();
  EXPECT_EQ(value_of(kSpins), std::nullopt);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
