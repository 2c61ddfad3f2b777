#include "plan/model_source.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "sftbench/base/conversion_commands.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/families/decoder_like.h"
#include "sftbench/families/family.h"
#include "sftbench/families/nf4.h"
#include "sftbench/huggingface/cache.h"
#include "sftbench/plan/job_file.h"
#include "sftbench/plan/support.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

bool has_weights(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "model.safetensors", error) ||
         fs::exists(folder / "model.safetensors.index.json", error);
}

// Which run code when they are read.
bool has_pickled_weights(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "pytorch_model.bin", error) ||
         fs::exists(folder / "pytorch_model.bin.index.json", error);
}

// Looks through the places of one model, remembering what each one lacks.
class PlaceSearch {
 public:
  PlaceSearch(std::vector<std::string> places, const ActuatorSettings& settings)
      : places_(std::move(places)),
        hf_home_(settings.hf_home),
        cache_(hub_cache_directory(settings.hf_home)),
        fetches_(settings.fetch_weights) {}

  // The first place that has config.json and, when asked for, weights and a tokenizer.
  std::optional<fs::path> find(bool with_weights, bool with_tokenizer = true) {
    for (const std::string& place : places_) {
      const std::optional<fs::path> folder = folder_of(place);
      if (!folder) continue;
      std::error_code error;
      if (!fs::exists(*folder / "config.json", error)) {
        tried_.push_back(folder->string() + " (no config.json)");
      } else if (with_weights && !has_weights(*folder)) {
        tried_.push_back(
            folder->string() + " (no model.safetensors, no " + "model.safetensors.index.json" +
            (has_pickled_weights(*folder) ? "; transformers makes them of its pytorch_model.bin: " +
                                                safetensors_command(folder->string())
                                          : "") +
            ")");
      } else if (with_weights && with_tokenizer && !fs::exists(*folder / "tokenizer.json", error)) {
        tried_.push_back(folder->string() + " (no tokenizer.json" +
                         (fs::exists(*folder / "tokenizer.model", error)
                              ? ", which transformers makes of its tokenizer.model: " +
                                    tokenizer_json_command(folder->string())
                              : "; --tokenizer DIR names another") +
                         ")");
      } else {
        return folder;
      }
    }
    return std::nullopt;
  }

  // The first place that has a tokenizer.
  std::optional<fs::path> find_tokenizer() {
    for (const std::string& place : places_) {
      const std::optional<fs::path> folder = folder_of(place);
      std::error_code error;
      if (folder && fs::exists(*folder / "tokenizer.json", error)) return folder;
      if (folder) tried_.push_back(folder->string() + " (no tokenizer.json)");
    }
    return std::nullopt;
  }

  // The first place that is on the hub; empty: none is.
  std::string hub_place() const {
    const auto place = std::find_if(places_.begin(), places_.end(), is_hub_id);
    return place == places_.end() ? std::string() : *place;
  }

  // "sftbench weights fetch ORG/NAME", when one of the places is on the hub.
  std::string fetch_command(const char* option = "") const {
    const std::string place = hub_place();
    if (place.empty()) return {};
    return std::string("sftbench weights fetch ") + option + place +
           (hf_home_ ? " -o " + shell_quoted(*hf_home_) : "");
  }

  // The advice beside it; none where it is followed already, and a dry run fetches nothing.
  const char* or_fetch() const { return fetches_ ? "" : ", or with --fetch"; }

  std::string tried() const { return join(tried_, "; "); }

  // The one place there is, when it is a folder.
  bool is_own_folder() const {
    std::error_code error;
    return places_.size() == 1 && fs::is_directory(places_.front(), error);
  }

 private:
  std::optional<fs::path> folder_of(const std::string& place) {
    std::error_code error;
    if (fs::is_directory(place, error)) return fs::path(place);
    if (!is_hub_id(place)) {
      tried_.push_back(place + " (no such folder)");
      return std::nullopt;
    }
    const std::optional<fs::path> snapshot = hub_snapshot(cache_, place);
    if (!snapshot) tried_.push_back(place + " (not in " + cache_.string() + ")");
    return snapshot;
  }

  std::vector<std::string> places_;
  std::optional<std::string> hf_home_;
  fs::path cache_;
  bool fetches_;
  std::vector<std::string> tried_;
};

constexpr const char* kQuantized = "GPTQ-Quantized";

// Where the actuator's settings say that the model is; empty when they do not.
std::string mapped_place(const std::string& name, const std::string& format,
                         const ActuatorSettings& settings) {
  const auto mapped = settings.model_map.find(name);
  if (mapped == settings.model_map.end()) return {};
  const auto place = mapped->second.find(format);
  return place == mapped->second.end() ? std::string() : place->second;
}

std::vector<std::string> places_of(const std::string& name, const std::string& format,
                                   const ActuatorSettings& settings, const ModelFacts* facts) {
  if (std::string place = mapped_place(name, format, settings); !place.empty()) return {place};
  if (facts == nullptr || facts->weights.count(format) == 0) return {};
  return facts->weights.at(format);
}

