#include "sftbench/translate/argument_options.h"

#include <set>

#include "sftbench/base/error.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace {

// Texts that stand for themselves: "1.0" is the name of a folder, "# x" no comment.
bool is_free_text(const std::string& property) {
  static const std::set<std::string> kTexts = {
      "alora_invocation_string", "chat_template",           "conversation_column",
      "data_formatter_template", "dataset_text_field",      "input_column_name",
      "output_column_name",      "prompt_tuning_init_text", "response_template",
      "tokenizer_name_or_path",  "training_data_path",      "validation_data_path"};
  if (kTexts.count(property) > 0) return true;
  for (const Experiment& experiment : Catalog::shipped().experiments) {
    const PropertySpec* spec = experiment.find(property);
    if (spec != nullptr)
      return spec->kind == PropertyKind::kModuleNames || spec->kind == PropertyKind::kObject;
  }
  return false;
}

}  // namespace

const std::vector<ArgumentOption>& argument_options() {
  static const std::vector<ArgumentOption> kOptions = {
      {"--data", "training_data_path", "FILE|DIR|ID",
       "train on this instead of a dataset_id: JSON, JSON Lines, CSV, Parquet, Arrow, a folder of "
       "them, or a dataset of the hub as ORG/NAME, ORG/NAME:CONFIG or ORG/NAME:CONFIG:SPLIT"},
      {"--text-field", "dataset_text_field", "NAME", "field of an entry that is its text (output)"},
      {"--template", "data_formatter_template", "TEXT",
       "make an entry's text of its fields: '### Input: {{input}} ### Response: {{output}}'"},
      {"--conversation-column", "conversation_column", "NAME",
       "messages of a conversation; what assistants say bears loss ('messages' is found without "
       "this, too)"},
      {"--chat-template", "chat_template", "FILE|TEXT",
       "Jinja template of conversations, instead of the tokenizer's own"},
      {"--input-column", "input_column_name", "NAME",
       "with --output-column: field in front of it, which bears no loss"},
      {"--output-column", "output_column_name", "NAME",
       "with --input-column: field behind it, which bears the loss"},
      {"--pretokenized", "pretokenized", nullptr,
       "entries hold input_ids, and labels where not all bear loss; found without this, too"},
      {"--response-template", "response_template", "TEXT",
       "what bears loss follows this text ('\\n### Response:'); None: all of an entry does"},
      {"--eval-data", "validation_data_path", "FILE|DIR|ID",
       "measure the loss on these entries, too, which are of the form of the training data"},
      {"--eval-split", "eval_split", "X",
       "instead of a file: this share of the training data, which is not trained on; from 1 on so "
       "many entries"},
      {"--sampling-seed", "sampling_seed", "N",
       "of the entries that --eval-split takes, and of mixtures (42)"},
      {"--eval-strategy", "eval_strategy", "no|steps|epoch",
       "when: after every --eval-steps steps, or after each epoch; and at the end (epoch)"},
      {"--eval-steps", "eval_steps", "N", "steps from one evaluation to the next (500)"},
      {"--eval-on-start", "eval_on_start", nullptr, "and before the first step"},
      {"--eval-batch-size", "per_device_eval_batch_size", "N",
       "entries of a micro-batch of a device (as in training)"},
      {"--tokenizer", "tokenizer_name_or_path", "DIR|ID", "another tokenizer than the model's"},
      {"--learning-rate", "learning_rate", "X", "highest learning rate (1e-5)"},
      {"--lr-scheduler-type", "lr_scheduler_type", "NAME", "its course (cosine)"},
      {"--lr-scheduler-kwargs", "lr_scheduler_kwargs", "JSON",
       "options of the course, as {\"min_lr_rate\": 0.1}"},
      {"--warmup-ratio", "warmup_ratio", "X", "share of the steps in which it rises (0.03)"},
      {"--warmup-steps", "warmup_steps", "N", "steps in which it rises"},
      {"--weight-decay", "weight_decay", "X", "of the weights (0)"},
      {"--adam-beta1", "adam_beta1", "X", "decay of the first moment (0.9)"},
      {"--adam-beta2", "adam_beta2", "X", "decay of the second moment (0.999)"},
      {"--adam-epsilon", "adam_epsilon", "X", "beside the root of the second moment (1e-8)"},
      {"--max-grad-norm", "max_grad_norm", "X", "clip gradients to this norm; 0: never (1)"},
      {"--training-seed", "seed", "N", "of random weights, order and dropout (42)"},
      {"--tf32", "tf32", nullptr, "products of float32 in TF32, on GPUs"},
      {"--offload-optimizer", "offload_optimizer", nullptr,
       "keep the optimizer state in host memory; it visits the GPU for the update"},
      {"--offload-params", "offload_params", nullptr,
       "keep FSDP's shards, their gradients and the optimizer state in host memory"},
      {"--offload-activations", "offload_activations", nullptr,
       "keep the inputs of checkpointed layers in host memory until the backward pass"},
      {"--step-graph", "step_graph", nullptr,
       "launch each step as one CUDA graph, for models whose launches take longer than their "
       "arithmetic"},
      {"--mlp-tiles", "mlp_tiles", "N",
       "compute the MLPs of a micro-batch in N parts, for long rows (1)"},
      {"--context-parallel", "context_parallel", "N",
       "divide the positions of each row among N neighboring ranks (1)"},
      {"--lora-r", "r", "N", "rank of LoRA's adapters (4)"},
      {"--lora-alpha", "lora_alpha", "N", "scale of what they add (16)"},
      {"--lora-dropout", "lora_dropout", "X", "share of their inputs left out (0.05)"},
      {"--use-rslora", "use_rslora", nullptr, "scale by lora_alpha / sqrt(r), not lora_alpha / r"},
      {"--use-dora", "use_dora", nullptr, "DoRA: train a magnitude for each row of their weights"},
      {"--lora-targets", "target_modules", "NAMES",
       "linears that get them: all-linear, names with commas between, or a regular expression"},
      {"--lora-modules-to-save", "modules_to_save", "NAMES",
       "modules that are trained whole beside them: embed_tokens,lm_head"},
      {"--lora-rank-pattern", "rank_pattern", "JSON", "ranks of single linears: {\"q_proj\": 8}"},
      {"--lora-alpha-pattern", "alpha_pattern", "JSON", "the same of lora_alpha"},
      {"--alora-invocation-string", "alora_invocation_string", "TEXT",
       "activated LoRA: adapters act from the last occurrence of this text in an entry on"},
      {"--mask", "conversation_mask", "assistant|fms|all",
       "what of a conversation bears loss: what assistants say (assistant), what fms-hf-tuning "
       "takes for it (fms), or all but a prompt, as trl (all)"},
      {"--virtual-tokens", "num_virtual_tokens", "N", "of prompt tuning (8)"},
      {"--prompt-init", "prompt_tuning_init", "TEXT|RANDOM", "where they begin"},
      {"--prompt-init-text", "prompt_tuning_init_text", "TEXT", "whose embeddings they begin at"},
  };
  return kOptions;
}

std::vector<std::string> adapter_properties() {
  const Catalog& catalog = Catalog::shipped();
  const Experiment* full = catalog.experiment("finetune_full_benchmark-v1.0.0");
  const Experiment* lora = catalog.experiment("finetune_lora_benchmark-v1.0.0");
  check(full != nullptr && lora != nullptr, "the catalog has both experiments");
  std::vector<std::string> properties = lora->names();
  std::erase_if(properties, [full](const std::string& name) {
    const PropertySpec* spec = full->find(name);
    return spec != nullptr && !spec->without_effect;
  });
  return properties;
}

std::vector<GivenValue> given_values(const std::vector<GivenOption>& given) {
  std::vector<GivenValue> values;
  for (const auto& [option, text] : given) {
    values.push_back({option->option, option->property,
                      is_free_text(option->property) ? text_node(text) : scalar_node(text)});
  }
  return values;
}

YamlNode text_node(const std::string& text) {
  YamlNode node;
  node.text = text;
  node.value = text;
  return node;
}

YamlNode scalar_node(const std::string& text) {
  YamlNode node = text_node(text);
  node.plain = true;
  node.value = resolve_yaml_scalar(text);
  return node;
}

}  // namespace sftbench
