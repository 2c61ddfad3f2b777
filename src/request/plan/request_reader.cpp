#include "plan/request_reader.h"

#include <algorithm>

#include "plan/model_source.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/variants/tuning_method.h"

namespace sftbench {
namespace {

std::string text_or_empty(const Json& value) {
  return value.is_null() ? std::string() : value.get<std::string>();
}

}  // namespace

bool reorders(const ResolveOptions& options) {
  return options.worst_batch_first && options.padding != Padding::kMaxLength;
}

RequestReader::RequestReader(const MeasurementRequest& request, const ActuatorSettings& settings,
                             const ResolveOptions& options, const Catalog& catalog)
    : request_(request),
      inputs_(request.inputs),
      settings_(settings),
      options_(options),
      catalog_(catalog),
      experiment_(*catalog.experiment(request.experiment)) {}

std::string RequestReader::text(const char* property) const {
  return text_or_empty(inputs_.at(property));
}

const Json& RequestReader::argument(const char* name) const {
  const auto found = inputs_.find(name);
  if (found != inputs_.end()) return *found;
  const PropertySpec* spec = experiment_.find(name);
  check(spec != nullptr, "the experiment has this argument");
  return spec->default_value;
}

std::string RequestReader::argument_text(const char* name) const {
  return text_or_empty(argument(name));
}

std::string RequestReader::weights_format() const {
  return experiment_.hardcoded.value("weights_format", std::string("Vanilla"));
}

ModelSource RequestReader::model(const std::string& weights, bool with_tokenizer) const {
  ModelSource model = find_model(text("model_name"), weights_format(), settings_, weights,
                                 catalog_.models, with_tokenizer);
  if (options_.predicts) take_decoder_like(model);
  if (row_of(experiment_.tuning).quantizes) {
    quantize_in_nf4(model, argument("bnb_4bit_use_double_quant").get<bool>());
  }
  return model;
}

int64_t RequestReader::max_steps() const {
  const Json& fixed = experiment_.hardcoded;
  return fixed.contains("max_steps") ? fixed.at("max_steps").get<int64_t>() : integer("max_steps");
}

int64_t RequestReader::rank_count() const {
  const int64_t gpus = integer("number_gpus");
  return gpus > 0 ? gpus : std::max<int64_t>(1, options_.cpu_ranks);
}

bool RequestReader::offloads_params() const {
  return integer("number_gpus") > 0 && argument("offload_params").get<bool>();
}

bool RequestReader::distributes() const {
  return rank_count() > 1 || offloads_params();
}

// One GPU that offloads is a shard group of one.
bool RequestReader::shards() const {
  const bool alone = rank_count() == 1 && offloads_params();
  return distributes() && (alone || text("distributed_backend") == "FSDP");
}

bool RequestReader::has_images() const {
  if (argument_text("data_mixture") != "{}") return false;
  if (argument_text("training_data_path").empty()) return is_vision_dataset(text("dataset_id"));
  return inputs_.contains("dataset_image_field") && !text("dataset_image_field").empty();
}

void RequestReader::note_unless_default(const std::vector<std::string>& properties,
                                        const std::string& effect,
                                        std::vector<std::string>& notes) const {
  for (const std::string& property : properties) {
    const PropertySpec* spec = experiment_.find(property);
    const auto input = inputs_.find(property);
    if (spec == nullptr || input == inputs_.end() || *input == spec->default_value) continue;
    notes.push_back(property + " " + json_text(*input) + " has " + effect);
  }
}

}  // namespace sftbench
