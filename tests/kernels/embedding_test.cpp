#include "kernels/kernel_test_support.h"
#include "ops/embedding_impl.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

struct Case {
  int64_t vocabulary, width;
  std::vector<int64_t> ids;
};

// One row; the first and the last token; tokens that occur once, often and never; packs, single
// columns, and more columns than a block takes.
const std::vector<Case> kCases = {
    {1, 1, {0}}, {9, 8, {8, 0, 8, 8, 3}}, {40, 33, {7, 7, 7, 7, 7, 7, 7}}, {5, 1048, {4, 2, 4, 1}}};

void expect_sums_match(const Case& c, torch::Dtype target_dtype, torch::Dtype dtype) {
  const auto count = static_cast<int64_t>(c.ids.size());
  const Tensor ids = guarded(torch::tensor(c.ids, torch::kInt64));
  const Tensor rows = guarded_normal({count, c.width}, dtype, 1);
  const Tensor before = guarded_normal({c.vocabulary, c.width}, target_dtype, 2);
  const Tensor expected = before.to(torch::kFloat64).index_add(0, ids, rows.to(torch::kFloat64));
  for_each_order([&] {
    const Tensor target = guarded(before);
    add_rows_by_token_cuda(target, ids, rows);
    expect_near(target, expected, kernel_tolerance(target_dtype), 0.1);
    // Rows of tokens that do not occur stay as they are.
    for (int64_t token = 0; token < c.vocabulary; ++token) {
      if (std::count(c.ids.begin(), c.ids.end(), token) > 0) continue;
      EXPECT_TRUE(target[token].equal(before[token]));
    }
  });
}

TEST(EmbeddingKernel, SumsRowsByToken) {
  for (const Case& c : kCases) {
    for (const auto dtype : kKernelDtypes) {
      expect_sums_match(c, dtype, dtype);
      expect_sums_match(c, torch::kFloat32, dtype);
    }
  }
}

TEST(EmbeddingKernel, NoRowsChangeNothing) {
  const Tensor target = guarded_normal({3, 8}, torch::kFloat32, 1), before = target.clone();
  add_rows_by_token_cuda(target, torch::empty({0}, torch::kInt64),
                         torch::empty({0, 8}, torch::kFloat32));
  EXPECT_TRUE(target.equal(before));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
