// QLoRA through the engine: Trainer over peft and bitsandbytes (tests/reference/nf4.py) step by
// step, and over shards.
#include <gtest/gtest.h>

#include <map>

#include "engine/peft_adapter.h"
#include "engine/ranks_fixture.h"
#include "engine/train_steps.h"
#include "engine/training_fixture.h"
#include "parallel/rank_processes.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/families/nf4.h"

namespace sftbench {
namespace SFTBENCH_FILE {

Json golden_of_bitsandbytes() {
  return read_json_file(std::string(SFTBENCH_TEST_DATA) + "/nf4/golden.json");
}

std::string initial_adapters() {
  return std::string(SFTBENCH_TEST_DATA) + "/adapters/llama-lora_all/initial";
}

TrainingJob qlora_job() {
  TrainingJob job = job_of(golden_of_bitsandbytes());
  job.tuning = TuningMethod::kQlora;
  job.model.hf_config["quantization_config"] = to_json(Nf4Config());
  const Json config = read_json_file(initial_adapters() + "/adapter_config.json");
  job.lora = {config["r"], config["lora_alpha"], config["lora_dropout"], config["target_modules"]};
  return job;
}

TEST(QloraTraining, ReproducesPeftOverBitsandbytes) {
  const Json expected = golden_of_bitsandbytes()["steps"];
  for (const bool checkpointing : {false, true}) {
    TrainingJob job = qlora_job();
    job.activations.gradient_checkpointing = checkpointing;
    Recorder recorder;
    TrainingRun run = prepare_run(job, alone());
    load_adapter(initial_adapters(), run, alone());
    train_steps(run, alone(), {&recorder}, [] { return false; });
    ASSERT_EQ(recorder.steps.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double loss = expected[i]["loss"], norm = expected[i]["grad_norm"];
      EXPECT_NEAR(recorder.steps[i].loss, loss, 1e-5 * loss) << "step " << i + 1;
      EXPECT_NEAR(recorder.steps[i].grad_norm, norm, 1e-4 * norm) << "step " << i + 1;
    }
  }
}

TEST(QloraTraining, SingleQuantizationGivesOtherWeights) {
  TrainingJob job = qlora_job();
  const double twice = train(job, 1).steps.at(0).loss;
  job.model.hf_config["quantization_config"] = to_json(Nf4Config{.double_quantized = false});
  const double once = train(job, 1).steps.at(0).loss;
  job.tuning = TuningMethod::kLora;
  job.model.hf_config.erase("quantization_config");
  const double dense = train(job, 1).steps.at(0).loss;
  EXPECT_NE(once, twice);
  EXPECT_NEAR(once, twice, 1e-2);
  EXPECT_NEAR(once, dense, 0.2);
}

// peft's Linear4bit dequantizes the weight: what DoRA makes of it is what it makes of dense weights
// with those values, whose golden run is adapter_training_test's.
TEST(QloraTraining, MagnitudesAreThoseOfTheDequantizedWeights) {
  TrainingJob job = qlora_job();
  job.lora.use_dora = true;
  job.batches.max_steps = 3;
  job.data.padding = Padding::kMaxLength;  // equal shapes need fewer compiled products
  TrainingRun quantized = prepare_run(job, alone());
  job.tuning = TuningMethod::kLora;
  job.model.hf_config.erase("quantization_config");
  TrainingRun dense = prepare_run(job, alone());
  const std::vector<NamedLinear> from = quantized.model->linears(), to = dense.model->linears();
  ASSERT_EQ(from.size(), to.size());
  {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < to.size(); ++i) {
      const int64_t out = (*to[i].slot)->out_features();
      (*to[i].slot)->dense_rows(0, out).copy_((*from[i].slot)->dense_rows(0, out));
    }
    for (const NamedLinearGroup& linears : dense.model->linear_groups())
      linears.group->begin_adapter();
  }
  std::vector<std::vector<double>> losses;
  for (TrainingRun* run : {&quantized, &dense}) {
    Recorder recorder;
    train_steps(*run, alone(), {&recorder}, [] { return false; });
    losses.emplace_back();
    for (const StepEvent& step : recorder.steps) losses.back().push_back(step.loss);
  }
  ASSERT_EQ(losses[0].size(), losses[1].size());
  for (size_t i = 0; i < losses[0].size(); ++i)
    EXPECT_NEAR(losses[0][i], losses[1][i], 1e-5) << "step " << i + 1;
}

// Of random weights.
TrainingJob mixture_job(const char* family) {
  TrainingJob job = qlora_job();
  job.model.weights_directory.clear();
  Json& config = job.model.hf_config;
  config["model_type"] = family;
  config.erase("architectures");
  for (const char* count : {"num_local_experts", "num_experts"}) config[count] = 4;
  config["moe_intermediate_size"] = 64;
  config["decoder_sparse_step"] = 1;
  config["norm_topk_prob"] = true;
  config["num_experts_per_tok"] = 2;
  job.lora.target_modules = {"q_proj", "v_proj"};
  job.batches.max_steps = 3;
  return job;
}

// Each expert's linears, quantized by themselves, give what dense ones with their values give.
TEST(QloraTraining, ExpertsAreThoseOfTheDequantizedWeights) {
  for (const char* family : {"mixtral", "qwen3_moe"}) {
    SCOPED_TRACE(family);
    TrainingJob job = mixture_job(family);
    TrainingRun quantized = prepare_run(job, alone());
    job.tuning = TuningMethod::kLora;
    job.model.hf_config.erase("quantization_config");
    TrainingRun dense = prepare_run(job, alone());
    std::map<std::string, torch::Tensor*> weights;
    for (const NamedParameter& parameter : dense.model->parameters())
      weights[parameter.name] = parameter.tensor;
    size_t experts = 0;
    for (const NamedLinear& linear : quantized.model->linears()) {
      const torch::NoGradGuard no_grad;
      const torch::Tensor values = (*linear.slot)->dense_rows(0, (*linear.slot)->out_features());
      torch::Tensor& drawn = *weights.at(linear.name + ".weight");
      EXPECT_NEAR((values - drawn).norm().item<double>(), 0.1 * drawn.norm().item<double>(),
                  0.05 * drawn.norm().item<double>())
          << linear.name << " in 4 bits";
      drawn.copy_(values);
      experts += linear.name.find(".experts.") != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(experts, 3 * 4 * static_cast<size_t>(quantized.model->layer_count()));
    std::vector<std::vector<double>> losses;
    for (TrainingRun* run : {&quantized, &dense}) {
      Recorder recorder;
      train_steps(*run, alone(), {&recorder}, [] { return false; });
      losses.push_back(recorder.losses());
    }
    ASSERT_EQ(losses[0].size(), 3u);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(losses[0][i], losses[1][i], 1e-5) << "step " << i + 1;
  }
}

// Experts are sharded with their layer, or divided among ranks (fast_moe), whole.
TEST(QloraTraining, ExpertsTrainOnRanksAsOnOne) {
  for (const int64_t expert_ranks : {1, 2}) {
    SCOPED_TRACE(expert_ranks);
    TrainingJob job = mixture_job("mixtral");
    job.batches = BatchPlan();
    job.batches.max_steps = kSteps;
    job.parallel.strategy = Strategy::kFullShard;
    job.parallel.expert_ranks = expert_ranks;
    job.device.ranks = 2;
    job.device.threads = 1;
    run_ranks({.ranks = 2}, [&](RankGroup& group) {
      expect_equal(train_to_the_end(job, group), train_to_the_end(on_one_rank(job), alone()));
    });
  }
}

// What ranks compute differs from one rank by the order in which gradients are added.
TEST(QloraTraining, ShardsTrainAsOneRankInEveryPrecision) {
  for (const ParameterDtype dtype : {ParameterDtype::kFloat32, ParameterDtype::kBfloat16}) {
    for (const char* strategy : {"FULL_SHARD", "SHARD_GRAD_OP", "DDP"}) {
      SCOPED_TRACE(std::string(strategy) + " in " + name_of(dtype));
      TrainingJob job = qlora_job();
      job.precision = {.torch_dtype = dtype};
      job.lora.use_dora = strategy == std::string("FULL_SHARD");
      job.batches = BatchPlan();
      job.batches.max_steps = kSteps;
      job.parallel.strategy = named<Strategy>(strategy);
      job.device.ranks = 2;
      job.device.threads = 1;
      run_ranks({.ranks = 2}, [&](RankGroup& group) {
        const std::vector<double> several = train_to_the_end(job, group).losses;
        const std::vector<double> one = train_to_the_end(on_one_rank(job), alone()).losses;
        ASSERT_EQ(several.size(), one.size());
        const double near = dtype == ParameterDtype::kFloat32 ? 1e-5 : 3e-3;
        for (size_t i = 0; i < one.size(); ++i)
          EXPECT_NEAR(several[i], one[i], near * one[i]) << "step " << i + 1;
      });
    }
  }
}

TEST(QloraTraining, WeightsAndTuningHaveToFitEachOther) {
  TrainingJob job = qlora_job();
  job.tuning = TuningMethod::kLora;
  EXPECT_EQ(refusal_of(job),
            "UNSUPPORTED: the weights of llama are quantized (NF4), and tuning lora trains weights "
            "that are not; qlora works");
  job = qlora_job();
  job.model.hf_config.erase("quantization_config");
  EXPECT_EQ(refusal_of(job),
            "UNSUPPORTED: the weights of llama are not quantized: config.json has no "
            "quantization_config; tuning lora works");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
