#include "data/epoch_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/golden.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(EpochOrder, EqualsTheOrderInWhichTrainerReads) {
  const Json cases = golden("epoch_order.json");
  ASSERT_GE(cases.size(), 15u);
  for (const Json& one : cases) {
    const auto order = epoch_order(one["entries"], one["seed"], one["epoch"]);
    SCOPED_TRACE(one.dump().substr(0, 60));
    if (one.contains("order")) {
      EXPECT_EQ(order, one["order"].get<std::vector<int64_t>>());
    } else {
      const std::string_view bytes(reinterpret_cast<const char*>(order.data()),
                                   order.size() * sizeof(int64_t));
      EXPECT_EQ(digest(bytes), one["digest"].get<std::string>());
    }
  }
}

TEST(EpochOrder, RefusesSizesAtWhichTorchShufflesAnotherWay) {
  try {
    random_permutation(214'748'364, 42);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "a dataset of 214748364 entries cannot be shuffled; expected fewer than 214748364");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
