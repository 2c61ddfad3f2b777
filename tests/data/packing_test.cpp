// Packs against those of trl (tests/reference/packing.py).
#include "sftbench/data/packing.h"

#include <gtest/gtest.h>

#include "data/golden.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using Packs = std::vector<std::vector<int64_t>>;

TEST(Packing, PutsTogetherWhatTrlPutsTogether) {
  const Json cases = golden("packing.json");
  ASSERT_EQ(cases.size(), 7u);
  for (const Json& one : cases) {
    EXPECT_EQ(pack_entries(one["lengths"], one["capacity"]), one["packs"].get<Packs>())
        << one.dump().substr(0, 100);
  }
}

TEST(Packing, KeepsEntriesWholeAndWithinTheCapacity) {
  const Json one = golden("packing.json")[5];
  const auto lengths = one["lengths"].get<std::vector<int64_t>>();
  std::vector<int64_t> times(lengths.size());
  int64_t total = 0, packs = 0;
  for (const std::vector<int64_t>& pack : pack_entries(lengths, one["capacity"])) {
    int64_t length = 0;
    for (const int64_t entry : pack) {
      ++times[static_cast<size_t>(entry)];
      length += lengths[static_cast<size_t>(entry)];
    }
    EXPECT_LE(length, one["capacity"].get<int64_t>());
    total += length;
    ++packs;
  }
  EXPECT_EQ(times, std::vector<int64_t>(lengths.size(), 1));
  EXPECT_GT(static_cast<double>(total), 0.98 * static_cast<double>(packs * 100)) << "well filled";
}

TEST(Packing, GroupsArePackedOnTheirOwn) {
  EXPECT_EQ(pack_entries({3, 2, 2, 3}, 5, 2), (Packs{{0, 1}, {3, 2}}));
  EXPECT_EQ(pack_entries({3, 2, 2, 3}, 5, 4), (Packs{{0, 1}, {3, 2}}));
  EXPECT_EQ(pack_entries({4, 4, 1, 1}, 5, 2), (Packs{{0}, {1}, {2, 3}}));
}

TEST(Packing, AnEntryThatIsTooLongIsAProgrammersError) {
  EXPECT_THROW(pack_entries({6}, 5), std::logic_error);
}

TEST(Packing, NumbersOfPacksBecomeTheirEntries) {
  EXPECT_EQ(unpacked({2, 0}, sftbench::Packs({{7, 3}, {1}, {5, 4}})),
            (std::vector<int64_t>{5, 4, 7, 3}));
  EXPECT_EQ(unpacked({2, 0}, sftbench::Packs::of_one({9, 8, 7})), (std::vector<int64_t>{7, 9}));
  EXPECT_EQ(unpacked({2, 0}, {}), (std::vector<int64_t>{2, 0}));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
