// Quantized models: random weights beside the dense initializer's, precision, and every way in
// which a checkpoint can contradict its config.json. The golden checkpoint is
// tests/reference/gptq.py's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors_builder.h"
#include "model/golden.h"
#include "model/gptq_linear.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/checkpoint/safetensors_writer.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::filesystem::path golden_folder() {
  return std::filesystem::path(SFTBENCH_TEST_DATA) / "gptq/llama";
}

Json golden_config() {
  return read_json_file((golden_folder() / "config.json").string());
}

std::unique_ptr<CausalLm> random_model(const Json& config, uint64_t seed = 1) {
  auto model = make_causal_lm(config, torch::kFloat32, test_device());
  initialize_randomly(*model, seed);
  return model;
}

Json with_quantization(const Json& changes) {
  Json config = golden_config();
  config["quantization_config"].update(changes);
  return config;
}

torch::Tensor dequantized(const NamedLinear& linear) {
  auto& quantized = dynamic_cast<GptqLinear&>(**linear.slot);
  return ops::dequantize(quantized.weight(), torch::kFloat32).t();
}

// Half a step of the grid, whose scale float16 has rounded.
TEST(RandomGptq, IsTheDenseInitializationToTheNearestCode) {
  Json dense_config = golden_config();
  dense_config.erase("quantization_config");
  const auto dense = random_model(dense_config);
  std::map<std::string, torch::Tensor> dense_weights;
  for (const NamedParameter& p : dense->parameters()) dense_weights[p.name] = *p.tensor;
  for (const int bits : {2, 3, 4, 8}) {
    for (const bool order : {false, true}) {
      for (const bool sym : {true, false}) {
        const auto model =
            random_model(with_quantization({{"bits", bits},
                                            {"sym", sym},
                                            {"desc_act", order},
                                            {"group_size", sym ? -1 : 32},
                                            {"checkpoint_format", order ? "gptq" : "gptq_v2"}}));
        for (const NamedLinear& linear : model->linears()) {
          const auto& weight = dynamic_cast<GptqLinear&>(**linear.slot).weight();
          const torch::Tensor expected = dense_weights.at(linear.name + ".weight");
          const torch::Tensor found = dequantized(linear);
          const torch::Tensor scales =
              weight.scales.to(torch::kFloat32).index_select(0, weight.g_idx.to(torch::kInt64)).t();
          // The middle code of a symmetric grid leaves one step less above zero than below it, and
          // zero itself is a code: the extremes lie up to a step from theirs.
          const double steps = ((found - expected).abs() / scales).max().item<double>();
          EXPECT_LE(steps, 1.01) << linear.name << " " << bits;
          EXPECT_LE((found - expected).abs().div(scales).mean().item<double>(), 0.27);
          if (bits >= 4) {
            EXPECT_NEAR(found.std().item<double>() / expected.std().item<double>(), 1.0, 0.04);
          }
        }
      }
    }
  }
}

TEST(RandomGptq, DependsOnSeedAndNameAlone) {
  const auto codes = [](uint64_t seed, size_t linear) {
    const auto model = random_model(golden_config(), seed);
    return dynamic_cast<GptqLinear&>(**model->linears()[linear].slot).weight().qweight.clone();
  };
  EXPECT_TRUE(torch::equal(codes(1, 1), codes(1, 1)));
  EXPECT_FALSE(torch::equal(codes(1, 1), codes(2, 1)));
  EXPECT_FALSE(torch::equal(codes(1, 1), codes(1, 2)));  // k and v, of one shape
}

TEST(GptqModel, CountsTheWeightsThatCodesStandFor) {
  Json dense_config = golden_config();
  dense_config.erase("quantization_config");
  const auto model = random_model(golden_config()), dense = random_model(dense_config);
  int64_t found = 0, expected = 0;
  for (const NamedParameter& p : model->parameters()) found += p.weight_count();
  for (const NamedParameter& p : dense->parameters()) expected += p.weight_count();
  EXPECT_EQ(found, expected);
}

