// A step that one graph repeats trains as a step that is launched kernel by kernel. On the phantom
// device a capture computes nothing that stays (src/train/phantom/graphs.h), as on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/ranks_fixture.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

#if SFTBENCH_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace sftbench {
namespace SFTBENCH_FILE {

constexpr int64_t kGraphSteps = 5;

TrainingJob with_graph(TrainingJob job) {
  job.kernels.step_graph = true;
  return job;
}

TrainingJob equal_rows(TrainingJob job) {
  job.data.padding = Padding::kMaxLength;
  job.data.model_max_length = 24;
  job.batches.max_steps = kGraphSteps;
  return job;
}

bool on_gpu() {
  return job_of(RanksCase{}).device.kind == "cuda";
}

bool on_phantom() {
  return std::getenv("SFTBENCH_PHANTOM") != nullptr;
}

class StepGraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!on_gpu()) GTEST_SKIP() << "CPU ranks have no launches to save";
  }
};

TEST(StepGraph, IsNoneOnCpus) {
  if (on_gpu()) GTEST_SKIP() << "of CPU ranks";
  const TrainingJob job = with_graph(equal_rows(job_of(RanksCase{.ranks = 1})));
  TrainingRun run = prepare_run(job, alone());
  EXPECT_EQ(make_step_graph(job, run), nullptr);
}

// The graph has the same kernels in the same order. Norms are sums in float64 over what threads of
// the host add up, and the phantom's streams have other threads.
void expect_same(const Outcome& graph, const Outcome& launches) {
  // Attention of a GPU adds up in the order in which its blocks end.
  if (!on_phantom()) return expect_equal(graph, launches);
  EXPECT_EQ(graph.losses, launches.losses);
  EXPECT_THAT(graph.norms, ::testing::Pointwise(::testing::DoubleEq(), launches.norms));
  for (const auto& [name, values] : launches.values) {
    EXPECT_TRUE(torch::equal(graph.values.at(name), values)) << name;
  }
}

void expect_graph_trains_alike(const TrainingJob& given) {
  const TrainingJob job = equal_rows(given);
  const Outcome graph = train_to_the_end(with_graph(job), alone());
  EXPECT_EQ(graph.graph_launches, kGraphSteps - 1);
  expect_same(graph, train_to_the_end(job, alone()));
}

