// Configurations of models that read images, and how they cut them (tests/reference/anyres.py).
#include "sftbench/families/vision_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/families/family.h"
#include "sftbench/families/model_shape.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json llava() {
  return {{"model_type", "llava_next"},
          {"architectures", {"LlavaNextForConditionalGeneration"}},
          {"text_config", {{"model_type", "mistral"}, {"vocab_size", 32064}}},
          {"vision_config",
           {{"model_type", "clip_vision_model"}, {"image_size", 336}, {"patch_size", 14}}},
          {"image_token_index", 32000}};
}

std::string error_of(const Json& config) {
  try {
    parse_model_config(config);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

// llava_next of the given part.
std::string error_with(const char* part, const Json& fields) {
  Json config = llava();
  Json& changed = *part == 0 ? config : config[part];
  for (const auto& [key, value] : fields.items()) changed[key] = value;
  return error_of(config);
}

TEST(VisionConfigTest, TakesTheDefaultsOfEachClass) {
  const ModelConfig config = parse_model_config(llava());
  EXPECT_EQ(config.family, find_family("llava_next"));
  EXPECT_EQ(config.hidden_size, 4096);
  EXPECT_EQ(config.num_hidden_layers, 32);
  EXPECT_EQ(config.intermediate_size, 14336);
  const VisionConfig& vision = *config.vision;
  EXPECT_EQ(vision.hidden_size, 768);
  EXPECT_EQ(vision.layers, 12);
  EXPECT_EQ(vision.activation, VisionActivation::kQuickGelu);
  EXPECT_THAT(vision.feature_layers, ElementsAre(11));
  EXPECT_EQ(vision.used_layers(), 11);
  EXPECT_EQ(vision.positions(), 24 * 24 + 1);
  EXPECT_EQ(vision.pinpoints.size(), 5U);
  EXPECT_FALSE(config.tie_word_embeddings);
}

TEST(VisionConfigTest, NamesWhatItCannotRead) {
  EXPECT_THAT(
      error_with("text_config", {{"model_type", "qwen2"}}),
      HasSubstr(
          "text_config.model_type: found \"qwen2\"; expected one of llama, granite, mistral"));
  EXPECT_THAT(error_with("text_config", {{"hidden_size", -1}}),
              HasSubstr("text_config.hidden_size"));
  EXPECT_THAT(error_with("vision_config", {{"model_type", "siglip_vision_modell"}}),
              HasSubstr("did you mean 'siglip_vision_model'"));
  EXPECT_THAT(error_with("vision_config", {{"hidden_size", 100}, {"num_attention_heads", 16}}),
              HasSubstr("vision_config.hidden_size: found 100; expected a multiple of"));
  EXPECT_THAT(error_with("vision_config", {{"attention_dropout", 0.1}}),
              HasSubstr("vision_config.attention_dropout"));
  EXPECT_THAT(error_with("vision_config", {{"num_channels", 4}}), HasSubstr("expected 3"));
  EXPECT_THAT(error_with("vision_config", {{"hidden_act", "relu"}}),
              HasSubstr("quick_gelu, gelu or gelu_pytorch_tanh"));
  EXPECT_THAT(error_with("", {{"vision_feature_layer", -14}}),
              HasSubstr("vision_feature_layer: found -14; expected -13 to 12"));
  EXPECT_THAT(error_with("", {{"vision_feature_layer", Json::array()}}),
              HasSubstr("vision_feature_layer: found []"));
  EXPECT_THAT(
      error_with("", {{"vision_feature_select_strategy", "full"}}),
      AllOf(HasSubstr("vision_feature_select_strategy: found \"full\""), HasSubstr("\"default\"")));
  EXPECT_THAT(error_with("", {{"image_grid_pinpoints", {{336, 100}}}}),
              HasSubstr("image_grid_pinpoints: found [336,100]; expected pairs [height, width]"));
  EXPECT_THAT(error_with("", {{"image_token_index", 32064}}),
              HasSubstr("image_token_index: found 32064; expected a row of the embedding"));
  EXPECT_THAT(error_with("", {{"image_token_index", "<image>"}}),
              HasSubstr("image_token_index: found \"<image>\""));
  EXPECT_THAT(error_with("", {{"image_token_index", -1}}),
              HasSubstr("image_token_index: found -1; expected a row of the embedding"));
  EXPECT_THAT(error_with("", {{"text_config", "mistral"}}),
              HasSubstr("text_config: found \"mistral\""));
  EXPECT_THAT(error_with("", {{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}}}}),
              HasSubstr("quantization_config: found a quantized model that reads images"));
}