// A model of float16 tensors that computes in another dtype throughout.
TEST(GptqModel, ComputesInTheDtypeThatItIsToldTo) {
  const torch::Tensor ids = torch::arange(24, torch::kInt64).view({2, 12}).to(test_device());
  auto wide = make_causal_lm(golden_config(), torch::kFloat32, test_device());
  auto half = make_causal_lm(golden_config(), torch::kFloat16, test_device());
  load_weights(*wide, golden_folder().string());
  load_weights(*half, golden_folder().string());
  const torch::Tensor expected = wide->logits(ids);
  half->compute_in(torch::kFloat32);
  const torch::Tensor found = half->logits(ids);
  EXPECT_EQ(found.scalar_type(), torch::kFloat32);
  EXPECT_LE(rms_difference(found, expected), 1e-3);  // embedding and norms carry 11 bits
  half->compute_in(torch::kBFloat16);
  const torch::Tensor rounded = half->logits(ids);
  EXPECT_EQ(rounded.scalar_type(), torch::kBFloat16);
  EXPECT_LE(rms_difference(rounded, expected), 3e-2);  // everything carries 8 bits
}

// --- experts -------------------------------------------------------------------------------------

Json expert_config(const std::string& family) {
  return {{"model_type", family},
          {"vocab_size", 60},
          {"hidden_size", 64},
          {"intermediate_size", 96},
          {"moe_intermediate_size", 96},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {family == "mixtral" ? "num_local_experts" : "num_experts", 5},
          {"num_experts_per_tok", 2},
          {"initializer_range", 0.2}};
}

Json quantized_expert_config(const std::string& family) {
  Json config = expert_config(family);
  config["quantization_config"] = {{"quant_method", "gptq"},
                                   {"bits", 4},
                                   {"group_size", 32},
                                   {"desc_act", true},
                                   {"sym", false}};
  return config;
}

// The family's own experts (hugging_face_test.cpp), of the weights that the codes say.
std::unique_ptr<CausalLm> dense_of(CausalLm& quantized, const std::string& family) {
  auto dense = make_causal_lm(expert_config(family), torch::kFloat32, test_device());
  std::map<std::string, torch::Tensor> values;
  for (const NamedParameter& p : quantized.parameters()) values[p.name] = *p.tensor;
  for (const NamedLinear& linear : quantized.linears())
    values[linear.name + ".weight"] = dequantized(linear);
  for (const NamedParameter& p : dense->parameters()) p.tensor->copy_(values.at(p.name));
  return dense;
}

class GptqExperts : public testing::TestWithParam<const char*> {};

TEST_P(GptqExperts, ComputeWhatDenseOnesOfTheDequantizedWeightsDo) {
  const auto quantized = random_model(quantized_expert_config(GetParam()));
  const auto dense = dense_of(*quantized, GetParam());
  // Fewer positions than experts: some have no rows.
  for (const int64_t length : {2, 31}) {
    const torch::Tensor ids = (torch::arange(length) * 7 % 60).view({1, -1}).to(test_device());
    std::vector<torch::Tensor> losses, gradients;
    for (const auto& model : {quantized.get(), dense.get()}) {
      model->embedding().set_requires_grad(true).mutable_grad() = torch::Tensor();
      LayerRunner runner;
      losses.push_back(model->loss(ids, ids, 1, runner));
      losses.back().backward();
      gradients.push_back(model->embedding().grad());
    }
    EXPECT_NEAR(losses[0].item<double>(), losses[1].item<double>(),
                1e-5 * losses[1].item<double>());
    EXPECT_LE(rms_difference(gradients[0], gradients[1]), 1e-5);
  }
}

TEST_P(GptqExperts, CountTheWeightsThatCodesStandFor) {
  const auto quantized = random_model(quantized_expert_config(GetParam()));
  const auto dense = random_model(expert_config(GetParam()));
  int64_t found = 0, expected = 0;
  for (const NamedParameter& p : quantized->parameters()) found += p.weight_count();
  for (const NamedParameter& p : dense->parameters()) expected += p.weight_count();
  EXPECT_EQ(found, expected);
}

