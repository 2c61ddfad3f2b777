// Adapters added to their base against peft's merge_and_unload (tests/reference/merged.py), and
// what is refused.
#include "sftbench/checkpoint/merge_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include "checkpoint/folder_fixture.h"
#include "checkpoint/half.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/checkpoint/safetensors_writer.h"

namespace sftbench {
namespace SFTBENCH_FILE {

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

// Copies a folder whose one file of weights gets tensors of other names.
template <typename Rename>
void copy_renamed(const fs::path& from, const fs::path& to, const char* file,
                  const Rename& rename) {
  fs::copy(from, to);
  fs::remove(to / file);
  const CheckpointShard shard = open_safetensors(from / file);
  std::vector<TensorHeader> headers;
  for (const StoredTensor& tensor : shard.tensors)
    headers.push_back({rename(tensor.name), tensor.dtype, tensor.shape});
  SafetensorsWriter writer(to / file, headers);
  for (const StoredTensor& tensor : shard.tensors) {
    std::vector<char> bytes(tensor.size_bytes);
    shard.read(tensor, 0, bytes.data(), bytes.size());
    writer.append(bytes.data(), bytes.size());
  }
  writer.finish();
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
        MergeCase{"gpt2", "merged/gpt2", "merged/gpt2-adapter", 3e-7F},
        MergeCase{"gpt2-dora", "merged/gpt2", "merged/gpt2-dora", 3e-7F},
        MergeCase{"mistral-patterns", "training/mistral", "merged/mistral-patterns", 3e-7F},
        MergeCase{"llama-lora_all-bfloat16", "merged/llama-bfloat16",
                  "adapters/llama-lora_all-bfloat16/final", 0.004F}),
    [](const auto& one) {
      std::string name = one.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

class MergedTextPart : public FolderTest {};

// Files of a text model beside a vision tower have names that its modules have not.
TEST_F(MergedTextPart, IsAdaptedUnderTheNamesOfItsFiles) {
  const std::string base = kReference + "/training/llama",
                    adapter = kReference + "/adapters/llama-lora_qv/final",
                    in_front = "base_model.model.model.";
  copy_renamed(base, root_ / "base", "model.safetensors",
               [](const std::string& name) { return "language_model." + name; });
  copy_renamed(adapter, root_ / "adapter", "adapter_model.safetensors",
               [&](const std::string& name) {
                 return in_front + "language_model." + name.substr(in_front.size());
               });
  merge_adapter({adapter, base, root_ / "plain", 1, {}});
  const MergeSummary summary =
      merge_adapter({root_ / "adapter", root_ / "base", root_ / "beside", 1, {}});
  EXPECT_GT(summary.adapted, 0);
  std::map<std::string, std::vector<float>> expected;
  for (const auto& [name, values] : values_in(open_checkpoint(root_ / "plain")))
    expected["language_model." + name] = values;
  EXPECT_EQ(values_in(open_checkpoint(root_ / "beside")), expected);
}

class MergedCard : public FolderTest {};

// A checkpoint has the state of its run, and an output folder what others have put there.
TEST_F(MergedCard, OfAnAdapterOnlyTokenizerAndProcessorGoWithTheModel) {
  const fs::path adapter = root_ / "adapter";
  fs::copy(kReference + "/adapters/llama-lora_qv/final", adapter);
  for (const char* name : {"trainer_state.json", "optimizer_pieces.json", "training_logs.jsonl",
                           "notes.txt", "tokenizer.json", "chat_template.jinja"})
    std::ofstream(adapter / name) << "{}";
  const MergeSummary summary =
      merge_adapter({adapter, kReference + "/training/llama", root_ / "merged", 1, {}});
  EXPECT_EQ(summary.copied,
            (std::vector<std::string>{"chat_template.jinja", "config.json", "tokenizer.json"}));
  EXPECT_THAT(read_file(root_ / "merged/README.md"), testing::Not(HasSubstr("tags:\n---")));
}

TEST_F(MergedCard, TellsOfTheMergeAndIsNoCopy) {
  const fs::path base = root_ / "hub/models--org--base/snapshots/0a1b";
  fs::create_directories(base);
  fs::copy(kReference + "/training/llama", base);
  std::ofstream(base / "README.md") << "---\nlicense: other\n---\nof the base\n";
  const fs::path adapter = root_ / "adapter";
  fs::copy(kReference + "/adapters/llama-lora_qv/final", adapter);
  std::ofstream(adapter / "README.md") << "---\nlibrary_name: peft\n---\nof the adapter\n";
  const MergeSummary summary = merge_adapter({adapter, base, root_ / "merged", 1, {}});
  const std::string card = read_file(root_ / "merged/README.md");
  EXPECT_THAT(card, HasSubstr("\nlibrary_name: transformers\npipeline_tag: text-generation\n"));
  EXPECT_THAT(card, HasSubstr("\nbase_model: \"org/base\"\n"));
  EXPECT_THAT(card, HasSubstr("- Method: `LoRA, merged: r 4, lora_alpha 16`\n"));
  EXPECT_THAT(card, HasSubstr("- Adapted linears: `" + std::to_string(summary.adapted) + "`\n"));
  EXPECT_EQ(card.find("of the base\n"), std::string::npos);
  EXPECT_EQ(card.find("of the adapter"), std::string::npos);
  merge_adapter({adapter, base, root_ / "again", 3, {}});
  EXPECT_EQ(read_file(root_ / "again/README.md"), card);
}

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
  set("use_qalora", true);
  EXPECT_THAT(refusal(),
              HasSubstr("adapter_config.json: use_qalora: merging such an adapter is not "
                        "done here; expected plain LoRA"));
  set("use_qalora", false);
  set("use_dora", true);
  EXPECT_THAT(refusal(), HasSubstr("has no lora_magnitude_vector; expected use_dora false in "
                                   "adapter_config.json, or the file that it describes"));
  set("use_dora", false);
  set("bias", "all");
  EXPECT_THAT(refusal(), HasSubstr("bias: found \"all\"; expected \"none\""));
  set("bias", "none");
  set("lora_alpha", "16");
  EXPECT_THAT(refusal(), HasSubstr("lora_alpha: found \"16\"; expected a finite number"));
  set("lora_alpha", 16);
  set("alpha_pattern", {{"(q_proj", 3}});
  EXPECT_THAT(refusal(), HasSubstr("alpha_pattern.(q_proj: is no regular expression"));
  set("alpha_pattern", nullptr);
  set("rank_pattern", {{"nothing", 1}});
  EXPECT_EQ(refusal(), "merged");
  fs::remove_all(root_ / "out");
  set("peft_type", "PROMPT_TUNING");
  EXPECT_THAT(refusal(),
              HasSubstr("peft_type: found \"PROMPT_TUNING\", which has nothing to merge; "
                        "expected LORA"));
}

// One key of adapter_config.json, and what is said about it.
struct WrongSetting {
  const char* key;
  const char* value;
  std::string finding;
};

TEST_F(MergeRefusal, AdaptersThatWouldBeMergedWrong) {
  const std::string rank =
      "found 8, and model.layers.0.self_attn.q_proj has rank 4; expected the "
      "adapter_config.json of these tensors";
  const Json right = read_json_file((adapter_ / "adapter_config.json").string());
  ASSERT_EQ(right.at("r"), 4);
  for (const WrongSetting& wrong : std::vector<WrongSetting>{
           {"alora_invocation_tokens", "[1,2]", "acts behind these tokens only (aLoRA)"},
           {"alora_invocation_tokens", "[]", "acts behind these tokens only (aLoRA)"},
           {"init_lora_weights", R"("pissa")", "found \"pissa\", and such an adapter does not fit"},
           {"init_lora_weights", R"("pissa_niter_4")", "found \"pissa_niter_4\""},
           {"init_lora_weights", R"("olora")", "found \"olora\""},
           {"init_lora_weights", R"("corda")", "found \"corda\""},
           {"init_lora_weights", R"("loftq")", "found \"loftq\""},
           {"init_lora_weights", R"("lora_ga")", "found \"lora_ga\""},
           {"init_lora_weights", "[]", "found []"},
           {"modules_to_save", R"([1, "lm_head"])", "expected names of modules"},
           {"lora_alpha", "1e300", "scales model.layers.0.self_attn.q_proj beyond what float32"},
           {"lora_alpha", "null", "is missing; expected a finite number"},
           {"r", "8", rank},
           {"r", "0", "found 0; expected a whole number above 0"},
           {"r", "4.0", "found 4.0; expected a whole number above 0"},
           {"rank_pattern", "[1]", "found [1]; expected regular expressions with a whole number"},
           {"rank_pattern", R"({"q_proj": "4"})", ".q_proj: found \"4\"; expected a whole number"},
           {"rank_pattern", R"({"q_proj": 8})", ".q_proj: " + rank},
           {"alpha_pattern", R"("x")", "found \"x\"; expected regular expressions with a finite"},
           {"alpha_pattern", R"({"q_proj": null})", ".q_proj: found null; expected a finite"},
           {"alpha_pattern", R"({"v_proj": 1e300})", ".v_proj: scales model.layers.0.self_attn.v"},
           {"alpha_pattern", R"({"(q_proj": 3})", ".(q_proj: is no regular expression: missing"},
           {"use_rslora", R"("true")", "found \"true\"; expected true or false"},
           {"bias", "null", "found null; expected \"none\""},
           {"bias", "3", "found 3; expected \"none\""},
           {"bias", "[]", "found []; expected \"none\""}}) {
    SCOPED_TRACE(std::string(wrong.key) + " " + wrong.value);
    std::ofstream(adapter_ / "adapter_config.json") << right;
    set(wrong.key, Json::parse(wrong.value));
    const std::string found = refusal();
    EXPECT_THAT(found, HasSubstr(std::string("adapter_config.json: ") + wrong.key));
    EXPECT_THAT(found, HasSubstr(wrong.finding));
    EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), 0) << "one finding: " << found;
    EXPECT_EQ(names(), std::vector<std::string>{"adapter"}) << "nothing is written";
  }
}

// The file that such an adapter lacks is named.
TEST_F(MergeRefusal, RowsOfAddedTokensThatAreNowhere) {
  std::ofstream(adapter_ / "tokenizer.json")
      << R"({"added_tokens": [{"id": 1000000, "content": "<tool>"}]})";
  EXPECT_THAT(
      refusal(),
      testing::AllOf(HasSubstr("the token \"<tool>\" has id 1000000"),
                     HasSubstr("adapter_model.safetensors with embedding and head"),
                     HasSubstr("or --model DIR with the base whose embedding was resized")));
}

// Zeros in the shapes given by name, "base_model.model." before each.
void write_adapter(const fs::path& folder,
                   const std::map<std::string, std::vector<int64_t>>& shapes) {
  std::vector<TensorHeader> headers;
  for (const auto& [name, shape] : shapes)
    headers.push_back({"base_model.model." + name, StoredDtype::kF32, shape});
  SafetensorsWriter writer(folder / "adapter_model.safetensors", headers);
  for (const TensorHeader& header : headers) {
    const std::string zeros(header.size_bytes(), '\0');
    writer.append(zeros.data(), zeros.size());
  }
  writer.finish();
}

// Rows were added to a tied embedding of 384 rows, which was not trained: peft saves it whole.
TEST_F(MergeRefusal, AVocabularyThatGrewIsInTheConfigAndHoldsTheTokens) {
  const std::string linear = "model.layers.0.self_attn.q_proj";
  std::map<std::string, std::vector<int64_t>> shapes = {{linear + ".lora_A.weight", {4, 32}},
                                                        {linear + ".lora_B.weight", {32, 4}},
                                                        {"model.embed_tokens.weight", {386, 32}}};
  write_adapter(adapter_, shapes);
  const auto with_token = [&](int id) {
    std::ofstream(adapter_ / "tokenizer.json")
        << Json{{"added_tokens", {{{"id", id}, {"content", "<tool>"}}}}};
    return refusal();
  };
  EXPECT_THAT(with_token(386), HasSubstr("has id 386, and the merged embedding has 386 rows"));
  EXPECT_EQ(with_token(385), "merged");
  Json expected = read_json_file(kReference + "/training/llama/config.json");
  expected["vocab_size"] = 386;
  EXPECT_EQ(read_json_file((root_ / "out/config.json").string()), expected);
  fs::remove_all(root_ / "out");
  shapes["model.embed_tokens.weight"] = {386, 16};
  write_adapter(adapter_, shapes);
  EXPECT_THAT(refusal(), HasSubstr("is of [386, 16], and the base has [384, 32] in F32"));
  shapes.erase("model.embed_tokens.weight");
  shapes["model.layers.1.self_attn.q_proj.weight"] = {40, 32};
  write_adapter(adapter_, shapes);
  EXPECT_THAT(refusal(), HasSubstr("is of [40, 32], and the base has [32, 32] in F32"));
  write_adapter(adapter_,
                {{linear + ".lora_A.weight", {4, 32}}, {linear + ".lora_B.weight", {32, 5}}});
  EXPECT_THAT(refusal(),
              HasSubstr("lora_A [4, 32] and lora_B [32, 5]; expected [r, in] and [out, r]"));
}

TEST_F(MergeRefusal, ProgressCountsTheBytesOfTheModel) {
  std::vector<MergeProgress> told;
  const MergeSummary summary =
      merge_adapter({adapter_, kReference + "/training/llama", root_ / "out", 1,
                     [&](const MergeProgress& progress) { told.push_back(progress); }});
  ASSERT_EQ(told.size(), static_cast<size_t>(summary.tensors));
  EXPECT_EQ(told[0].total_bytes, summary.size_bytes);
  EXPECT_EQ(told[0].done_bytes, 384u * 32 * 4) << "the embedding";
  EXPECT_EQ(told.back().done_bytes, summary.size_bytes);
}

TEST_F(MergeRefusal, InitializationsThatLeaveTheBaseAsItIsAreMerged) {
  for (const Json& init : {Json(), Json(true), Json(false), Json("gaussian"), Json("eva"),
                           Json("orthogonal"), Json("mica")}) {
    set("init_lora_weights", init);
    EXPECT_EQ(refusal(), "merged") << init;
    fs::remove_all(root_ / "out");
  }
}

TEST_F(MergeRefusal, ExpressionsThatTakeForeverEnd) {
  for (const char* key : {"alpha_pattern", "rank_pattern"}) {
    // No linear has an X in its name, and PCRE2 sees that first.
    for (const char* pattern : {"(([a-z0-9_.]*)*)*X", "(.*.*.*.*.*.*.*.*.*.*.*.*)X"}) {
      set(key, {{pattern, 4}});
      EXPECT_EQ(refusal(), "merged");
      fs::remove_all(root_ / "out");
    }
    for (const char* pattern : {"(([a-z0-9_.]*)*)*_", "(.*.*.*.*.*.*.*.*.*.*.*.*)_"}) {
      set(key, {{pattern, 4}});
      EXPECT_THAT(refusal(), HasSubstr(std::string(key) + "." + pattern +
                                       ": model.layers.0.self_attn.q_proj cannot be matched: "));
    }
    set(key, nullptr);
  }
}

TEST_F(MergeRefusal, NumbersThatAreNotFinite) {
  const fs::path file = adapter_ / "adapter_model.safetensors";
  const std::string right = read_file(file);
  const auto with_last = [&](float value) {
    std::string bytes = right;
    std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
    std::ofstream(file, std::ios::binary) << bytes;
    return refusal();
  };
  EXPECT_THAT(with_last(NAN), HasSubstr(".weight: element "));
  EXPECT_THAT(with_last(NAN), HasSubstr(" is NaN; expected finite numbers"));
  EXPECT_THAT(with_last(-INFINITY), HasSubstr(" is infinite; expected finite numbers"));
  EXPECT_EQ(names(), std::vector<std::string>{"adapter"});
  // Finite, and times lora_alpha too much for float32.
  set("lora_alpha", 1e30);
  EXPECT_THAT(with_last(3e38F), HasSubstr("makes a weight that F32 does not hold"));
  EXPECT_EQ(names(), std::vector<std::string>{"adapter"}) << "what was begun is gone";
}

TEST_F(MergeRefusal, AdaptersThatAreNotAsTheyWereSaved) {
  Manifest manifest{"model", 3, "a job", "LORA", {}};
  for (const char* name : {"adapter_config.json", "adapter_model.safetensors"}) {
    manifest.files.push_back(write_summed(adapter_, name, read_file(adapter_ / name)));
  }
  manifest.files.push_back({"trainer_state.json", 2, "not here, and not merged"});
  write_manifest(adapter_, manifest);
  EXPECT_EQ(refusal(), "merged");
  fs::remove_all(root_ / "out");
  std::string bytes = read_file(adapter_ / "adapter_model.safetensors");
  bytes.back() ^= 1;
  std::ofstream(adapter_ / "adapter_model.safetensors", std::ios::binary) << bytes;
  EXPECT_THAT(refusal(), HasSubstr("adapter_model.safetensors: damaged, or a file of another "
                                   "folder: its checksum is "));
  set("lora_alpha", 17);
  EXPECT_THAT(refusal(), HasSubstr("adapter_config.json: "));
  EXPECT_EQ(names(), std::vector<std::string>{"adapter"});
}

TEST_F(MergeRefusal, AFileInThePlaceOfTheOutputIsSaidFirst) {
  for (const char* content : {"", "mine"}) {
    std::ofstream(root_ / "out") << content;
    EXPECT_THAT(refusal(),
                HasSubstr("out: is there already; expected a new folder, or an empty one"));
    EXPECT_EQ(read_file(root_ / "out"), content);
    EXPECT_EQ(names(), (std::vector<std::string>{"adapter", "out"})) << "no out.saved";
  }
}

TEST_F(MergeRefusal, AQuantizationThatIsNoObjectIsNamed) {
  const fs::path base = root_ / "base";
  fs::copy(kReference + "/training/llama", base);
  for (const char* value : {R"("gptq")", R"({"quant_method": 3})", "[]"}) {
    Json config = read_json_file((base / "config.json").string());
    config["quantization_config"] = Json::parse(value);
    fs::permissions(base / "config.json", fs::perms::owner_all);
    std::ofstream(base / "config.json") << config;
    EXPECT_THAT(problem_of([&] {
                  merge_adapter({adapter_, base, root_ / "out", 1, {}});
                }),
                HasSubstr("quantization_config: the base is quantized (unknown)"));
  }
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

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
