#include "sftbench/tuning/tuning.h"

#include <gtest/gtest.h>

#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(FullTuning, TrainsEveryParameterOnce) {
  const Json config =
      read_json_file(std::string(SFTBENCH_TEST_DATA) + "/training/llama_all/config.json");
  const auto model = make_causal_lm(config, torch::kFloat32, torch::kCPU);
  const auto trained = make_tuning(TuningMethod::kFull)->apply(*model);
  ASSERT_EQ(trained.size(), model->parameters().size());
  for (const NamedParameter& parameter : model->parameters()) {
    EXPECT_TRUE(parameter.tensor->requires_grad()) << parameter.name;
  }
}

TEST(Tuning, UnknownMethodOffersTheNearest) {
  try {
    named<TuningMethod>("ful");
    FAIL() << "no error";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
    EXPECT_STREQ(
        error.what(),
        "tuning method 'ful' is not implemented; there are full, gptq-lora, lora, pt, qlora; did "
        "you mean 'full'?");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
