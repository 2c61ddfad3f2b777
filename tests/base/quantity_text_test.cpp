#include "sftbench/base/quantity_text.h"

#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(QuantityTextTest, ShortFiguresKeepThreeDigitsOfWhatIsSmall) {
  EXPECT_DOUBLE_EQ(short_figure(12.3456), 12.35);
  EXPECT_DOUBLE_EQ(short_figure(0.123456), 0.123);
  EXPECT_DOUBLE_EQ(short_figure(0.00098765), 0.000988);
  EXPECT_DOUBLE_EQ(short_figure(-0.00098765), -0.000988);
  EXPECT_DOUBLE_EQ(short_figure(0), 0);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
