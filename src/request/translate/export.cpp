#include "sftbench/translate/export.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/base/yaml_text.h"
#include "sftbench/catalog/experiment.h"
#include "sftbench/families/nf4.h"
#include "translate/argument_names.h"
#include "translate/export_data.h"
#include "translate/export_facts.h"
#include "translate/export_table.h"

namespace sftbench {
namespace {

constexpr const char* kLaunchFile = "accelerate.yaml";
constexpr const char* kAllLinears = "all-linear";

std::string text_of_value(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

class Exporter {
 public:
  Exporter(const ExportProgram& program, const TrainingJob& job, const std::string& stack)
      : program_(program), keys_(parts_of(program.keys, ' ')), job_(job), stack_(stack) {}

  ExportedJob exported(const std::string& model) {
    refuse_images();
    express({"model_name_or_path", model});
    put_precision();
    for (const ExportFact& fact : export_facts(job_)) express(fact);
    put_kernels_of_plugin();
    put_tokenizer();
    put_data();
    put_quantization();
    const Json launch = launch_file();
    if (program_.fsdp2 && shards()) put_own_fsdp(launch);
    arguments_.update(parse_json(program_.always, program_.name));
    const bool json = std::string(program_.file).ends_with(".json");
    out_.files.push_back(
        {program_.file, json ? json_text(arguments_, 2) + "\n" : yaml_document(arguments_)});
    out_.files.push_back({kLaunchFile, yaml_document(launch)});
    out_.command = std::string("accelerate launch --config_file ") + kLaunchFile + " " +
                   program_.command + (json ? flags() : std::string());
    out_.files.push_back({"train.sh", "#!/bin/sh\n" + notes_text() +
                                          "cd \"$(dirname \"$0\")\" && " + out_.command + "\n"});
    return std::move(out_);
  }

 private:
  bool has(const char* key) const { return std::count(keys_.begin(), keys_.end(), key) > 0; }
  bool is(const char* program) const { return std::string(program) == program_.name; }
  void note(std::string text) { out_.notes.push_back(std::move(text)); }

  [[noreturn]] void refuse(const std::string& what, const std::string& expected = {}) const {
    throw InputError({{{},
                       0,
                       std::string("--export ") + program_.name,
                       what + " has no equal there",
                       expected,
                       {}}});
  }

  // --- each fact by the key that means it
  // Full tuning is no program's usual one.
  void express(const ExportFact& fact) {
    if (fact.value == fact.usual && fact.property != "tuning") return;
    for (const std::string& key : keys_) {
      if (const std::optional<Json> value = spelled(key, fact)) {
        arguments_[key] = *value;
        return;
      }
    }
    if (fact.value == fact.usual) return;
    const std::string said = fact.property + " " + text_of_value(fact.value);
    if (fact.property == "offload_optimizer") {
      refuse(said + " without offload_params",
             "offload_params true beside it: FSDP offloads both or nothing (fsdp_offload_params), "
             "and DeepSpeed keeps another copy in float32");
    }
    if (fact.is_measured) refuse(said, "another program, or another value of " + fact.property);
    note(said + " has no equal in " + program_.name + " and is left out");
  }

  std::optional<Json> spelled(const std::string& key, const ExportFact& fact) const {
    const ArgumentName& name = *find_argument(key);
    if (name.use == ArgumentUse::kChoice) return choice(key, name, fact);
    if (key == "additional_target" && name.what == fact.property)
      return Json(join(fact.value.get<std::vector<std::string>>(), ","));
    if (name.use == ArgumentUse::kProperty)
      return name.what == fact.property ? std::optional(fact.value) : std::nullopt;
    if (const std::optional<Json> value = own_spelling(key, fact)) return value;
    const bool same = name.what == fact.property && !has_own_spelling(key);
    return same ? std::optional(fact.value) : std::nullopt;
  }

  std::optional<Json> choice(const std::string& key, const ArgumentName& name,
                             const ExportFact& fact) const {
    for (const ArgumentChoice* choice : name.choices) {
      if (choice->property != fact.property || choice->set != text_of_value(fact.value)) continue;
      if (key == "padding_free" && is("fms-hf-tuning")) return Json({"huggingface"});
      return resolve_yaml_scalar(choice->value);
    }
    return std::nullopt;
  }

  // Keys whose values are no property's.
  static bool has_own_spelling(const std::string& key) {
    return key == "lora_target" || key == "lora_target_linear" || key == "plugins" ||
           key == "use_liger_kernel" || key == "enable_liger_kernel";
  }

  std::optional<Json> own_spelling(const std::string& key, const ExportFact& fact) const {
    const std::string& property = fact.property;
    if (property == "target_modules") return targets(key, fact.value);
    if (property == "fast_kernels") return kernels(key, fact.value);
    if (property == "flash_attn" && key == "flash_attn")
      return Json(fact.value == true ? "sdpa" : "disabled");
    if (property == "flash_attn" && key == "attn_implementation") return attention();
    if (property == "gradient_checkpointing_use_reentrant" &&
        key == "gradient_checkpointing_kwargs")
      return Json{{"use_reentrant", fact.value}};
    if (property == "padding" && key == "pad_to_sequence_len" && fact.value == "max_length")
      return Json(true);
    // transformers 5 has both in one key.
    if (property == "warmup_ratio" && key == "warmup_steps" && !has("warmup_ratio"))
      return fact.value;
    return property == key ? std::optional(fact.value) : std::nullopt;
  }

  // Entries of one row, and parts of rows, need kernels that know where each begins.
  Json attention() const {
    if (!job_.kernels.flash_attention) return "eager";
    const bool parts = row_of(job_.data.padding).one_row || job_.parallel.context_ranks > 1;
    return parts ? "flash_attention_2" : "sdpa";
  }

  static std::optional<Json> targets(const std::string& key, const Json& value) {
    const bool all = value == Json({kAllLinears});
    if (key == "lora_target_linear") return all ? std::optional(Json(true)) : std::nullopt;
    if (key == "lora_target") {
      if (all) return Json("all");
      std::vector<std::string> names = value.get<std::vector<std::string>>();
      return Json(join(names, ","));
    }
    return key == "target_modules" || key == "lora_target_modules" ? std::optional(value)
                                                                   : std::nullopt;
  }

  // axolotl's plugin replaces what is named.
  void put_kernels_of_plugin() {
    if (!arguments_.contains("plugins")) return;
    const Json fast = job_.inputs.at("fast_kernels");
    const char* keys[] = {"liger_fused_linear_cross_entropy", "liger_rms_norm", "liger_rope"};
    for (size_t i = 0; i < std::size(keys); ++i)
      if (fast.at(i) == "True") arguments_[keys[i]] = true;
  }

  // Liger's are all of them.
  static std::optional<Json> kernels(const std::string& key, const Json& value) {
    if (key == "fast_kernels") return value;
    const bool liger = key == "use_liger_kernel" || key == "enable_liger_kernel";
    if (key == "plugins") return Json({"axolotl.integrations.liger.LigerPlugin"});
    if (value != Json({"True", "True", "True"})) return std::nullopt;
    return liger ? std::optional(Json(true)) : std::nullopt;
  }

  // --- what programs have in ways of their own
  void put_precision() {
    const ParameterDtype dtype = job_.precision.torch_dtype;
    const Autocast autocast = job_.precision.autocast;
    const bool full = row_of(job_.tuning).trains_weights;
    bool bf16 = autocast == Autocast::kBf16, fp16 = autocast == Autocast::kFp16;
    const std::string both =
        std::string("torch_dtype ") + name_of(dtype) + " beside autocast " + name_of(autocast);
    if (has("torch_dtype") || has("dtype")) {
      express({"torch_dtype", name_of(dtype)});
    } else if (is("axolotl")) {  // which loads weights in the type that it computes in
      const bool narrow = dtype != ParameterDtype::kFloat32;
      if (!narrow && (bf16 || fp16)) refuse(both, "torch_dtype bfloat16, or no autocast");
      if (narrow && !bf16 && !fp16) note("axolotl computes under autocast");
      bf16 = dtype == ParameterDtype::kBfloat16;
      fp16 = dtype == ParameterDtype::kFloat16;
    } else if (dtype == ParameterDtype::kBfloat16) {
      // LLaMA-Factory holds what it trains in float32, unless pure_bf16 says otherwise.
      if (full && bf16) refuse(both, "torch_dtype float32 beside it, or no autocast");
      if (!bf16) arguments_["pure_bf16"] = true;
    } else if (dtype == ParameterDtype::kFloat16) {
      refuse(both,
             "torch_dtype bfloat16, or float32 beside accelerate_config_mixed_precision fp16");
    } else if (!full) {
      note("frozen weights have the dtype of the model's files");
    }
    arguments_["bf16"] = bf16;
    arguments_["fp16"] = fp16;
  }

  void put_tokenizer() {
    const std::string& tokenizer = job_.model.tokenizer_directory;
    if (!tokenizer.empty() && tokenizer != job_.model.weights_directory)
      express({"tokenizer_name_or_path", tokenizer, {}, false});
  }

  void put_data() {
    ExportedData data = exported_data(program_.name, job_);
    if (!data.refusal.empty()) refuse(data.refusal, data.expected);
    arguments_.update(data.arguments);
    if (arguments_.value("stage", "") == "pt") arguments_.erase("neat_packing");  // not its own
    for (ExportedFile& file : data.files) out_.files.push_back(std::move(file));
    for (std::string& text : data.notes) note(std::move(text));
  }

  bool is_double_quantized() const {
    const Json& hf_config = job_.model.hf_config;
    std::vector<Diagnostic> unused;
    return !is_bitsandbytes(hf_config) || read_nf4_config(hf_config, {}, unused).double_quantized;
  }

  void put_quantization() {
    if (!row_of(job_.tuning).quantized_weights) return;
    const bool bitsandbytes = row_of(job_.tuning).quantizes,
               eight = stack_.find("8bit") != std::string::npos;
    const bool once = bitsandbytes && !is_double_quantized();
    const std::string text = !bitsandbytes ? program_.gptq
                             : eight       ? program_.int8
                             : once        ? program_.nf4_once
                                           : program_.nf4;
    if (text.empty() && eight) refuse("a model in 8 bits", "--method qlora");
    if (text.empty()) refuse("bnb_4bit_use_double_quant false", "true");
    arguments_.update(parse_json(text, program_.name));
    if (!bitsandbytes) note("the model has to be one in GPTQ");
  }

  void refuse_images() const {
    if (!job_.data.image_field.empty()) refuse("dataset_image_field " + job_.data.image_field);
  }

  // --- how ranks share the work
  bool shards() const { return job_.device.ranks > 1 && job_.parallel.strategy != Strategy::kDdp; }

  Json launch_file() {
    const bool several = job_.device.ranks > 1, cpu = job_.device.kind == "cpu";
    if (job_.parallel.strategy == Strategy::kShardOptim && shards())
      refuse("fsdp_sharding_strategy SHARD_OPTIM", "SHARD_GRAD_OP, or DeepSpeed's stage 1");
    if (job_.parallel.offload && !shards()) refuse("offload_params without shards");
    const char* whole = cpu ? "MULTI_CPU" : "MULTI_GPU";
    Json launch = {{"compute_environment", "LOCAL_MACHINE"},
                   {"distributed_type", shards()  ? "FSDP"
                                        : several ? whole
                                                  : "NO"},
                   {"num_processes", job_.device.ranks},
                   {"num_machines", job_.device.nodes},
                   {"machine_rank", 0},
                   {"mixed_precision", job_.precision.autocast == Autocast::kFp8 ? "fp8" : "no"},
                   {"use_cpu", cpu},
                   {"main_training_function", "main"},
                   {"rdzv_backend", "static"},
                   {"same_network", true}};
    if (shards()) launch["fsdp_config"] = fsdp();
    if (job_.device.nodes > 1) {
      note("on node K set machine_rank: K, and main_process_ip to the first node, in " +
           std::string(kLaunchFile));
    }
    return launch;
  }

  Json fsdp() const {
    const ParallelPlan& plan = job_.parallel;
    const std::string strategy = name_of(plan.strategy);
    const bool whole = plan.strategy == Strategy::kFullShard;
    if (program_.fsdp2 && !whole && plan.strategy != Strategy::kShardGradOp)
      refuse("fsdp_sharding_strategy " + strategy, "FULL_SHARD or SHARD_GRAD_OP");
    Json fsdp = {{"fsdp_version", program_.fsdp2 ? 2 : 1},
                 {"fsdp_reshard_after_forward", program_.fsdp2 ? Json(whole) : Json(strategy)},
                 {"fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"},
                 {"fsdp_state_dict_type", name_of(plan.state_dict_type)},
                 {"fsdp_offload_params", plan.offload},
                 {"fsdp_cpu_ram_efficient_loading", true}};
    if (!plan.layer_class.empty()) fsdp["fsdp_transformer_layer_cls_to_wrap"] = plan.layer_class;
    if (program_.fsdp2) return fsdp;
    fsdp["fsdp_use_orig_params"] = plan.use_orig_params;
    fsdp["fsdp_backward_prefetch"] = "BACKWARD_PRE";
    fsdp["fsdp_forward_prefetch"] = false;
    fsdp["fsdp_sync_module_states"] = true;
    return fsdp;
  }

  // axolotl's names lack their beginning.
  void put_own_fsdp(const Json& launch) {
    Json own = Json::object();
    for (const auto& [key, value] : launch["fsdp_config"].items()) {
      if (key == "fsdp_version") {
        arguments_[key] = value;
      } else {
        own[key.substr(std::string("fsdp_").size())] = value;
      }
    }
    arguments_["fsdp_config"] = std::move(own);
  }

  // --- text
  // As the documents write it.
  std::string flags() const {
    std::string text;
    const auto word = [](const Json& value) {
      if (value.is_boolean()) return std::string(value.get<bool>() ? "True" : "False");
      return shell_quoted(text_of_value(value));
    };
    for (const auto& [key, value] : arguments_.items()) {
      text += " --" + key;
      if (!value.is_array()) text += " " + word(value);
      if (value.is_array()) {
        for (const Json& item : value) text += " " + word(item);
      }
    }
    return text;
  }

  std::string notes_text() const {
    std::string text;
    for (const std::string& line : out_.notes) text += "# " + line + "\n";
    return text;
  }

  const ExportProgram& program_;
  std::vector<std::string> keys_;
  const TrainingJob& job_;
  const std::string& stack_;
  Json arguments_ = Json::object();
  ExportedJob out_;
};

}  // namespace

std::vector<std::string> export_programs() {
  std::vector<std::string> names;
  for (const ExportProgram& program : all_export_programs()) names.emplace_back(program.name);
  return names;
}

ExportedJob exported_job(const std::string& program, const TrainingJob& job,
                         const std::string& model, const std::string& stack) {
  const ExportProgram* found = find_export_program(program);
  if (found == nullptr) {
    throw InputError({{{},
                       0,
                       "--export",
                       "unknown program '" + program + "'",
                       join(export_programs(), " or "),
                       nearest_spelling(program, export_programs())}});
  }
  return Exporter(*found, job, stack).exported(model);
}

}  // namespace sftbench
