#include "sftbench/measure/mfu.h"

#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

// One step of 2 s with 1000 padded tokens and 7e9 attention FLOPs forward.
MeasuredSpan span_of_one_step() {
  RunRecord record;
  StepEvent step;
  step.begin_s = 5;
  step.end_s = 7;
  step.tokens.padded = 1000;
  step.attention_flops = 7e9;
  record.steps = {step};
  return measured_span(record, 0);
}

TrainBegin model(int64_t total, int64_t trainable, int64_t embedding) {
  TrainBegin begin;
  begin.parameters_total = total;
  begin.parameters_trainable = trainable;
  begin.parameters_embedding = embedding;
  return begin;
}

TEST(MfuTest, FullFineTuningIsSixTimesTheMultipliedParametersPlusAttention) {
  const double flops =
      model_flops_per_token(model(1'000'000, 1'000'000, 200'000), span_of_one_step());
  EXPECT_DOUBLE_EQ(flops, 6 * 800'000.0 + 3 * 7e6);
}

TEST(MfuTest, FrozenParametersNeedNoGradientOfTheirOwn) {
  const double flops = model_flops_per_token(model(1'000'000, 10'000, 200'000), span_of_one_step());
  EXPECT_DOUBLE_EQ(flops, 4 * 800'000.0 + 2 * 10'000.0 + 3 * 7e6);
}

TEST(MfuTest, ExpertsThatATokenDoesNotGoThroughDoNoWork) {
  TrainBegin mixture = model(1'000'000, 1'000'000, 200'000);
  mixture.parameters_idle = 500'000;
  EXPECT_DOUBLE_EQ(model_flops_per_token(mixture, span_of_one_step()), 6 * 300'000.0 + 3 * 7e6);
}

TEST(MfuTest, StepsWithoutATokenHaveNoFigureOfATokens) {
  MeasuredSpan span = span_of_one_step();
  span.tokens.padded = 0;
  EXPECT_THROW(model_flops_per_token(model(1, 1, 0), span), std::logic_error);
}

TEST(MfuTest, DividesByWhatAllDevicesCouldDo) {
  const Json mfu = model_flops_utilization(model(1'000'000, 1'000'000, 0), span_of_one_step(), 2,
                                           {.flops_per_s = 27e9, .reason = {}});
  // 27e6 FLOPs per token, 500 tokens/s over two devices: 6.75 GFLOP/s on each of 27.
  EXPECT_DOUBLE_EQ(mfu["model_flops_per_token"], 27e6);
  EXPECT_DOUBLE_EQ(mfu["achieved_flops_per_device"], 6.75e9);
  EXPECT_DOUBLE_EQ(mfu["value"], 0.25);
  EXPECT_DOUBLE_EQ(mfu["llmforge_value"], 6e6 * 250 / 27e9);
  EXPECT_DOUBLE_EQ(mfu["peak_flops_per_device"], 27e9);
  EXPECT_TRUE(mfu["reason"].is_null());
}

TEST(MfuTest, AnUnknownPeakIsNullWithItsReason) {
  const Json mfu = model_flops_utilization(model(1, 1, 0), span_of_one_step(), 1,
                                           {.flops_per_s = {}, .reason = "no such device"});
  EXPECT_TRUE(mfu["value"].is_null());
  EXPECT_TRUE(mfu["llmforge_value"].is_null());
  EXPECT_TRUE(mfu["peak_flops_per_device"].is_null());
  EXPECT_EQ(mfu["reason"], "no such device");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
