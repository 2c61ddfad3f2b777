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

TEST(QuantityTextTest, OneIsCountedInTheSingular) {
  EXPECT_EQ(counted(1, "row"), "1 row");
  EXPECT_EQ(counted(0, "row"), "0 rows");
  EXPECT_EQ(counted(2, "row"), "2 rows");
  EXPECT_EQ(counted(1, "entry", "entries"), "1 entry");
  EXPECT_EQ(counted(3, "entry", "entries"), "3 entries");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
