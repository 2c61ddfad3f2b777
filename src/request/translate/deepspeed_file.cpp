#include "translate/deepspeed_file.h"

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "sftbench/base/text.h"
#include "sftbench/translate/argument_options.h"
#include "translate/argument_names.h"

namespace sftbench {
namespace {

struct DeepspeedRow {
  const char* names;    // with spaces between them, each as it is in `zero_optimization`
  const char* neutral;  // values, with | between them, that have an equal; null: any, and it
                        // changes nothing
  const char* instead = "";
};

// What is no training argument. Sizes and switches of buffers, prefetching and printing change
// nothing: numbers and strategy are the same with any of their values. This program's unit is a
// layer.
constexpr DeepspeedRow kDeepspeedRows[] = {
    {"steps_per_print prescale_gradients gradient_predivide_factor monitor_config "
     "seq_parallel_communication_data_type wall_clock_breakdown memory_breakdown "
     "zero_allow_untested_optimizer "
     "zero_force_ds_cpu_optimizer log_level vocabulary_size checkpoint.tag_validation "
     "checkpoint.parallel_write use_data_before_expert_parallelism "
     "activation_checkpointing.contiguous_memory_optimization activation_checkpointing.profile "
     "activation_checkpointing.synchronize_checkpoint_boundary comms_config",
     nullptr},
    {"zero_optimization.allgather_bucket_size zero_optimization.contiguous_gradients "
     "zero_optimization.elastic_checkpoint zero_optimization.ignore_unused_parameters "
     "zero_optimization.load_from_fp32_weights zero_optimization.memory_efficient_linear "
     "zero_optimization.overlap_comm zero_optimization.reduce_bucket_size "
     "zero_optimization.round_robin_gradients zero_optimization.sub_group_size "
     "zero_optimization.use_multi_rank_bucket_allreduce zero_optimization.legacy_stage1 "
     "zero_optimization.cpu_offload_use_pin_memory zero_optimization.pipeline_loading_checkpoint "
     "zero_optimization.override_module_apply zero_optimization.log_trace_cache_warnings "
     "zero_optimization.enable_sanity_checks zero_optimization.leaf_module "
     "zero_optimization.mics_hierarchical_params_gather "
     "zero_optimization.save_muon_momentum_buffer_in_memory",
     nullptr},
    {"zero_optimization.stage3_max_live_parameters zero_optimization.stage3_max_reuse_distance "
     "zero_optimization.stage3_param_persistence_threshold "
     "zero_optimization.stage3_model_persistence_threshold "
     "zero_optimization.stage3_prefetch_bucket_size "
     "zero_optimization.stage3_module_granularity_threshold "
     "zero_optimization.stage3_use_all_reduce_for_fetch_params "
     "zero_optimization.stage3_allgather_sequential",
     nullptr},
    {"zero_optimization.offload_optimizer.buffer_count "
     "zero_optimization.offload_optimizer.fast_init zero_optimization.offload_optimizer.pin_memory "
     "zero_optimization.offload_optimizer.pipeline "
     "zero_optimization.offload_optimizer.pipeline_read "
     "zero_optimization.offload_optimizer.pipeline_write "
     "zero_optimization.offload_optimizer.cpuadam_cores_perc "
     "zero_optimization.offload_param.buffer_count zero_optimization.offload_param.buffer_size "
     "zero_optimization.offload_param.max_in_cpu zero_optimization.offload_param.pin_memory",
     nullptr},
    {"optimizer.params.adam_w_mode optimizer.params.torch_adam optimizer.params.fused "
     "optimizer.legacy_fusion",
     nullptr},
    {"optimizer.params.bias_correction", "true"},
    {"optimizer.params.amsgrad", "false"},
    {"activation_checkpointing.number_checkpoints", ""},
    {"activation_checkpointing.partition_activations", "false"},
    {"dataloader_drop_last sparse_gradients dump_state disable_allgather "
     "graph_harvesting "
     "load_universal_checkpoint checkpoint.load_universal checkpoint.use_node_local_storage",
     "false"},
    {"sequence_parallel_size", "1"},
    {"tensor_parallel.autotp_size", "0|1"},
    {"fp16.auto_cast bf16.immediate_grad_update bf16.check_grad_overflow", "false|true"},
    {"fp16.fp16_master_weights_and_grads bf16.bf16_master_weights_and_grads "
     "bf16.bf16_optimizer_states",
     "false", "torch_dtype, which trained parameters and states keep"},
    {"zero_optimization.allgather_partitions zero_optimization.reduce_scatter", "true"},
    {"zero_optimization.zero_hpz_partition_size zero_optimization.offload_optimizer.ratio", "1"},
    {"zero_optimization.zero_quantized_weights zero_optimization.zero_quantized_gradients "
     "zero_optimization.zero_quantized_nontrainable_weights "
     "zero_optimization.offload_optimizer.super_offload",
     "false"},
    {"zero_optimization.zenflow zero_optimization.zeropp_loco_param", ""},
    {"zero_optimization.mics_shard_size", "-1", "fsdp_sharding_strategy HYBRID_SHARD"},
    {"zero_optimization.offload_optimizer.nvme_path zero_optimization.offload_param.nvme_path aio",
     "", "device: cpu"},
    {"communication_data_type", "", "--reduce-dtype float32"},
    {"fp32_allreduce", "false", "--reduce-dtype float32"},
    {"data_types.grad_accum_dtype data_types.param_dtype data_types.buffer_dtype", "",
     "--reduce-dtype float32"},
    {"sparse_attention", "", "no such block"},
};

const std::map<std::string, const DeepspeedRow*>& deepspeed_rows() {
  static const std::map<std::string, const DeepspeedRow*> kByName = [] {
    std::map<std::string, const DeepspeedRow*> by_name;
    for (const DeepspeedRow& row : kDeepspeedRows) {
      for (const std::string& name : parts_of(row.names, ' ')) by_name[name] = &row;
    }
    return by_name;
  }();
  return kByName;
}

std::string scalar_text(const YamlNode& node) {
  if (node.is_sequence()) return "a list";
  if (node.is_mapping()) return "a block";
  if (node.value.is_boolean()) return node.value.get<bool>() ? "true" : "false";
  return node.text;
}

bool is_auto(const YamlNode& node) {
  return node.is_null() || (node.is_scalar() && node.value == "auto");
}

class DeepspeedReader {
 public:
  DeepspeedReader(Diagnostics& diagnostics, const TakeValue& take)
      : diagnostics_(diagnostics), take_(take) {
    for (const auto& [name, row] : deepspeed_rows()) known_.push_back(name);
    for (const auto& [name, read] : readers_) known_.push_back(name);
  }

