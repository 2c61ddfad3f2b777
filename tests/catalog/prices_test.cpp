#include "sftbench/catalog/prices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "catalog_files.h"
#include "sftbench/base/file.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::MatchesRegex;

PriceBook read(const std::string& path) {
  return PriceBook::read(path, Catalog::shipped().gpus);
}

PriceBook book_of(const std::string& rows) {
  return read(TemporaryFile("currency: USD\nprices:\n" + rows).path());
}

TEST(PricesTest, EveryShippedOfferSaysWhatIsRentedWhereAndWhen) {
  const PriceBook book = read((resource_directory() / "config" / "prices.yaml").string());
  EXPECT_EQ(book.currency, "USD");
  for (const Price& offer : book.offers) {
    const std::string name = offer.gpu + " of " + offer.provider + " " + offer.instance;
    EXPECT_FALSE(offer.provider.empty()) << name;
    EXPECT_FALSE(offer.region.empty()) << name;
    EXPECT_THAT(offer.kind, MatchesRegex("on_demand|spot|marketplace")) << name;
    EXPECT_THAT(offer.date, MatchesRegex("20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]")) << name;
    EXPECT_EQ(offer.mark, "read") << name;
    EXPECT_FALSE(offer.source.empty()) << name;
    EXPECT_GT(offer.per_hour, 0.01) << name;
    EXPECT_LT(offer.per_hour, 20) << name;
  }
  for (const char* gpu : {"Tesla-T4", "NVIDIA-A10G", "NVIDIA-GeForce-RTX-4090", "L40S",
                          "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-B200"}) {
    EXPECT_NE(book.find(gpu), nullptr) << gpu;
  }
}

TEST(PricesTest, AnInstanceCostsItsPriceDividedByItsGpus) {
  const PriceBook book =
      book_of("  - {gpu: H100, provider: A, instance: big, gpus: 8, per_hour: 24}\n");
  ASSERT_EQ(book.offers.size(), 1);
  EXPECT_DOUBLE_EQ(book.find("NVIDIA-H100-80GB-HBM3")->per_hour, 3);
  EXPECT_EQ(book.find("NVIDIA-H100-80GB-HBM3")->gpus, 8);
  EXPECT_EQ(book.find("L40S"), nullptr);
}

TEST(PricesTest, TheCheapestOfferThatIsKeptCounts) {
  const PriceBook book = book_of(
      "  - {gpu: L40S, provider: A, per_hour: 2, kind: on_demand}\n"
      "  - {gpu: L40S, provider: B, per_hour: 8, gpus: 8, kind: reserved}\n"
      "  - {gpu: L40S, provider: C, per_hour: 0.5, kind: spot}\n"
      "  - {gpu: L40S, provider: D, per_hour: 0.4, kind: marketplace}\n"
      "  - {gpu: T4, provider: C, per_hour: 0.2, kind: spot}\n"
      "  - {gpu: T4, provider: D, per_hour: 0.1, kind: marketplace}\n");
  EXPECT_EQ(book.offers.size(), 6);
  EXPECT_EQ(book.find("L40S")->provider, "B");
  EXPECT_EQ(book.find("Tesla-T4")->provider, "D");
}

