#include "sftbench/catalog/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sftbench/base/file.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace {

const ModelCatalog& shipped() { return Catalog::shipped().models; }

TEST(ModelCatalogTest, CountOfTheFactsEqualsThePublishedCount) {
  int exact = 0;
  int rounded = 0;
  for (const ModelFacts& model : shipped().models()) {
    if (!model.published || model.hf_config.is_null()) continue;
    const auto counted = static_cast<double>(parameter_count(model.hf_config));
    EXPECT_LE(std::abs(counted - model.published->parameters), model.published->tolerance)
        << model.name << " has " << static_cast<int64_t>(counted) << ", published " << model.published->text;
    (model.published->tolerance == 0 ? exact : rounded)++;
  }
  EXPECT_GE(exact, 20);
  EXPECT_GE(rounded, 10);
}

}  // namespace
}  // namespace sftbench
