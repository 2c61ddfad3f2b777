// Which shape of rows is worth a plan of cuDNN's: the one that most micro-batches have.
#include <gtest/gtest.h>

#include "engine/step_batches.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// Entries of given lengths, whose ids nobody reads.
class Lengths : public EncodedEntries {
 public:
  explicit Lengths(std::vector<int64_t> lengths) : lengths_(std::move(lengths)) {}
  int64_t size() const override { return std::ssize(lengths_); }
  int64_t model_max_length() const override { return 64; }
  EncodedEntry entry(int64_t) const override { return {}; }
  int64_t length(int64_t index) const override { return lengths_[static_cast<size_t>(index)]; }

 private:
  std::vector<int64_t> lengths_;
};

std::optional<BatchShape> prevailing(std::vector<int64_t> lengths, Padding padding,
                                     int64_t batch_size = 1) {
  StepPlan plan({.entries = std::ssize(lengths), .per_device_batch_size = batch_size});
  TrainingData data{
      std::make_shared<Lengths>(std::move(lengths)), std::move(plan), {}, padding, 0, nullptr, {}};
  return prevailing_shape(data, 0);
}

TEST(PrevailingShape, IsTheOneThatMoreThanHalfHave) {
  EXPECT_EQ(prevailing({9, 9, 9, 5, 7}, Padding::kLongest), (BatchShape{1, 9}));
  EXPECT_EQ(prevailing({9, 9, 5, 7}, Padding::kLongest), std::nullopt);
  EXPECT_EQ(prevailing({3, 4, 5, 6, 7}, Padding::kLongest), std::nullopt);
}

TEST(PrevailingShape, IsTheFullOneWherePaddingMakesAllRowsEqual) {
  EXPECT_EQ(prevailing({3, 4, 5, 6, 7}, Padding::kMaxLength, 2), (BatchShape{2, 64}));
}

TEST(PrevailingShape, LeavesOutTheShortBatchAtTheEndOfAnEpoch) {
  EXPECT_EQ(prevailing(std::vector<int64_t>(9, 32), Padding::kLongest, 2), (BatchShape{2, 32}));
}

TEST(PrevailingShape, CountsAPackedRowAsOne) {
  EXPECT_EQ(prevailing({10, 10, 10, 10}, Padding::kNone, 2), (BatchShape{1, 20}));
}

TEST(PrevailingShape, LooksAtTheFirstMicroBatchesOnly) {
  // Epochs are shuffled: what the first 256 of 4,096 say of a share of nine tenths holds.
  std::vector<int64_t> lengths(4096, 32);
  for (size_t i = 0; i < lengths.size(); i += 10) lengths[i] = 1 + static_cast<int64_t>(i % 31);
  EXPECT_EQ(prevailing(lengths, Padding::kLongest), (BatchShape{1, 32}));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
