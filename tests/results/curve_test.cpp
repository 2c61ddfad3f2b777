#include "results/html/curve.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <numeric>

namespace sftbench::html {
namespace SFTBENCH_FILE {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pointwise;

std::vector<double> counted(size_t count) {
  std::vector<double> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return numbers;
}

TEST(Curve, FewValuesStayAsTheyAre) {
  const Curve curve = curve_of(Quantity::kLoss, {1, 2, 3}, {3.5, 2.5, 2}, 200);
  EXPECT_THAT(curve.x, ElementsAre(1, 2, 3));
  EXPECT_THAT(curve.mean, ElementsAre(3.5, 2.5, 2));
  EXPECT_THAT(curve.least, IsEmpty()) << "a band as wide as its line is none";
  EXPECT_THAT(curve.greatest, IsEmpty());
}

TEST(Curve, OfManyValuesNoPeakIsLost) {
  std::vector<double> values(1001, 1.0);
  values[777] = 99;
  values[4] = -5;
  const Curve curve = curve_of(Quantity::kLoss, counted(1001), values, 200);
  EXPECT_LE(curve.x.size(), 200U);
  EXPECT_GE(curve.x.size(), 160U);
  EXPECT_EQ(*std::max_element(curve.greatest.begin(), curve.greatest.end()), 99);
  EXPECT_EQ(*std::min_element(curve.least.begin(), curve.least.end()), -5);
  // Six values make a place: (5 x 1 - 5) / 6.
  EXPECT_DOUBLE_EQ(curve.mean[0], 0);
  EXPECT_DOUBLE_EQ(curve.x[0], 2.5);
}

TEST(Curve, WhatIsNotKnownIsNoNumber) {
  const Curve curve = curve_of(Quantity::kLoss, {1, 2, 3, 4}, {kNone, kNone, kNone, 2}, 2);
  ASSERT_EQ(curve.mean.size(), 2U);
  EXPECT_TRUE(std::isnan(curve.mean[0]));
  EXPECT_EQ(curve.mean[1], 2) << "of three and four, of which one is known";
}

TEST(Curve, CoarseningKeepsPeaksLimitAndMark) {
  std::vector<double> values(200, 1.0);
  values[7] = 50;
  Curve curve = curve_of(Quantity::kGpuPower, counted(200), values, 200);
  curve.limit = 700;
  curve.mark = 3;
  coarsen(curve, 25);
  EXPECT_EQ(curve.x.size(), 25U);
  EXPECT_EQ(curve.quantity, Quantity::kGpuPower);
  EXPECT_EQ(curve.limit, 700);
  EXPECT_EQ(curve.mark, 3);
  EXPECT_EQ(curve.greatest[0], 50);
  EXPECT_EQ(curve.least[0], 1);
  EXPECT_DOUBLE_EQ(curve.mean[0], 57.0 / 8);
  coarsen(curve, 25);
  EXPECT_EQ(curve.x.size(), 25U) << "as many as are asked for are left alone";
}

TEST(Curve, GpusAreShownByTheirMeanBetweenTheLeastAndTheGreatest) {
  const Curve curve = merged(
      Quantity::kGpuUse, {{0, {0, 1, 2}, {90, 80, 100}}, {1, {0.1, 1.1, 2.1}, {70, 60, 50}}}, 200);
  EXPECT_THAT(curve.x, ElementsAre(0, 1, 2));
  EXPECT_THAT(curve.mean, ElementsAre(80, 70, 75));
  EXPECT_THAT(curve.least, ElementsAre(70, 60, 50));
  EXPECT_THAT(curve.greatest, ElementsAre(90, 80, 100));
}

TEST(Curve, ProcessesOfANodeAreAddedUp) {
  const Curve curve = merged(
      Quantity::kCpu, {{0, {0, 1}, {1, 2}}, {0, {0, 1}, {10, 20}}, {1, {0, 1}, {5, 6}}}, 200);
  EXPECT_THAT(curve.mean, ElementsAre(8, 14));
  EXPECT_THAT(curve.least, ElementsAre(5, 6));
  EXPECT_THAT(curve.greatest, ElementsAre(11, 22));
}

TEST(Curve, WithoutAReadingAtAPlaceTheLastOneHolds) {
  const Curve curve = merged(Quantity::kCpu, {{0, {0, 1, 2}, {1, 1, 1}}, {0, {0.2}, {7}}}, 200);
  EXPECT_THAT(curve.mean, ElementsAre(8, 8, 8));
}

TEST(Curve, ManyReadingsAtAPlaceKeepTheirExtremes) {
  std::vector<double> watts(1000, 400.0);
  watts[512] = 700;
  const Curve curve = merged(Quantity::kGpuPower, {{0, counted(1000), watts}}, 200);
  EXPECT_EQ(curve.x.size(), 200U);
  EXPECT_EQ(*std::max_element(curve.greatest.begin(), curve.greatest.end()), 700);
  EXPECT_DOUBLE_EQ(curve.mean[102], 460) << "one of five";
}

TEST(Curve, NothingIsNoCurve) {
  EXPECT_THAT(merged(Quantity::kCpu, {}, 200).x, IsEmpty());
  EXPECT_THAT(merged(Quantity::kCpu, {{0, {}, {}}}, 200).x, IsEmpty());
  EXPECT_THAT(curve_of(Quantity::kLoss, {}, {}, 200).x, IsEmpty());
  EXPECT_EQ(encoded({}), "");
}

template <typename T>
T at(const std::string& bytes, size_t place) {
  T value;
  std::memcpy(&value, bytes.data() + place, sizeof(value));
  return value;
}

TEST(Curve, IsEncodedAsSharesOfItsRange) {
  Curve loss = curve_of(Quantity::kLoss, {1, 2, 5}, {4, kNone, 2}, 200);
  Curve seconds = curve_of(Quantity::kStepSeconds, {1, 2, 5}, {1, 1, 1}, 200);
  seconds.limit = 9;
  const std::string bytes = encoded({loss, seconds});
  EXPECT_EQ(bytes.size() % 4, 0U);
  EXPECT_EQ(at<uint8_t>(bytes, 0), 0);
  EXPECT_EQ(at<uint8_t>(bytes, 1), 0) << "neither a band nor the x of a curve before";
  EXPECT_EQ(at<uint16_t>(bytes, 2), 3);
  EXPECT_EQ(at<float>(bytes, 4), 1);
  EXPECT_EQ(at<float>(bytes, 8), 5);
  EXPECT_EQ(at<float>(bytes, 12), 2);
  EXPECT_EQ(at<float>(bytes, 16), 4);
  EXPECT_TRUE(std::isnan(at<float>(bytes, 20)));
  const std::vector<int> codes = {0, 16384, 65534, 65534, 65535, 0};
  for (size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(at<uint16_t>(bytes, 28 + 2 * i), codes[i]);
  const size_t second = 40;
  EXPECT_EQ(at<uint8_t>(bytes, second), 2);
  EXPECT_EQ(at<uint8_t>(bytes, second + 1), 2) << "the same x";
  EXPECT_EQ(at<float>(bytes, second + 20), 9);
  EXPECT_EQ(bytes.size(), second + 28 + 8) << "three codes and the padding";
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::html
