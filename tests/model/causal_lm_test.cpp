// What the engine and tuning build on: layer runners, linears that can be wrapped, the vocabulary's
// size.
#include "sftbench/model/causal_lm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors_builder.h"
#include "model/golden.h"
#include "model/rotary_embedding.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Runs a layer without a graph and again, with one, in the backward pass.
class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& hidden,
                               LayerRunner::Layer* layer) {
    ctx->save_for_backward({hidden});
    ctx->saved_data["layer"] = reinterpret_cast<int64_t>(layer);
    return (*layer)(hidden);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const torch::AutoGradMode enabled(true);
    const torch::Tensor hidden = ctx->get_saved_variables()[0].detach().requires_grad_(true);
    auto* layer = reinterpret_cast<LayerRunner::Layer*>(ctx->saved_data["layer"].toInt());
    (*layer)(hidden).backward(gradients[0]);
    return {hidden.grad(), torch::Tensor()};
  }
};

class RecomputingRunner : public LayerRunner {
 public:
  torch::Tensor run(int64_t layer_index, const Layer& layer, const torch::Tensor& hidden) override {
    indices.push_back(layer_index);
    layers_.push_back(std::make_unique<Layer>([this, layer](const torch::Tensor& x) {
      ++calls;
      return layer(x);
    }));
    return Recompute::apply(hidden, layers_.back().get());
  }

  std::vector<int64_t> indices;
  int calls = 0;

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

Tensors gradients(Golden& golden, LayerRunner& runner) {
  for (const NamedParameter& p : golden.model->parameters()) p.tensor->requires_grad_(true);
  golden.loss(runner).backward();
  Tensors result;
  for (const NamedParameter& p : golden.model->parameters()) result[p.name] = p.tensor->grad();
  return result;
}

TEST(LayerRunner, RecomputedLayersGiveTheSameGradients) {
  for (const char* name :
       {"llama_every_option", "mistral_sliding_window", "granite_every_option"}) {
    Golden plain(name), checkpointed(name);
    LayerRunner direct;
    RecomputingRunner recomputing;
    const Tensors expected = gradients(plain, direct), found = gradients(checkpointed, recomputing);
    EXPECT_THAT(recomputing.indices, ::testing::ElementsAre(0, 1, 2));
    EXPECT_EQ(recomputing.calls, 6);
    for (const auto& [parameter, gradient] : expected) {
      EXPECT_TRUE(torch::equal(found.at(parameter), gradient)) << name << " " << parameter;
    }
  }
}

TEST(CausalLm, ParametersRequireNoGradientUntilTuningAsksForIt) {
  Golden golden("llama_plain");
  for (const NamedParameter& p : golden.model->parameters())
    EXPECT_FALSE(p.tensor->requires_grad()) << p.name;
}

TEST(CausalLm, TiedOutputProjectionIsNotListed) {
  Golden tied("llama_bf16"), untied("llama_plain");
  EXPECT_EQ(tied.model->parameters().back().name, "model.norm.weight");
  EXPECT_EQ(untied.model->parameters().back().name, "lm_head.weight");
  EXPECT_EQ(tied.model->parameters().front().tensor->data_ptr(),
            tied.model->output_weight().data_ptr());
}

// Stands for another kind of linear: adds to what the one it holds computes.
class PlusOne : public Linear {
 public:
  explicit PlusOne(std::unique_ptr<Linear> base) : base_(std::move(base)), one_(torch::ones({1})) {}
  torch::Tensor forward(const torch::Tensor& x) override { return base_->forward(x) + one_; }
  int64_t in_features() const override { return base_->in_features(); }
  int64_t out_features() const override { return base_->out_features(); }
  void append_parameters(const std::string& name,
                         std::vector<NamedParameter>& parameters) override {
    base_->append_parameters(name + ".base_layer", parameters);
    parameters.push_back({name + ".one", &one_});
  }
  void set_compute_dtype(torch::Dtype dtype) override { base_->set_compute_dtype(dtype); }

