// A row of several sequences against each of them alone: the same losses, the same gradients. What
// a sequence alone should give is held against Hugging Face in hugging_face_test.cpp.
#include <gtest/gtest.h>

#include <vector>

#include "model/golden.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

constexpr double kDenominator = 7;

// Ids of 1, 2, ... tokens, and labels whose first, as every batch has it, is none.
struct Sequence {
  torch::Tensor ids, labels;  // [1, length]
};

std::vector<Sequence> sequences(int64_t vocabulary) {
  std::vector<Sequence> all;
  int64_t next = 3;
  for (const int64_t length : {9, 1, 21, 2, 14}) {
    Sequence sequence{torch::empty({1, length}, torch::kInt64), {}};
    for (int64_t i = 0; i < length; ++i) {
      sequence.ids[0][i] = next;
      next = (next * 7 + 5) % vocabulary;
    }
    sequence.labels = sequence.ids.clone();
    sequence.labels.slice(1, 0, std::max<int64_t>(1, length / 3)).fill_(-100);
    all.push_back({sequence.ids.to(test_device()), sequence.labels.to(test_device())});
  }
  return all;
}

struct Result {
  double loss = 0;
  Tensors gradients;
};

Result one_by_one(Golden& golden, const std::vector<Sequence>& all) {
  for (const NamedParameter& p : golden.model->parameters()) p.tensor->requires_grad_(true);
  LayerRunner runner;
  Result result;
  for (const Sequence& sequence : all) {
    const torch::Tensor loss =
        golden.model->loss(sequence.ids, sequence.labels, kDenominator, runner);
    result.loss += loss.item<double>();
    loss.backward();
  }
  for (const NamedParameter& p : golden.model->parameters())
    result.gradients[p.name] = p.tensor->grad().clone();
  return result;
}

Result in_one_row(Golden& golden, const std::vector<Sequence>& all) {
  for (const NamedParameter& p : golden.model->parameters()) p.tensor->requires_grad_(true);
  std::vector<torch::Tensor> ids, labels;
  std::vector<int64_t> lengths;
  for (const Sequence& sequence : all) {
    ids.push_back(sequence.ids);
    labels.push_back(sequence.labels);
    lengths.push_back(sequence.ids.size(1));
  }
  LayerRunner runner;
  const torch::Tensor loss =
      golden.model->loss({torch::cat(ids, 1), ops::packed_sequences(lengths, test_device())},
                         torch::cat(labels, 1), kDenominator, runner);
  Result result{loss.item<double>(), {}};
  loss.backward();
  for (const NamedParameter& p : golden.model->parameters())
    result.gradients[p.name] = p.tensor->grad().clone();
  return result;
}

class PackedRows : public ::testing::TestWithParam<const char*> {
 protected:
  // Sums run in another order: what is allowed is a few roundings of the largest gradient, and of
  // the loss, which is float32 in every dtype.
  void expect_equal(torch::Dtype dtype, double loss_tolerance, double gradient_tolerance) {
    Golden alone(GetParam(), dtype), packed(GetParam(), dtype);
    const std::vector<Sequence> all = sequences(alone.config["vocab_size"]);
    const Result expected = one_by_one(alone, all), found = in_one_row(packed, all);
    EXPECT_NEAR(found.loss, expected.loss, loss_tolerance * expected.loss);
    for (const auto& [name, gradient] : expected.gradients) {
      const double largest = gradient.abs().max().item<double>();
      const double error = (found.gradients.at(name) - gradient).abs().max().item<double>();
      EXPECT_LE(error, gradient_tolerance * largest) << name;
    }
  }
};

TEST_P(PackedRows, GiveTheLossesAndGradientsOfEachSequenceAloneInFloat64) {
  expect_equal(torch::kFloat64, 1e-6, 1e-12);
}

TEST_P(PackedRows, GiveTheLossesAndGradientsOfEachSequenceAloneInFloat32) {
  expect_equal(torch::kFloat32, 1e-6, 2e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Families, PackedRows,
    ::testing::Values("llama_every_option", "llama_rope_yarn", "mistral_sliding_window",
                      "granite_every_option", "cohere2_plain", "exaone4_plain", "gemma2_odd_sizes",
                      "gemma3_odd_sizes", "gpt2_plain", "gpt_neox_odd_sizes",
                      "ministral3_odd_sizes", "olmo2_odd_sizes", "olmo3_odd_sizes", "phi3_plain",
                      "smollm3_plain", "qwen2_moe_plain", "qwen3_moe_plain", "stablelm_odd_sizes",
                      "starcoder2_odd_sizes", "bloom_every_option", "gpt_bigcode_odd_sizes",
                      "gpt_oss_plain", "granitemoe_plain", "granitemoehybrid_plain",
                      "granitemoehybrid_odd_sizes", "mixtral_plain", "qwen2_every_option",
                      "qwen3_odd_sizes"));

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
