// Keys of kernels: attention, fast_kernels, experts, and what Liger and Cut Cross-Entropy put in a
// model's place.
#include "sftbench/base/text.h"
#include "sftbench/translate/argument_options.h"
#include "translate/argument_reader.h"

namespace sftbench {

// torchao's states in 8 bits are blocks of 256 values, as those of bitsandbytes.
void ArgumentFileReader::optimizer(const YamlNode& node, const std::string& path) {
  if (!is_value(node, "adamw_torch_8bit")) return put("optim", node, path);
  note(place(node, path) + " 'adamw_torch_8bit': adamw_bnb_8bit, whose states are as large");
  put_text("optim", "adamw_bnb_8bit", path);
}

void ArgumentFileReader::fsdp_checkpointing(const YamlNode& node, const std::string& path) {
  if (!is_value(node, "true") && !is_value(node, "false"))
    return error(node, path, "found " + describe(node), "false or true");
  fsdp_checkpointing_ = place(node, path);
  fsdp_checkpoints_ = is_value(node, "true");
}

// Layers are checkpointed by FSDP or by the model.
void ArgumentFileReader::settle_checkpointing() {
  if (fsdp_checkpointing_.empty()) return;
  const bool said = find("gradient_checkpointing") != nullptr;
  if (said && !fsdp_checkpoints_) return;
  (void)taken("gradient_checkpointing");
  file_.values.push_back({fsdp_checkpointing_, "gradient_checkpointing",
                          scalar_node(fsdp_checkpoints_ ? "true" : "false")});
}

// The kernels of others compute what this program's attention does.
void ArgumentFileReader::attention(const YamlNode& node, const std::string& path) {
  const std::string found = argument_text(node);
  const bool foreign =
      found == "flash_attention_3" || found == "flash_attention_4" || found == "fa3" ||
      found == "xformers" || found == "flex_attention" ||
      (found.starts_with("kernels-community/") && found.find("flash-attn") != std::string::npos);
  if (foreign) {
    note(place(node, path) + " " + describe(node) + ": attention is this program's own");
    return put_text("flash_attn", "true", path);
  }
  chosen(*find_argument("attn_implementation"), node, path);
}

void ArgumentFileReader::fast_kernels(const YamlNode& node, const std::string& path) {
  YamlNode list = node;
  for (YamlNode& item : list.items) {
    if (item.value.is_boolean()) item.value = item.value.get<bool>() ? "True" : "False";
    item.text = item.value.is_string() ? item.value.get<std::string>() : item.text;
  }
  put("fast_kernels", std::move(list), path);
}

void ArgumentFileReader::liger(const YamlNode& node, const std::string& path) {
  if (is_value(node, "false")) return;
  if (is_value(node, "true")) {
    liger_.place = place(node, path);
  } else {
    error(node, path, "found " + describe(node) + ", which has no equal here", "false or true");
  }
}

// axolotl's liger_rope, and liger_kernel_config.rope of transformers.
void ArgumentFileReader::liger_kernel(const YamlNode& node, const std::string& path) {
  std::string name = path.substr(path.rfind('.') + 1);
  if (name.starts_with("liger_")) name.erase(0, std::string("liger_").size());
  switch_kernel(node, path, name);
}

void ArgumentFileReader::cut_cross_entropy(const YamlNode& node, const std::string& path) {
  switch_kernel(node, path, "cut_cross_entropy");
}

void ArgumentFileReader::switch_kernel(const YamlNode& node, const std::string& path,
                                       const std::string& name) {
  if (!is_value(node, "false") && !is_value(node, "true"))
    return error(node, path, "found " + describe(node), "false or true");
  liger_.kernels[name] = {place(node, path), is_value(node, "true")};
}

// Of axolotl's integrations, those of kernels, and what it logs by.
void ArgumentFileReader::plugins(const YamlNode& node, const std::string& path) {
  for (const YamlNode& item : node.is_sequence() ? node.items : std::vector<YamlNode>{node}) {
    if (item.text.ends_with(".LigerPlugin")) {
      liger_.place = place(item, path);
      liger_.by_name = true;
    } else if (item.text.ends_with(".CutCrossEntropyPlugin")) {
      liger_.cut_place = place(item, path);
    } else if (item.text.ends_with(".KernelsPlugin") || item.text.ends_with(".SwanLabPlugin")) {
      note(place(item, path) + " " + describe(item) + " has no effect here");
    } else {
      error(item, path, "found " + describe(item) + ", which has no equal here",
            "LigerPlugin or CutCrossEntropyPlugin of axolotl.integrations");
    }
  }
}

bool ArgumentFileReader::has_kernel(const char* name, bool usual) const {
  const auto found = liger_.kernels.find(name);
  return found == liger_.kernels.end() ? usual : found->second.second;
}

// What Liger and Cut Cross-Entropy replace, as fast_kernels says it.
void ArgumentFileReader::settle_kernels() {
  const bool liger = !liger_.place.empty(), all = liger && !liger_.by_name;
  const bool cut = !liger_.cut_place.empty() && has_kernel("cut_cross_entropy", true);
  std::vector<std::string> idle;
  for (const auto& [name, value] : liger_.kernels) {
    const bool of_cut = name == "cut_cross_entropy";
    if (of_cut ? liger_.cut_place.empty() : !liger) idle.push_back(value.first);
  }
  if (!idle.empty()) {
    note("no effect without use_liger_kernel: true, or axolotl's plugin of these kernels: " +
         join(idle));
  }
  const bool fused = liger && has_kernel("fused_linear_cross_entropy", all);
  const bool loss = cut || fused || (liger && has_kernel("cross_entropy", false));
  const bool norm = liger && has_kernel("rms_norm", all), rope = liger && has_kernel("rope", all);
  file_.spares_logits = cut || fused;
  if (!loss && !norm && !rope && !all) {
    if (liger)
      note(liger_.place + ": LigerPlugin replaces what is named, as " +
           "liger_fused_linear_cross_entropy: true, and nothing is");
    return;
  }
  YamlNode kernels;
  kernels.kind = YamlNode::Kind::kSequence;
  for (const bool is_fused : {loss, norm, rope})
    kernels.items.push_back(text_node(is_fused ? "True" : "False"));
  const std::string& source = liger ? liger_.place : liger_.cut_place;
  const GivenValue* other = find("fast_kernels");
  if (other == nullptr) {
    file_.values.push_back({source, "fast_kernels", std::move(kernels)});
  } else if (to_json(other->value) != to_json(kernels)) {
    diagnostics_->error(0, source, "says what " + other->source + " says, too", "one of them");
  }
}

// A number, fms-hf-tuning's list of one, or its ep_degree.
void ArgumentFileReader::experts(const YamlNode& node, const std::string& path) {
  if (is_value(node, "false")) return;
  const YamlNode* degree = node.find("ep_degree");
  put("fast_moe",
      degree != nullptr ? *degree : (node.items.size() == 1 ? node.items.front() : node), path);
}

// fms-hf-tuning names the kernels; weights are GPTQ's.
void ArgumentFileReader::gptq(const YamlNode&, const std::string& path) {
  put_text("quantized_tuning", "gptq-lora", path);
}

}  // namespace sftbench
