// Reads files of arguments, each key by its row in the table.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "translate/argument_names.h"
#include "translate/argument_values.h"

namespace sftbench {

class ArgumentFileReader : ArgumentValues {
 public:
  ArgumentFileReader(const std::vector<std::string>& paths, std::string deepspeed_path,
                     GivenElsewhere given);

  ArgumentFile read();

 private:
  // A key whose row says kRead; argument_readers.cpp.
  using Read = void (ArgumentFileReader::*)(const YamlNode&, const std::string&);
  static Read reader_of(const std::string& key);

  void member(const std::string& key, const YamlNode& node, const std::string& path);
  void unknown(const std::string& key, const YamlNode& node, const std::string& path);
  void fixed(const ArgumentName& name, const YamlNode& node, const std::string& path);
  void chosen(const ArgumentName& name, const YamlNode& node, const std::string& path);
  void tell_idle(const std::string& file);

  // --- what keys say together, when all files are read
  void settle();
  void settle_warmup();
  void settle_adapters();
  void settle_evaluation();
  void settle_padding();
  void settle_checkpointing();
  void settle_mxfp4();
  void settle_hub_data();
  void settle_registered_data();
  void settle_named_template();
  void settle_invocation();
  void settle_trackers();
  void settle_llmforge();
  void settle_whole();
  void settle_kernels();
  void read_deepspeed_files();
  void deepspeed(const YamlNode& root);

  // --- readers
  void model(const YamlNode& node, const std::string& path);
  void revision(const YamlNode& node, const std::string& path);
  void dtype(const YamlNode& node, const std::string& path);
  void hub_dataset(const YamlNode& node, const std::string& path);
  void hub_config(const YamlNode& node, const std::string& path);
  void hub_split(const YamlNode& node, const std::string& path);
  void hub_test_split(const YamlNode& node, const std::string& path);
  void handbook_mixture(const YamlNode& node, const std::string& path);
  void old_mixture(const YamlNode& node, const std::string& path);
  void datasets(const YamlNode& node, const std::string& path);
  void data_configuration(const YamlNode& node, const std::string& path);
  void data_processor(const YamlNode& node, const std::string& path);
  void stage(const YamlNode& node, const std::string& path);
  void registered_dataset(const YamlNode& node, const std::string& path);
  void dataset_folder(const YamlNode& node, const std::string& path);
  void nothing(const YamlNode&, const std::string&) {}
  void template_of(const YamlNode& node, const std::string& path);
  void named_template(const YamlNode& node, const std::string& path);
  void special_token(const YamlNode& node, const std::string& path);
  void warmup(const YamlNode& node, const std::string& path);
  void eval_steps(const YamlNode& node, const std::string& path);
  void save_steps(const YamlNode& node, const std::string& path);
  void log_steps(const YamlNode& node, const std::string& path);
  void evaluated_share(const YamlNode& node, const std::string& path);
  void evaluations_of_epoch(const YamlNode& node, const std::string& path);
  void saves_of_epoch(const YamlNode& node, const std::string& path);
  void batch_of_device(const YamlNode& node, const std::string& path);
  void processes(const YamlNode& node, const std::string& path);
  void data_shards(const YamlNode& node, const std::string& path);
  void checkpointing_options(const YamlNode& node, const std::string& path);
  void optimizer(const YamlNode& node, const std::string& path);
  void fsdp_checkpointing(const YamlNode& node, const std::string& path);
  void attention(const YamlNode& node, const std::string& path);
  void fast_kernels(const YamlNode& node, const std::string& path);
  void liger(const YamlNode& node, const std::string& path);
  void liger_kernel(const YamlNode& node, const std::string& path);
  void cut_cross_entropy(const YamlNode& node, const std::string& path);
  void plugins(const YamlNode& node, const std::string& path);
  void experts(const YamlNode& node, const std::string& path);
  void gptq(const YamlNode& node, const std::string& path);
  void lora_rank(const YamlNode& node, const std::string& path);
  void targets(const YamlNode& node, const std::string& path);
  void all_targets(const YamlNode& node, const std::string& path);
  void pad_to_length(const YamlNode& node, const std::string& path);
  void save_strategy(const YamlNode& node, const std::string& path);
  void log_strategy(const YamlNode& node, const std::string& path);
  void interval(const YamlNode& node, const std::string& path, std::string& strategy);
  void total_limit(const YamlNode& node, const std::string& path);
  void resume(const YamlNode& node, const std::string& path);
  void output_folder(const YamlNode& node, const std::string& path);
  void model_folder(const YamlNode& node, const std::string& path);
  void report_to(const YamlNode& node, const std::string& path);
  void log_folder(const YamlNode& node, const std::string& path);
  void fsdp(const YamlNode& node, const std::string& path);
  void deepspeed_key(const YamlNode& node, const std::string& path);
  void worker_resources(const YamlNode& node, const std::string& path);
  void trainer_resources(const YamlNode& node, const std::string& path);

  void switch_kernel(const YamlNode& node, const std::string& path, const std::string& name);
  bool has_kernel(const char* name, bool usual) const;

  // Steps, or below 1 a share of all of them.
  void steps(const YamlNode& node, const std::string& path, std::optional<int64_t>& count_of_steps,
             std::optional<double>& ratio);
  std::optional<double> epochs() const;

  const std::vector<std::string>& paths_;
  std::string deepspeed_path_;
  bool says_how_to_share_ = false;  // FSDP or DeepSpeed
  std::string program_;             // trl, LLaMA-Factory or axolotl, of keys that no other has
  std::optional<YamlNode> deepspeed_block_;  // where the file of arguments holds it
  GivenElsewhere given_;
  struct Idle {
    std::string why;
    std::vector<std::string> paths;
  };
  std::vector<Idle> idle_;  // of the file that is read
  struct HubData {
    std::string source, name, config, split, test_split = "test";
  } hub_data_;
  struct Registered {  // LLaMA-Factory's sets
    std::string source, value;
    std::vector<std::string> names;
    std::string folder = "data", beside;  // dataset_dir, and the folder of the file that says it
  } registered_;
  bool of_texts_ = false;  // LLaMA-Factory's stage pt
  struct NamedTemplate {
    std::string source, value, name;
  } named_template_;                // of another program's own
  std::string fsdp_checkpointing_;  // where FSDP is to checkpoint, or not to
  bool fsdp_checkpoints_ = false;
  struct Liger {
    std::string place;      // of what asks for it
    bool by_name = false;   // as axolotl's plugin: what no key names stays
    std::string cut_place;  // of what asks for Cut Cross-Entropy
    std::map<std::string, std::pair<std::string, bool>> kernels;  // where it stands, and whether
  } liger_;
  std::string logging_directory_, tensorboard_;
  std::optional<int64_t> rank_without_alpha_;
  std::string rank_place_, all_targets_, pads_to_length_;
  std::string uncut_;  // where trl's max_length is null
  std::optional<int64_t> evaluations_of_epoch_, saves_of_epoch_;
};

}  // namespace sftbench
