// Rows that are computed token by token against whole rows, whose logits hugging_face_test.cpp and
// drawn_test.cpp hold against transformers.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "model/golden.h"
#include "sftbench/model/decoding_state.h"

namespace sftbench {
namespace SFTBENCH_FILE {

std::vector<std::string> text_cases() {
  std::vector<std::string> names = all_cases();
  const std::vector<std::string> drawn = drawn_cases();
  names.insert(names.end(), drawn.begin(), drawn.end());
  // These turn a longer row by other angles, which keys that are kept do not follow. Nor do they in
  // transformers, which begins anew beyond the length of LongRoPE's pre-training.
  for (const char* name : {"llama_rope_dynamic", "phi3_odd_sizes"}) std::erase(names, name);
  return names;
}

// [B, S, V] of rows of which the first `prefix` tokens are one pass, and each further one another.
torch::Tensor decoded(CausalLm& model, const torch::Tensor& ids, int64_t prefix) {
  const torch::NoGradGuard no_grad;
  const auto state = std::make_shared<DecodingState>();
  std::vector<torch::Tensor> logits;
  for (int64_t first = 0; first < ids.size(1);) {
    const int64_t count = first == 0 ? prefix : 1;
    TokenRows rows(ids.narrow(1, first, count));
    rows.state = state;
    logits.push_back(model.logits(rows));
    first += count;
    EXPECT_EQ(state->length(), first);
  }
  return torch::cat(logits, 1);
}

class Decoding : public ::testing::TestWithParam<std::string> {};

void expect_logits_of_whole_rows(Golden& golden, int64_t prefix, double tolerance) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor whole = golden.model->logits(golden.input_ids());
  const torch::Tensor found = decoded(*golden.model, golden.input_ids(), prefix);
  const double largest = whole.abs().max().item<double>();
  EXPECT_LE((found - whole).abs().max().item<double>(), tolerance * largest);
}

TEST_P(Decoding, GivesTheLogitsAndTheLikeliestTokenOfWholeRows) {
  Golden exact(GetParam(), torch::kFloat64);
  expect_logits_of_whole_rows(exact, 1, 1e-10);
  Golden fused(GetParam(), torch::kFloat32);
  expect_logits_of_whole_rows(fused, fused.input_ids().size(1) / 2, 2e-5);

  const torch::NoGradGuard no_grad;
  LayerRunner runner;
  const torch::Tensor expected = exact.model->logits(exact.input_ids()).slice(1, -1).argmax(-1);
  EXPECT_TRUE(
      torch::equal(exact.model->likeliest_next(exact.input_ids(), runner), expected.squeeze(1)));
}

INSTANTIATE_TEST_SUITE_P(Cases, Decoding, ::testing::ValuesIn(text_cases()),
                         [](const auto& test) { return test.param; });

TEST(DecodingOfVirtualTokens, PutsThemInFrontOfTheFirstPassAlone) {
  for (const char* name : {"llama_every_option", "granitemoehybrid_odd_sizes", "gpt2_plain"}) {
    Golden golden(name, torch::kFloat64);
    const torch::NoGradGuard no_grad;
    golden.model->prompt() = torch::linspace(-1, 1, 3 * golden.model->config().hidden_size,
                                             torch::TensorOptions(torch::kFloat64))
                                 .view({3, -1})
                                 .to(test_device());
    const torch::Tensor whole = golden.model->logits(golden.input_ids());
    const torch::Tensor found = [&] {
      const auto state = std::make_shared<DecodingState>();
      std::vector<torch::Tensor> logits;
      for (int64_t i = 0; i < golden.input_ids().size(1); ++i) {
        TokenRows rows(golden.input_ids().narrow(1, i, 1));
        rows.state = state;
        logits.push_back(golden.model->logits(rows));
      }
      return torch::cat(logits, 1);
    }();
    EXPECT_LE((found - whole).abs().max().item<double>(), 1e-9) << name;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
