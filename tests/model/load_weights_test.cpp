// Reading checkpoints into models: dtypes, names and every way in which a folder can be wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>

#include "checkpoint/safetensors_builder.h"
#include "model/golden.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A tied Llama of one layer with shapes that a test can write by hand: hidden 2, vocabulary 3.
const Json kTinyConfig = {{"model_type", "llama"},      {"vocab_size", 3},
                          {"hidden_size", 2},           {"intermediate_size", 2},
                          {"num_hidden_layers", 1},     {"num_attention_heads", 1},
                          {"tie_word_embeddings", true}};

struct WrittenTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype = "F32";
};

std::vector<WrittenTensor> tiny_tensors() {
  const std::string layer = "model.layers.0.";
  std::vector<WrittenTensor> tensors = {{"model.embed_tokens.weight", {3, 2}},
                                        {"model.norm.weight", {2}},
                                        {layer + "input_layernorm.weight", {2}},
                                        {layer + "post_attention_layernorm.weight", {2}}};
  for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                           "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    tensors.push_back({layer + name + ".weight", {2, 2}});
  }
  return tensors;
}

// Element i of a tensor is i + 1.
std::string data_of(const WrittenTensor& tensor) {
  int64_t numel = 1;
  for (const int64_t extent : tensor.shape) numel *= extent;
  const torch::Dtype dtype = tensor.dtype == "F32"    ? torch::kFloat32
                             : tensor.dtype == "F16"  ? torch::kFloat16
                             : tensor.dtype == "F64"  ? torch::kFloat64
                             : tensor.dtype == "BF16" ? torch::kBFloat16
                                                      : torch::kInt32;
  const torch::Tensor values = torch::arange(1, numel + 1).to(dtype).contiguous();
  return {static_cast<const char*>(values.data_ptr()), values.nbytes()};
}

// `padding` spaces behind the header move the data off any alignment.
std::string file_of(const std::vector<WrittenTensor>& tensors, size_t padding = 0) {
  std::string header, data;
  for (const WrittenTensor& tensor : tensors) {
    const size_t begin = data.size();
    data += data_of(tensor);
    header += header.empty() ? '{' : ',';
    header += entry(tensor.name, tensor.dtype, shape_text(tensor.shape),
                    Json::array({begin, data.size()}).dump());
  }
  header += '}';
  header.append(padding, ' ');
  return length_field(header.size()).append(header).append(data);
}

std::unique_ptr<CausalLm> load(const std::string& file, torch::Dtype dtype = torch::kFloat32) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", file);
  auto model = make_causal_lm(kTinyConfig, dtype, torch::kCPU);
  load_weights(*model, folder.path().string());
  return model;
}

std::string error_of(const std::string& file) {
  return message_of<InputError>([&] { load(file); });
}

torch::Tensor parameter(CausalLm& model, const std::string& name) {
  for (const NamedParameter& p : model.parameters()) {
    if (p.name == name) return *p.tensor;
  }
  throw std::out_of_range(name);
}

TEST(LoadWeights, EveryStoredDtypeIntoEveryParameterDtypeAtAnyOffset) {
  for (const char* stored : {"F64", "F32", "F16", "BF16"}) {
    std::vector<WrittenTensor> tensors = tiny_tensors();
    for (WrittenTensor& tensor : tensors) tensor.dtype = stored;
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
      for (size_t padding = 0; padding < 8; ++padding) {
        const auto model = load(file_of(tensors, padding), dtype);
        for (const NamedParameter& p : model->parameters()) {
          EXPECT_EQ(p.tensor->scalar_type(), dtype);
          const torch::Tensor expected = torch::arange(1, p.tensor->numel() + 1).to(dtype);
          EXPECT_TRUE(torch::equal(p.tensor->flatten(), expected)) << stored << " " << p.name;
        }
      }
    }
  }
}