// Instances of 8 GPUs at 24 an hour, and single ones at 4.
TEST(PricesTest, WholeInstancesAreRentedWhereTheyAreCheapest) {
  const PriceBook book = book_of(
      "  - {gpu: H100, provider: A, instance: big, gpus: 8, per_hour: 24}\n"
      "  - {gpu: H100, provider: A, instance: one, gpus: 1, per_hour: 4}\n"
      "  - {gpu: H100, provider: A, kind: spot, per_hour: 0.1}\n"
      "  - {gpu: L40S, provider: A, per_hour: 0.2}\n"
      "  - {gpu: T4, provider: A, kind: spot, per_hour: 0.1}\n");
  const std::string gpu = "NVIDIA-H100-80GB-HBM3";
  const struct {
    int64_t gpus;
    const char* instance;
    int64_t rented;
    double per_hour;
  } kRents[] = {{1, "one", 1, 4},  {5, "one", 5, 20}, {6, "big", 8, 24},  {7, "big", 8, 24},
                {8, "big", 8, 24}, {9, "one", 9, 36}, {13, "big", 16, 48}};
  for (const auto& [gpus, instance, rented, per_hour] : kRents) {
    const std::optional<Rent> rent = book.rent(gpu, gpus);
    ASSERT_TRUE(rent) << gpus;
    EXPECT_EQ(rent->offer.instance, instance) << gpus << ": of equal prices the first";
    EXPECT_EQ(rent->gpus, rented) << gpus;
    EXPECT_DOUBLE_EQ(rent->per_hour, per_hour) << gpus;
  }
  EXPECT_DOUBLE_EQ(book.rent("Tesla-T4", 3)->per_hour, 3 * 0.1) << "nothing else is offered";
  EXPECT_FALSE(book.rent("NVIDIA-B200", 1));
}

TEST(PricesTest, OfEqualPricesTheFirstCounts) {
  const PriceBook book = book_of(
      "  - {gpu: L40S, provider: A, per_hour: 2}\n"
      "  - {gpu: L40S, provider: B, per_hour: 4, gpus: 2}\n");
  EXPECT_EQ(book.find("L40S")->provider, "A");
}

TEST(PricesTest, AGpuThatIsUnknownAndAPriceOfNothingAreErrors) {
  const auto error = [](const std::string& row) {
    return error_of_file("currency: USD\nprices:\n  - {provider: A, " + row + "}\n",
                         [](const std::string& path) { read(path); });
  };
  EXPECT_THAT(
      error("gpu: NVIDIA-H100-PCIE-X, per_hour: 1"),
      ::testing::StartsWith("FILE:3: prices[0].gpu: unknown GPU 'NVIDIA-H100-PCIE-X'; expected "
                            "a name of config/gpus.yaml; did you mean 'NVIDIA-H100-PCIe"));
  for (const char* price : {"0", "-1"}) {
    EXPECT_EQ(error(std::string("gpu: L40S, per_hour: ") + price),
              "FILE:3: prices[0].per_hour: no price; expected a number above 0");
  }
  EXPECT_EQ(error("gpu: L40S, gpus: 1, per_hour: 0.01"), "no error");
  EXPECT_EQ(error("gpu: L40S, per_hour: .inf"),
            "FILE:3: prices[0].per_hour: no price; expected a number above 0");
  for (const char* kind : {"Spot", "preemptible", "on-demand"}) {
    EXPECT_THAT(error(std::string("gpu: L40S, per_hour: 1, kind: ") + kind),
                ::testing::StartsWith(std::string("FILE:3: prices[0].kind: unknown kind '") + kind +
                                      "'; expected one of on_demand, reserved, spot, marketplace"));
  }
  EXPECT_EQ(error("gpu: L40S, per_hour: 1, kind: spot"), "no error");
}

TEST(PricesTest, ListsAllThatIsWrongWithAFile) {
  EXPECT_EQ(error_of_file(R"(currency: USD
prices:
  - {gpu: L40S, provider: A, per_hour: 2, gpus: 0}
  - {gpu: NVIDIA L40S, provider: A, per_hour: 1}
  - {gpu: L40S, provider: A, per_hour: 3, gpus: 2}
  - {gpu: L40S, provider: A, per_hour: 3, gpus: 1.5}
)",
                          [](const std::string& path) { read(path); }),
            "FILE:3: prices[0].gpus: found 0; expected how many GPUs the instance has, at least 1\n"
            "FILE:4: prices[1].gpu: L40S has two prices; expected one for each provider, instance, "
            "region and kind\n"
            "FILE:6: prices[3].gpus: found 1.5; expected an integer\n"
            "FILE:6: prices[3].gpu: L40S has two prices; expected one for each provider, instance, "
            "region and kind");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
