// Models whose linears are in NF4: random weights beside the dense initializer's, checkpoints that
// are quantized while they are read, and those of bitsandbytes (tests/reference/nf4.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors_builder.h"
#include "model/golden.h"
#include "model/nf4_linear.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

std::filesystem::path saved_folder() {
  return std::filesystem::path(SFTBENCH_TEST_DATA) / "nf4/saved";
}

Json saved_config() {
  return read_json_file((saved_folder() / "config.json").string());
}

Json dense_config() {
  Json config = saved_config();
  config.erase("quantization_config");
  return config;
}

std::unique_ptr<CausalLm> random_model(const Json& config, uint64_t seed = 1) {
  auto model = make_causal_lm(config, torch::kFloat32, test_device());
  initialize_randomly(*model, seed);
  return model;
}

Nf4Linear& nf4_of(const NamedLinear& linear) {
  return dynamic_cast<Nf4Linear&>(**linear.slot);
}

TEST(RandomNf4, IsTheDenseInitializationQuantized) {
  const auto model = random_model(saved_config()), dense = random_model(dense_config());
  Tensors weights;
  for (const NamedParameter& p : dense->parameters()) weights[p.name] = *p.tensor;
  ASSERT_EQ(model->linears().size(), 7u);
  for (const NamedLinear& linear : model->linears()) {
    ops::Nf4Weight& found = nf4_of(linear).weight();
    ops::Nf4Weight expected = ops::empty_nf4(found.out, found.in, true, test_device());
    ops::nf4_quantize(weights.at(linear.name + ".weight").cpu(), expected);
    EXPECT_TRUE(torch::equal(found.codes, expected.codes)) << linear.name;
    EXPECT_TRUE(torch::equal(found.absmax, expected.absmax)) << linear.name;
  }
}

TEST(Nf4Model, CountsTheWeightsThatCodesStandFor) {
  const auto model = random_model(saved_config()), dense = random_model(dense_config());
  int64_t found = 0, expected = 0;
  for (const NamedParameter& p : model->parameters()) found += p.weight_count();
  for (const NamedParameter& p : dense->parameters()) expected += p.weight_count();
  EXPECT_EQ(found, expected);
}

TEST(LoadNf4, FilesOfBitsandbytesHaveItsLogits) {
  const auto model = make_causal_lm(saved_config(), torch::kFloat32, test_device());
  load_weights(*model, saved_folder().string());
  const Tensors golden = read_tensors(saved_folder() / "golden.safetensors");
  const torch::Tensor found = model->logits({golden.at("input_ids")});
  EXPECT_LE(rms_difference(found, golden.at("logits")), 1e-6);
}

std::string error_of(const std::filesystem::path& folder, const Json& config = saved_config()) {
  const auto model = make_causal_lm(config, torch::kFloat32, test_device());
  return message_of<InputError>([&] { load_weights(*model, folder.string()); });
}

// The golden file with a text in it replaced by one as long.
std::string error_with(const std::string& from, const std::string& to) {
  std::string bytes = read_file(saved_folder() / "model.safetensors");
  size_t found = 0;
  for (size_t at = bytes.find(from); at != std::string::npos; at = bytes.find(from, at + 1)) {
    bytes.replace(at, from.size(), to);
    ++found;
  }
  EXPECT_GT(found, 0u);
  const TemporaryFolder folder;
  folder.write("model.safetensors", bytes);
  return error_of(folder.path());
}

TEST(LoadNf4, OtherFormsOfBitsandbytesAreRefused) {
  EXPECT_THAT(error_with("\"nf4\"", "\"fp4\""), HasSubstr("is no state of NF4 that is read here"));
  EXPECT_THAT(error_with("nested_blocksize\": 256", "nested_blocksize\": 128"),
              HasSubstr("is no state of NF4 that is read here"));
  EXPECT_THAT(error_with("up_proj.weight.absmax", "up_proj.weight.abs_ax"),
              HasSubstr("up_proj.weight: is U8 of shape"));
}

// Of an earlier saving, beside a weight that is dense again.
TEST(LoadNf4, MagnitudesBesideADenseWeightAreLeftOut) {
  const auto model = random_model(saved_config()), dense = random_model(dense_config());
  std::string header, data;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor, const char* dtype) {
    std::string shape;
    for (const int64_t size : tensor.sizes())
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    const size_t begin = data.size();
    data.append(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
    header += (header.empty() ? "{" : ",") +
              entry(name, dtype, "[" + shape + "]",
                    "[" + std::to_string(begin) + "," + std::to_string(data.size()) + "]");
  };
  for (const NamedParameter& p : dense->parameters())
    add(p.name, p.tensor->cpu().contiguous(), "F32");
  add("model.layers.0.mlp.up_proj.weight.absmax", torch::zeros({3}, torch::kUInt8), "U8");
  header += "}";
  const TemporaryFolder folder;
  folder.write("model.safetensors", length_field(header.size()) + header + data);
  auto loaded = make_causal_lm(saved_config(), torch::kFloat32, test_device());
  load_weights(*loaded, folder.path().string());
  for (size_t i = 0; i < model->linears().size(); ++i) {
    EXPECT_TRUE(torch::equal(nf4_of(loaded->linears()[i]).weight().codes,
                             nf4_of(model->linears()[i]).weight().codes));
  }
}

TEST(LoadNf4, SingleAndDoubleQuantizationMissEachOther) {
  Json config = saved_config();
  config["quantization_config"]["bnb_4bit_use_double_quant"] = false;
  EXPECT_THAT(error_of(saved_folder(), config),
              HasSubstr("NF4 as bitsandbytes saves it without double quantization"));
}

TEST(LoadNf4, DenseModelsDoNotTakeCodes) {
  EXPECT_THAT(error_of(saved_folder(), dense_config()),
              HasSubstr("down_proj.weight: has shape [2048, 1]; expected [64, 64]"));
}

TEST(LoadNf4, OtherFormsAreRefusedByConfig) {
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, Json>>{{"load_in_4bit", false},
                                                 {"bnb_4bit_quant_type", "fp4"},
                                                 {"bnb_4bit_quant_storage", "bfloat16"}}) {
    Json config = saved_config();
    config["quantization_config"][key] = value;
    EXPECT_THAT(message_of<InputError>([&] { parse_model_config(config); }), HasSubstr(key));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