  DeepspeedFile read(const YamlNode& root) {
    if (!root.is_mapping()) {
      error(root, {}, "found " + describe(root), "an object, as {\"zero_optimization\": ...}");
      return {};
    }
    const YamlNode* fp16 = root.find("fp16");
    uses_fp16_ = fp16 != nullptr && says_true(fp16->find("enabled"));
    block(root, {});
    const YamlNode* zero = root.find("zero_optimization");
    if (zero == nullptr || zero->find("stage") == nullptr) stage(0, "zero_optimization.stage");
    if (!scales_.empty()) {
      file_.notes.push_back("the scale of float16 begins and grows as torch's does: " +
                            join(scales_));
    }
    if (!idle_.empty()) {
      file_.notes.push_back("no effect here, where buffers follow from the layers: " + join(idle_));
    }
    return std::move(file_);
  }

 private:
  static bool says_true(const YamlNode* node) { return node != nullptr && node->value == true; }

  void block(const YamlNode& mapping, const std::string& prefix) {
    for (const auto& [key, node] : mapping.members) member(node, prefix + key);
  }

  void member(const YamlNode& node, const std::string& given) {
    if (is_auto(node) || says_nothing(node)) return;
    const std::string name = usual_name(given);
    if (const auto reader = readers_.find(name); reader != readers_.end()) {
      reader->second(node, given);
    } else if (const auto row = deepspeed_rows().find(name); row != deepspeed_rows().end()) {
      fixed(*row->second, node, given);
    } else if (node.is_mapping() && is_block(name)) {
      block(node, name + ".");
    } else if (is_off(node) || given.starts_with('_')) {  // "_comment"
      return;
    } else {
      const std::string nearest = diagnostics_.full() ? "" : nearest_spelling(name, known_);
      error(node, given, "has no equal here",
            nearest.empty() && node.is_mapping() ? "no such block" : "", nearest);
    }
  }

  // A block that is not enabled says nothing, whatever stands in it.
  static bool is_off(const YamlNode& node) {
    const YamlNode* enabled = node.find("enabled");
    return enabled != nullptr && is_value(*enabled, "false");
  }

  // DeepSpeed takes what belongs to stage 3 with this beginning and without.
  std::string usual_name(const std::string& name) const {
    const std::string block = "zero_optimization.";
    if (!name.starts_with(block)) return name;
    std::string longer = block + "stage3_" + name.substr(block.size());
    const bool known = deepspeed_rows().count(longer) > 0 || readers_.count(longer) > 0;
    return known ? std::move(longer) : name;
  }

