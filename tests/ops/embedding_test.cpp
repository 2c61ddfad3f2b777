#include "sftbench/ops/embedding.h"

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

Tensor some_ids(int64_t batch, int64_t length, int64_t vocabulary) {
  // Few distinct ids, so that rows of the gradient meet.
  const Tensor ids =
      random_tensor({batch, length}, torch::kFloat64, 5).mul(3).round().to(torch::kInt64);
  return ids.remainder(vocabulary);
}

TEST(Embedding, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const auto& [batch, length, vocabulary, width] : std::vector<std::array<int64_t, 4>>{
             {1, 1, 1, 1}, {2, 7, 11, 5}, {3, 33, 50, 64}, {1, 40, 7, 577}}) {
      const Tensor ids = some_ids(batch, length, vocabulary);
      expect_op_matches(
          "embedding", [&](const auto& in) { return ops::embedding(ids, in[0]); },
          [&](const auto& in) {
            return in[0].index_select(0, ids.flatten()).view({ids.size(0), ids.size(1), -1});
          },
          {random_tensor({vocabulary, width}, dtype, 1)});
    }
  }
}

TEST(Embedding, AddsToTheGradientThatIsThere) {
  for (const auto dtype : kDtypes) {
    const Tensor ids = some_ids(2, 9, 6);
    const Tensor weight = leaf(random_tensor({6, 33}, dtype, 1));
    const Tensor before = random_tensor({6, 33}, dtype, 2),
                 upstream = random_tensor({2, 9, 33}, dtype, 3);
    weight.mutable_grad() = before.clone();
    void* const storage = weight.grad().data_ptr();
    ops::embedding(ids, weight).backward(upstream);
    Tensor expected = before.to(torch::kFloat64);
    expected.index_add_(0, ids.flatten(), upstream.to(torch::kFloat64).flatten(0, 1));
    expect_close("weight", weight.grad(), expected);
    EXPECT_EQ(weight.grad().data_ptr(), storage);
  }
}

TEST(Embedding, ARepeatedTokenLosesNoPrecisionInBfloat16) {
  // 512 ones added one by one in bfloat16 would stop at 256.
  const Tensor weight = leaf(torch::zeros({3, 4}, torch::kBFloat16).to(test_device()));
  ops::embedding(torch::ones({1, 512}, torch::kInt64).to(test_device()), weight).sum().backward();
  EXPECT_EQ(weight.grad()[1][0].item<double>(), 512.0);
  EXPECT_EQ(weight.grad()[0][0].item<double>(), 0.0);
}

TEST(Embedding, IdsOutsideTheVocabularyAreRefused) {
  const Tensor weight = torch::zeros({3, 4});
  EXPECT_THROW(ops::embedding(torch::full({1, 2}, 3, torch::kInt64), weight), std::exception);
  EXPECT_THROW(ops::embedding(torch::full({1, 2}, -1, torch::kInt64), weight), std::exception);
}

TEST(Embedding, WrongIdsAreRefused) {
  try {
    ops::embedding(torch::zeros({2, 3}), torch::zeros({3, 4}));
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "embedding: ids must be int64 [B, S] on cpu, got float32 [2, 3] on cpu");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
