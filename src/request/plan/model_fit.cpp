#include "plan/model_fit.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "plan/lora_plan.h"
#include "plan/lora_targets.h"
#include "plan/model_source.h"
#include "sftbench/base/fields.h"
#include "sftbench/base/text.h"
#include "sftbench/families/decoder_like.h"
#include "sftbench/families/family.h"
#include "sftbench/plan/base_precision.h"
#include "sftbench/plan/job_steps.h"
#include "sftbench/plan/known_model.h"
#include "sftbench/plan/support.h"
#include "sftbench/plan/training_job_fields.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

class ModelFit : RequestReader {
 public:
  ModelFit(const RequestReader& request, const ModelSource& model)
      : RequestReader(request), model_(model) {}

  // A config.json that names no family is left to its reader, which says more.
  void require_fits() const {
    const std::string& folder = model_.weights_directory;
    refuse_unknown_family(text("model_name"), family_of(model_.hf_config),
                          folder.empty() ? folder : (fs::path(folder) / "config.json").string());
    // The layers of a family that is predicted as another one have a class of their own.
    const bool has_known_layers = shards() && stands_for(model_.hf_config).empty();
    const std::string foreign = foreign_layer_class_refusal(
        text("model_name"), has_known_layers ? layer_family_of(model_.hf_config) : std::string(),
        text("accelerate_config_fsdp_transformer_layer_cls_to_wrap"));
    if (!foreign.empty()) throw RunError(ReasonCode::kUnsupported, foreign);
    refuse_undivided_experts();
    if (!is_known_family()) return;
    refuse_images_beside_texts();
    refuse_rows_beyond_positions();
    const std::string other = weights_refusal(model_, experiment_.tuning);
    if (!other.empty()) throw RunError(ReasonCode::kUnsupported, other);
  }

  AdaptedLinears choose() {
    const Json& asked = argument("target_modules");
    chosen_.targets = listed();
    if (asked.is_array()) {
      chosen_.targets.clear();
      for (const auto& target : asked.get<std::vector<std::string>>()) {
        const auto& known = chosen_.targets;
        if (std::find(known.begin(), known.end(), target) == known.end())
          chosen_.targets.push_back(target);
      }
    } else if (asked.is_string()) {
      chosen_.targets = linears_that_match(model_.hf_config, asked.get_ref<const std::string&>());
    } else if (chosen_.targets.empty()) {
      chosen_.targets = usual_targets(text("model_name"), layer_family_of(model_.hf_config));
      chosen_.notes.push_back("no --lora-targets: adapted are " + join(chosen_.targets));
    } else {
      leave_out_targets_without_linears();
    }
    require_adapters_fit();
    return std::move(chosen_);
  }

  std::vector<std::string> listed() const {
    if (options_.own_model) return {};
    return lora_targets_of(catalog_.models, text("model_name"), is_of_gptq(experiment_.tuning));
  }

 private:
  // Rule 7 of a model that the catalog does not know.
  void refuse_undivided_experts() const {
    const int64_t fast_moe = integer("fast_moe");
    if (fast_moe < 1) return;
    const ModelConfig config = parse_model_config(model_.hf_config, model_.name);
    const int64_t experts = config.experts ? config.experts->count : 0;
    if (experts > 0 && experts % fast_moe == 0) return;
    throw RunError(
        experts == 0 ? ReasonCode::kUnsupported : ReasonCode::kRule7,
        "fast_moe " + std::to_string(fast_moe) + ": model_name " + model_.name + " has " +
            (experts == 0
                 ? std::string("no experts; fast_moe 0 works")
                 : std::to_string(experts) + " experts, which cannot be divided evenly by it"));
  }

  // Of a model that the catalog does not know.
  void refuse_images_beside_texts() const {
    const std::string family = family_of(model_.hf_config);
    if (!has_images() || is_vision_family(family)) return;
    throw RunError(ReasonCode::kUnsupported,
                   "dataset_image_field " + text("dataset_image_field") + ": " +
                       (is_text_part_family(family) ? "the text model alone is trained of "
                                                    : "there are no places for images in ") +
                       "model_name " + model_.name +
                       "; a model of family llava_next, idefics3 or smolvlm works");
  }

  // What is certain of the rows before data are read. A prediction takes them for full.
  int64_t row_length() const {
    const int64_t most = integer("model_max_length");
    if (options_.predicts || options_.padding == Padding::kMaxLength) return most;
    const bool own =
        !argument_text("training_data_path").empty() || argument_text("data_mixture") != "{}";
    const std::string dataset = text("dataset_id");
    if (own || dataset.find("tokens-") == dataset.npos) return 0;
    return std::min(most, tokens_by_id(dataset));
  }