TEST(LoadWeights, TensorsLargerThanAPieceArriveWhole) {
  Json config = kTinyConfig;
  config["vocab_size"] = 1'000'003;  // 8 MB: several huge pages
  std::vector<WrittenTensor> tensors = tiny_tensors();
  tensors[0].shape = {1'000'003, 2};
  const TemporaryFolder folder;
  folder.write("model.safetensors", file_of(tensors));
  const auto model = make_causal_lm(config, torch::kFloat32, torch::kCPU);
  load_weights(*model, folder.path().string());
  const torch::Tensor embedding = parameter(*model, "model.embed_tokens.weight").flatten();
  EXPECT_TRUE(torch::equal(embedding, torch::arange(1, 2'000'007).to(torch::kFloat32)));
}

// As a rank loads its shard: the rest of a parameter is neither read nor written.
TEST(LoadWeights, OfAParameterOnlyTheWantedElementsAreRead) {
  const std::vector<WrittenTensor> tensors = tiny_tensors();
  const std::string &first = tensors[0].name, &second = tensors[1].name;
  const std::map<std::string, ElementRange> wanted{{first, {3, 5}}, {second, {0, 1}}};
  for (const char* stored : {"F32", "F64"}) {  // as it is, and converted
    std::vector<WrittenTensor> of_dtype = tensors;
    for (WrittenTensor& tensor : of_dtype) tensor.dtype = stored;
    const TemporaryFolder folder;
    folder.write("model.safetensors", file_of(of_dtype));
    const auto model = make_causal_lm(kTinyConfig, torch::kFloat32, torch::kCPU);
    for (const NamedParameter& p : model->parameters()) p.tensor->detach().fill_(-1);
    load_weights(*model, folder.path().string(), [&](const std::string& name) {
      const auto range = wanted.find(name);
      return range == wanted.end() ? ElementRange{} : range->second;
    });
    for (const NamedParameter& p : model->parameters()) {
      const auto range = wanted.find(p.name);
      torch::Tensor expected = torch::full({p.tensor->numel()}, -1, torch::kFloat32);
      if (range != wanted.end()) {
        const auto [begin, end] = range->second;
        expected.slice(0, begin, end).copy_(torch::arange(begin + 1, end + 1));
      }
      EXPECT_TRUE(torch::equal(p.tensor->flatten(), expected)) << stored << " " << p.name;
    }
  }
}

TEST(LoadWeights, ShardsGiveTheSameModelAsOneFile) {
  const std::vector<WrittenTensor> tensors = tiny_tensors();
  const std::vector<WrittenTensor> first(tensors.begin(), tensors.begin() + 4),
      second(tensors.begin() + 4, tensors.end());
  Json weight_map;
  for (const WrittenTensor& t : first) weight_map[t.name] = "first";
  for (const WrittenTensor& t : second) weight_map[t.name] = "second";
  const TemporaryFolder folder;
  folder.write("first", file_of(first));
  folder.write("second", file_of(second));
  folder.write("model.safetensors.index.json", Json{{"weight_map", weight_map}}.dump());
  const auto sharded = make_causal_lm(kTinyConfig, torch::kFloat32, torch::kCPU);
  load_weights(*sharded, folder.path().string());
  const auto single = load(file_of(tensors));
  for (const NamedParameter& p : single->parameters()) {
    EXPECT_TRUE(torch::equal(*p.tensor, parameter(*sharded, p.name))) << p.name;
  }
}

TEST(LoadWeights, MissingUnexpectedAndMisshapenTensorsAreAllListed) {
  std::vector<WrittenTensor> tensors = tiny_tensors();
  tensors[0].shape = {4, 2};
  tensors[1].name = "model.nrom.weight";
  tensors.back().dtype = "I32";
  tensors.push_back({"model.layers.1.mlp.up_proj.weight", {2, 2}});
  EXPECT_THAT(
      error_of(file_of(tensors)),
      AllOf(HasSubstr(
                "model.safetensors: model.embed_tokens.weight: has shape [4, 2]; expected [3, 2]"),
            HasSubstr(": model.norm.weight: missing tensor; expected shape [2]"),
            HasSubstr("model.nrom.weight: unexpected tensor that the model has no place for"),
            HasSubstr("model.layers.1.mlp.up_proj.weight: unexpected tensor"),
            HasSubstr("mlp.down_proj.weight: is stored as I32; expected F32, BF16, F16 or F64")));
}

