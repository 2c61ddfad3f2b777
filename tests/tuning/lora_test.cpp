// LoRA and prompt tuning as applied to a model: what trains, where it starts, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "model/golden.h"
#include "sftbench/base/error.h"
#include "sftbench/ops/row_tiles.h"
#include "sftbench/tuning/tuning.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;

// Three layers, hidden 32, query width 32, key width 16, MLP 56, tied embedding.
std::unique_ptr<CausalLm> small_model(torch::Dtype dtype = torch::kFloat32) {
  const std::string folder = std::string(SFTBENCH_TEST_DATA) + "/training/llama";
  auto model = make_causal_lm(read_json_file(folder + "/config.json"), dtype, test_device());
  load_weights(*model, folder);
  return model;
}

TuningOptions lora_options(std::vector<std::string> targets, int64_t rank = 4) {
  TuningOptions options;
  options.lora.rank = rank;
  options.lora.dropout = 0;
  options.lora.target_modules = std::move(targets);
  return options;
}

std::vector<NamedParameter> apply_lora(CausalLm& model, const TuningOptions& options) {
  return make_tuning(TuningMethod::kLora, options)->apply(model);
}

std::string error_of(const TuningOptions& options) {
  try {
    const auto model = small_model();
    apply_lora(*model, options);
  } catch (const RunError& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no error";
}

at::Generator cpu_numbers(uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(at::Device(at::kCPU)).clone();
  generator.set_current_seed(seed);
  return generator;
}

torch::Tensor some_ids() {
  return (torch::arange(24, torch::TensorOptions(torch::kInt64).device(test_device())) * 37 % 300)
      .view({2, 12});
}

// Loss and backward over `model`, and the gradient of each of `trained`.
std::vector<torch::Tensor> gradients(CausalLm& model, const std::vector<NamedParameter>& trained) {
  LayerRunner runner;
  model.loss(some_ids(), some_ids(), 22.0, runner).backward();
  std::vector<torch::Tensor> result;
  for (const NamedParameter& parameter : trained) {
    result.push_back(parameter.tensor->grad().clone());
    parameter.tensor->mutable_grad().reset();
  }
  return result;
}

// B is zero at the start, which would hide what A does.
void fill_b(const std::vector<NamedParameter>& trained) {
  const torch::NoGradGuard no_grad;
  for (const NamedParameter& parameter : trained) {
    if (parameter.name.ends_with("lora_B.weight")) parameter.tensor->fill_(0.02);
  }
}

TEST(LoraTuning, TrainsTheAdaptersOfItsTargetsAndNothingElse) {
  const auto model = small_model();
  const auto trained = apply_lora(*model, lora_options({"q_proj", "v_proj"}));
  std::vector<std::string> first_layer;
  std::set<std::string> names;
  for (const NamedParameter& parameter : trained) {
    names.insert(parameter.name);
    if (parameter.name.rfind("model.layers.0.", 0) == 0) first_layer.push_back(parameter.name);
  }
  EXPECT_EQ(trained.size(), 12u);
  EXPECT_THAT(first_layer, ElementsAre("model.layers.0.self_attn.q_proj.lora_A.weight",
                                       "model.layers.0.self_attn.q_proj.lora_B.weight",
                                       "model.layers.0.self_attn.v_proj.lora_A.weight",
                                       "model.layers.0.self_attn.v_proj.lora_B.weight"));
  gradients(*model, trained);
  for (const NamedParameter& parameter : model->parameters()) {
    EXPECT_EQ(parameter.tensor->requires_grad(), names.count(parameter.name) == 1)
        << parameter.name;
    EXPECT_FALSE(parameter.tensor->grad().defined() && names.count(parameter.name) == 0)
        << parameter.name;
  }
}

TEST(LoraTuning, AllLinearIsEveryLinearOfTheLayers) {
  const auto model = small_model();
  const size_t linears = model->linears().size();
  EXPECT_EQ(linears, 21u);
  EXPECT_EQ(apply_lora(*model, lora_options({"all-linear"})).size(), 2 * linears);
}

TEST(LoraTuning, ATargetThatIsNamedTwiceIsSavedOnce) {
  const auto model = small_model();
  const TuningOptions options = lora_options({"all-linear", "q_proj", "mlp.up_proj"});
  apply_lora(*model, options);
  const Json names =
      make_tuning(TuningMethod::kLora, options)->peft_config(*model)["target_modules"];
  EXPECT_EQ(std::set<Json>(names.begin(), names.end()).size(), names.size()) << names;
}

TEST(LoraTuning, TargetsAreWholeNamesOrEnds) {
  const auto model = small_model();
  const auto trained =
      apply_lora(*model, lora_options({"mlp.up_proj", "model.layers.1.self_attn.o_proj"}));
  std::vector<std::string> names;
  for (size_t i = 0; i < trained.size(); i += 2) names.push_back(trained[i].name);
  EXPECT_THAT(names, ElementsAre("model.layers.0.mlp.up_proj.lora_A.weight",
                                 "model.layers.1.self_attn.o_proj.lora_A.weight",
                                 "model.layers.1.mlp.up_proj.lora_A.weight",
                                 "model.layers.2.mlp.up_proj.lora_A.weight"));
}

TEST(LoraTuning, StartsAsTheModelItself) {
  const auto model = small_model();
  const torch::Tensor before = model->logits(some_ids());
  const auto trained = apply_lora(*model, lora_options({"all-linear"}, 16));
  EXPECT_TRUE(torch::equal(model->logits(some_ids()), before));
  for (size_t i = 0; i < trained.size(); i += 2) {
    const torch::Tensor a = trained[i].tensor->detach(), b = trained[i + 1].tensor->detach();
    // Uniform in +-1/sqrt(in): mean square is a third of the bound's; 16 x 32 draws scatter by 4 %.
    const double bound = 1.0 / std::sqrt(static_cast<double>(a.size(1)));
    EXPECT_LE(a.abs().max().item<double>(), bound);
    EXPECT_NEAR(a.square().mean().item<double>(), bound * bound / 3, 0.2 * bound * bound / 3);
    EXPECT_EQ(b.abs().max().item<double>(), 0.0);
  }
}

TEST(LoraTuning, InitialValuesDependOnSeedAndNameAlone) {
  const auto both = small_model(), one = small_model(), other_seed = small_model();
  const auto of_both = apply_lora(*both, lora_options({"q_proj", "v_proj"}));
  const auto of_one = apply_lora(*one, lora_options({"v_proj"}));
  TuningOptions options = lora_options({"v_proj"});
  options.seed = 43;
  const auto of_other_seed = apply_lora(*other_seed, options);
  ASSERT_EQ(of_both[2].name, of_one[0].name);
  EXPECT_TRUE(torch::equal(*of_both[2].tensor, *of_one[0].tensor));
  EXPECT_FALSE(torch::equal(*of_both[2].tensor, *of_both[0].tensor));
  EXPECT_FALSE(torch::equal(*of_one[0].tensor, *of_other_seed[0].tensor));
}

TEST(LoraTuning, AdaptersOfHalfPrecisionModelsAreFloat32) {
  for (const auto dtype : {torch::kBFloat16, torch::kFloat16}) {
    const auto model = small_model(dtype);
    const auto trained = apply_lora(*model, lora_options({"q_proj", "v_proj"}));
    for (const NamedParameter& parameter : trained)
      EXPECT_EQ(parameter.tensor->scalar_type(), torch::kFloat32) << parameter.name;
    for (const torch::Tensor& gradient : gradients(*model, trained))
      EXPECT_EQ(gradient.scalar_type(), torch::kFloat32);
  }
}

TEST(LoraTuning, DropoutIsNewInEveryPassTheSameInEveryRunAndOffWithoutLoss) {
  const auto losses = [](double probability) {
    const auto model = small_model();
    TuningOptions options = lora_options({"all-linear"});
    options.lora.dropout = probability;
    fill_b(apply_lora(*model, options));
    LayerRunner runner;
    std::vector<double> values;
    for (int pass = 0; pass < 2; ++pass)
      values.push_back(model->loss(some_ids(), some_ids(), 22.0, runner).item<double>());
    values.push_back(model->logits(some_ids()).sum().item<double>());
    return values;
  };
  const std::vector<double> without = losses(0), with = losses(0.3);
  EXPECT_EQ(without[0], without[1]);
  EXPECT_NE(with[0], without[0]);
  EXPECT_NE(with[0], with[1]);
  EXPECT_EQ(with[2], without[2]);
  EXPECT_EQ(losses(0.3), with);
}

// Runs a layer without a graph first and again for its gradient, as checkpointing does.
TEST(LoraTuning, ARecomputedLayerDropsWhatItDroppedBefore) {
  class TwiceRunner : public LayerRunner {
   public:
    torch::Tensor run(int64_t, const Layer& layer, const torch::Tensor& hidden) override {
      const torch::Tensor again = layer(hidden);
      const torch::NoGradGuard no_grad;
      equal = equal && torch::equal(layer(hidden), again);
      return again;
    }
    bool equal = true;
  } runner;
  const auto model = small_model();
  TuningOptions options = lora_options({"all-linear"});
  options.lora.dropout = 0.3;
  fill_b(apply_lora(*model, options));
  model->loss(some_ids(), some_ids(), 22.0, runner);
  EXPECT_TRUE(runner.equal);
}

// Two positions that are alike: each tile has one of them.
TEST(LoraTuning, EachTileOfRowsDropsSomethingElse) {
  class TwinsRunner : public LayerRunner {
   public:
    explicit TwinsRunner(CausalLm& model) : model_(model) {}
    torch::Tensor run(int64_t index, const Layer& layer, const torch::Tensor& hidden) override {
      if (index == 0) rows = in_tiles();
      return layer(hidden);
    }
    torch::Tensor rows;

   private:
    torch::Tensor in_tiles() {
      const LinearGroup& group = *model_.linear_groups().front().group;
      const torch::Tensor twins = torch::ones({1, 2, 32}, test_device());
      return ops::in_row_tiles(
          2, twins, [&group](const torch::Tensor& tile) { return group.forward(tile)[0]; });
    }
    CausalLm& model_;
  };
  const auto model = small_model();
  TuningOptions options = lora_options({"all-linear"});
  options.lora.dropout = 0.3;
  fill_b(apply_lora(*model, options));
  TwinsRunner runner(*model);
  model->loss(some_ids(), some_ids(), 22.0, runner);
  EXPECT_FALSE(torch::equal(runner.rows.select(1, 0), runner.rows.select(1, 1)));
}

TEST(LoraTuning, MagnitudesHaveNeitherInvocationsNorGptq) {
  TuningOptions options = lora_options({"q_proj"});
  options.lora.magnitudes = true;
  options.lora.invocation = {5};
  EXPECT_EQ(error_of(options),
            "UNSUPPORTED: lora.use_dora beside lora.invocation_string: peft has no activated DoRA; "
            "one of them works");
  options.lora.invocation.clear();
  EXPECT_EQ(error_of(options), "no error");
  try {
    make_tuning(TuningMethod::kGptqLora, options);
    FAIL() << "GPTQ under DoRA";
  } catch (const RunError& error) {
    EXPECT_STREQ(error.what(),
                 "lora.use_dora: peft has no DoRA over GPTQ; tuning lora or qlora works");
  }
}

// Keeps what its linear reads.
class InputKeeper : public Linear {
 public:
  InputKeeper(std::unique_ptr<Linear> base, std::vector<torch::Tensor>& inputs)
      : base_(std::move(base)), inputs_(inputs) {}
  torch::Tensor forward(const torch::Tensor& x) override {
    inputs_.push_back(x.detach());
    return base_->forward(x);
  }
  torch::Tensor dense_rows(int64_t first, int64_t count) const override {
    return base_->dense_rows(first, count);
  }
  torch::Tensor bias() const override { return base_->bias(); }
  int64_t in_features() const override { return base_->in_features(); }
  int64_t out_features() const override { return base_->out_features(); }
  void append_parameters(const std::string& name, std::vector<NamedParameter>& p) override {
    base_->append_parameters(name, p);
  }
  void set_compute_dtype(torch::Dtype dtype) override { base_->set_compute_dtype(dtype); }

 private:
  std::unique_ptr<Linear> base_;
  std::vector<torch::Tensor>& inputs_;
};

// peft.tuners.lora.variants.DoraLinearVariant.forward and dora.DoraLinearLayer.forward, over the
// mask that was drawn: the base sees all of x, and what the magnitude changes sees what dropout
// left.
TEST(LoraTuning, DropoutOfDoraIsWherePeftHasIt) {
  const std::string folder = std::string(SFTBENCH_TEST_DATA) + "/training/granite";  // with biases
  auto model =
      make_causal_lm(read_json_file(folder + "/config.json"), torch::kFloat32, test_device());
  load_weights(*model, folder);
  TuningOptions options = lora_options({"q_proj", "v_proj"});
  options.lora.dropout = 0.3;
  options.lora.magnitudes = true;
  const std::vector<NamedParameter> trained = apply_lora(*model, options);
  fill_b(trained);
  NamedLinearGroup group = model->linear_groups().front();
  group.group->begin_adapter();
  LayerRunner runner;
  model->loss(some_ids(), some_ids(), 22.0, runner);  // a pass that trains
  std::map<std::string, torch::Tensor> values;
  for (const NamedParameter& parameter : model->parameters())
    values[parameter.name] = parameter.tensor->detach();
  const auto value = [&](size_t linear, const char* end) {
    return values.at(group.linears[linear].name + end);
  };
  const torch::NoGradGuard no_grad;
  for (const size_t linear : {0, 2}) value(linear, ".lora_magnitude_vector.weight").mul_(1.5);

  std::vector<torch::Tensor> inputs;
  *group.linears[0].slot = std::make_unique<InputKeeper>(std::move(*group.linears[0].slot), inputs);
  const torch::Tensor x = torch::randn({2, 5, 32}, cpu_numbers(7)).to(test_device());
  const std::vector<torch::Tensor> outputs = group.group->forward(x);
  const auto kept = std::find_if(inputs.begin(), inputs.end(), [](const torch::Tensor& input) {
    return (input == 0).any().item<bool>();
  });
  ASSERT_NE(kept, inputs.end());
  const double share = (*kept == 0).to(torch::kFloat64).mean().item<double>();
  EXPECT_NEAR(share, 0.3, 0.1);
  for (const size_t linear : {0, 2}) {
    const torch::Tensor w = value(linear, ".weight"), a = value(linear, ".lora_A.weight"),
                        b = value(linear, ".lora_B.weight");
    const double scaling = 16.0 / 4;
    const torch::Tensor norm = (w + scaling * b.mm(a)).norm(2, 1);
    const torch::Tensor scale = value(linear, ".lora_magnitude_vector.weight") / norm;
    const torch::Tensor result = torch::linear(x, w, value(linear, ".bias"));
    const torch::Tensor expected = result + (scale - 1) * torch::linear(*kept, w) +
                                   scale * torch::linear(torch::linear(*kept, a), b) * scaling;
    EXPECT_TRUE(torch::allclose(outputs[linear], expected, 1e-4, 1e-5)) << linear;
    EXPECT_FALSE(torch::allclose(outputs[linear], result, 1e-2, 1e-2)) << "there is a difference";
  }
  EXPECT_TRUE(
      torch::allclose(outputs[1], torch::linear(x, value(1, ".weight"), value(1, ".bias"))));
}

// Notes whether the input that its linear reads is part of a graph.
class GradientProbe : public Linear {
 public:
  GradientProbe(std::unique_ptr<Linear> base, bool& asked)
      : base_(std::move(base)), asked_(asked) {}
  torch::Tensor forward(const torch::Tensor& x) override {
    asked_ = asked_ || x.requires_grad();
    return base_->forward(x);
  }
  int64_t in_features() const override { return base_->in_features(); }
  int64_t out_features() const override { return base_->out_features(); }
  void append_parameters(const std::string& name, std::vector<NamedParameter>& p) override {
    base_->append_parameters(name, p);
  }
  void set_compute_dtype(torch::Dtype dtype) override { base_->set_compute_dtype(dtype); }

 private:
  std::unique_ptr<Linear> base_;
  bool& asked_;
};

TEST(LoraTuning, NothingBelowTheFirstAdapterAsksForAGradient) {
  const auto model = small_model();
  bool first_key = false, first_up = false;
  for (const NamedLinear& linear : model->linears()) {
    bool* asked = linear.name == "model.layers.0.self_attn.k_proj" ? &first_key
                  : linear.name == "model.layers.0.mlp.up_proj"    ? &first_up
                                                                   : nullptr;
    if (asked != nullptr)
      *linear.slot = std::make_unique<GradientProbe>(std::move(*linear.slot), *asked);
  }
  gradients(*model, apply_lora(*model, lora_options({"q_proj", "v_proj"})));
  EXPECT_FALSE(first_key);
  EXPECT_TRUE(first_up);
}

TEST(LoraTuning, TargetsThatMatchNothingListWhatThereIs) {
  EXPECT_EQ(error_of(lora_options({"q_proj", "v_prj"})),
            "UNSUPPORTED: target_modules 'v_prj' matches no linear of the model; it has down_proj, "
            "gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj, or all-linear for all of them; "
            "did you mean 'v_proj'?");
  EXPECT_EQ(error_of(lora_options({"proj"})).substr(0, 71),
            "UNSUPPORTED: target_modules 'proj' matches no linear of the model; it h");
  EXPECT_EQ(error_of(lora_options({})),
            "UNSUPPORTED: target_modules is empty; the model has down_proj, gate_proj, k_proj, "
            "o_proj, q_proj, up_proj, v_proj, or all-linear for all of them");
}

TEST(LoraTuning, ARankThatDoesNotFitIsRefused) {
  EXPECT_EQ(error_of(lora_options({"q_proj", "v_proj"}, 16)), "no error");
  EXPECT_EQ(error_of(lora_options({"q_proj", "v_proj"}, 17)),
            "UNSUPPORTED: r 17 does not fit model.layers.0.self_attn.v_proj, which maps 32 to 16 "
            "features: a rank is between 1 and the smaller of the two");
  EXPECT_EQ(error_of(lora_options({"q_proj"}, 0)).substr(0, 32),
            "UNSUPPORTED: r 0 does not fit mo");
}

TEST(PromptTuning, TrainsVirtualTokensThatStartFromRepeatedOrCutEmbeddings) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    const auto model = small_model(dtype);
    TuningOptions options;
    options.prompt = {.virtual_tokens = 5, .initial_ids = {7, 9}};
    const auto trained = make_tuning(TuningMethod::kPrompt, options)->apply(*model);
    ASSERT_EQ(trained.size(), 1u);
    EXPECT_EQ(trained[0].name, "prompt_embeddings");
    const torch::Tensor ids =
        torch::tensor({7, 9, 7, 9, 7}, torch::TensorOptions(torch::kInt64).device(test_device()));
    EXPECT_EQ(trained[0].tensor->scalar_type(), torch::kFloat32);
    EXPECT_TRUE(
        torch::equal(*trained[0].tensor,
                     model->parameters().front().tensor->index_select(0, ids).to(torch::kFloat32)));
    EXPECT_GT(gradients(*model, trained)[0].abs().max().item<double>(), 0.0);
    for (const NamedParameter& parameter : model->parameters())
      EXPECT_EQ(parameter.tensor->requires_grad(), parameter.name == "prompt_embeddings");
  }
}