TEST(VisionConfigTest, CutsImagesAsTransformersDoes) {
  const Json golden = read_json_file(SFTBENCH_TEST_DATA "/data/anyres.json");
  for (const auto& [name, expected] : golden.items()) {
    VisionConfig vision;
    vision.clip = name == "clip";
    vision.image_size = expected.at("image_size");
    vision.patch_size = expected.at("patch_size");
    for (const Json& pair : expected.at("image_grid_pinpoints"))
      vision.pinpoints.push_back({pair[0], pair[1]});
    for (const Json& row : expected.at("rows")) {
      const PixelSize image = {row[0], row[1]};
      const TileGrid grid = tile_grid(vision, image);
      EXPECT_EQ(grid.target, (PixelSize{row[2], row[3]})) << name << " " << row;
      EXPECT_EQ(grid.scaled, (PixelSize{row[4], row[5]})) << name << " " << row;
      EXPECT_EQ(image_positions(vision, image), row[6].get<int64_t>()) << name << " " << row;
    }
  }
}

// Idefics3ImageProcessorPil's rows and columns. A tile of the whole image stands behind them.
TEST(VisionConfigTest, CutsSquaresAsTransformersDoes) {
  int64_t compared = 0;
  for (const Json& expected : read_json_file(SFTBENCH_TEST_DATA "/data/squares.json")) {
    VisionConfig vision;
    vision.connector = VisionConnector::kSquares;
    vision.image_size = expected.at("max_image_size");
    vision.longest_side = expected.at("size");
    for (const Json& row : expected.at("rows")) {
      const TileGrid grid = tile_grid(vision, {row[0], row[1]});
      EXPECT_EQ(grid.rows, row[2].get<int64_t>()) << row;
      EXPECT_EQ(grid.columns, row[3].get<int64_t>()) << row;
      EXPECT_EQ(grid.tiles(), grid.rows * grid.columns + 1);
      ++compared;
    }
  }
  EXPECT_GE(compared, 100);
}

// SmolVLM-256M's sizes: 32 patches along a side, 8 squares of 4 by 4.
TEST(VisionConfigTest, ReadsIdefics3AndSmolVlm) {
  Json config = {{"text_config", {{"model_type", "llama"}, {"vocab_size", 49280}}},
                 {"vision_config",
                  {{"image_size", 512},
                   {"patch_size", 16},
                   {"hidden_size", 768},
                   {"num_attention_heads", 12}}},
                 {"image_token_id", 49190},
                 {"scale_factor", 4}};
  for (const char* type : {"idefics3", "smolvlm"}) {
    config["model_type"] = type;
    const VisionConfig vision = *parse_model_config(config).vision;
    EXPECT_EQ(vision.tile_features(), 64);
    EXPECT_EQ(vision.feature_width(), 16 * 768);
    EXPECT_EQ(vision.activation, VisionActivation::kGeluTanh);
    EXPECT_EQ(vision.image_token, 49190);
    EXPECT_EQ(image_positions(vision, {384, 768}), (2 * 4 + 1) * 64);
    EXPECT_TRUE(is_vision_family(type));
  }
  config["scale_factor"] = 5;
  EXPECT_THAT(error_of(config),
              HasSubstr("scale_factor: found 5; expected a divisor of the patches "
                        "along a side (32)"));
  config["image_token_id"] = 49280;
  EXPECT_THAT(error_of(config), HasSubstr("image_token_id: found 49280; expected a row of"));
  EXPECT_FALSE(is_vision_family("llama"));
  EXPECT_FALSE(is_vision_family("unknown"));
}

// Idefics3ImageProcessor splits what is larger than a tile, and only where do_image_splitting says
// so.
TEST(VisionConfigTest, AnImageOfOneTileIsNotCut) {
  VisionConfig vision;
  vision.connector = VisionConnector::kSquares;
  vision.image_size = vision.longest_side = 64;
  EXPECT_EQ(tile_grid(vision, {30, 20}).tiles(), 1);
  vision.longest_side = 128;
  EXPECT_EQ(tile_grid(vision, {30, 20}).tiles(), 2 * 2 + 1);
  vision.cuts = false;
  EXPECT_EQ(tile_grid(vision, {30, 20}).tiles(), 1);
  EXPECT_EQ(tile_grid(vision, {30, 20}).target, (PixelSize{64, 64}));
}

TEST(VisionConfigTest, TheFirstFeatureLayerAndTheLargestGridAreTaken) {
  Json config = llava();
  config["vision_feature_layer"] = -13;
  config["image_grid_pinpoints"] = {{16 * 336, 16 * 336}, {256 * 336, 336}};
  const VisionConfig vision = *parse_model_config(config).vision;
  EXPECT_THAT(vision.feature_layers, ElementsAre(0));
  EXPECT_EQ(vision.pinpoints.size(), 2U);
  for (const Json& pair : std::vector<Json>{{0, 336},
                                            {336, 0},
                                            {257 * 336, 336},
                                            {336, 257 * 336},
                                            {16 * 336, 17 * 336},
                                            {100, 336}})
    EXPECT_THAT(error_with("", {{"image_grid_pinpoints", {pair}}}),
                HasSubstr("image_grid_pinpoints: found ["))
        << pair;
}

