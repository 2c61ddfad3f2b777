// Adapters added to their base against peft's merge_and_unload (tests/reference/merged.py), and what is refused.
#include "sftbench/checkpoint/merge_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "checkpoint/folder_fixture.h"
#include "checkpoint/half.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/checkpoint/checkpoint.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kReference = SFTBENCH_TEST_DATA;

std::map<std::string, std::vector<float>> values_in(const std::vector<CheckpointShard>& shards) {
  std::map<std::string, std::vector<float>> all;
  for (const CheckpointShard& shard : shards) {
    for (const StoredTensor& tensor : shard.tensors) {
      std::vector<float>& values = all[tensor.name];
      values.resize(static_cast<size_t>(tensor.numel()));
      if (tensor.dtype == StoredDtype::kF32) {
        shard.read(tensor, 0, values.data(), tensor.size_bytes);
        continue;
      }
      std::vector<uint16_t> halves(values.size());
      shard.read(tensor, 0, halves.data(), tensor.size_bytes);
      std::transform(halves.begin(), halves.end(), values.begin(), from_bfloat16);
    }
  }
  return all;
}

struct MergeCase {
  const char* name;
  const char* base;
  const char* adapter;
  float tolerance;  // relative to the largest value: one rounding
};

void PrintTo(const MergeCase& one, std::ostream* out) {
  *out << one.name;
}

class MergedAsInPeft : public FolderTest, public testing::WithParamInterface<MergeCase> {};

TEST_P(MergedAsInPeft, TensorByTensor) {
  const fs::path base = kReference + "/" + GetParam().base;
  const fs::path output = root_ / "merged";
  const MergeSummary summary =
      merge_adapter({kReference + "/" + GetParam().adapter, base, output, 3, {}});
  const auto ours = values_in(open_checkpoint(output));
  const auto before = values_in(open_checkpoint(base));
  std::vector<CheckpointShard> golden;
  golden.push_back(open_safetensors(kReference + "/merged/" + GetParam().name + ".safetensors"));
  const auto theirs = values_in(golden);
  EXPECT_EQ(summary.adapted + summary.replaced, static_cast<int64_t>(theirs.size()));
  ASSERT_EQ(ours.size(), before.size());
  for (const auto& [name, values] : ours) {
    const auto changed = theirs.find(name);
    if (changed == theirs.end()) {
      EXPECT_EQ(values, before.at(name)) << name << " is as it was";
      continue;
    }
    ASSERT_EQ(values.size(), changed->second.size()) << name;
    float worst = 0, largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      worst = std::max(worst, std::abs(values[i] - changed->second[i]));
      largest = std::max(largest, std::abs(values[i]));
    }
    EXPECT_LE(worst, GetParam().tolerance * largest) << name;
  }
  EXPECT_EQ(read_file(output / "config.json"), read_file(base / "config.json"));
  EXPECT_FALSE(fs::exists(output / "adapter_config.json"));
}