// As AutoGPTQ names them: each expert's linears are quantized, the router is dense.
TEST(GptqExpertFiles, AreReadUnderTheNamesOfAutoGptq) {
  const auto saved = random_model(quantized_expert_config("mixtral"));
  const TemporaryFolder folder;
  std::vector<TensorHeader> header;
  for (const NamedParameter& p : saved->parameters()) {
    const torch::Dtype dtype = p.tensor->scalar_type();
    header.push_back({.name = p.name,
                      .dtype = dtype == torch::kInt32     ? StoredDtype::kI32
                               : dtype == torch::kFloat16 ? StoredDtype::kF16
                                                          : StoredDtype::kF32,
                      .shape = p.tensor->sizes().vec()});
  }
  SafetensorsWriter writer(folder.path() / "model.safetensors", header);
  for (const NamedParameter& p : saved->parameters()) {
    const torch::Tensor on_host = p.tensor->contiguous().cpu();
    writer.append(on_host.data_ptr(), on_host.nbytes());
  }
  writer.finish();
  const std::string text = read_file(folder.path() / "model.safetensors");
  const std::string block = "model.layers.1.block_sparse_moe.";
  for (const char* name : {"gate.weight", "experts.4.w1.qweight", "experts.4.w2.g_idx",
                           "experts.0.w3.scales", "experts.0.w3.qzeros"})
    EXPECT_THAT(text, HasSubstr("\"" + block + name + "\""));
  auto read = make_causal_lm(quantized_expert_config("mixtral"), torch::kFloat32, test_device());
  load_weights(*read, folder.path().string());
  const torch::Tensor ids = torch::arange(24, torch::kInt64).view({2, 12}).to(test_device());
  EXPECT_TRUE(torch::equal(read->logits(ids), saved->logits(ids)));
}

INSTANTIATE_TEST_SUITE_P(Families, GptqExperts, testing::Values("mixtral", "qwen3_moe"),
                         [](const auto& tested) { return std::string(tested.param); });

// --- files ---------------------------------------------------------------------------------------

std::string error_of(const Json& config, const std::filesystem::path& folder = golden_folder()) {
  const auto model = make_causal_lm(config, torch::kFloat32, test_device());
  return message_of<InputError>([&] { load_weights(*model, folder.string()); });
}

TEST(LoadGptq, BitsThatAreNotTheFilesAreNamed) {
  EXPECT_THAT(error_of(with_quantization({{"bits", 8}})),
              AllOf(HasSubstr("model.layers.0.self_attn.q_proj: has codes of 4 bits; expected "
                              "quantization_config.bits 8 of config.json"),
                    HasSubstr("q_proj.qweight: has shape [8, 64]; expected [16, 64]")));
}

TEST(LoadGptq, GroupSizesThatAreNotTheFilesAreNamed) {
  EXPECT_THAT(error_of(with_quantization({{"group_size", 16}})),
              AllOf(HasSubstr("model.layers.0.self_attn.q_proj: has its 64 features in 2 groups, "
                              "not 4; expected quantization_config.group_size 16 of config.json"),
                    HasSubstr("q_proj.scales: has shape [2, 64]; expected [4, 64]")));
}

TEST(LoadGptq, DenseModelsAndQuantizedFilesMissEachOther) {
  Json dense = golden_config();
  dense.erase("quantization_config");
  EXPECT_THAT(error_of(dense),
              AllOf(HasSubstr("model.layers.1.mlp.up_proj.weight: missing tensor"),
                    HasSubstr("model.layers.1.mlp.up_proj.qweight: unexpected tensor")));
}

// The golden file with bytes of one tensor replaced.
std::string error_with(const std::string& tensor, int32_t value) {
  std::string bytes = read_file(golden_folder() / "model.safetensors");
  for (const StoredTensor& stored : read_safetensors_header(bytes, "model.safetensors")) {
    if (stored.name == tensor)
      std::memcpy(bytes.data() + stored.offset_bytes, &value, sizeof value);
  }
  const TemporaryFolder folder;
  folder.write("model.safetensors", bytes);
  return error_of(golden_config(), folder.path());
}

TEST(LoadGptq, GroupsThatThereAreNotAreRefused) {
  const std::string name = "model.layers.1.mlp.down_proj.g_idx";
  EXPECT_THAT(error_with(name, 3), HasSubstr(name + ": holds groups 0 to 3; expected 0 to 2"));
  EXPECT_THAT(error_with(name, -1), HasSubstr(name + ": holds groups -1 to 2; expected 0 to 2"));
  EXPECT_EQ(error_with(name, 1), "");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
