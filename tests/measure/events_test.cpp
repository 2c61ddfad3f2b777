#include "sftbench/measure/events.h"

#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(LoadTextTest, SaysOnlyWhatIsKnown) {
  EXPECT_EQ(load_text({.phase = "loading"}), "loading");
  // 7/16 are 43.75 %. A part that is not whole does not count.
  EXPECT_EQ(load_text({.phase = "loading",
                       .weight_bytes = int64_t{7} << 30,
                       .weight_bytes_total = int64_t{16} << 30}),
            "loading, weights 43 % of 16.0 GiB");
  EXPECT_EQ(load_text({.phase = "tokenizing", .entries = 1024, .entries_total = 4096}),
            "tokenizing, 1024 of 4096 entries tokenized");
  EXPECT_EQ(load_text({.phase = "both",
                       .weight_bytes = 1024,
                       .weight_bytes_total = 1024,
                       .entries = 0,
                       .entries_total = 1}),
            "both, weights 100 % of 1.00 KiB, 0 of 1 entry tokenized");
}

TEST(LoadTextTest, NeverSaysMoreThanAll) {
  EXPECT_EQ(load_text({.phase = "loading", .weight_bytes = 300, .weight_bytes_total = 200}),
            "loading, weights 100 % of 200 B");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