  void fixed(const DeepspeedRow& row, const YamlNode& node, const std::string& name) {
    if (row.neutral == nullptr) {
      idle_.push_back(name);
      return;
    }
    const std::vector<std::string> values = parts_of(row.neutral, '|');
    for (const std::string& value : values) {
      if (is_value(node, value)) return;
    }
    std::string expected = row.instead;
    if (!values.empty()) expected += (expected.empty() ? "" : ", or ") + join(values, " or ");
    error(node, name,
          values.empty() ? "has no equal here"
                         : "found " + describe(node) + ", which has no equal here",
          expected.empty() ? "no such key" : expected);
  }

  // Whether a known name begins so.
  bool is_block(const std::string& name) const {
    for (const std::string& known : known_) {
      if (known.rfind(name + ".", 0) == 0) return true;
    }
    return false;
  }

  void error(const YamlNode& node, const std::string& name, const std::string& message,
             std::string expected, std::string nearest = {}) {
    diagnostics_.error(node, name, message, std::move(expected), std::move(nearest));
  }

  void put(const std::string& property, const std::string& value, const std::string& name) {
    take_(property, scalar_node(value), name);
  }

  // One of `meanings`, by name; what a name means is done.
  void choose(const YamlNode& node, const std::string& name,
              const std::map<std::string, std::function<void()>>& meanings) {
    const auto found = meanings.find(scalar_text(node));
    if (found != meanings.end()) return found->second();
    std::vector<std::string> names;
    for (const auto& [text, meaning] : meanings) names.push_back(text);
    error(node, name, "found " + describe(node) + ", which has no equal here", join(names, " or "),
          nearest_spelling(scalar_text(node), names));
  }

  std::optional<int64_t> count(const YamlNode& node, const std::string& name) {
    constexpr int64_t kMost = 1 << 30;
    if (node.is_scalar() && node.value.is_number_integer() && node.value.get<int64_t>() > 0 &&
        node.value.get<int64_t>() <= kMost) {
      return node.value.get<int64_t>();
    }
    error(node, name, "found " + describe(node), "an integer of at least 1, or \"auto\"");
    return std::nullopt;
  }

  // The property says what numbers it takes.
  void number(const YamlNode& node, const std::string& property, const std::string& name) {
    if (node.is_scalar()) return take_(property, node, name);
    error(node, name, "found " + describe(node), "a number, or \"auto\"");
  }

  // --- blocks

  void stage(int64_t number, const std::string& name) {
    constexpr const char* kStrategies[] = {nullptr, "SHARD_OPTIM", "SHARD_GRAD_OP", "FULL_SHARD"};
    put("distributed_backend", number == 0 ? "DDP" : "FSDP", name);
    if (number > 0) put("fsdp_sharding_strategy", kStrategies[number], name);
  }

  void read_stage(const YamlNode& node, const std::string& name) {
    const bool known = node.is_scalar() && node.value.is_number_integer() &&
                       node.value.get<int64_t>() >= 0 && node.value.get<int64_t>() <= 3;
    if (known) return stage(node.value.get<int64_t>(), name);
    error(node, name, "found " + describe(node), "0 (DDP), 1, 2 or 3");
  }

  void offload(const YamlNode& node, const std::string& property, const std::string& name) {
    choose(node, name, {{"cpu", [&] { put(property, "true", name); }}, {"none", [] {}}});
  }

  void betas(const YamlNode& node, const std::string& name) {
    if (!node.is_sequence() || node.items.size() != 2) {
      return error(node, name, "found " + describe(node), "two numbers, or \"auto\"");
    }
    number(node.items[0], "adam_beta1", name + "[0]");
    number(node.items[1], "adam_beta2", name + "[1]");
  }

  // DeepSpeed's default is a logarithmic rise, which no schedule here has.
  void schedule(const YamlNode& node, const std::string& name) {
    choose(node, name,
           {{"WarmupLR", [&] { put("lr_scheduler_type", "constant_with_warmup", name); }},
            {"WarmupDecayLR", [&] { put("lr_scheduler_type", "linear", name); }}});
    file_.notes.push_back(name + " " + scalar_text(node) +
                          ": the rate rises linearly, where DeepSpeed's rises with the logarithm "
                          "unless warmup_type is linear");
  }

  // Of the scaler of float16, which is torch's. Without float16 it is not there. DeepSpeed's own
  // defaults shrink and raise the scale at other steps, and no update has other gradients by that.
  void scaling(const YamlNode& node, const std::string& name, const std::string& ours,
               const std::string& default_there) {
    if (!uses_fp16_ || is_value(node, ours)) return;
    if (is_value(node, default_there)) {
      scales_.push_back(name);
    } else {
      error(node, name, "found " + describe(node) + ", which has no equal here",
            default_there == ours ? ours : ours + " or " + default_there);
    }
  }

  void zero(const YamlNode& node, const std::string& name) {
    if (!node.value.is_number() || node.value.get<double>() != 0) {
      error(node, name, "found " + describe(node) + ", which has no equal here", "0 or \"auto\"");
    }
  }

