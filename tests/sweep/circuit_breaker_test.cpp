#include "sweep/circuit_breaker.h"

#include <gmock/gmock.h>

namespace sftbench {
namespace SFTBENCH_FILE {

Measurement failed(const std::string& message) {
  Measurement measurement;
  set_outcome(measurement, Status::kFailed, {ReasonCode::kInternal, message, {}, {}});
  return measurement;
}

Measurement valid() {
  Measurement measurement;
  measurement.status = Status::kValid;
  return measurement;
}

TEST(CircuitBreakerTest, TripsAtSoManyQuickFailuresInARow) {
  CircuitBreaker breaker(3, 10);
  breaker.ended(failed("a"), 1);
  breaker.ended(failed("b"), 1);
  EXPECT_FALSE(breaker.tripped());
  breaker.ended(failed("no such driver"), 1);
  EXPECT_TRUE(breaker.tripped());
  EXPECT_EQ(
      breaker.message(),
      "3 measurements in a row failed, each within 10 s, so this machine is suspected and not "
      "the space (the last one: INTERNAL: no such driver)");
}

TEST(CircuitBreakerTest, AnythingElseBetweenThemStartsTheCountAnew) {
  Measurement invalid;
  set_outcome(invalid, Status::kInvalid, {ReasonCode::kOomGpu, "too large", {}, {}});
  for (const Measurement& between : {valid(), invalid}) {
    CircuitBreaker breaker(2, 10);
    breaker.ended(failed("a"), 1);
    breaker.ended(between, 1);
    breaker.ended(failed("b"), 1);
    EXPECT_FALSE(breaker.tripped());
  }
}

TEST(CircuitBreakerTest, AFailureThatTookItsTimeIsNoSign) {
  CircuitBreaker breaker(2, 10);
  breaker.ended(failed("a"), 1);
  breaker.ended(failed("b"), 10);
  breaker.ended(failed("c"), 1);
  EXPECT_FALSE(breaker.tripped());
}

TEST(CircuitBreakerTest, ZeroIsNever) {
  CircuitBreaker breaker(0, 10);
  for (int i = 0; i < 100; ++i) breaker.ended(failed("a"), 0);
  EXPECT_FALSE(breaker.tripped());
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