 private:
  std::unique_ptr<Linear> base_;
  torch::Tensor one_;
};

TEST(CausalLm, LinearsCanBeWrappedByName) {
  Golden golden("llama_plain");
  const torch::NoGradGuard no_grad;
  const torch::Tensor before = golden.model->logits(golden.input_ids());
  EXPECT_EQ(golden.model->linears().size(), 14u);
  for (const NamedLinear& linear : golden.model->linears()) {
    if (linear.name == "model.layers.1.mlp.up_proj")
      *linear.slot = std::make_unique<PlusOne>(std::move(*linear.slot));
  }
  EXPECT_GT(max_difference(golden.model->logits(golden.input_ids()), before), 0.1);
  std::vector<std::string> names;
  for (const NamedParameter& p : golden.model->parameters()) names.push_back(p.name);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"model.layers.1.mlp.up_proj.base_layer.weight",
                                              "model.layers.1.mlp.up_proj.one"}));
}

TEST(ResizeVocabulary, NewRowsAreTheMeanOfTheOldOnes) {
  for (const char* name : {"llama_plain", "llama_bf16"}) {
    Golden golden(name, torch::kBFloat16);
    const torch::Tensor old_embedding = golden.model->parameters().front().tensor->clone();
    const torch::Tensor old_output = golden.model->output_weight().clone();
    resize_vocabulary(*golden.model, 99);
    const torch::Tensor embedding = *golden.model->parameters().front().tensor;
    const torch::Tensor output = golden.model->output_weight();
    ASSERT_EQ(embedding.sizes(), (std::vector<int64_t>{99, 32}));
    ASSERT_EQ(output.sizes(), (std::vector<int64_t>{99, 32}));
    for (const auto& [grown, old] :
         {std::pair(embedding, old_embedding), std::pair(output, old_output)}) {
      EXPECT_TRUE(torch::equal(grown.slice(0, 0, 96), old));
      const torch::Tensor mean = old.to(torch::kFloat32).mean(0).to(torch::kBFloat16);
      for (int64_t row = 96; row < 99; ++row) EXPECT_TRUE(torch::equal(grown[row], mean));
    }
  }
}

TEST(ResizeVocabulary, NeverShrinks) {
  Golden golden("llama_plain");
  const torch::Tensor before = golden.model->output_weight();
  resize_vocabulary(*golden.model, 10);
  EXPECT_TRUE(golden.model->output_weight().is_same(before));
}

TEST(RotaryEmbedding, KeptTablesGrowAndFollowTheDtype) {
  const ModelConfig config = Golden("llama_plain").model->config();
  RotaryEmbedding rotary(config.rope, config.max_position_embeddings);
  const RotaryTables longer = rotary.tables(20, torch::kFloat32),
                     shorter = rotary.tables(7, torch::kFloat32);
  EXPECT_EQ(shorter.cos.sizes(), (std::vector<int64_t>{7, 4}));
  EXPECT_TRUE(torch::equal(shorter.sin, longer.sin.narrow(0, 0, 7)));
  EXPECT_EQ(shorter.sin.data_ptr(), longer.sin.data_ptr());
  EXPECT_EQ(rotary.tables(7, torch::kBFloat16).cos.scalar_type(), torch::kBFloat16);
}

TEST(RotaryEmbedding, DynamicRemembersTheLongestSequenceUntilAShortOne) {
  const ModelConfig config = Golden("llama_rope_dynamic").model->config();  // maximum 16
  RotaryEmbedding rotary(config.rope, config.max_position_embeddings);
  const torch::Tensor original = rotary.tables(16, torch::kFloat32).sin.clone();
  const torch::Tensor stretched = rotary.tables(40, torch::kFloat32).sin.narrow(0, 0, 16).clone();
  EXPECT_GT(max_difference(original, stretched), 0.1);
  EXPECT_TRUE(torch::equal(rotary.tables(16, torch::kFloat32).sin, stretched));
  EXPECT_TRUE(torch::equal(rotary.tables(15, torch::kFloat32).sin, original.narrow(0, 0, 15)));
}

TEST(MakeCausalLm, UnknownModelTypeListsTheKnownOnes) {
  const std::string message = message_of<InputError>([] {
    make_causal_lm({{"model_type", "graniet"}}, torch::kFloat32, torch::kCPU);
  });
  EXPECT_EQ(message, "config.json: model_type: unknown model type \"graniet\"; expected one of " +
                         join(known_model_types()) + "; did you mean 'granite'?");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