// As transformers spells it; empty for a family that this version does not train.
std::string layer_class_of(const std::string& model_type) {
  const Family* family = find_family(model_type);
  return family == nullptr ? std::string() : family->layer_class;
}

// The config that `read` gives, with every finding about it. That of an unknown family is only
// read: who resolves the entity refuses it by its name.
template <typename Read>
Json checked_config(const std::string& path, const Read& read) {
  try {
    Json config = read();
    if (find_family(family_of(config)) != nullptr) parse_model_config(config, path);
    return config;
  } catch (const InputError& error) {
    throw RunError(ReasonCode::kWeights, error.what());
  }
}

Json read_config(const fs::path& folder) {
  const std::string path = (folder / "config.json").string();
  return checked_config(path, [&] { return read_json_file(path); });
}

[[noreturn]] void not_at_hand(const std::string& name, const std::string& format,
                              const PlaceSearch& search) {
  const bool vanilla = format == "Vanilla";
  if (search.is_own_folder()) {
    throw RunError(ReasonCode::kWeights,
                   "the folder of " + name +
                       " lacks files that a model has; with them it can be trained, or without its "
                       "weights: --weights random",
                   "looked at " + search.tried());
  }
  std::string message =
      "the " + (vanilla ? "" : format + " ") + "weights of " + name + " are not at hand";
  const std::string command = search.fetch_command();
  message +=
      command.empty() ? "; name" : "; fetch them: " + command + search.or_fetch() + "; or name";
  message += " their folder under model_map in --config; or train without them: --weights random";
  throw RunError(ReasonCode::kWeights, message, "looked at " + search.tried());
}

ModelSource from_files(const std::string& name, const std::string& format, PlaceSearch search,
                       bool with_tokenizer) {
  const std::optional<fs::path> folder = search.find(true, with_tokenizer);
  if (!folder) not_at_hand(name, format, search);
  ModelSource source;
  source.name = name;
  source.hf_config = read_config(*folder);
  source.weights_directory = folder->string();
  source.tokenizer_directory = folder->string();
  return source;
}

[[noreturn]] void no_architecture(const std::string& name, const PlaceSearch& search,
                                  const ModelFacts* facts) {
  if (facts != nullptr) {
    throw RunError(ReasonCode::kWeights,
                   "the architecture of " + name +
                       " is not published, so random weights cannot be made for it; name a folder "
                       "that has its "
                       "config.json under model_map in --config",
                   "looked at " + search.tried());
  }
  std::vector<std::string> ways;
  if (const std::string command = search.fetch_command("--config-only "); !command.empty())
    ways.push_back("fetch it: " + command);
  ways.emplace_back("name a folder that has it: --model DIR, or model_map in --config");
  throw RunError(ReasonCode::kWeights,
                 name +
                     " is none of `sftbench models`, and its config.json is not on this machine; " +
                     join(ways, "; or "),
                 "looked at " + search.tried());
}

ModelSource from_architecture(const std::string& name, PlaceSearch search, const ModelFacts* facts,
                              bool mapped, const ModelCatalog& models) {
  const std::optional<fs::path> folder = search.find(false);
  // meta-llama/Llama-3.1-8B is llama3.1-8b, and another model may have its shapes.
  if (const NearModel near = models.near(name);
      facts == nullptr && !folder && (near.same_one || near.same_shapes))
    facts = models.find(near.name);
  ModelSource source;
  source.name = name;
  if (folder && (mapped || facts == nullptr || facts->hf_config.is_null())) {
    source.hf_config = read_config(*folder);
  } else if (facts != nullptr && !facts->hf_config.is_null()) {
    source.hf_config = facts->hf_config;
    // unsloth's copies of models in NF4 are named so.
    if (name.ends_with("-bnb-4bit"))
      source.hf_config["quantization_config"] = to_json(Nf4Config{.double_quantized = true});
  } else {
    no_architecture(name, search, facts);
  }
  std::error_code error;
  if (folder && fs::exists(*folder / "tokenizer.json", error))
    source.tokenizer_directory = folder->string();
  return source;
}

// A model as its files would be, which its reader would refuse: experts, sizes that codes do not
// fill.
void refuse_unquantizable(const ModelSource& source) {
  if (!trains_family(family_of(source.hf_config))) return;
  try {
    parse_model_config(source.hf_config, "model_name " + source.name);
  } catch (const InputError& error) {
    throw RunError(ReasonCode::kUnsupported, error.what());
  }
}

}  // namespace

void quantize_in_nf4(ModelSource& source, bool double_quantized) {
  const auto found = source.hf_config.find("quantization_config");
  if (found == source.hf_config.end() || found->is_null()) {
    source.hf_config["quantization_config"] = to_json(Nf4Config{double_quantized});
  } else if (!is_bitsandbytes(source.hf_config)) {
    throw RunError(ReasonCode::kUnsupported,
                   "model_name " + source.name + ": its weights are quantized already, and " +
                       "qlora quantizes dense ones; gptq-lora trains over weights of GPTQ");
  }
  refuse_unquantizable(source);
}

