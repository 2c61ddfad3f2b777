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
