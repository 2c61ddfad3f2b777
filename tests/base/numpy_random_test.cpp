// Against numpy itself (tests/reference/numpy_random.py).
#include "sftbench/base/numpy_random.h"

#include <gtest/gtest.h>

#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

Json golden() {
  return read_json_file(SFTBENCH_TEST_DATA "/data/numpy_random.json");
}

TEST(NumpyRandomTest, DrawsTheDoublesOfNumpy) {
  const Json all = golden();
  for (const Json& drawn : all["doubles"]) {
    NumpyRandom random(drawn["seed"].get<uint64_t>());
    for (const Json& value : drawn["values"]) EXPECT_EQ(random.uniform(), value.get<double>());
  }
}

TEST(NumpyRandomTest, PermutesAsNumpy) {
  const Json all = golden();
  for (const Json& drawn : all["permutations"]) {
    const auto expected = drawn["values"].get<std::vector<int64_t>>();
    NumpyRandom random(drawn["seed"].get<uint64_t>());
    EXPECT_EQ(random.permutation(static_cast<int64_t>(expected.size())), expected)
        << "seed " << drawn["seed"];
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
