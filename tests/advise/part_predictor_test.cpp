// Entities of a space one part after the other: each is predicted as if it were asked for alone.
#include "sftbench/advise/part_predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <set>
#include <string>

#include "sftbench/advise/odds.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

const std::string kFull = "finetune_full_benchmark-v1.0.0",
                  kLora = "finetune_lora_benchmark-v1.0.0";
const std::string kGptq = "finetune_gptq-lora_benchmark-v1.0.0";

// "PROPERTY: [VALUES]" of dimensions, beside a model and the sizes that each test has.
Space space_of(const std::vector<std::string>& dimensions,
               const std::vector<std::string>& experiments) {
  std::string text = "entitySpace:\n";
  for (const std::string& dimension : dimensions) {
    const size_t colon = dimension.find(':');
    text += "- {identifier: " + dimension.substr(0, colon) +
            ", propertyDomain: {values: " + dimension.substr(colon + 2) + "}}\n";
  }
  text += "experiments:\n";
  for (const std::string& experiment : experiments)
    text += "- {actuatorIdentifier: SFTTrainer, experimentIdentifier: " + experiment + "}\n";
  return parse_space(text, "space.yaml", Catalog::shipped());
}

// All that a prediction says, or its refusal.
std::string words_of(const Prediction& p) {
  Json job = to_json(p.job);
  for (const char* member : {"inputs", "entity", "entity_id", "experiment_id"}) job.erase(member);
  return job.dump() + to_json(p.cost, p.job, p.machine).dump() + name_of(p.fit) + p.at.machine +
         p.at.stack + p.at.method + p.at.model +
         Json({p.at.ranks, p.at.batch, p.at.length, p.at.checkpointing, p.fitted}).dump();
}

template <typename Predict>
std::string words_or_refusal(const Predict& predict) {
  try {
    return words_of(predict());
  } catch (const RunError& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
}

struct Compared {
  std::set<std::string> refusals;
  int64_t parts = 0, predicted = 0;
};

Compared compare(const Space& space, const ResolveOptions& options = {},
                 const std::string& stack = "sftbench") {
  MachineOverrides overrides;
  overrides.flops_per_s = 1e14;  // of CPUs nothing is known
  overrides.inside_gb_per_s = 100;
  overrides.stack = stack;
  const Catalog& catalog = Catalog::shipped();
  Oracle alone({}, options, overrides, catalog), oracle({}, options, overrides, catalog);
  const SpaceParts parts(space, options);
  PartPredictor predictor(space, parts, oracle, catalog.models);
  Compared compared{.refusals = {}, .parts = parts.count(), .predicted = 0};
  std::set<int64_t> seen;
  for (int64_t part = 0; part < parts.count(); ++part) {
    for (size_t experiment = 0; experiment < space.experiments.size(); ++experiment) {
      for (int64_t number = 0; number < parts.entities_of_each(); ++number) {
        const int64_t index = parts.entity(part, number);
        seen.insert(index);
        const MeasurementRequest request =
            make_request(space.entity(index), space.experiments[experiment]);
        const std::string expected = words_or_refusal([&] { return alone.predict(request); });
        EXPECT_EQ(words_or_refusal([&] { return predictor.predict(part, number, experiment); }),
                  expected)
            << request.entity_id;
        const bool refused = !expected.starts_with('{');
        if (refused) compared.refusals.insert(expected);
        compared.predicted += refused ? 0 : 1;
      }
    }
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), space.entity_count());
  return compared;
}

