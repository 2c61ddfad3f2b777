// Adapter folders written by peft (tests/reference/adapters.py), read and written here.
#include "sftbench/tuning/adapter_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "checkpoint/safetensors_builder.h"
#include "model/golden.h"
#include "sftbench/base/error.h"

namespace sftbench::testing {
namespace {

using ::testing::HasSubstr;

std::filesystem::path adapter_folder(const std::string& name) {
  return std::filesystem::path(SFTBENCH_TEST_DATA) / "adapters" / name;
}

struct Adapted {
  explicit Adapted(const std::string& name, const std::string& stage = "initial")
      : golden(read_json_file((adapter_folder(name) / "golden.json").string())) {
    const std::string base =
        std::string(SFTBENCH_TEST_DATA) + "/training/" + golden["model"].get<std::string>();
    model = make_causal_lm(read_json_file(base + "/config.json"), torch::kFloat32, test_device());
    load_weights(*model, base);
    tuning = read_adapter_config(adapter_folder(name) / stage);
    trained = tuning->apply(*model);
    load_adapter(adapter_folder(name) / stage, trained);
  }

  Json golden;
  std::unique_ptr<CausalLm> model;
  std::unique_ptr<Tuning> tuning;
  std::vector<NamedParameter> trained;
};

class PeftAdapter : public ::testing::TestWithParam<const char*> {};

TEST_P(PeftAdapter, GivesPeftsLogits) {
  Adapted adapted(GetParam());
  Tensors golden = read_tensors(adapter_folder(GetParam()) / "golden.safetensors");
  const torch::NoGradGuard no_grad;
  torch::Tensor logits = adapted.model->logits(golden.at("input_ids"));
  const torch::Tensor& expected = golden.at("logits");
  ASSERT_EQ(logits.sizes(), expected.sizes());
  EXPECT_LE(relative_difference(logits, expected), 1e-5);  // float32, in another order of sums
}

// What peft wrote, read and written again, is what peft wrote: names, shapes, dtypes and values.
TEST_P(PeftAdapter, IsWrittenAsPeftWritesIt) {
  Adapted adapted(GetParam());
  const TemporaryFolder temporary;
  // For adapters.py --check, which loads it with peft.
  const char* kept = std::getenv("SFTBENCH_KEEP_ADAPTERS");
  const std::filesystem::path folder =
      kept != nullptr ? std::filesystem::path(kept) / GetParam() : temporary.path() / "adapter";
  save_adapter(folder, *adapted.tuning, adapted.trained, "some/base");
  const Tensors found = read_tensors(folder / "adapter_model.safetensors");
  const Tensors expected =
      read_tensors(adapter_folder(GetParam()) / "initial" / "adapter_model.safetensors");
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_EQ(found.count(name), 1u) << name;
    EXPECT_EQ(found.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(torch::equal(found.at(name), tensor)) << name;
  }
  const Json written = read_json_file((folder / "adapter_config.json").string());
  const Json peft =
      read_json_file((adapter_folder(GetParam()) / "initial" / "adapter_config.json").string());
  EXPECT_EQ(written["base_model_name_or_path"], "some/base");
  for (const auto& [key, value] : written.items()) {
    if (key == "base_model_name_or_path" || key == "prompt_tuning_init") continue;
    EXPECT_EQ(value, peft.value(key, Json())) << key;
  }
  if (kept != nullptr) {
    std::filesystem::copy_file(adapter_folder(GetParam()) / "golden.safetensors",
                               folder / "golden.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, PeftAdapter,
                         ::testing::Values("llama-lora_qv", "llama-lora_all", "llama-prompt",
                                           "mistral-lora_qv", "mistral-lora_all", "mistral-prompt",
                                           "granite-lora_qv", "granite-lora_all", "granite-prompt"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A LoRA folder of peft's with one setting changed.
std::string error_of_config(const std::function<void(Json&)>& change) {
  Json config =
      read_json_file((adapter_folder("llama-lora_qv") / "initial/adapter_config.json").string());
  change(config);
  const TemporaryFolder folder;
  folder.write("adapter_config.json", config.dump());
  std::string message = "no error";
  try {
    read_adapter_config(folder.path());
  } catch (const std::exception& error) {
    message = error.what();
  }
  const std::string path = folder.path().string() + "/";
  for (size_t at = message.find(path); at != std::string::npos; at = message.find(path))
    message.erase(at, path.size());
  return message;
}

TEST(AdapterConfig, SettingsThatChangeTheArithmeticAreRefused) {
  EXPECT_EQ(
      error_of_config([](Json& config) {
        config["use_dora"] = true;
        config["rank_pattern"] = {{"q_proj", 8}};
      }),
      "adapter_config.json asks for rank_pattern {\"q_proj\":8}, use_dora true; plain LoRA on "
      "linears, with one rank and one alpha, is what there is");
}

TEST(AdapterConfig, WhatIsMissingOrMalformedIsListed) {
  EXPECT_EQ(error_of_config([](Json& config) {
              config.erase("r");
              config["lora_alpha"] = "16";
              config["target_modules"] = Json::array();
            }),
            "adapter_config.json: r: missing; expected an integer of at least 1\n"
            "adapter_config.json: lora_alpha: found \"16\"; expected a number\n"
            "adapter_config.json: target_modules: found []; expected a list of names, or "
            "all-linear");
  EXPECT_EQ(error_of_config([](Json& config) { config["peft_type"] = "IA3"; }),
            "adapter_config.json: peft_type: found \"IA3\"; expected LORA or PROMPT_TUNING");
  EXPECT_EQ(error_of_config([](Json& config) { config = Json::array(); }),
            "adapter_config.json: not an object; expected peft's settings");
}

TEST(LoadAdapter, TensorsThatDoNotFitAreAllListedAndNothingIsChanged) {
  const Adapted narrow("llama-lora_qv");
  TuningOptions options;
  options.lora.rank = 3;
  options.lora.target_modules = {"q_proj", "o_proj"};
  const std::string base = std::string(SFTBENCH_TEST_DATA) + "/training/llama";
  const auto model =
      make_causal_lm(read_json_file(base + "/config.json"), torch::kFloat32, torch::kCPU);
  const auto trained = make_tuning("lora", options)->apply(*model);
  const torch::Tensor before = trained[0].tensor->detach().clone();
  const std::string message = message_of<InputError>(
      [&] { load_adapter(adapter_folder("llama-lora_qv") / "initial", trained); });
  EXPECT_THAT(message,
              HasSubstr("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight: has shape "
                        "[4, 32]; expected shape [3, 32] in F32, BF16, F16 or F64"));
  EXPECT_THAT(message,
              HasSubstr("base_model.model.model.layers.2.self_attn.o_proj.lora_B.weight: missing "
                        "tensor; expected shape [32, 3]"));
  EXPECT_THAT(
      message,
      HasSubstr("base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight: unexpected "
                "tensor that the adapters have no place for"));
  EXPECT_TRUE(torch::equal(*trained[0].tensor, before));
}

}  // namespace
}  // namespace sftbench::testing