// 4 patches of 2 * 2 in 3 colors, one layer of width 8 with an MLP of 16, and one product of 8
// to 32.
TEST(VisionConfigTest, CountsTheProductsOfATile) {
  ModelConfig config;
  config.hidden_size = 32;
  VisionConfig vision;
  vision.connector = VisionConnector::kSquares;
  vision.clip = false;
  vision.image_size = 4;
  vision.patch_size = 2;
  vision.hidden_size = 8;
  vision.intermediate_size = 16;
  vision.layers = 1;
  vision.feature_layers = {1};
  config.vision = vision;
  const double patches = 4 * (2 * 12 * 8), layer = 2 * 4 * (4 * 8 * 8 + 2 * 8 * 16) + 4 * 4 * 4 * 8;
  EXPECT_DOUBLE_EQ(tile_flops(config), patches + layer + 4 * (2 * 8 * 32));
  config.vision.reset();
  EXPECT_EQ(tile_flops(config), 0);
}

TEST(VisionConfigTest, CutsNoImageWithoutPixels) {
  EXPECT_THROW(tile_grid({}, {0, 1}), std::logic_error);
  EXPECT_THROW(tile_grid({}, {1, 0}), std::logic_error);
}

TEST(VisionConfigTest, ReadsEverySpellingOfTensorNames) {
  const auto canonical = find_family("llava_next")->canonical_name;
  for (const char* name : {"language_model.model.layers.0.mlp.up_proj.weight",
                           "model.language_model.layers.0.mlp.up_proj.weight"})
    EXPECT_EQ(canonical(name), "model.language_model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(canonical("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(canonical("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(canonical("image_newline"), "model.image_newline");
  for (const char* name :
       {"vision_tower.vision_model.post_layernorm.bias", "vision_tower.post_layernorm.bias",
        "model.vision_tower.vision_model.post_layernorm.bias"})
    EXPECT_EQ(canonical(name), "model.vision_tower.post_layernorm.bias");
}

// google/gemma-3-4b-it says no more of its text model.
TEST(TextPartTest, TakesTheDefaultsOfItsClass) {
  const Json text = {{"model_type", "gemma3_text"},
                     {"hidden_size", 2560},
                     {"intermediate_size", 10240},
                     {"num_hidden_layers", 34},
                     {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                     {"sliding_window", 1024}};
  const ModelConfig config = parse_model_config({{"model_type", "gemma3"},
                                                 {"text_config", text},
                                                 {"torch_dtype", "bfloat16"},
                                                 {"vision_config", Json::object()}});
  EXPECT_EQ(shape_of(config).parameters(), 3'880'263'168);  // of 4.30 billion with the tower
  EXPECT_EQ(config.dtype, "bfloat16");
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_FALSE(config.vision);
  EXPECT_TRUE(is_text_part_family("gemma3"));
  EXPECT_FALSE(is_vision_family("gemma3"));
}

TEST(TextPartTest, NamesATextModelThatIsNotTrained) {
  EXPECT_THAT(
      error_of({{"model_type", "mistral3"}, {"text_config", {{"model_type", "mixtral"}}}}),
      HasSubstr("text_config.model_type: found \"mixtral\"; expected one of mistral, ministral3"));
  EXPECT_THAT(error_of({{"model_type", "gemma3"}, {"text_config", {{"model_type", "gemma3"}}}}),
              HasSubstr("found \"gemma3\"; expected gemma3_text; did you mean 'gemma3_text'?"));
  EXPECT_FALSE(is_text_part_family("llava_next"));
  EXPECT_FALSE(is_text_part_family("mistral"));
}

TEST(TextPartTest, LeavesOutWhatImagesNeed) {
  const auto canonical = find_family("gemma3")->canonical_name;
  EXPECT_EQ(canonical("language_model.model.norm.weight"), "model.language_model.norm.weight");
  EXPECT_EQ(canonical("model.language_model.norm.weight"), "model.language_model.norm.weight");
  EXPECT_EQ(canonical("lm_head.weight"), "lm_head.weight");
  for (const char* name :
       {"vision_tower.vision_model.post_layernorm.bias", "model.vision_tower.post_layernorm.bias",
        "multi_modal_projector.mm_soft_emb_norm.weight", "model.multi_modal_projector.norm.weight"})
    EXPECT_EQ(canonical(name), "");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
