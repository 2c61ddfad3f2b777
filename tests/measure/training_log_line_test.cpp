#include "sftbench/measure/training_log_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// json.dumps() of fms-hf-tuning's FileLoggingCallback, sorted and without blanks. Whatever the time
// zone is, its offset is whole minutes.
TEST(TrainingLogLineTest, IsOneLineOfJson) {
  EXPECT_THAT(
      training_log_line("training_loss", 0.0703, 10, 7'000'042, 2.33),
      testing::MatchesRegex("[{]\"data\":[{]\"epoch\":0.07,\"step\":10,"
                            "\"timestamp\":\"[0-9-]+T[0-9]+:[0-9]+:07.000042\",\"value\":2.33[}],"
                            "\"name\":\"training_loss\"[}]\n"));
}

// Python: round(0.125, 2) == 0.12, round(2.675, 2) == 2.67, round(1.005, 2) == 1.0, round(0.375, 2)
// == 0.38
TEST(TrainingLogLineTest, EpochsAreRoundedAsPythonDoes) {
  for (const auto& [epoch, rounded] :
       {std::pair(0.125, 0.12), {2.675, 2.67}, {1.005, 1.0}, {0.375, 0.38}, {3.0, 3.0}}) {
    EXPECT_EQ(Json::parse(training_log_line("a", epoch, 1, 0, 1)).at("data").at("epoch"), rounded);
  }
}

TEST(TrainingLogLineTest, AValueThatIsNotFiniteIsNull) {
  for (const double value :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(
        Json::parse(training_log_line("a", 1, 1, 0, value)).at("data").at("value").is_null());
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