INSTANTIATE_TEST_SUITE_P(
    , MergedAsInPeft,
    testing::Values(
        MergeCase{"llama-lora_qv", "training/llama", "adapters/llama-lora_qv/final", 3e-7F},
        MergeCase{"granite-lora_all", "training/granite", "adapters/granite-lora_all/final", 3e-7F},
        MergeCase{"gpt_bigcode-lora_attn", "training/gpt_bigcode",
                  "adapters/gpt_bigcode-lora_attn/final", 3e-7F},
        MergeCase{"bloom-lora_mlp", "training/bloom", "adapters/bloom-lora_mlp/final", 3e-7F},
        MergeCase{"granitemoehybrid-lora_all", "training/granitemoehybrid",
                  "adapters/granitemoehybrid-lora_all/final", 3e-7F},
        MergeCase{"mistral-patterns", "training/mistral", "merged/mistral-patterns", 3e-7F},
        MergeCase{"llama-lora_all-bfloat16", "merged/llama-bfloat16",
                  "adapters/llama-lora_all-bfloat16/final", 0.004F}),
    [](const auto& one) {
      std::string name = one.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(HalfTest, EveryFloat16IsItselfAgainAndRoundingIsToTheNearestEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (std::isnan(from_float16(half))) continue;
    EXPECT_EQ(to_float16(from_float16(half)), half) << bits;
    if (std::isnan(from_bfloat16(half))) continue;
    EXPECT_EQ(to_bfloat16(from_bfloat16(half)), half) << bits;
  }
  EXPECT_EQ(to_float16(2049), to_float16(2048)) << "a tie goes to the even one";
  EXPECT_EQ(to_float16(2051), to_float16(2052));
  EXPECT_EQ(from_float16(to_float16(65519)), 65504);
  EXPECT_TRUE(std::isinf(from_float16(to_float16(65520))));
  EXPECT_EQ(from_float16(to_float16(std::ldexp(1.5F, -24))), std::ldexp(2.0F, -24));
  EXPECT_EQ(from_bfloat16(to_bfloat16(257)), 256);
  EXPECT_TRUE(std::isnan(from_float16(to_float16(NAN))));
}

// --- what is refused -----------------------------------------------------------------------------

class MergeRefusal : public FolderTest {
 protected:
  MergeRefusal() {
    fs::create_directories(adapter_);
    for (const char* file : {"adapter_config.json", "adapter_model.safetensors"}) {
      fs::copy_file(kReference + "/adapters/llama-lora_qv/final/" + file, adapter_ / file);
    }
  }

  void set(const char* key, const Json& value) const {
    Json config = read_json_file((adapter_ / "adapter_config.json").string());
    config[key] = value;
    std::ofstream(adapter_ / "adapter_config.json") << config;
  }

  std::string refusal(const std::string& base = "training/llama") const {
    try {
      merge_adapter({adapter_, kReference + "/" + base, root_ / "out", 1, {}});
      return "merged";
    } catch (const InputError& error) {
      EXPECT_FALSE(fs::exists(root_ / "out" / "config.json")) << "nothing is left";
      return error.what();
    }
  }

  fs::path adapter_ = root_ / "adapter";
};

TEST_F(MergeRefusal, OtherAdapters) {
  EXPECT_EQ(refusal(), "merged");
  fs::remove_all(root_ / "out");
  set("use_dora", true);
  EXPECT_THAT(refusal(), HasSubstr("adapter_config.json: use_dora: merging such an adapter is not "
                                   "done here; expected plain LoRA"));
  set("use_dora", false);
  set("bias", "all");
  EXPECT_THAT(refusal(), HasSubstr("bias: found 'all'; expected none"));
  set("bias", "none");
  set("lora_alpha", "16");
  EXPECT_THAT(refusal(), HasSubstr("lora_alpha: is no number"));
  set("lora_alpha", 16);
  set("alpha_pattern", {{"(q_proj", 3}});
  EXPECT_THAT(refusal(), HasSubstr("alpha_pattern.(q_proj: is no regular expression"));
  set("alpha_pattern", nullptr);
  set("peft_type", "PROMPT_TUNING");
  EXPECT_THAT(refusal(),
              HasSubstr("peft_type: found \"PROMPT_TUNING\", which has nothing to merge; "
                        "expected LORA"));
}

TEST_F(MergeRefusal, OtherBases) {
  EXPECT_THAT(refusal("training/bloom"),
              HasSubstr("model.layers.0.self_attn.q_proj: adapts a linear that the base does not "
                        "have; expected the base that it was trained on"));
  EXPECT_THAT(refusal("training/qwen3"), HasSubstr("expected the base that it was trained on"));
  EXPECT_THAT(refusal("gptq/llama"), HasSubstr("config.json: quantization_config: the base is "
                                               "quantized (gptq)"));
  EXPECT_THAT(refusal("tokenizers"), HasSubstr("config.json"));
}

TEST_F(MergeRefusal, AFolderThatHoldsSomethingStays) {
  fs::create_directories(root_ / "out");
  std::ofstream(root_ / "out" / "mine.txt") << "mine";
  EXPECT_THAT(refusal(),
              HasSubstr("out: is there already; expected a new folder, or an empty one"));
  EXPECT_EQ(read_file(root_ / "out" / "mine.txt"), "mine");
}

TEST_F(MergeRefusal, DamagedFiles) {
  fs::resize_file(adapter_ / "adapter_model.safetensors", 100);
  EXPECT_THAT(refusal(), HasSubstr("adapter_model.safetensors"));
  fs::remove(adapter_ / "adapter_model.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("adapter_model.safetensors"));
  fs::remove(adapter_ / "adapter_config.json");
  EXPECT_THAT(refusal(), HasSubstr("adapter_config.json"));
}

}  // namespace
}  // namespace sftbench
