// Kernels that files of other programs ask for, and the stack by which such a file is predicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/own_training_fixture.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kTrl = "model_name_or_path: llama3.1-8b\nuse_peft: false\nmax_length: 2048\n";
constexpr const char* kFactory =
    "model_name_or_path: llama3.1-8b\nfinetuning_type: lora\ncutoff_len: 2048\n";
constexpr const char* kAxolotl =
    "base_model: llama3.1-8b\nsequence_len: 2048\nadapter: lora\nbf16: true\n";
constexpr const char* kLigerPlugin = "plugins: [axolotl.integrations.liger.LigerPlugin]\n";
constexpr const char* kCutPlugin =
    "plugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]\n";

class ForeignKernelsTest : public OwnTrainingTest {
 protected:
  ProgramResult predicted(const std::string& text, std::vector<std::string> more = {}) const {
    write("arguments.yaml", text + "num_processes: 1\n");
    std::string texts;
    for (int i = 0; i < 64; ++i) texts += "{\"text\": \"a\"}\n";
    write("texts.jsonl", texts);
    more.insert(more.begin(),
                {"--arguments", "arguments.yaml", "--set", "gpu_model=NVIDIA-H100-80GB-HBM3",
                 "--data", "texts.jsonl", "--text-field", "text", "--padding", "max_length"});
    return program(more, "predict");
  }
  Json prediction(const std::string& text, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--format", "json"});
    const ProgramResult result = predicted(text, more);
    if (result.status != 0 && result.status != 3) throw std::runtime_error(result.err);
    return Json::parse(result.out);
  }
  double logits(const std::string& text, const std::vector<std::string>& more = {}) const {
    return prediction(text, more)["memory_bytes"]["logits"].get<double>();
  }
  Json kernels(const std::string& text) const {
    write("arguments.yaml", "training_data_path: pairs.json\n" + text);
    return job({"--arguments", "arguments.yaml", "--weights", "random"})["inputs"]["fast_kernels"];
  }
};

// Its fused linear cross-entropy never holds all logits: 0.5 bytes of each, where the loss of
// transformers holds 12.
TEST_F(ForeignKernelsTest, LigersLossHoldsNoLogits) {
  for (const auto& [file, liger] :
       {std::pair<std::string, std::string>{kFactory, "enable_liger_kernel: true\n"},
        {kAxolotl, std::string(kLigerPlugin) + "liger_fused_linear_cross_entropy: true\n"},
        {kAxolotl, kCutPlugin},
        {kAxolotl, std::string(kCutPlugin) + "cut_cross_entropy: true\n"}}) {
    EXPECT_EQ(prediction(file + liger)["stack"], "transformers-liger") << liger;
    EXPECT_EQ(prediction(file)["stack"], "transformers") << file;
    EXPECT_DOUBLE_EQ(logits(file) / logits(file + liger), 24) << liger;
  }
  EXPECT_EQ(prediction(std::string(kTrl) + "use_liger_kernel: true\n",
                       {"--stack", "transformers"})["stack"],
            "transformers-liger")
      << "with what the file asks of it";
}

// From 1.15 on trl leaves the loss to no kernel of Liger. An older one is asked for by name.
TEST_F(ForeignKernelsTest, TrlHoldsATileOfLogits) {
  const std::string liger = std::string(kTrl) + "use_liger_kernel: true\n";
  EXPECT_EQ(prediction(kTrl)["stack"], "transformers-trl");
  EXPECT_EQ(prediction(liger)["stack"], "transformers-trl");
  EXPECT_LT(logits(kTrl), 0.3 * logits(kTrl, {"--stack", "transformers"}));
  EXPECT_THAT(predicted(kTrl).out, HasSubstr("a tile of logits, as in trl 1.15 and newer"));
  EXPECT_THAT(predicted(kTrl).err,
              HasSubstr("--stack transformers a trl before 1.15, which holds all logits"));
  EXPECT_EQ(prediction(liger, {"--stack", "transformers"})["stack"], "transformers-liger")
      << "with what the file asks of it";
}