TEST(PartPredictorTest, PredictsEachEntityAsIfItWereAskedForAlone) {
  const Space space = space_of(
      {"batch_size: [8, 6, 16]", "model_name: [llama3.2-1b, granite-3.1-2b]", "number_gpus: [1, 4]",
       "model_max_length: [512, 2048]", "gpu_model: [NVIDIA-A100-SXM4-80GB, NVIDIA-H100-80GB-HBM3]",
       "distributed_backend: [FSDP, DDP]", "gradient_accumulation_steps: [1, 3]",
       "torch_dtype: [bfloat16, float32]"},
      {kFull, kLora});
  const Compared compared = compare(space);
  EXPECT_EQ(compared.parts, 2 * 2 * 2 * 2 * 2);
  EXPECT_THAT(compared.refusals, testing::ElementsAre(testing::HasSubstr(
                                     "batch_size 6 cannot be divided evenly by number_gpus 4")));
  EXPECT_EQ(compared.predicted, 2 * space.entity_count() * 5 / 6);
  compare(space, {}, "fms-hf-tuning");
}

TEST(PartPredictorTest, RefusesAsAloneWhatSizesHaveNoPartIn) {
  const Space space = space_of(
      {"model_name: [llama3.2-1b, granite-3.0-1b-a400m-base]", "batch_size: [4, 5, 8]",
       "number_gpus: [4]", "gpu_model: [NVIDIA-A100-SXM4-80GB]", "model_max_length: [512, 2048]",
       "context_parallel: [1, 2, 3]", "r: [4, 6]", "fast_moe: [0, 2]"},
      {kLora, kGptq});
  EXPECT_GT(compare(space).refusals.size(), 3U);
}

TEST(PartPredictorTest, SizesThatARefusalNamesMakeParts) {
  const std::vector<std::string> sizes = {"model_name: [smollm2-135m]", "number_gpus: [0]",
                                          "model_max_length: [128, 256]", "batch_size: [3, 4]",
                                          "gradient_accumulation_steps: [1, 2]"};
  EXPECT_EQ(compare(space_of(sizes, {kFull})).parts, 1);
  ResolveOptions two_ranks;
  two_ranks.cpu_ranks = 2;
  const Compared divided = compare(space_of(sizes, {kFull}), two_ranks);
  EXPECT_EQ(divided.parts, 2);
  EXPECT_THAT(divided.refusals, testing::ElementsAre(testing::HasSubstr("batch_size 3")));

  std::vector<std::string> optimizers = sizes;
  optimizers.emplace_back("optim: [adamw_torch, galore_adamw_layerwise]");
  const Compared updating = compare(space_of(optimizers, {kFull}));
  EXPECT_EQ(updating.parts, 4);
  EXPECT_THAT(updating.refusals,
              testing::Contains(testing::HasSubstr("gradient_accumulation_steps 2 is impossible")));
}

// What they have in common: catalogs, and the residuals that intervals rest on. Under the thread
// sanitizer, too.
TEST(PartPredictorTest, ThreadsPredictAsOneDoes) {
  const Space space = space_of({"batch_size: [8, 16]", "model_name: [llama3.2-1b, granite-3.1-2b]",
                                "number_gpus: [1, 4]", "model_max_length: [512, 2048]",
                                "gpu_model: [NVIDIA-A100-SXM4-80GB, NVIDIA-H100-80GB-HBM3]"},
                               {kFull});
  const MachineOverrides overrides;
  const Catalog& catalog = Catalog::shipped();
  const SpaceParts parts(space, {});
  const Uncertainty uncertainty(ResidualTable::shipped());
  const auto all = [&] {
    Oracle oracle({}, {}, overrides, catalog);
    PartPredictor predictor(space, parts, oracle, catalog.models);
    std::string words;
    for (int64_t part = 0; part < parts.count(); ++part) {
      for (int64_t number = 0; number < parts.entities_of_each(); ++number) {
        const Prediction& prediction = predictor.predict(part, number, 0);
        const Range step = step_range(prediction, uncertainty);
        words += words_of(prediction) + Json({step.low, step.high}).dump();
      }
    }
    return words;
  };
  std::vector<std::future<std::string>> others;
  for (int i = 0; i < 3; ++i) others.push_back(std::async(std::launch::async, all));
  const std::string expected = all();
  for (std::future<std::string>& other : others) EXPECT_EQ(other.get(), expected);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