  // A table of learned positions ends, which rotary embeddings do not.
  void refuse_rows_beyond_positions() const {
    const ModelConfig& config = known_model(model_).config;
    if (config.family->model_class != ModelClass::kGptBigCode) return;
    const int64_t positions = config.max_position_embeddings;
    if (row_length() <= positions) return;
    throw RunError(ReasonCode::kUnsupported,
                   "model_max_length " + std::to_string(integer("model_max_length")) +
                       ": model_name " + model_.name + " has learned " + std::to_string(positions) +
                       " positions; rows of that length work");
  }

  bool is_known_family() const { return find_family(family_of(model_.hf_config)) != nullptr; }

  // PEFT adapts what its targets name and says nothing of a target that names no linear, as long as
  // another does. The documents' list for Bloom has one.
  void leave_out_targets_without_linears() {
    if (!is_known_family()) return;
    const ModelShape& shape = known_model(model_).shape;
    std::vector<std::string> found, missing;
    for (const std::string& target : chosen_.targets)
      (names_a_linear(shape, target) ? found : missing).push_back(target);
    if (found.empty() || missing.empty()) return;
    chosen_.notes.push_back("of the lora_targets of model_name " + text("model_name") + ", " +
                            join(missing) +
                            " names no linear of the model; adapted: " + join(found));
    chosen_.targets = std::move(found);
  }

  // As the engine does, before it is asked. A family that is not known here is left to it. Entities
  // of a space mostly ask for what the one before asked for.
  void require_adapters_fit() const {
    if (inputs_.contains("use_dora") && inputs_.contains("alora_invocation_string")) {
      throw RunError(ReasonCode::kUnsupported,
                     "use_dora and alora_invocation_string: peft has no activated DoRA; one of "
                     "them works");
    }
    if (!is_known_family()) return;
    LoraPlan plan = lora_plan(*this);
    plan.target_modules = chosen_.targets;
    thread_local std::pair<Json, std::string> last;  // what was asked, and why it is refused
    Json asked = {model_.hf_config, name_of(experiment_.tuning), json_of_fields(plan)};
    if (last.first != asked) {
      const bool quantized = row_of(experiment_.tuning).quantized_weights;
      last.second = adapters_refusal(plan, quantized, known_model(model_));
      last.first = std::move(asked);
    }
    if (!last.second.empty()) throw RunError(ReasonCode::kUnsupported, last.second);
  }

  static bool names_a_linear(const ModelShape& shape, const std::string& target) {
    for (const LinearShape& linear : shape.linears_before)
      if (is_lora_target(linear.name, target)) return true;
    for (const LayerShape& layer : shape.layers) {
      for (const LinearShape& linear : layer.linears)
        if (is_lora_target(linear.name, target)) return true;
    }
    return false;
  }

  const ModelSource& model_;
  AdaptedLinears chosen_;
};

class ModelJudge : RequestReader {
 public:
  ModelJudge(const MeasurementRequest& request, const ActuatorSettings& settings,
             const ResolveOptions& options, const Catalog& catalog)
      : RequestReader(request, settings, options, catalog) {}

  ModelVerdict judge() const {
    ModelVerdict verdict;
    try {
      const ModelSource source = model("random");
      require_model_fits(*this, source);
      if (row_of(experiment_.tuning).adds_adapters)
        verdict.notes = adapted_linears(*this, source).notes;
    } catch (const RunError& error) {
      if (error.code() == ReasonCode::kWeights) return {};  // no description is at hand
      verdict.refused = error.code();
      verdict.text = error.what();
    }
    return verdict;
  }
};

}  // namespace

void require_model_fits(const RequestReader& request, const ModelSource& model) {
  ModelFit(request, model).require_fits();
}

std::vector<std::string> listed_targets(const RequestReader& request) {
  return ModelFit(request, {}).listed();
}

AdaptedLinears adapted_linears(const RequestReader& request, const ModelSource& model) {
  return ModelFit(request, model).choose();
}

ModelVerdict judge_model(const MeasurementRequest& request, const ActuatorSettings& settings,
                         const ResolveOptions& options, const Catalog& catalog) {
  return ModelJudge(request, settings, options, catalog).judge();
}

}  // namespace sftbench