TEST_F(ForeignKernelsTest, AnotherLossGoesWithQuantizedWeightsAndDeepspeed) {
  const std::string factory = std::string(kFactory) + "enable_liger_kernel: true\n";
  const std::string trl = "model_name_or_path: llama3.1-8b\nuse_peft: true\nmax_length: 2048\n";
  const std::string zero = "deepspeed: {zero_optimization: {stage: 2}}\n";
  EXPECT_EQ(prediction(trl + "load_in_4bit: true\n")["stack"], "transformers-bitsandbytes-trl");
  EXPECT_EQ(prediction(factory + "quantization_bit: 4\n")["stack"],
            "transformers-bitsandbytes-liger");
  const ProgramResult eight = predicted(trl + "load_in_8bit: true\n");
  EXPECT_THAT(eight.out, AllOf(HasSubstr("lora-8bit"), HasSubstr("over 8-bit weights"),
                               HasSubstr("transformers-bitsandbytes-8bit-trl")));
  EXPECT_EQ(prediction(trl + zero)["stack"], "deepspeed-trl");
  EXPECT_EQ(prediction(factory + zero)["stack"], "deepspeed-liger");
  EXPECT_THAT(predicted(trl, {"--stack", "sftbench"}).out,
              HasSubstr("trained by sftbench (--stack)"));
}

// The cheapest step, and the keys that turn it on.
TEST_F(ForeignKernelsTest, LessMemoryNamesLigersLoss) {
  const std::string file = std::string(kFactory) + "per_device_train_batch_size: 32\n";
  const Json found = prediction(file);
  const auto names_liger = [](const Json& one) { return one["changes"].contains("stack"); };
  const Json& all = found["less_memory"];
  const auto liger = std::find_if(all.begin(), all.end(), names_liger);
  ASSERT_NE(liger, all.end());
  EXPECT_EQ((*liger)["changes"], Json({{"stack", "transformers-liger"}}));
  EXPECT_THAT(predicted(file).out, AllOf(HasSubstr("--stack transformers-liger"),
                                         HasSubstr("LLaMA-Factory: enable_liger_kernel: true")));
  EXPECT_DOUBLE_EQ((*liger)["memory_bytes"],
                   prediction(file, {"--stack", "transformers-liger"})["memory_bytes"]["needed"]);
  const Json of_trl = prediction(
      "model_name_or_path: llama3.1-8b\nuse_peft: true\nmax_length: 2048\n"
      "per_device_train_batch_size: 64\n")["less_memory"];
  EXPECT_FALSE(of_trl.empty());
  EXPECT_EQ(std::find_if(of_trl.begin(), of_trl.end(), names_liger), of_trl.end());
}

// axolotl's plugin replaces what is named. Trainer's configuration leaves out what it names.
TEST_F(ForeignKernelsTest, WhatIsNamedIsReplaced) {
  const std::string axolotl = "base_model: my-llama\nsequence_len: 64\n";
  EXPECT_EQ(kernels(axolotl + kLigerPlugin + "liger_rope: true\nliger_rms_norm: true\n"),
            Json({"False", "True", "True"}));
  EXPECT_EQ(kernels(axolotl + kLigerPlugin + "liger_cross_entropy: true\n"),
            Json({"True", "False", "False"}));
  EXPECT_EQ(prediction(std::string(kAxolotl) + kLigerPlugin +
                       "liger_rope: true\nliger_cross_entropy: true\n")["stack"],
            "transformers")
      << "a fused loss over whole logits";
  EXPECT_EQ(kernels(axolotl + kCutPlugin), Json({"True", "False", "False"}));
  EXPECT_EQ(kernels(axolotl + kLigerPlugin), Json());
  EXPECT_EQ(kernels(axolotl + kCutPlugin + "cut_cross_entropy: false\n"), Json());
  const std::string trainer = "model_name_or_path: my-llama\nuse_liger_kernel: true\n";
  EXPECT_EQ(kernels(trainer), Json({"True", "True", "True"}));
  EXPECT_EQ(kernels(trainer + "liger_kernel_config: {rope: false, swiglu: true}\n"),
            Json({"True", "True", "False"}));
  EXPECT_EQ(kernels(trainer + "liger_kernel_config: '{\"fused_linear_cross_entropy\": false}'\n"),
            Json({"False", "True", "True"}));
  EXPECT_EQ(kernels("model_name_or_path: my-llama\nuse_liger_kernel: false\n"), Json());
}