TEST(PromptTuning, VirtualTokensStandInFrontAsTheirTokensWould) {
  const auto plain = small_model(), prompted = small_model();
  TuningOptions options;
  options.prompt = {.virtual_tokens = 2, .initial_ids = {7, 9}};
  make_tuning(TuningMethod::kPrompt, options)->apply(*prompted);
  const torch::Tensor front =
      torch::tensor({7, 9}, torch::TensorOptions(torch::kInt64).device(test_device()))
          .expand({2, 2});
  const torch::Tensor expected = plain->logits(torch::cat({front, some_ids()}, 1));
  const torch::Tensor found = prompted->logits(some_ids());
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_LE(max_difference(found, expected), 1e-6);
}

TEST(PromptTuning, AtRandomIsStandardNormalFromTheSeed) {
  const auto start = [](uint64_t seed) {
    const auto model = small_model();
    TuningOptions options;
    options.prompt.virtual_tokens = 200;
    options.seed = seed;
    return make_tuning(TuningMethod::kPrompt, options)->apply(*model)[0].tensor->detach().clone();
  };
  const torch::Tensor values = start(1);
  EXPECT_TRUE(torch::equal(values, start(1)));
  EXPECT_FALSE(torch::equal(values, start(2)));
  // 6400 numbers: their mean scatters by 0.0125, their standard deviation by 0.009.
  EXPECT_NEAR(values.mean().item<double>(), 0.0, 0.06);
  EXPECT_NEAR(values.std().item<double>(), 1.0, 0.05);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
