#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "model/golden.h"
#include "model/philox_normal.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using Block = std::array<uint32_t, 4>;

// Known answers of Random123 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<float> normals(uint64_t key, int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  fill_standard_normal(key, 0, numbers.data(), count);
  return numbers;
}

TEST(StandardNormal, BoxMullerOfThePhiloxWords) {
  const std::vector<float> numbers = normals(0, kNormalBlock);
  constexpr size_t kLanes = kNormalBlock / 4;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const Block words = philox4x32({lane, 0, 0, 0}, {0, 0});
    for (size_t pair = 0; pair < 2; ++pair) {
      const double u = (static_cast<double>(words[2 * pair] >> 1) + 0.5) * 0x1p-31;
      const double angle =
          M_PI * static_cast<double>(static_cast<int32_t>(words[2 * pair + 1])) * 0x1p-31;
      const double radius = std::sqrt(-2.0 * std::log(u));
      EXPECT_NEAR(numbers[2 * pair * kLanes + lane], radius * std::cos(angle), 2e-6);
      EXPECT_NEAR(numbers[(2 * pair + 1) * kLanes + lane], radius * std::sin(angle), 2e-6);
    }
  }
}

TEST(StandardNormal, ValuesDependOnTheirPlaceOnly) {
  const std::vector<float> whole = normals(9, 8 * kNormalBlock);
  std::vector<float> part(2 * kNormalBlock);
  fill_standard_normal(9, 5 * kNormalBlock, part.data(), 2 * kNormalBlock);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 5 * kNormalBlock));
}

TEST(StandardNormal, HasTheMomentsAndTailsOfTheNormalDistribution) {
  constexpr int64_t kCount = 1 << 22;
  const std::vector<float> numbers = normals(2026, kCount);
  double sum = 0, square = 0, cube = 0, fourth = 0, neighbours = 0;
  int64_t beyond_3 = 0, beyond_4 = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double x = numbers[i];
    sum += x;
    square += x * x;
    cube += x * x * x;
    fourth += x * x * x * x;
    neighbours += x * numbers[(i + 1) % numbers.size()];
    beyond_3 += std::abs(x) > 3;
    beyond_4 += std::abs(x) > 4;
  }
  // Bounds: five standard errors of each statistic at this count.
  const double n = kCount, error = 5.0 / std::sqrt(n);
  EXPECT_NEAR(sum / n, 0.0, error);
  EXPECT_NEAR(square / n, 1.0, error * std::sqrt(2.0));
  EXPECT_NEAR(cube / n, 0.0, error * std::sqrt(15.0));
  EXPECT_NEAR(fourth / n, 3.0, error * std::sqrt(96.0));
  EXPECT_NEAR(neighbours / n, 0.0, error);
  const double p3 = std::erfc(3 / std::sqrt(2.0)), p4 = std::erfc(4 / std::sqrt(2.0));
  EXPECT_NEAR(static_cast<double>(beyond_3), n * p3, 5 * std::sqrt(n * p3));
  EXPECT_NEAR(static_cast<double>(beyond_4), n * p4, 5 * std::sqrt(n * p4));
}

TEST(StandardNormal, PassesKolmogorovSmirnov) {
  std::vector<float> numbers = normals(7, 1 << 20);
  std::sort(numbers.begin(), numbers.end());
  const auto n = static_cast<double>(numbers.size());
  double distance = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double p = 0.5 * std::erfc(-numbers[i] / std::sqrt(2.0));
    distance = std::max({distance, std::abs(p - static_cast<double>(i) / n),
                         std::abs(p - static_cast<double>(i + 1) / n)});
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(n));  // critical value at 0.1 %
}

Json every_option() {
  return read_json_file((case_folder("llama_every_option") / "config.json").string());
}

std::unique_ptr<CausalLm> random_model(const Json& config, uint64_t seed, torch::Dtype dtype) {
  auto model = make_causal_lm(config, dtype, torch::kCPU);
  initialize_randomly(*model, seed);
  return model;
}

TEST(InitializeRandomly, FollowsHuggingFacesInitializer) {
  Json config = every_option();
  config["hidden_size"] = 512;
  config["initializer_range"] = 0.05;
  const auto model = random_model(config, 42, torch::kFloat32);
  for (const NamedParameter& p : model->parameters()) {
    const torch::Tensor values = p.tensor->to(torch::kFloat64);
    if (p.name.find("norm") != std::string::npos) {
      EXPECT_TRUE(values.eq(1.0).all().item<bool>()) << p.name;
    } else if (p.name.find(".bias") != std::string::npos) {
      EXPECT_TRUE(values.eq(0.0).all().item<bool>()) << p.name;
    } else {
      const double error = 5.0 / std::sqrt(static_cast<double>(values.numel()));
      EXPECT_NEAR(values.mean().item<double>(), 0.0, 0.05 * error) << p.name;
      EXPECT_NEAR(values.std().item<double>(), 0.05, 0.06 * error) << p.name;
    }
  }
  // nn.Embedding(padding_idx=0)
  EXPECT_TRUE(model->output_weight()[0].eq(0.0).all().item<bool>());
}

// As ranks draw their shards, whatever the boundaries.
TEST(InitializeRandomly, PartsAreThoseOfTheWhole) {
  Json config = every_option();
  config["hidden_size"] = 256;
  config["vocab_size"] = 300;  // more elements than are drawn at a time
  const auto whole = random_model(config, 7, torch::kFloat32);
  const auto parts = make_causal_lm(config, torch::kFloat32, torch::kCPU);
  for (const NamedParameter& p : parts->parameters()) p.tensor->detach().fill_(-1);
  for (const ElementRange range : {ElementRange{0, 1},
                                   {1, 257},
                                   {257, 20'000},
                                   {20'000, 32'768},
                                   {32'768, kEveryElement.end}}) {
    initialize_randomly(*parts, 7, [&](const std::string&) { return range; });
  }
  const auto expected = whole->parameters(), drawn = parts->parameters();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::equal(*expected[i].tensor, *drawn[i].tensor)) << expected[i].name;
  }
}

TEST(InitializeRandomly, ValuesDependOnSeedAndNameOnly) {
  Json small = every_option(), deep = every_option();
  deep["num_hidden_layers"] = 5;
  const auto first = random_model(small, 1, torch::kFloat32);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto again = random_model(deep, 1, torch::kFloat32);
  at::set_num_threads(threads);
  const auto other_seed = random_model(small, 2, torch::kFloat32);
  const auto half = random_model(small, 1, torch::kBFloat16);

  std::map<std::string, torch::Tensor> deep_parameters;
  for (const NamedParameter& p : again->parameters()) deep_parameters[p.name] = *p.tensor;
  const auto parameters = first->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const NamedParameter& p = parameters[i];
    EXPECT_TRUE(torch::equal(*p.tensor, deep_parameters.at(p.name))) << p.name;
    EXPECT_TRUE(torch::equal(p.tensor->to(torch::kBFloat16), *half->parameters()[i].tensor))
        << p.name;
    const bool random = p.tensor->dim() == 2;
    EXPECT_EQ(torch::equal(*p.tensor, *other_seed->parameters()[i].tensor), !random) << p.name;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