TEST_F(ForeignKernelsTest, WhatHasNoEffectIsSaid) {
  EXPECT_THAT(
      predicted(std::string(kAxolotl) + "liger_rms_norm: true\ncut_cross_entropy: true\n").err,
      HasSubstr("no effect without use_liger_kernel: true, or axolotl's plugin of these "
                "kernels: arguments.yaml:6: cut_cross_entropy, arguments.yaml:5: "
                "liger_rms_norm"));
  EXPECT_THAT(predicted(std::string(kAxolotl) + kLigerPlugin).err,
              HasSubstr("arguments.yaml:5: plugins: LigerPlugin replaces what is named"));
  EXPECT_THAT(predicted(std::string(kAxolotl) + kLigerPlugin + "liger_glu_activation: true\n").err,
              HasSubstr("no effect here: liger_glu_activation"));
  EXPECT_THAT(refusal_of_file("base_model: my-llama\nplugins: [a.SpectrumPlugin]\n"),
              HasSubstr("plugins: found 'a.SpectrumPlugin', which has no equal here; expected "
                        "LigerPlugin or CutCrossEntropyPlugin of axolotl.integrations"));
  EXPECT_THAT(refusal_of_file("model_name_or_path: my-llama\ntraining_data_path: pairs.json\n"
                              "use_liger_kernel: true\nfast_kernels: [true, false, false]\n"),
              HasSubstr("arguments.yaml:3: use_liger_kernel: says what arguments.yaml:4: "
                        "fast_kernels says, too; expected one of them"));
}

TEST_F(ForeignKernelsTest, TheAssumedKernelsAreNamed) {
  const auto assumed = [this](const std::string& text) {
    const ProgramResult result = predicted(text);
    std::string words;
    for (const char c : result.out) {
      const bool blank = c == ' ' || c == '\n';
      if (!blank || !words.ends_with(' ')) words += blank ? ' ' : c;
    }
    return words;
  };
  EXPECT_THAT(assumed(std::string(kAxolotl) + kCutPlugin),
              HasSubstr("with fused kernels for loss (--set "
                        "fast_kernels='[\"False\",\"False\",\"False\"]')"));
  EXPECT_THAT(assumed(kTrl), HasSubstr("without fused kernels for loss, norms and positions (--set "
                                       "fast_kernels='[\"True\",\"True\",\"True\"]')"));
}

// --- whose file it is ----------------------------------------------------------------------------

TEST_F(ForeignKernelsTest, TrlsFilesAreTrainedByTransformers) {
  for (const char* key : {"use_peft: true", "use_bnb_nested_quant: false",
                          "assistant_only_loss: true", "dataset_test_split: validation"}) {
    const ProgramResult result =
        predicted("model_name_or_path: llama3.1-8b\nper_device_train_batch_size: 1\n" +
                  std::string(key) + "\n");
    EXPECT_THAT(result.out, HasSubstr("trained by transformers-trl (--stack)")) << key;
    EXPECT_THAT(result.err, HasSubstr("trl trains by transformers: --stack sftbench predicts this "
                                      "program instead"))
        << key;
  }
  EXPECT_EQ(prediction(kTrl, {"--stack", "sftbench"})["stack"], "sftbench");
  EXPECT_THAT(predicted(std::string(kFactory) + "use_peft: true\n").err,
              HasSubstr("LLaMA-Factory trains by transformers"));
}

TEST_F(ForeignKernelsTest, AFileOfNoProgramSaysWhatIsAssumed) {
  const std::string file = "model_name_or_path: llama3.1-8b\nper_device_train_batch_size: 1\n";
  EXPECT_THAT(predicted(file).err,
              HasSubstr("nothing tells whose file arguments.yaml is: sftbench is predicted, and "
                        "--stack transformers is another program"));
  EXPECT_THAT(predicted(file, {"--stack", "transformers"}).err, Not(HasSubstr("whose file")));
}

TEST_F(ForeignKernelsTest, WhatTrlsFilesLeaveOutIsTrlsDefault) {
  write("arguments.yaml",
        "model_name_or_path: llama3.1-8b\nuse_peft: true\ntraining_data_path: texts.jsonl\n");
  write("texts.jsonl", "{\"text\": \"a\", \"output\": \"b\"}\n");
  const Json job = this->job({"--arguments", "arguments.yaml", "--weights", "random"});
  EXPECT_EQ(job["data"]["text_field"], "text");
  EXPECT_EQ(job["batches"]["per_device_batch_size"], 8);
  EXPECT_EQ(job["precision"]["torch_dtype"], "float32");
  EXPECT_EQ(job["precision"]["autocast"], "bf16");
  EXPECT_EQ(job["lora"]["rank"], 16);
  EXPECT_EQ(job["lora"]["alpha"], 32);
  EXPECT_EQ(job["batches"]["gradient_accumulation_steps"], 1);
  EXPECT_EQ(job["data"]["model_max_length"], 1024);
}

TEST_F(ForeignKernelsTest, EightBitsHaveLlamaFactorysAdapters) {
  EXPECT_THAT(predicted(std::string(kFactory) + "quantization_bit: 8\n").out,
              HasSubstr("LoRA of rank 8 on all-linear over 8-bit weights"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