void take_decoder_like(ModelSource& source) {
  if (trains_family(family_of(source.hf_config))) return;
  std::optional<Json> decoder = decoder_like(source.hf_config);
  if (!decoder) return;  // refused as unknown
  constexpr const char* kQuantization = "quantization_config";
  if (source.hf_config.contains(kQuantization))
    (*decoder)[kQuantization] = source.hf_config[kQuantization];
  source.hf_config = *std::move(decoder);
}

std::string find_tokenizer(const std::string& place, const ActuatorSettings& settings) {
  PlaceSearch search({place}, settings);
  if (const std::optional<fs::path> folder = search.find_tokenizer()) return folder->string();
  const std::string command = search.fetch_command();
  throw RunError(ReasonCode::kWeights,
                 "the tokenizer " + place + " is not at hand" +
                     (command.empty() ? "" : "; fetch it: " + command + search.or_fetch()),
                 "looked at " + search.tried());
}

std::string absent_hub_model(const std::string& name, const std::string& format,
                             const ActuatorSettings& settings, const ModelCatalog& models) {
  PlaceSearch search(places_of(name, format, settings, models.find(name)), settings);
  return search.find(true) ? std::string() : search.hub_place();
}

std::string absent_hub_tokenizer(const std::string& place, const ActuatorSettings& settings) {
  PlaceSearch search({place}, settings);
  return search.find_tokenizer() ? std::string() : search.hub_place();
}

ModelSource find_model(const std::string& name, const std::string& format,
                       const ActuatorSettings& settings, const std::string& weights,
                       const ModelCatalog& models, bool with_tokenizer) {
  const ModelFacts* facts = models.find(name);
  std::vector<std::string> places = places_of(name, format, settings, facts);
  if (weights != "random")
    return from_files(name, format, {std::move(places), settings}, with_tokenizer);
  if (format != "Vanilla") {  // which has the same architecture
    const std::vector<std::string> more = places_of(name, "Vanilla", settings, facts);
    places.insert(places.end(), more.begin(), more.end());
  }
  const bool mapped = settings.model_map.count(name) > 0;
  ModelSource source =
      from_architecture(name, {std::move(places), settings}, facts, mapped, models);
  if (format == kQuantized && !source.hf_config.contains("quantization_config")) {
    source.hf_config["quantization_config"] = to_json(GptqConfig());
    refuse_unquantizable(source);
  }
  return source;
}

std::string family_of(const Json& hf_config) {
  const auto found = hf_config.find("model_type");
  return found != hf_config.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string layer_family_of(const Json& hf_config) {
  const std::string family = family_of(hf_config);
  const Family* known = find_family(family);
  if (known == nullptr || *known->layer_class != 0) return family;
  const auto text = hf_config.find("text_config");
  const bool named = text != hf_config.end() && text->is_object() && text->contains("model_type");
  return named ? family_of(*text) : std::string("llama");
}

bool is_vision_dataset(const std::string& dataset_id) {
  return dataset_id.rfind("vision-", 0) == 0;
}

void refuse_unknown_family(const std::string& name, const std::string& family,
                           const std::string& place) {
  if (trains_family(family)) return;
  throw RunError(ReasonCode::kUnsupported, unknown_family_refusal(name, family),
                 place.empty() ? "" : place + ": model_type: " + family);
}

std::string unknown_family_refusal(const std::string& name, const std::string& family) {
  return "model_name " + name + ": its family, " + family +
         ", is not one that this version trains: " + join(known_model_types());
}

std::vector<std::string> lora_targets_of(const ModelCatalog& models, const std::string& name,
                                         bool quantized) {
  const ModelFacts* facts = models.find(name);
  if (facts == nullptr) return {};
  return quantized && !facts->gptq_lora_targets.empty() ? facts->gptq_lora_targets
                                                        : facts->lora_targets;
}

std::string foreign_layer_class_refusal(const std::string& name, const std::string& family,
                                        const std::string& asked) {
  const std::string own = layer_class_of(family);
  if (asked.empty() || own.empty() || asked == own) return {};
  return "accelerate_config_fsdp_transformer_layer_cls_to_wrap " + asked +
         ": the layers of model_name " + name + " are of class " + own + "; that, or None, works";
}

Autocast autocast_of(Autocast mixed_precision, bool bf16, bool fp16) {
  // What fp8 does not multiply in float8 it computes as bf16 does.
  if (bf16 && mixed_precision != Autocast::kFp8) return Autocast::kBf16;
  return mixed_precision == Autocast::kNo && fp16 ? Autocast::kFp16 : mixed_precision;
}

void refuse_unfit_model(const TrainingJob& job, const std::string& path) {
  refuse_unknown_family(job.model.name, family_of(job.model.hf_config), path);
  checked_config(path + ": model.hf_config", [&] { return job.model.hf_config; });
}

}  // namespace sftbench