  using Read = std::function<void(const YamlNode&, const std::string&)>;

  Read is_property(const char* property) {
    return [this, property](const YamlNode& n, const std::string& p) { number(n, property, p); };
  }
  Read scaler(const char* ours, const char* default_there) {
    return [this, ours, default_there](const YamlNode& n, const std::string& p) {
      scaling(n, p, ours, default_there);
    };
  }
  Read autocast(const char* dtype) {
    return [this, dtype](const YamlNode& n, const std::string& p) {
      choose(n, p,
             {{"true", [&] { put("accelerate_config_mixed_precision", dtype, p); }},
              {"false", [] {}}});
    };
  }

  const std::map<std::string, Read> readers_ = {
      {"train_batch_size",
       [this](const YamlNode& n, const std::string& p) { file_.train_batch_size = count(n, p); }},
      {"train_micro_batch_size_per_gpu",
       [this](const YamlNode& n, const std::string& p) { file_.batch_of_device = count(n, p); }},
      {"gradient_accumulation_steps", is_property("gradient_accumulation_steps")},
      {"gradient_clipping", is_property("max_grad_norm")},
      {"bf16.enabled", autocast("bf16")},
      {"fp16.enabled", autocast("fp16")},
      {"fp16.loss_scale", scaler("0", "0")},
      {"fp16.initial_scale_power", scaler("16", "32")},  // of older versions
      {"fp16.loss_scale_window", scaler("2000", "1000")},
      {"fp16.hysteresis", scaler("1", "2")},
      {"fp16.consecutive_hysteresis", scaler("false", "false")},
      {"fp16.min_loss_scale", scaler("0", "1")},
      {"optimizer.type",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p,
                {{"Adam", [&] { put("optim", "adamw_torch", p); }},
                 {"AdamW", [&] { put("optim", "adamw_torch", p); }},
                 {"Lion", [&] { put("optim", "lion_32bit", p); }}});
       }},
      {"optimizer.params.lr", is_property("learning_rate")},
      {"optimizer.params.eps", is_property("adam_epsilon")},
      {"optimizer.params.weight_decay", is_property("weight_decay")},
      {"optimizer.params.betas", [this](const YamlNode& n, const std::string& p) { betas(n, p); }},
      {"scheduler.type", [this](const YamlNode& n, const std::string& p) { schedule(n, p); }},
      {"scheduler.params.warmup_max_lr", is_property("learning_rate")},
      {"scheduler.params.warmup_num_steps", is_property("warmup_steps")},
      {"scheduler.params.total_num_steps", is_property("max_steps")},
      {"scheduler.params.warmup_min_lr",
       [this](const YamlNode& n, const std::string& p) { zero(n, p); }},
      {"scheduler.params.warmup_type",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p, {{"linear", [] {}}});
       }},
      {"zero_optimization.stage",
       [this](const YamlNode& n, const std::string& p) { read_stage(n, p); }},
      {"zero_optimization.offload_optimizer.device",
       [this](const YamlNode& n, const std::string& p) { offload(n, "offload_optimizer", p); }},
      {"zero_optimization.offload_param.device",
       [this](const YamlNode& n, const std::string& p) { offload(n, "offload_params", p); }},
      {"activation_checkpointing.cpu_checkpointing",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p, {{"true", [&] { put("offload_activations", "true", p); }}, {"false", [] {}}});
       }},
      {"zero_optimization.cpu_offload", host("offload_optimizer")},
      {"zero_optimization.cpu_offload_param", host("offload_params")},
      {"zero_optimization.cpu_offload_params", host("offload_params")},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save", saves_whole()},
      {"zero_optimization.stage3_gather_fp16_weights_on_model_save", saves_whole()},
  };

  // As old configurations say it.
  Read host(const char* property) {
    return [this, property](const YamlNode& n, const std::string& p) {
      choose(n, p, {{"true", [&] { put(property, "true", p); }}, {"false", [] {}}});
    };
  }
  Read saves_whole() {
    return [this](const YamlNode& n, const std::string& p) {
      choose(n, p,
             {{"true", [&] { put("fsdp_state_dict_type", "FULL_STATE_DICT", p); }},
              {"false", [&] { put("fsdp_state_dict_type", "SHARDED_STATE_DICT", p); }}});
    };
  }

  Diagnostics& diagnostics_;
  const TakeValue& take_;
  DeepspeedFile file_;
  std::vector<std::string> known_, idle_, scales_;
  bool uses_fp16_ = false;
};

}  // namespace

DeepspeedFile read_deepspeed(const YamlNode& root, Diagnostics& diagnostics,
                             const TakeValue& take) {
  return DeepspeedReader(diagnostics, take).read(root);
}

}  // namespace sftbench
