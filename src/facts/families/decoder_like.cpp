#include "sftbench/families/decoder_like.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "sftbench/families/family.h"

namespace sftbench {
namespace {

struct SizeRow {
  const char* name;               // here
  std::array<const char*, 4> in;  // there
};

constexpr SizeRow kSizes[] = {
    {"hidden_size", {"hidden_size", "n_embd", "d_model", "n_embed"}},
    {"num_hidden_layers", {"num_hidden_layers", "num_layers", "n_layer", "n_layers"}},
    {"num_attention_heads", {"num_attention_heads", "n_head", "n_heads", "num_heads"}},
    {"num_key_value_heads",
     {"num_key_value_heads", "multi_query_group_num", "num_kv_heads", "n_head_kv"}},
    {"head_dim", {"head_dim", "kv_channels", nullptr, nullptr}},
    {"intermediate_size", {"intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner"}},
    {"vocab_size", {"padded_vocab_size", "vocab_size", "n_vocab", nullptr}},
    {"max_position_embeddings",
     {"max_position_embeddings", "seq_length", "n_positions", "max_seq_len"}},
    {"num_experts", {"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"}},
    {"num_experts_per_tok", {"num_experts_per_tok", "moe_topk", "moe_top_k", "moe_k"}},
    {"moe_intermediate_size",
     {"moe_intermediate_size", "expert_ffn_hidden_size", "expert_dim", nullptr}},
    {"shared_experts", {"n_shared_experts", "num_shared_expert", "num_shared_experts", nullptr}},
    {"shared_expert_intermediate_size", {"shared_expert_intermediate_size", nullptr}},
    {"first_dense", {"first_k_dense_replace", "moe_layer_start_index", nullptr, nullptr}},
};
constexpr const char* kActivations[] = {"hidden_act", "hidden_activation", "activation_function",
                                        "activation"};
constexpr const char* kStandsFor = "stands_for";
constexpr int64_t kUnboundedLength = 1 << 20;  // nothing says how long rows may be

Json sizes_of(const Json& config) {
  Json sizes = Json::object();
  for (const SizeRow& row : kSizes) {
    for (const char* name : row.in) {
      const auto found = name == nullptr ? config.end() : config.find(name);
      if (found == config.end() || !found->is_number_integer() || *found < 1) continue;
      sizes[row.name] = *found;
      break;
    }
  }
  return sizes;
}

// One linear between two, as in models before Llama. Who names no activation has SwiGLU.
bool is_plain(const Json& config, const Json& sizes) {
  for (const char* name : kActivations) {
    const auto found = config.find(name);
    if (found == config.end() || !found->is_string()) continue;
    const auto& act = found->get_ref<const std::string&>();
    return act.find("gelu") != act.npos || act.find("relu") != act.npos;
  }
  return !sizes.contains("intermediate_size");
}

void put_experts(Json& decoder) {
  decoder["model_type"] = "qwen2_moe";
  if (!decoder.contains("moe_intermediate_size"))
    decoder["moe_intermediate_size"] = decoder["intermediate_size"];
  const auto width = decoder["moe_intermediate_size"].get<int64_t>();
  if (!decoder.contains("shared_expert_intermediate_size")) {
    // A model without shared experts has one of a value's width, which costs nothing.
    const int64_t shared = width * decoder.value("shared_experts", int64_t{0});
    decoder["shared_expert_intermediate_size"] = std::max<int64_t>(shared, 1);
  }
  Json dense = Json::array();
  for (int64_t i = 0; i < decoder.value("first_dense", int64_t{0}); ++i) dense.push_back(i);
  decoder["mlp_only_layers"] = std::move(dense);
  decoder["qkv_bias"] = false;
}

}  // namespace

std::optional<Json> decoder_like(const Json& hf_config) {
  const std::string family = hf_config.value("model_type", std::string());
  if (hf_config.value("is_encoder_decoder", Json()) == true) return std::nullopt;
  Json config = hf_config;
  for (const char* part : {"text_config", "language_config", "llm_config", "thinker_config"}) {
    const auto text = hf_config.find(part);
    if (text == hf_config.end() || !text->is_object()) continue;
    if (part == std::string_view("thinker_config")) return decoder_like(*text);
    config = *text;
    if (find_family(config.value("model_type", std::string())) != nullptr) {
      config[kStandsFor] = family;
      return config;
    }
  }
  Json decoder = sizes_of(config);
  for (const char* needed :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"})
    if (!decoder.contains(needed)) return std::nullopt;
  if (config.value("multi_query", false) && !decoder.contains("num_key_value_heads"))
    decoder["num_key_value_heads"] = 1;
  if (!decoder.contains("num_key_value_heads"))
    decoder["num_key_value_heads"] = decoder["num_attention_heads"];
  const bool plain = is_plain(config, decoder);
  if (!decoder.contains("intermediate_size"))
    decoder["intermediate_size"] = 4 * decoder["hidden_size"].get<int64_t>();
  // QWenConfig counts gate and up together.
  if (family == "qwen")
    decoder["intermediate_size"] = decoder["intermediate_size"].get<int64_t>() / 2;
  if (!decoder.contains("max_position_embeddings"))
    decoder["max_position_embeddings"] = kUnboundedLength;
  decoder["tie_word_embeddings"] = config.value("tie_word_embeddings", false);
  for (const char* dtype : {"torch_dtype", "dtype"})
    if (config.contains(dtype)) decoder["torch_dtype"] = config[dtype];
  decoder["model_type"] = plain ? "starcoder2" : "llama";
  if (decoder.contains("num_experts") && decoder.contains("num_experts_per_tok"))
    put_experts(decoder);
  decoder[kStandsFor] = family;
  return decoder;
}

std::string stands_for(const Json& hf_config) {
  return hf_config.is_object() ? hf_config.value(kStandsFor, std::string()) : std::string();
}

}  // namespace sftbench