TrainingJob without_dropout(TrainingJob job) {
  for (const char* share : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
    if (job.model.hf_config.contains(share)) job.model.hf_config[share] = 0.0;
  return job;
}

TEST_F(StepGraphTest, TrainsEveryFamilyAsLaunchesDo) {
  for (const char* model :
       {"llama", "llama_all", "mistral", "granite", "qwen2", "qwen3", "bloom", "gpt_bigcode"}) {
    SCOPED_TRACE(model);
    expect_graph_trains_alike(without_dropout(job_of(RanksCase{.model = model, .ranks = 1})));
  }
}

TEST_F(StepGraphTest, TrainsHybridsWithoutExpertsAsLaunchesDo) {
  TrainingJob job = job_of(RanksCase{.model = "granitemoehybrid", .ranks = 1});
  job.model.weights_directory.clear();
  job.model.hf_config.update({{"num_local_experts", 0}, {"num_experts_per_tok", 0}});
  expect_graph_trains_alike(job);
}

TEST_F(StepGraphTest, TrainsAsLaunchesDoUnderEveryCheckpointing) {
  for (const bool reentrant : {false, true}) {
    SCOPED_TRACE(reentrant);
    expect_graph_trains_alike(job_of(
        RanksCase{.ranks = 1, .accumulation = 2, .checkpointing = true, .reentrant = reentrant}));
  }
}

TEST_F(StepGraphTest, TrainsAdaptersAndPromptsAsLaunchesDo) {
  for (const char* tuning : {"lora", "pt"}) {
    SCOPED_TRACE(tuning);
    TrainingJob job = job_of(RanksCase{.ranks = 1, .tuning = tuning});
    job.lora.target_modules = {"all-linear"};
    expect_graph_trains_alike(job);
  }
}

TEST_F(StepGraphTest, TrainsQuantizedWeightsAndActivatedAdaptersAsLaunchesDo) {
  TrainingJob quantized = job_of(RanksCase{.ranks = 1, .tuning = "gptq-lora"});
  quantized.model.weights_directory = std::string(SFTBENCH_TEST_DATA) + "/gptq/llama";
  quantized.model.hf_config = read_json_file(quantized.model.weights_directory + "/config.json");
  expect_graph_trains_alike(quantized);
  TrainingJob activated = job_of(RanksCase{.ranks = 1, .tuning = "lora"});
  activated.lora.invocation_string = " ";
  expect_graph_trains_alike(activated);
}

TEST_F(StepGraphTest, TrainsPlainKernelsAndTilesAsLaunchesDo) {
  TrainingJob plain = job_of(RanksCase{.ranks = 1});
  plain.kernels = {.flash_attention = false, .fused_rms_norm = false, .fused_rope = false};
  expect_graph_trains_alike(plain);
  TrainingJob tiled = job_of(RanksCase{.ranks = 1});
  tiled.activations.mlp_tiles = 2;
  expect_graph_trains_alike(tiled);
}

TEST_F(StepGraphTest, TrainsInBfloat16AndUnderAutocastAsLaunchesDo) {
  TrainingJob job = job_of(RanksCase{.ranks = 1});
  job.precision.autocast = Autocast::kBf16;
  expect_graph_trains_alike(job);
  job.precision = {.torch_dtype = ParameterDtype::kBfloat16};
  expect_graph_trains_alike(job);
}

// Every step has another learning rate, and some other factors of their own.
TEST_F(StepGraphTest, UpdatesByEveryElementwiseRuleAsLaunchesDo) {
  for (const OptimizerRow& row : kOptimizers) {
    if (!row.is_elementwise()) continue;
    SCOPED_TRACE(row.name);
    TrainingJob job = job_of(RanksCase{.ranks = 1});
    job.optimizer.kind = row.kind;
    job.optimizer.weight_decay = 0.1;
    expect_graph_trains_alike(job);
  }
}

// Each step as long as its longest entry: shapes come and go, and each has a graph from its second
// step on.
TEST_F(StepGraphTest, TrainsRowsOfChangingLengthsAsLaunchesDo) {
  TrainingJob job = job_of(RanksCase{.ranks = 1});
  job.data.response_template.clear();
  job.batches.max_steps = 40;
  const Outcome graph = train_to_the_end(with_graph(job), alone());
  EXPECT_GT(graph.graph_launches, 0);
  EXPECT_LT(graph.graph_launches, 39);
  expect_same(graph, train_to_the_end(job, alone()));
}

// Evaluations go to the same stream, kernel by kernel, between launches of the graph.
TEST_F(StepGraphTest, GoesOnBehindAnEvaluation) {
  TrainingJob job = equal_rows(job_of(RanksCase{.ranks = 1}));
  job.evaluation = {.path = training_folder() + "/dataset.jsonl",
                    .strategy = IntervalStrategy::kSteps,
                    .steps = 2};
  expect_graph_trains_alike(job);
}

// Longer rows make the tables of positions anew. The graph still reads the old ones, whose memory
// nobody else may get.
TEST_F(StepGraphTest, HoldsTheTablesThatItReads) {
  const TrainingJob job = with_graph(equal_rows(job_of(RanksCase{.ranks = 1})));
  TrainingRun run = prepare_run(job, alone());
  run.step_graph = make_step_graph(job, run);
  train_steps(run, alone(), {}, [] { return false; });
  const c10::weak_intrusive_ptr<c10::TensorImpl> table(
      run.model->kept_tables().at(0).getIntrusivePtr());
  const torch::Tensor ids = torch::ones({1, 2 * job.data.model_max_length},
                                        torch::TensorOptions(torch::kInt64).device(torch::kCUDA));
  LayerRunner runner;
  run.model->evaluate(TokenRows(ids), ids, runner);
  ASSERT_GT(run.model->kept_tables().at(0).size(0), job.data.model_max_length);
  EXPECT_FALSE(table.expired());
}

// Weights of 1e30 have losses of some size and gradients of none. The graph holds the update, too:
// it must not write.
TEST_F(StepGraphTest, ANormThatIsNotFiniteUpdatesNothing) {
  TrainingJob job = with_graph(equal_rows(job_of(RanksCase{.ranks = 1})));
  job.optimizer.learning_rate = 1e30;
  TrainingRun run = prepare_run(job, alone());
  run.step_graph = make_step_graph(job, run);
  Recorder recorder;
  try {
    train_steps(run, alone(), {&recorder}, [] { return false; });
    ADD_FAILURE() << "no step overflows";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the gradient norm of step 3 is nan"));
  }
  for (const OwnedTensor& owned : run.parameters->owned())
    EXPECT_TRUE(owned.tensor.isfinite().all().item<bool>()) << owned.name;
}

TEST_F(StepGraphTest, RefusesWhatAGraphCannotRepeat) {
  const TrainingJob good = with_graph(equal_rows(job_of(RanksCase{.ranks = 1, .tuning = "lora"})));
  const auto expect_refused = [](const TrainingJob& job, const std::string& why) {
    try {
      train_to_the_end(job, alone());
      ADD_FAILURE() << "trained: " << why;
    } catch (const RunError& error) {
      EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
      EXPECT_THAT(error.what(), ::testing::HasSubstr(why));
    }
  };
  TrainingJob job = good;
  job.lora.dropout = 0.1;
  expect_refused(job, "step_graph true: each step drops other inputs of adapters; lora_dropout 0");
  job = good;
  job.data.padding = Padding::kPacked;
  expect_refused(job, "step_graph true: --padding");
  job = good;
  job.optimizer.kind = OptimizerKind::kAdamw8bit;
  expect_refused(job, "step_graph true: optim adamw_8bit does not update element by element");
  job = good;
  job.parallel.distribute_one_rank = true;
  expect_refused(job, "step_graph true: collective operations are no part of the graph");
  job = with_graph(equal_rows(job_of(RanksCase{.model = "gpt_bigcode", .ranks = 1})));
  job.model.hf_config["resid_pdrop"] = 0.1;
  expect_refused(job, "step_graph true: each step drops other values of this model");
  expect_refused(with_graph(equal_rows(job_of(RanksCase{.model = "granitemoe", .ranks = 1}))),
                 "step_graph true: the host reads how many tokens each expert gets");
}

#if SFTBENCH_CUDA
// What the phantom's graphs have in common with a GPU's, or every test above could pass for the
// wrong reason.
TEST_F(StepGraphTest, ACaptureComputesNothingThatStays) {
  if (!on_phantom()) GTEST_SKIP() << "of the phantom device";
  const c10::cuda::CUDAStreamGuard stream(at::cuda::getStreamFromPool());
  const auto options = torch::TensorOptions(torch::kFloat32).device(torch::kCUDA);
  const torch::Tensor sum = torch::zeros({4}, options);
  torch::Tensor made;
  at::cuda::CUDAGraph graph;
  graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  sum.add_(1);
  made = sum * 2;
  graph.capture_end();
  EXPECT_EQ(sum.sum().item<float>(), 0);
  EXPECT_TRUE(made.isnan().all().item<bool>());
  for (int launches = 1; launches <= 2; ++launches) {
    graph.replay();
    EXPECT_EQ(sum.sum().item<float>(), 4.0f * static_cast<float>(launches));
    EXPECT_EQ(made.sum().item<float>(), 8.0f * static_cast<float>(launches));
  }
}

TEST_F(StepGraphTest, ACaptureThatTheHostWaitsInIsLost) {
  if (!on_phantom()) GTEST_SKIP() << "of the phantom device";
  const c10::cuda::CUDAStreamGuard stream(at::cuda::getStreamFromPool());
  const torch::Tensor one = torch::ones({}, torch::TensorOptions(torch::kCUDA));
  at::cuda::CUDAGraph graph;
  graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  EXPECT_THROW(one.item<float>(), c10::Error);
  EXPECT_THROW(graph.capture_end(), c10::Error);
}
#endif

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