TEST(LoadWeights, RotaryFrequenciesOfOldCheckpointsAreIgnored) {
  std::vector<WrittenTensor> tensors = tiny_tensors();
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {1}});
  EXPECT_EQ(error_of(file_of(tensors)), "");
}

TEST(LoadWeights, TiedOutputMayStandInTheFileUnderEitherName) {
  std::vector<WrittenTensor> both = tiny_tensors();
  both.push_back({"lm_head.weight", {3, 2}});
  EXPECT_EQ(error_of(file_of(both)), "");

  std::vector<WrittenTensor> output_only = tiny_tensors();
  output_only[0].name = "lm_head.weight";
  const auto model = load(file_of(output_only));
  EXPECT_FLOAT_EQ(model->output_weight()[2][1].item<float>(), 6.0F);
}

TEST(LoadWeights, TiedOutputThatDiffersIsAnError) {
  std::vector<WrittenTensor> tensors = tiny_tensors();
  tensors.push_back({"lm_head.weight", {3, 2}});
  std::string file = file_of(tensors);
  file.back() = static_cast<char>(file.back() ^ 1);
  EXPECT_THAT(error_of(file),
              HasSubstr("lm_head.weight: differs from model.embed_tokens.weight; expected equal "
                        "matrices, or \"tie_word_embeddings\": false in config.json"));
}

// Of the golden checkpoint of gpt_oss, whose experts are stored in blocks, with one header changed.
std::string mxfp4_error(const std::function<void(Json& header, Json& config)>& change) {
  const std::string folder =
      std::string(SFTBENCH_SOURCE_DIR) + "/tests/reference/models/gpt_oss_mxfp4/";
  const std::string file = read_file(folder + "model.safetensors");
  uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof size);
  Json header = Json::parse(file.substr(sizeof size, size));
  Json config = read_json_file(folder + "config.json");
  change(header, config);
  const std::string text = header.dump();
  const TemporaryFolder changed;
  changed.write("model.safetensors", length_field(text.size()) + text + file.substr(8 + size));
  const auto model = make_causal_lm(config, torch::kFloat32, torch::kCPU);
  return message_of<InputError>([&] { load_weights(*model, changed.path().string()); });
}

TEST(LoadWeights, Mxfp4BlocksOfAnotherSizeAreNamed) {
  const std::string codes = "model.layers.0.mlp.experts.gate_up_proj_blocks";
  const std::string scales = "model.layers.0.mlp.experts.gate_up_proj_scales";
  EXPECT_THAT(mxfp4_error([&](Json& header, Json&) {
                Json& shape = header.at(codes).at("shape");
                shape = {shape[0], shape[1], shape[2].get<int64_t>() * 2, 8};
              }),
              AllOf(HasSubstr(codes + ": is U8 of shape "), HasSubstr("expected U8 of shape")));
  EXPECT_THAT(mxfp4_error([&](Json& header, Json&) {
                Json& shape = header.at(scales).at("shape");
                shape = {shape[0], shape[1].get<int64_t>() * shape[2].get<int64_t>()};
              }),
              HasSubstr(scales + ": is U8 of shape "));
  EXPECT_THAT(mxfp4_error([&](Json& header, Json&) { header.at(codes)["dtype"] = "I8"; }),
              HasSubstr(codes + ": is I8 of shape "));
  EXPECT_THAT(mxfp4_error([](Json&, Json& config) {
                config["hidden_size"] = config.at("hidden_size").get<int64_t>() + 8;
              }),
              HasSubstr(" numbers; expected rows of whole blocks of 32 numbers (MXFP4)"));
}

TEST(LoadWeights, TruncatedFile) {
  std::string file = file_of(tiny_tensors());
  file.resize(file.size() - 1);
  EXPECT_THAT(error_of(file),
              AllOf(HasSubstr("mlp.down_proj.weight: data_offsets"), HasSubstr("truncated")));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
