#include "plan/without_effect.h"

#include <algorithm>
#include <utility>

#include "plan/mixture.h"
#include "sftbench/base/json.h"
#include "sftbench/data/entry_template.h"
#include "sftbench/plan/support.h"
#include "sftbench/variants/interval_strategy.h"

namespace sftbench {
namespace {

class NoEffect : RequestReader {
 public:
  NoEffect(const RequestReader& request, std::string family, std::vector<std::string>& notes)
      : RequestReader(request), family_(std::move(family)), notes_(notes) {}

  void note_all() {
    note_data_without_effect();
    note_evaluation_without_effect();
    note_sampling_without_effect();
    const std::vector<std::string> of_fsdp = {
        "fsdp_sharding_strategy", "fsdp_state_dict_type", "fsdp_use_orig_params",
        "accelerate_config_fsdp_transformer_layer_cls_to_wrap"};
    if (options_.worst_batch_first && !reorders(options_)) {
      notes_.emplace_back(
          "--largest-batch-first has no effect with --padding max_length: all batches are as "
          "large");
    }
    if (!distributes()) {
      note_unless_default({"distributed_backend"}, "no effect below two GPUs");
      note_unless_default(of_fsdp, "no effect below two GPUs");
      note_options_of_several_ranks();
    } else if (!shards()) {
      note_unless_default(of_fsdp, "no effect without distributed_backend FSDP");
    }
    if (shards() && !flag("fsdp_use_orig_params")) {
      notes_.emplace_back(
          "fsdp_use_orig_params false has no effect: parameters are sharded as under true, where "
          "the optimizer sees each one");
    }
    note_unless_default(
        {"fms_hf_tuning_version"},
        "no effect on training, which is this program's own; it only decides rule 6");
    if (integer("number_nodes") < 2) note_unless_default({"enable_roce"}, "no effect on one node");
    if (!has_images()) {
      note_unless_default({"dataset_image_field", "remove_unused_columns"},
                          "no effect on text datasets");
    }
    if (integer("number_gpus") == 0)
      note_unless_default({"gpu_model", "tf32", "offload_activations", "offload_optimizer",
                           "offload_params", "step_graph"},
                          "no effect without GPUs");
    if (argument("context_parallel") != 1 && !flag("flash_attn")) {
      notes_.emplace_back(
          "flash_attn false has no effect beside context_parallel: attention over rows that ranks "
          "divide has one form");
    }
    if (argument("warmup_steps") != 0)
      note_unless_default({"warmup_ratio"}, "no effect since warmup_steps is above 0");
    if (max_steps() > 0)
      note_unless_default({"num_train_epochs"}, "no effect since max_steps is above 0");
    if (!flag("flash_attn") && family_ == "gpt_oss") {
      notes_.emplace_back(
          "flash_attn false has no effect on gpt_oss: attention with sinks has one form");
    }
  }

 private:
  bool has_own_data() const { return !argument_text("training_data_path").empty(); }
  bool has_mixture() const { return !has_own_data() && argument_text("data_mixture") != "{}"; }

  void note_data_without_effect() {
    if (has_own_data()) {
      note_unless_default({"dataset_id"}, "no effect beside training_data_path");
    } else if (has_mixture()) {
      note_unless_default({"dataset_id"}, "no effect beside data_mixture");
    }
    if (argument_text("conversation_column").empty() && !has_mixture())
      note_unless_default({"conversation_mask"}, "no effect without conversations");
    if (!has_mixture() && !has_images()) note_beside_form();
  }

  // An entry has one form, which may say what bears loss, too.
  void note_beside_form() {
    const std::string form = argument_text("data_formatter_template");
    const bool named = is_named_form(form);
    std::string effect;
    if (argument("pretokenized").get<bool>()) {
      effect = "no effect on entries that are tokenized already";
    } else if (!argument_text("conversation_column").empty()) {
      effect = "no effect on conversations: what assistants say bears loss";
    } else if (!form.empty()) {
      effect = "no effect beside data_formatter_template" + (named ? " " + form : std::string());
    } else if (!argument_text("input_column_name").empty()) {
      effect = "no effect beside output_column_name, which bears loss";
    } else {
      return;
    }
    if (named || form.empty()) note_unless_default({"response_template"}, effect);
    note_unless_default({"dataset_text_field"}, effect);
  }

  // Of one set, or of any set of a mixture.
  bool splits() const {
    if (number("eval_split") > 0) return true;
    if (!has_mixture()) return false;
    const Json mixture = parse_json(argument_text("data_mixture"), "data_mixture");
    const Json& sets = mixture_sets(mixture);
    return std::any_of(sets.begin(), sets.end(),
                       [](const Json& set) { return set.value("eval_split", 0.0) > 0; });
  }

  void note_evaluation_without_effect() {
    const std::string strategy = argument_text("eval_strategy");
    if (argument_text("validation_data_path").empty() && !splits()) {
      note_unless_default({"eval_strategy", "eval_steps", "eval_steps_ratio",
                           "per_device_eval_batch_size", "eval_on_start"},
                          "no effect without validation_data_path or eval_split");
    } else if (strategy == name_of(IntervalStrategy::kNo)) {
      note_unless_default({"validation_data_path", "eval_split"},
                          "no effect with eval_strategy no");
    } else if (strategy != name_of(IntervalStrategy::kSteps)) {
      note_unless_default({"eval_steps", "eval_steps_ratio"},
                          "no effect without eval_strategy steps");
    } else if (number("eval_steps_ratio") > 0) {
      note_unless_default({"eval_steps"}, "no effect beside eval_steps_ratio");
    }
  }

  void note_sampling_without_effect() {
    const std::string without = "no effect without several sets of data";
    if (has_mixture()) return;
    note_unless_default({"sampling_stopping_strategy"}, without);
    if (!splits()) note_unless_default({"sampling_seed"}, without + " or eval_split");
  }

  void note_options_of_several_ranks() {
    const ResolveOptions defaults;
    if (options_.gradient_sync != defaults.gradient_sync) {
      notes_.emplace_back("--gradient-sync has no effect on one rank");
    }
    if (options_.reduce_dtype != defaults.reduce_dtype) {
      notes_.emplace_back("--reduce-dtype has no effect on one rank");
    }
  }

  void note_unless_default(const std::vector<std::string>& properties, const std::string& effect) {
    RequestReader::note_unless_default(properties, effect, notes_);
  }

  const std::string family_;
  std::vector<std::string>& notes_;
};

}  // namespace

void note_what_has_no_effect(const RequestReader& request, const std::string& family,
                             std::vector<std::string>& notes) {
  NoEffect(request, family, notes).note_all();
}

std::vector<std::string> values_without_effect(const MeasurementRequest& request,
                                               const ActuatorSettings& settings,
                                               const ResolveOptions& options,
                                               const Catalog& catalog) {
  const RequestReader reader(request, settings, options, catalog);
  const ModelFacts* model = catalog.models.find(reader.text("model_name"));
  std::vector<std::string> notes;
  note_what_has_no_effect(reader, model == nullptr ? std::string() : model->family, notes);
  return notes;
}

}  // namespace sftbench
